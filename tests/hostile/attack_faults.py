# SPDX-License-Identifier: BSD-3-Clause
"""Attacks on daemons of their own, without the victim: the nth allocation, mapping, thread, descriptor or write to the disk
fails, while a daemon starts, loads, opens, runs and closes, in a client, and in the process that runs a client's program;
the disk is full; the daemon is killed at any moment; the clock is set. A daemon that starts serves; one that cannot start
ends with a status and a sentence; what failed once works when nothing fails any more."""

import ctypes
import mmap
import os
import random
import select
import signal
import struct
import subprocess
import threading

import attack_kills
import wire
from daemon import LIBC, Bound, Daemon, in_child, until, wrapped

CLASSES = {"memory": 1, "mappings": 2, "threads": 3, "descriptors": 4, "disk": 5}
LAYOUT = struct.Struct("<IIqqqqII")  # struct faults of faults.c, without firsts
MAX_SITES = 8192
NEVER = 1 << 40
RELIEF_S = 1  # nothing fails for longer


class Faults:
    """What the preloaded library is to do, and what it has done."""

    def __init__(self, options, name):
        self.path = os.path.join(options.work, f"faults-{name}")
        with open(self.path, "wb") as f:
            f.write(bytes(LAYOUT.size + 8 * MAX_SITES))
        os.chmod(self.path, 0o666)
        with open(self.path, "r+b") as f:
            self.memory = mmap.mmap(f.fileno(), LAYOUT.size + 8 * MAX_SITES)
        self.environment = {"LD_PRELOAD": options.faults, "HOSTILE_FAULTS": self.path}

    def arm(self, class_name, nth, and_all_later=False, sites=False):
        struct.pack_into("<I", self.memory, 0, 0)
        LAYOUT.pack_into(self.memory, 0, 0, and_all_later, nth, 0, 0, self.clock(), sites, 0)
        struct.pack_into("<I", self.memory, 0, CLASSES[class_name])

    def disarm(self):
        """How many calls there were, and how many of them failed."""
        struct.pack_into("<I", self.memory, 0, 0)
        return LAYOUT.unpack(self.memory[:LAYOUT.size])[3:5]

    def count(self, class_name, run):
        """What @run does without a failure: the number of calls, and those of them whose callers came for the first time."""
        self.arm(class_name, NEVER, sites=True)
        run()
        n = self.disarm()[0]
        firsts = struct.unpack_from(f"<{min(self.n_sites(), MAX_SITES)}q", self.memory, LAYOUT.size)
        return n, [f for f in firsts if 0 < f <= n]

    def n_sites(self):
        return LAYOUT.unpack(self.memory[:LAYOUT.size])[7]

    def clock(self):
        return struct.unpack_from("<q", self.memory, 32)[0]

    def set_clock(self, seconds):
        struct.pack_into("<q", self.memory, 32, seconds)


class Plan:
    """Which calls fail, one after the other, in an order that the seed decides: the first call of each place in the code,
    then all others, alone and with all later ones. Until the time is over, but all places if @all_places, and with
    --exhaustive everything."""

    def __init__(self, options, rng, goes_on, all_places):
        self.options, self.rng, self.goes_on, self.all_places = options, rng, goes_on, all_places
        self.first, self.rest = [], []
        self.n = self.n_first = 0

    def add(self, key, n_calls, firsts):
        self.first += [(key, n, False) for n in firsts]
        self.rest += [(key, n, every) for n in range(1, n_calls + 1) for every in (False, True)
                      if every or n not in set(firsts)]

    def __iter__(self):
        self.rng.shuffle(self.first)
        self.rng.shuffle(self.rest)
        for step in self.first + self.rest:
            must = self.options.exhaustive or (self.all_places and self.n < len(self.first))
            if not (must or self.goes_on()):
                return
            yield step
            self.n += 1
            self.n_first += self.n <= len(self.first)

    def __str__(self):
        return f"{self.n_first} of {len(self.first)} places, {self.n} of {len(self.first) + len(self.rest)} failures"


def classes(options):
    return [c for c in CLASSES if not (options.sanitized and c in ("memory", "mappings"))]


def serves(daemon):
    """Status, a model of the repository and a program of one's own, with everything that a client does."""
    daemon.status()
    with wire.Connection(daemon.socket) as c:
        for fds in ([], [os.open(daemon.options.small, os.O_RDONLY)]):
            b = Bound(c, "efficientnet_lite0_int8", fds)
            reply = b.infer()
            if reply.get("status"):
                raise wire.Refused("infer", reply)
            b.close()
            c.expect("method_close", {"method": b.method})
            for fd in fds:
                os.close(fd)


def check_ended_well(daemon, what):
    status = daemon.process.returncode
    assert status >= 0, f"{what}: the daemon was ended by signal {-status}:\n{daemon.log_tail()}"


def at_start(options, rng, goes_on):
    """The number of starts."""
    faults = Faults(options, "start")
    daemon = Daemon(options, name="faults-start", models=[options.model], environment=faults.environment)
    try:
        counts = {}
        plan = Plan(options, rng, goes_on, all_places=False)  # each is a daemon
        for class_name in classes(options):
            counts[class_name], firsts = faults.count(class_name, daemon.start)
            plan.add(class_name, counts[class_name], firsts)
            assert daemon.stop() == 0, daemon.log_tail()
        print(f"  calls at start: {counts}")
        n = n_refused = 0
        for class_name, nth, every in plan:
            what = f"start, {class_name} {nth}{' and later' if every else ''}"
            faults.arm(class_name, nth, every)
            n += 1
            is_ready = daemon.start(may_fail=True, when_late=faults.disarm)
            faults.disarm()
            assert is_ready is not None, f"{what}: the daemon neither ends nor is ready:\n{daemon.log_tail()}"
            if not is_ready:
                # libuv aborts without memory or a pipe for its signal handling, before the loop begins.
                if not (class_name in ("memory", "descriptors") and daemon.process.returncode == -signal.SIGABRT):
                    check_ended_well(daemon, what)
                assert daemon.process.returncode != 0, f"{what}: it did not start, and says 0"
                n_refused += 1
                continue
            try:
                until_served(daemon, what, may_lack_backend=True)
                assert daemon.stop() == 0, f"{what}: ends badly:\n{daemon.log_tail()}"
            except wire.Ended:
                raise AssertionError(f"{what}: it does not serve:\n{daemon.log_tail()}") from None
        print(f"  {plan}; {n_refused} starts refused")
        return n
    finally:
        daemon.remove()


def until_served(daemon, what, may_lack_backend=False):
    """What failed may be remembered for a moment, as a model that cannot be loaded; not for ever."""
    last = None

    def tried():
        nonlocal last
        try:
            serves(daemon)
            return True
        except (wire.Refused, wire.Ended, OSError) as e:
            last = e
            if may_lack_backend and ("could not be started" in str(e) or "runs no programs" in str(e)):
                return True  # a library that starts once, and says so
            with_manager(daemon, "repository_model_load", {"model_name": "efficientnet_lite0_int8"})
            return False
    if daemon.is_alive() and until(tried, 30, 0.05):
        return
    if not daemon.is_alive():
        check_ended_well(daemon, what)
    raise AssertionError(f"{what}: afterwards it does not serve: {last}\n{daemon.log_tail()}")


def with_manager(daemon, kind, body):
    try:
        with wire.Connection(daemon.manager) as c:
            c.call(kind, body)
    except (wire.Ended, wire.Refused, OSError):
        pass


def op_load(daemon):
    with_manager(daemon, "repository_model_unload", {"model_name": "efficientnet_lite0_int8"})
    with_manager(daemon, "repository_model_load", {"model_name": "efficientnet_lite0_int8"})


def op_index(daemon):
    with wire.Connection(daemon.socket) as c:
        c.call("repository_index", {})
        c.call("model_statistics", {})


OPERATIONS = {"load": op_load, "open, run, close": serves, "connect, status": lambda d: d.status(), "index": op_index}


def at_work(options, rng, goes_on):
    """The number of operations in which something failed."""
    faults = Faults(options, "work")
    daemon = Daemon(options, name="faults-work", models=[options.model], environment=faults.environment)
    n = n_hit = 0
    try:
        daemon.start()
        serves(daemon)
        counts = {}
        plan = Plan(options, rng, goes_on, all_places=True)
        for name, operation in OPERATIONS.items():
            for class_name in classes(options):
                n_calls, firsts = faults.count(class_name, lambda o=operation: o(daemon))
                counts[f"{name}: {class_name}"] = n_calls
                plan.add((name, class_name), n_calls, firsts)
        print(f"  calls: {counts}")
        for (name, class_name), nth, every in plan:
            what = f"{name}, {class_name} {nth}{' and later' if every else ''}"
            faults.arm(class_name, nth, every)
            relief = threading.Timer(RELIEF_S, faults.disarm)  # who is not accepted without a descriptor waits for one
            relief.start()
            try:
                OPERATIONS[name](daemon)
            except (wire.Ended, wire.Refused, OSError):
                pass
            except AssertionError as e:
                raise AssertionError(f"{what}: {e}\n{daemon.log_tail()}") from e
            finally:
                relief.cancel()
                relief.join()
            n_hit += faults.disarm()[1] > 0
            n += 1
            until_served(daemon, what)
        assert daemon.stop() == 0, daemon.log_tail()
        print(f"  {plan}; something failed in {n_hit}")
        return n
    finally:
        daemon.remove()


def in_client(options, rng, goes_on):
    """libinferd, by way of inferctl, with the daemon unharmed. The number of clients."""
    if not options.inferctl:
        return 0
    faults = Faults(options, "client")
    daemon = Daemon(options, name="faults-client", models=[options.model])
    try:
        daemon.start()

        def run():
            return subprocess.run([options.inferctl, "--socket", daemon.socket, "verify", options.small], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=dict(os.environ, **faults.environment),
                                  check=False, timeout=wire.PATIENCE_S)
        def run_well():
            result = run()
            assert result.returncode == 0, result.stdout.decode()
        counts = {}
        plan = Plan(options, rng, goes_on, all_places=True)
        for class_name in classes(options):
            counts[class_name], firsts = faults.count(class_name, run_well)
            plan.add(class_name, counts[class_name], firsts)
        print(f"  calls of inferctl verify: {counts}")
        n = 0
        for class_name, nth, every in plan:
            faults.arm(class_name, nth, every)
            result = run()
            faults.disarm()
            assert result.returncode in (0, 1, 2), (f"client, {class_name} {nth}{' and later' if every else ''}: "
                                                    f"{result.returncode}:\n{result.stdout.decode()}")
            n += 1
        print(f"  {plan}")
        serves(daemon)
        assert daemon.stop() == 0, daemon.log_tail()
        return n
    finally:
        daemon.remove()


def run_own(daemon):
    """A program of one's own, from opening to closing."""
    with wire.Connection(daemon.socket) as c, open(daemon.options.small, "rb") as program:
        b = Bound(c, "own", [program.fileno()])
        reply = b.infer()
        if reply.get("status"):
            raise wire.Refused("infer", reply)
        b.close()
        c.expect("method_close", {"method": b.method})


def run_own_anew(daemon):
    before = attack_kills.hosts_of(daemon, "programs")
    with_manager(daemon, "backend_restart", {"name": "programs"})
    # the answer comes before the process has ended, and who opens a program then is told that it is gone
    until(lambda: not set(before) & set(attack_kills.hosts_of(daemon, "programs")))
    run_own(daemon)


def in_host(options, rng, goes_on):
    """The process that runs a user's programs, with the daemon unharmed. It answers, or ends with a status; no signal ends
    it. Its start is a part of one operation. The number of operations."""
    faults = Faults(options, "host")
    host = wrapped(options, "faulty-program-host", options.bare_program_host, options.host_environment | faults.environment)
    daemon = Daemon(options, name="faults-host", models=[options.model], program_host=host)
    operations = {"start, open, run, close": run_own_anew, "open, run, close": run_own}
    n = n_refused = 0
    try:
        daemon.start()
        serves(daemon)
        counts = {}
        plan = Plan(options, rng, goes_on, all_places=False)
        for name, operation in operations.items():
            for class_name in classes(options):
                n_calls, firsts = faults.count(class_name, lambda o=operation: o(daemon))
                counts[f"{name}: {class_name}"] = n_calls
                plan.add((name, class_name), n_calls, firsts)
        print(f"  calls in the process of a user's programs: {counts}")
        assert counts["open, run, close: threads"] + counts["start, open, run, close: threads"] > 0, "nothing was preloaded"
        for (name, class_name), nth, every in plan:
            what = f"{name}, {class_name} {nth}{' and later' if every else ''}"
            faults.arm(class_name, nth, every)
            relief = threading.Timer(RELIEF_S, faults.disarm)
            relief.start()
            try:
                operations[name](daemon)
            except (wire.Ended, wire.Refused):
                n_refused += 1
            except AssertionError as e:
                raise AssertionError(f"{what}: {e}\n{daemon.log_tail()}") from e
            finally:
                relief.cancel()
                relief.join()
            faults.disarm()
            complaints = daemon.log.complaints()
            assert not complaints, f"{what}: {complaints}"
            with_manager(daemon, "backend_restart", {"name": "programs"})  # a library that starts once in a process
            until_served(daemon, what)
            n += 1
        assert daemon.stop() == 0, daemon.log_tail()
        print(f"  {plan}; {n_refused} operations refused")
        return n
    finally:
        daemon.remove()


def full_disk(options, rng, goes_on):
    """The cache folder on a disk with room for less than a model. The number of loads; none where nobody may mount."""
    daemon = Daemon(options, name="full-disk", models=[options.model])
    is_mounted = LIBC.mount(b"tmpfs", daemon.cache.encode(), b"tmpfs", 0, ctypes.c_char_p(b"size=1m,mode=777")) == 0
    n = 0
    try:
        if not is_mounted:
            print("  NOT TRIED: this machine lets nobody mount a small disk")
            return 0
        daemon.start()
        filler = os.path.join(daemon.cache, "somebody's")
        while goes_on():
            with open(filler, "wb") as f:
                os.posix_fallocate(f.fileno(), 0, rng.choice([1, 500000, 1000000]))
            op_load(daemon)
            serves(daemon)  # a copy that the disk has no room for is made in memory
            os.unlink(filler)
            n += 1
        assert daemon.stop() == 0, daemon.log_tail()
        return n
    finally:
        daemon.kill()
        if is_mounted:
            LIBC.umount2(daemon.cache.encode(), 2)
        daemon.remove()


def killed(options, rng, goes_on):
    """kill -9 at any moment of start and work; the next start serves, and clears away what was left. The number of kills."""
    daemon = Daemon(options, name="killed", models=[options.model])
    devnull = os.open("/dev/null", os.O_WRONLY)
    n, most_files = 0, 0
    try:
        while goes_on():
            if rng.random() < 0.3:  # while it starts
                seconds = rng.random() * 0.02
                pid = in_child(lambda: os.execv(options.inferd, [options.inferd, "--config", daemon.folder + "/inferd.conf"]),
                               64501, None)
                select.select([], [], [], seconds)
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                n += 1
            daemon.start()
            files = [name for _, _, names in os.walk(daemon.cache) for name in names]
            most_files = max(most_files, len(files))
            # one record of the model; its packed weights and its copy, and when each of them was checked
            assert len(files) <= 5, f"left over in the cache after {n} kills: {files}"
            workers = []
            for i in range(2):
                def work(i=i):
                    os.dup2(devnull, 2)
                    attack_kills.work_forever(daemon, random.Random(f"{n} {i}"))
                workers.append(in_child(work))
            with_manager(daemon, "repository_model_unload", {"model_name": "efficientnet_lite0_int8"})
            select.select([], [], [], rng.random() ** 2 * 0.3)
            daemon.kill()
            n += 1
            for pid in workers:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        daemon.start()
        serves(daemon)
        assert daemon.stop() == 0, daemon.log_tail()
        print(f"  {n} kills, at most {most_files} files in the cache after a start")
        return n
    finally:
        os.close(devnull)
        daemon.remove()


def clock(options, rng, goes_on):
    """The time of day jumps by up to a century in both directions, between and within requests. The number of jumps."""
    faults = Faults(options, "clock")
    daemon = Daemon(options, "keep_alive = 1s\n", name="clock", models=[options.model], environment=faults.environment)
    n = 0
    try:
        daemon.start()
        while goes_on():
            faults.set_clock(rng.choice([0, 1, -1, 3600, -3600, 86400 * 36500, -86400 * 18000, rng.randrange(-10**9, 10**9)]))
            with wire.Connection(daemon.socket) as c:
                b = Bound(c, "efficientnet_lite0_int8")
                number = c.send("infer", {"binding": b.binding, "timeout_us": 60000000})
                faults.set_clock(rng.randrange(-10**9, 10**9))
                reply = c.receive()
                assert reply.get("id") == number and not reply.get("status"), f"a run across a jump of the clock: {reply}"
                c.expect("model_statistics", {})
                b.close()
            n += 2
        serves(daemon)
        assert daemon.stop() == 0, daemon.log_tail()
        return n
    finally:
        daemon.remove()


ATTACKS = {"faults at start": at_start, "faults at work": at_work, "faults in a client": in_client, "faults in a host": in_host,
           "full disk": full_disk,
           "daemon killed": killed, "clock jumps": clock}
