# SPDX-License-Identifier: BSD-3-Clause
"""Attacks by signals: clients that are killed at random moments, and the processes of a plug-in that are killed or stopped
in the middle of a run. Who was not killed is answered: with a result, or with BACKEND_CRASHED or UNAVAILABLE."""

import os
import select
import signal
import struct

import wire
from daemon import Bound

MAY_ANSWER = {wire.STATUS[s] for s in ("OK", "BACKEND_CRASHED", "UNAVAILABLE", "STATE_LOST", "MISSED_DEADLINE",
                                       "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "UNIMPLEMENTED")}


def work_forever(daemon, rng):
    """What a client does, until somebody kills it."""
    while True:
        with wire.Connection(daemon.socket) as c:
            if rng.random() < 0.5:
                b = Bound(c, "efficientnet_lite0_int8")
            else:
                with open(rng.choice(daemon.options.seeds), "rb") as program:
                    try:
                        b = Bound(c, "mine", [program.fileno()])
                    except wire.Refused:
                        continue
            for _ in range(rng.randrange(10)):
                b.infer()
            c.send("infer", {"binding": b.binding})
            b.close()


def clients(daemon, rng, goes_on):
    """Clients that die at any moment of their session. The number of kills."""
    n = 0
    devnull = os.open("/dev/null", os.O_WRONLY)
    while goes_on():
        pids = []
        for _ in range(8):
            pid = os.fork()
            if not pid:
                os.dup2(devnull, 2)
                rng.seed(f"{n} {len(pids)}")
                try:
                    work_forever(daemon, rng)
                finally:
                    os._exit(1)
            pids.append(pid)
        for pid in pids:
            select.select([], [], [], rng.random() ** 3 * 0.1)
            os.kill(pid, signal.SIGKILL)
            status = os.waitpid(pid, 0)[1]
            assert os.WIFSIGNALED(status), f"a client ended by itself ({status}) before it was killed"
            n += 1
    os.close(devnull)
    return n


def hosts_of(daemon, backend):
    return [h["pid"] for h in daemon.status().get("hosts", []) if h.get("pid") and backend in (None, h["backend"])]


def scaled(b, x):
    """One run of the program that doubles. Its status; an OK must be right."""
    b.memory[:4] = struct.pack("<f", x)
    reply = b.infer(timeout_us=20000000)
    status = reply.get("status", 0)
    assert status in MAY_ANSWER, reply
    if not status:
        at = b.slots[b.n_inputs][0]
        assert struct.unpack_from("<f", b.memory, at)[0] == 2 * x, "a wrong answer of the plug-in's"
    return status


def served_again(daemon, own, x):
    """The plug-in answers OK again. The status says how long to wait; an attack never waits longer."""
    while True:
        with wire.Connection(daemon.socket) as c:
            try:
                if own:
                    with open(own, "rb") as program:
                        b = Bound(c, "own", [program.fileno()])
                else:
                    b = Bound(c, "scale")
            except wire.Refused as e:
                assert e.status in MAY_ANSWER, e
                pause = max((h.get("pause_ns", 0) for h in daemon.status().get("hosts", [])), default=0)
                select.select([], [], [], min(pause / 1e9, 2) + 0.01)
                continue
            while scaled(b, x):
                select.select([], [], [], 0.01)
            b.close()
            return


def hosts(daemon, rng, goes_on, number=signal.SIGKILL):
    """Processes of the plug-in end, or stop, at any moment. The number of signals."""
    n = 0
    if not daemon.options.plugin:
        return 0
    while goes_on():
        own = rng.choice([None, daemon.options.plugin_program])
        served_again(daemon, own, 1 + n % 100)
        pid = os.fork()
        if not pid:  # a client beside, in the middle of whose runs it happens
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            with wire.Connection(daemon.socket) as c:
                try:
                    b = Bound(c, "scale")
                    while True:
                        scaled(b, rng.randrange(1, 1000))
                except wire.Refused:
                    os._exit(0)
                except AssertionError as e:
                    print(e, flush=True)
                    os._exit(1)
        select.select([], [], [], rng.random() * 0.05)
        # a stopped process for programs would be waited for as long as an honest one may take to read a large program
        targets = hosts_of(daemon, None if number == signal.SIGKILL else "test")
        for host in targets:
            try:
                os.kill(host, number)
                n += 1
            except ProcessLookupError:
                pass
        served_again(daemon, own, 7)
        os.kill(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
        assert not os.WIFEXITED(status) or os.WEXITSTATUS(status) == 0, "a client beside got a wrong answer"
        with wire.Connection(daemon.manager) as c:  # forget the crashes: it is an administrator who kills
            for backend in "test", "programs":
                c.expect("backend_restart", {"name": backend})
    return n


def stopped_hosts(daemon, rng, goes_on):
    return hosts(daemon, rng, goes_on, signal.SIGSTOP)


ATTACKS = {"clients killed": clients, "plug-ins killed": hosts, "plug-ins stopped": stopped_hosts}
AS_ROOT = {"plug-ins killed", "plug-ins stopped"}
