#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Attack the real daemon, with a victim beside it.

    hostile.py [--seconds N] [--seed N] [--only ATTACK] [--page DIR] [--check-latency] ... INFERD

First the victim is alone (quiet), then each attack has its part of the time, by two users at once, while the victim goes
on. The suite fails if
  - the daemon ends, or needs more memory than --most-megabytes;
  - an answer to the victim is wrong or refused, or missing for longer than --patience seconds;
  - an attack sees something that it must not see (a wrong answer, no answer, a handle of somebody else's);
  - the daemon's log says that a process for clients' programs or of a plug-in crashed, or has a sanitizer's report;
  - afterwards the daemon or its processes have more descriptors, threads, mappings, files or memory than before.
With --check-latency also if the victim's p99 during an attack is more than twice, or its maximum more than ten times
its quiet value, or if a program that needs more than its user may have is refused after more than a second. That is for
a machine where nothing else runs: tools/soak hostile, never tools/test.

The same seed tries the same things in the same order, as far as time allows. Which files do what: README.md.
"""

import argparse
import glob
import json
import os
import random
import re
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import attack_descriptors
import attack_faults
import attack_kills
import attack_load
import attack_messages
import attack_programs
import page
import wire
from daemon import ATTACKER_UID, INDICES, IS_ROOT, SHARES, VICTIM_UID, Bound, Daemon, Victim, in_child, until, wait_for, wrapped
from log import found_in
from measures import Measures

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
MODEL = "efficientnet_lite0_int8"
N_ATTACKERS = 2
MAX_NOTES = 100  # of one attacker: a page has room for few
CONNECTIONS = 256  # of one user
N_COPIES = 5  # of that model, for attack_load.py
INDEXING = re.compile(r"/(index_put|index_reduce|gather|scatter|embedding|nonzero|mask)[^/]*$")  # programs of tests/corpus
# Attacks on the daemon that the victim uses, with their weight: how much of the time each gets. Those that kill processes
# come first, so that what the others leave in the processes is still there at the end.
BESIDE_VICTIM = [
    (attack_kills, "clients killed", 2), (attack_kills, "plug-ins killed", 2), (attack_kills, "plug-ins stopped", 2),
    (attack_messages, "messages", 5), (attack_messages, "packets", 1), (attack_messages, "forked socket", 1),
    (attack_messages, "never read", 2), (attack_messages, "10,000 connections", 2),
    (attack_load, "saturation", 2), (attack_load, "more models than memory", 2), (attack_load, "loads and unloads", 1),
    (attack_descriptors, "descriptors", 2), (attack_descriptors, "shared memory", 2),
    (attack_descriptors, "memory changed while read", 3), (attack_programs, "programs", 6),
    (attack_programs, "large programs", 1),
]
# Attacks on daemons of their own, which are made to fail.
ALONE = [("faults at start", 3), ("faults at work", 4), ("faults in a client", 2), ("faults in a host", 2), ("full disk", 1),
         ("daemon killed", 3), ("clock jumps", 1)]
# Processes of clients' programs stay, so that what is left in them is seen.
CONFIG = f"""memory_budget = 0
program_idle = 1h
[limits]
bytes = 1G
connections = {CONNECTIONS}
[user {VICTIM_UID}]
bytes = 1G
weight = 4
"""


class Suite:
    def __init__(self, options):
        self.options = options
        self.shares = str(SHARES)
        self.failures = []
        self.phases = []  # (name, begin, end, what was done)
        self.notes = {}  # what attacks told besides: text to the most of it
        self.rows = []
        self.round = 0

    def fail(self, where, what):
        self.failures.append((where, what))
        print(f"FAILED: {where}: {what}", flush=True)

    def phase(self, name, begin, done):
        end = time.monotonic()
        self.phases.append((name, begin, end, done))
        print(f"hostile: {name}: {done} in {end - begin:.1f} s", flush=True)

    # --- beside the victim

    def attack(self, daemon, module, name, seconds):
        if any(h.get("pause_ns") for h in daemon.status().get("hosts", [])):
            self.forget_crashes(daemon)
        daemon.set_budget(getattr(module, "BUDGETS", {}).get(name, 0))
        begin = time.monotonic()
        as_root = name in getattr(module, "AS_ROOT", ())
        pids, counts = [], []
        for i in range(1 if as_root else N_ATTACKERS):
            out, inp = os.pipe()

            def run(i=i, inp=inp):
                rng = random.Random(f"{self.options.seed} {self.round} {name} {i}")
                n = module.ATTACKS[name](daemon, rng, lambda: time.monotonic() < begin + seconds)
                os.write(inp, json.dumps([n, daemon.notes[:MAX_NOTES]]).encode())
            pids.append(in_child(run, 0 if as_root else ATTACKER_UID + i))
            os.close(inp)
            counts.append(out)
        for pid in pids:
            status = wait_for(pid, seconds + self.options.patience + 120)
            if status is None:
                self.fail(name, "an attacker was not answered, or does not end")
            elif status:
                self.fail(name, f"an attacker saw what it must not see (above); status {status}")
        done = 0
        for out in counts:
            n, notes = json.loads(os.read(out, 60000) or "[0, []]")
            done += n
            os.close(out)
            for note in notes:
                self.note(daemon, note)
        if not daemon.is_alive():
            self.fail(name, daemon.was_ended or f"the daemon ended with {daemon.process.returncode}:\n{daemon.log_tail()}")
            return False
        self.phase(name, begin, done)
        complaints = daemon.log.complaints()
        if complaints:
            self.fail(name, f"{complaints}\nPrograms whose process was ended: {self.options.programs}")
        return True

    def forget_crashes(self, daemon):
        """As an administrator does: else a process is started again after a pause only, in which attacks try nothing."""
        with wire.Connection(daemon.manager) as c:
            c.expect("backend_restart", {"name": "programs"})

    def note(self, daemon, note):
        """Keep the most of what was told under the same words."""
        entry = self.notes.setdefault(note["what"], {"times": 0})
        entry["times"] += 1
        found = {k: note[k] for k in ("count", "seconds") if k in note}
        if "began" in note:
            found["daemon"], found["hosts"] = daemon.peaks(note["began"] - 0.1, note["ended"] + 0.1)
        for k, value in found.items():
            entry[k] = max(entry.get(k, 0), value)

    def attack_all(self, daemon, seconds):
        chosen = [a for a in BESIDE_VICTIM if self.wants(a[1]) and (self.options.plugin or not a[1].startswith("plug-ins")) and
                  (self.options.large or a[1] != "large programs")]
        total = sum(weight for _, _, weight in chosen)
        for module, name, weight in chosen:
            # the victim asks ten times a second, but not while it waits for an answer
            if not self.attack(daemon, module, name, max(seconds * weight / total, self.options.samples * 0.12)):
                return False
            alone = until(lambda: len(daemon.status().get("clients", [])) <= 2)  # the victim, and who asks
            if not alone:
                self.fail(name, "sessions are left over")
        return True

    def warm(self, daemon):
        """What stays when it was once used: processes of plug-ins and of each user, threads for clients' files, what is
        kept of models. The models themselves go again."""
        def use_program():
            with wire.Connection(daemon.socket) as c, open(self.options.small, "rb") as program:
                Bound(c, "warm", [program.fileno()]).close()

        def use_models():
            if self.options.plugin:
                attack_kills.served_again(daemon, None, 3)
                attack_kills.served_again(daemon, self.options.plugin_program, 3)
            with wire.Connection(daemon.socket) as c, wire.Connection(daemon.manager) as manager:
                for name in list(self.options.names.values()) + self.options.copies:
                    c.call("model_metadata", {"name": name})
                    manager.call("repository_model_unload", {"model_name": name})
        for uid, use in [(0, use_models)] + [(u, use_program) for u in [0] + [ATTACKER_UID + i for i in range(N_ATTACKERS)]]:
            if wait_for(in_child(use, uid), 120) != 0:
                self.fail("daemon", "an ordinary client is not served")

    def find_indexed(self, daemon):
        """Which models have inputs that may be indices: attack_descriptors begins with them."""
        with wire.Connection(daemon.socket) as c:
            for name in self.options.names.values():
                inputs = c.call("model_metadata", {"name": name}).get("model_metadata", {}).get("inputs", [])
                if any(i["datatype"] in INDICES and not i.get("scalar") for i in inputs):
                    self.options.indexed.add(name)
        print(f"hostile: {len(self.options.names)} small models, {len(self.options.indexed)} of them with index inputs", flush=True)

    def check_that_crashes_are_seen(self, daemon):
        """The log must tell if a process crashes: else no attack could find it."""
        pids = attack_kills.hosts_of(daemon, "programs")
        if not pids:
            self.fail("crashes", "there is no process for clients' programs")
            return
        lines = daemon.log.read()
        os.kill(pids[0], signal.SIGSEGV)
        until(lambda: lines.extend(daemon.log.read()) or any("host process of backend" in line for line in lines))
        if not found_in(lines):
            self.fail("crashes", f"a process that was ended by SIGSEGV is not in the log:\n{daemon.log_tail()}")
        self.forget_crashes(daemon)

    def wants(self, name):
        return not self.options.only or any(o in name for o in self.options.only)

    def quiet(self, name, seconds):
        begin = time.monotonic()
        end = begin + seconds
        until(lambda: time.monotonic() > end, seconds + 1)
        self.phase(name, begin, "")

    def beside_victim(self, seconds):
        options = self.options
        # the time for a run to stop: a sanitizer's build is slow
        config = ("program_stop = 1s\n" if options.sanitized else "") + CONFIG
        models = [options.model]
        if options.plugin:
            config += f"[backend test]\npath = {options.plugin}\nhost = {options.wrapped_host}\nown_programs = apart\n" \
                "timeout = 1s\nload_timeout = 2s\nmax_crashes = 100000\n"
            models.append(options.plugin_program)
        daemon = Daemon(options, config, models=models, most_bytes=options.most_megabytes << 20)
        self.daemon = daemon
        for name in options.copies:
            daemon.add_model(options.model, name + ".pte")
        for path, name in options.names.items():
            daemon.add_model(path, name + os.path.splitext(path)[1])
        try:
            daemon.start()
            daemon.watch()
            victim = self.victim = Victim(daemon, options.victim, MODEL)
            self.quiet("quiet", max(3.0, seconds / 12, 3 * options.samples * 0.12))
            self.warm(daemon)
            self.find_indexed(daemon)
            self.check_that_crashes_are_seen(daemon)
            self.warm(daemon)
            before = Measures(daemon)
            print(f"hostile: before: {before}", flush=True)
            while True:
                went = self.attack_all(daemon, min(seconds * 0.8, options.round_seconds))
                self.round += 1
                if not went or len(self.failures) > 5 or self.phases[-1][2] - self.phases[0][1] > seconds * 0.8:
                    break
            if daemon.is_alive():
                self.quiet("quiet again", max(2, options.samples * 0.12))
                self.warm(daemon)
                self.compare(daemon, before)
            if not victim.stop() and daemon.is_alive():
                self.fail("victim", "its session ended")
            self.judge(victim)
            if daemon.is_alive() and not self.options.keep:
                status = daemon.stop()
                if status != 0:
                    self.fail("daemon", f"ended with {status} at SIGTERM:\n{daemon.log_tail()}")
        except (AssertionError, wire.Ended) as e:
            self.fail("daemon", f"{e}\n{daemon.log_tail()}")
        finally:
            daemon.remove()

    def compare(self, daemon, before):
        slack = (2000 if self.options.sanitized else 128) << 20
        last = None

        def is_back():
            nonlocal last
            last = Measures(daemon)
            # Threads for clients' files are as many as had work at one time (daemon/base/helper.h), and so are workers
            # that replace or relieve others: inf_pool_n_spares_for (daemon/queue/pool.h).
            n_cores = len(os.sched_getaffinity(0))
            n_most = 2 * N_ATTACKERS + 2 * n_cores + 3
            # A process makes its worker threads, for one core and for all of them, when runs first need them.
            n_most_in_hosts = before.host_threads + 2 * n_cores * last.n_hosts
            return (last.fds <= before.fds and last.memory_files <= before.memory_files and last.files == before.files and
                    last.threads - last.helpers <= before.threads - before.helpers and
                    last.helpers <= before.helpers + n_most and last.rss <= before.rss + slack and
                    last.n_hosts <= before.n_hosts and last.host_fds <= before.host_fds and
                    last.host_threads <= n_most_in_hosts and last.host_private <= before.host_private + slack)
        is_back = until(is_back, 60)
        print(f"hostile: after: {last}", flush=True)
        if not is_back:
            self.fail("left over", f"before: {before}; after: {last}; new: "
                      f"{dict(last.details - before.details)} {sorted(set(last.files) - set(before.files))}")
        def held():
            return [(u["uid"], limit["name"], limit["used"]) for u in daemon.status().get("users", [])
                    for limit in u.get("limits", []) if u.get("uid", 0) >= ATTACKER_UID and limit.get("used")]
        if IS_ROOT and not until(lambda: not held()):  # else the victim's user
            self.fail("left over", f"attackers are still charged: {held()}")

    def judge(self, victim):
        if not victim.answers:
            self.fail("victim", "never answered")
            return
        allowed = {"ok"} if IS_ROOT else {"ok", "8"}  # one user for all: the attackers' limits are the victim's
        bad = [(a, self.phase_at(a[0])) for a in victim.answers if a[2] not in allowed]
        for (began, latency, word), name in bad[:10]:
            self.fail("victim", f"answered {word} after {latency * 1000:.1f} ms during {name}")
        times = [a[0] for a in victim.answers]
        longest = max(a[1] for a in victim.answers)
        gap = max([b - a for a, b in zip(times, times[1:])] + [longest])
        if gap > self.options.patience:
            self.fail("victim", f"no answer for {gap:.1f} s")
        self.rows = page.rows(self.phases, victim)
        print(page.table(self.rows), page.told(self.notes), sep="\n\n", flush=True)
        if self.options.check_latency:
            for failure in page.too_slow(self.rows):
                self.fail("latency", failure)

    def phase_at(self, t):
        return next((name for name, begin, end, _ in self.phases if begin <= t < end), "the time between attacks")

    # --- alone

    def alone(self, seconds):
        chosen = [a for a in ALONE if self.wants(a[0])]
        total = sum(weight for _, weight in chosen)
        for name, weight in chosen:
            begin = time.monotonic()
            rng = random.Random(f"{self.options.seed} {name}")
            try:
                n = attack_faults.ATTACKS[name](self.options, rng, lambda: time.monotonic() < begin + seconds * weight / total)
            except (AssertionError, wire.Ended, wire.Refused, OSError) as e:
                self.fail(name, repr(e) if not isinstance(e, AssertionError) else e)
                continue
            self.phase(name, begin, n)


# Under a sanitizer, processes for programs have no limit of memory but this one. What would need more gets no memory, as in
# other builds; a process that takes more nevertheless is ended.
SANITIZED = "detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=1024:soft_rss_limit_mb=1500:hard_rss_limit_mb=2500"


def wrap_hosts(options):
    """Set the programs that the daemon starts as processes."""
    options.program_host = options.bare_program_host = os.path.join(os.path.dirname(options.inferd), "inferd-program-host")
    options.wrapped_host = options.host
    options.host_environment = {}
    if options.sanitized:
        thread = ":".join(filter(None, [os.environ.get("TSAN_OPTIONS"), SANITIZED.partition(":")[2]]))
        options.host_environment = {"ASAN_OPTIONS": SANITIZED, "TSAN_OPTIONS": thread}
        options.program_host = wrapped(options, "program-host", options.program_host, options.host_environment)
        if options.host:
            options.wrapped_host = wrapped(options, "delegate-host", options.host, options.host_environment)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("inferd")
    for name in ("victim", "scribble"):
        parser.add_argument("--" + name, required=True, help="the helper built from it")
    for name in ("faults", "plugin", "host", "plugin-program", "inferctl"):
        parser.add_argument("--" + name, help="built from this tree; without it what needs it is not tried")
    parser.add_argument("--seconds", type=float, default=60, help="for all attacks together")
    parser.add_argument("--round-seconds", type=float, default=600, help="for one round of them")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", metavar="ATTACK", help="only attacks with this in their name")
    parser.add_argument("--most-megabytes", type=int, default=3000)
    parser.add_argument("--patience", type=float, default=60, help="seconds without an answer that the victim bears")
    parser.add_argument("--sanitized", action="store_true", help="a sanitizer's build: it keeps freed memory, and has its own malloc")
    parser.add_argument("--large", action="store_true", default=bool(os.environ.get("HOSTILE_LARGE")),
                        help="also programs that need more memory or time than their user may have (or HOSTILE_LARGE=1)")
    parser.add_argument("--samples", type=int, default=0, help="requests of the victim during each attack, at least about")
    parser.add_argument("--exhaustive", action="store_true", help="every call of the fault attacks fails once, whatever the time")
    parser.add_argument("--check-latency", action="store_true")
    parser.add_argument("--page", metavar="DIR", help="write hostile.txt and hostile.svg there")
    parser.add_argument("--work", default=".", help="folder for logs")
    parser.add_argument("--keep", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    for name in ("inferd", "victim", "scribble", "faults", "plugin", "host", "plugin_program", "inferctl"):
        if getattr(options, name):
            setattr(options, name, os.path.abspath(getattr(options, name)))
    options.work = os.path.abspath(options.work)
    options.programs = os.path.join(options.work, "last-programs")  # of each attacker: what was tried last, what crashed
    os.makedirs(options.programs, exist_ok=True)
    os.chmod(options.programs, 0o1777)
    # Small ones: a program is opened and run many times.
    found = glob.glob(os.path.join(TOP, "tests/models/**/*.?pte"), recursive=True) + \
        glob.glob(os.path.join(TOP, "tests/models/**/*.pte"), recursive=True)
    options.seeds = sorted(p for p in set(found) if os.path.getsize(p) < 1 << 20)
    options.seeds += sorted(p for p in glob.glob(os.path.join(TOP, "tests/corpus/*/*.bpte")) if INDEXING.search(p))
    options.attacks = sorted(glob.glob(os.path.join(TOP, "../shared/models/attacks/*.pte")))
    options.model = os.path.join(TOP, "tests/models", MODEL + ".pte")
    options.model_name = MODEL
    options.connections = CONNECTIONS
    options.small = os.path.join(TOP, "tests/models/small/gelu_xnnpack.bpte")
    # Small programs are in the repository as well, for the daemon's own kernels; those of two folders want data files.
    options.names = {p: os.path.splitext(os.path.basename(p))[0].replace(".", "_") for p in options.seeds
                     if os.path.basename(os.path.dirname(p)) not in ("external", "data_files")}
    options.indexed = set()  # names of those with index inputs
    options.copies = [f"copy_{i}" for i in range(N_COPIES)]
    wrap_hosts(options)
    if not IS_ROOT:
        print("hostile: not root, or others may not enter this checkout: the daemon, the victim and the attackers are one user, and share its limits")
    print(f"hostile: {SHARES}")
    if not options.large:
        print("hostile: NOT TRIED: programs that need more memory or time than their user may have (--large, HOSTILE_LARGE=1)")
    print(f"hostile: seed {options.seed}, {options.seconds:.0f} s, {len(options.seeds)} programs", flush=True)
    suite = Suite(options)
    is_alone = [n for n, _ in ALONE if suite.wants(n)] if options.faults else []
    is_beside = [n for _, n, _ in BESIDE_VICTIM if suite.wants(n)]
    share = 0.7 if is_alone and is_beside else 1
    if is_beside:
        options.mutable = attack_programs.find_sites(options.seeds) if suite.wants("programs") else []
        suite.beside_victim(options.seconds * share)
    if is_alone:
        suite.alone(options.seconds * (1 - share if is_beside else 1))
    if options.page and suite.rows:
        page.write(options.page, suite)
    if not until(SHARES.remove, 10):
        suite.fail("left over", f"a process in {SHARES.folder}")
    for where, what in suite.failures:
        print(f"FAILED: {where}: {what}")
    print(f"hostile: {len(suite.failures)} failures")
    return 1 if suite.failures else 0


if __name__ == "__main__":
    sys.exit(main())
