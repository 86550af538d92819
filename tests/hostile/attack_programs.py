# SPDX-License-Identifier: BSD-3-Clause
"""Attacks by programs: real ones with one or a few numbers changed, opened from a descriptor and run. Each is answered,
and the process that runs it does not crash (wire.py and log.py look at that). What needs more than its user may have is
refused; within a second, if latency is checked. With --large, numbers also grow without bound, and the programs of
../shared/models/attacks are brought."""

import collections
import os
import re
import shutil
import time

import flatbuffer
import wire
from daemon import MAY_RUN, Bound, until

REFUSED_WITHIN_S = 1.0
ENDED_WITHIN_S = 20  # generous: the victim measures what a run in the way costs
RUN_US = 500000
# Paths of numbers (flatbuffer.py): sizes of a tensor that is a value of a plan, its place in the memory that the plan needs,
# and the size of this memory.
SIZE, PLACE = re.compile(r"1\[\d+\]\.2\[\d+\]\.1\.2\[\d+\]"), re.compile(r"1\[\d+\]\.2\[\d+\]\.1\.6\.1")
PLANNED = re.compile(r"1\[\d+\]\.8\[\d+\]")
MAX_KEPT = 20  # programs that were answered BACKEND_CRASHED, of each attacker
# Names of limits that a refusal may have, and what else a program may be answered.
MAY_OPEN = {wire.STATUS[s] for s in ("INVALID_ARGUMENT", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "UNIMPLEMENTED", "NOT_FOUND",
                                     "INTERNAL", "BACKEND_CRASHED", "UNAVAILABLE")}


def new_number(rng, old, site, is_large):
    top = (1 << 8 * site.width) - 1
    near = [0, 1, 2, 3, 4, 5, 7, 8, old + 1, old - 1, old * 2, old // 2, old ^ 1 << rng.randrange(8 * site.width)]
    far = [top, top >> 1, (top >> 1) + 1, top - 1, 1 << rng.randrange(8 * site.width), 1000, 8000, 65535, 100000]
    value = rng.choice(near + far) & top
    # A number that stands for a size makes memory or time from little: only where that is bounded.
    most = max(16, old * (1 if site.width == 1 else 4)) & top
    if not is_large and site.kind in ("scalar", "item") and most < value <= top >> 1:
        value = most
    return value


def mutated(rng, data, flatbuffers, is_large):
    """The bytes of a program with one to four numbers changed, and which."""
    out = bytearray(data)
    changes = []
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        sites = rng.choice(flatbuffers)
        kind = rng.choice(sorted({s.kind for s in sites}))  # else most were numbers of a weight
        site = rng.choice([s for s in sites if s.kind == kind])
        old = int.from_bytes(out[site.at:site.at + site.width], "little")
        new = new_number(rng, old, site, is_large)
        out[site.at:site.at + site.width] = new.to_bytes(site.width, "little")
        changes.append(f"{site.kind} {site.path} at {site.at}: {old} -> {new}")
    return bytes(out), changes


def grown(rng, data, flatbuffers):
    """A program without its bundle, in which one size of a dimension is larger in all tensors that have it, and so is the
    memory that is planned for them: still a program, but it needs more; and what was changed."""
    begin = max(data.find(b"ET12") - 4, 0)
    out = bytearray(data)

    def value(site):
        return int.from_bytes(data[site.at:site.at + site.width], "little")
    sites = [s for found in flatbuffers for s in found if s.at >= begin]
    sizes = [s for s in sites if SIZE.fullmatch(s.path) and s.width == 4 and value(s) > 1]
    if not sizes:
        return mutated(rng, data, flatbuffers, True)
    old = value(rng.choice(sizes))
    times = rng.choice([2, 64, 1000, 8000, 100000])
    planned_times = times ** rng.choice([1, 2])  # a tensor may have that size in two dimensions
    for s in sites:
        if SIZE.fullmatch(s.path) and s.width == 4 and value(s) == old:
            out[s.at:s.at + 4] = min(old * times, (1 << 31) - 1).to_bytes(4, "little")
        elif PLANNED.fullmatch(s.path) and s.width == 8:
            out[s.at:s.at + 8] = (value(s) * planned_times & (1 << 63) - 1).to_bytes(8, "little")
        elif PLACE.fullmatch(s.path) and s.width == 4:
            out[s.at:s.at + 4] = min(value(s) * planned_times, (1 << 32) - 64).to_bytes(4, "little")
    return bytes(out[begin:]), [f"size {old} x {times}"]


def try_program(c, data, rng):
    """Open it, run it, close it. The status of the open, how long that took, and whether its process ended."""
    fd = os.memfd_create("program", os.MFD_CLOEXEC)
    try:
        os.write(fd, data)
        began = time.monotonic()
        try:
            b = Bound(c, "mutated", [fd])
        except wire.Refused as e:
            lasted = time.monotonic() - began
            assert e.status in MAY_OPEN, f"refused with an odd status: {e}"
            return e.status, lasted, e.status == wire.STATUS["BACKEND_CRASHED"]
        except (KeyError, ValueError, OverflowError, OSError) as e:  # tensors that this client cannot lay out itself
            raise wire.Ended(str(e)) from e
        lasted = time.monotonic() - began
        has_crashed = False
        b.memory[:64] = rng.randbytes(64)
        for _ in range(3):
            reply = b.infer(timeout_us=RUN_US)
            assert reply.get("status", 0) in MAY_RUN, f"a run was answered {reply}"
            has_crashed |= reply.get("status") == wire.STATUS["BACKEND_CRASHED"]
        b.close()
        c.expect("method_close", {"method": b.method})
        c.expect("region_unregister", {"region": b.region})
        return 0, lasted, has_crashed
    finally:
        os.close(fd)


def find_sites(paths):
    """[(name, bytes, sites)] of those in which there are any. It takes seconds, so it is done once, before the attack."""
    found = []
    for path in paths:
        with open(path, "rb") as f:
            data = f.read()
        sites = flatbuffer.program_sites(data)
        if sites:
            found.append((os.path.basename(path), data, sites))
    return found


def is_served(daemon):
    """Whether this user's process is there, or was started again."""
    with wire.Connection(daemon.socket) as c, open(daemon.options.small, "rb") as program:
        try:
            Bound(c, "small", [program.fileno()]).close()
            return True
        except wire.Refused as e:
            assert e.status in MAY_OPEN, e
            return False


def programs(daemon, rng, goes_on):
    """Mutations of the programs of this tree. The number of programs."""
    options = daemon.options
    answers = collections.Counter()  # to opening
    crashed = 0
    slowest = (0.0, "")  # of the programs that needed more than this user may have
    mine = os.path.join(options.programs, f"{os.getuid()}")
    while goes_on():
        with wire.Connection(daemon.socket) as c:
            for _ in range(20):
                if not goes_on():
                    break
                name, data, sites = rng.choice(options.mutable)
                program, changes = grown(rng, data, sites) if options.large and rng.random() < 0.25 else \
                    mutated(rng, data, sites, options.large)
                what = f"{name}: {'; '.join(changes)}"
                with open(mine + ".pte", "wb") as f:
                    f.write(program)
                try:
                    status, lasted, has_crashed = try_program(c, program, rng)
                except (wire.Ended, wire.Refused):  # an output that cannot be bound, a limit
                    answers["no binding"] += 1
                    break
                except AssertionError as e:
                    raise AssertionError(f"{what}: {e} (kept as {mine}.pte)") from e
                answers[wire.STATUS_NAME[status]] += 1
                if has_crashed:  # killed for its deadline; the log tells if it was anything else
                    shutil.copy(mine + ".pte", f"{mine}-crashed-{crashed % MAX_KEPT}.pte")
                    crashed += 1
                    until(lambda: not goes_on() or is_served(daemon))  # another process, after a pause
                if status == wire.STATUS["RESOURCE_EXHAUSTED"] and lasted > slowest[0]:
                    slowest = (lasted, what)
    print(f"  opened: {dict(answers)}; the process of {crashed} was ended")
    if slowest[1]:
        daemon.notes.append({"what": "a changed program that needs too much is refused", "seconds": slowest[0]})
    within = REFUSED_WITHIN_S if options.check_latency else ENDED_WITHIN_S
    assert slowest[0] < within, f"{slowest[1]}: refused after {slowest[0]:.1f} s"
    return answers.total()


def brought(daemon, rng, goes_on):
    """The programs of ../shared/models/attacks, each at least once. The number of programs."""
    n = 0
    paths = list(daemon.options.attacks)
    if not paths:
        print("  NOT TRIED: ../shared/models/attacks is not there")
        return 0
    while n < len(paths) or goes_on():
        if n % len(paths) == 0:
            rng.shuffle(paths)
        assert until(lambda: is_served(daemon)), "this user's process is not started again"
        n += attack_of_others(daemon, paths[n % len(paths)])
    return n


def attack_of_others(daemon, path):
    """Four runs with a deadline of a second, then the client hangs up. False: it could not be tried."""
    with wire.Connection(daemon.socket) as c, open(path, "rb") as program:
        began = time.monotonic()
        try:
            b = Bound(c, "attack", [program.fileno()])
            for binding in [b.binding] + [c.expect("bind", b.body)["binding"] for _ in range(3)]:
                c.send("infer", {"binding": binding, "timeout_us": 1000000})
            statuses = {c.receive().get("status", 0) for _ in range(4)}
            b.close()
            assert statuses <= MAY_RUN, f"runs were answered {statuses}"
            what = "answered " + ", ".join(sorted(wire.STATUS_NAME[s] for s in statuses))
        except wire.Refused as e:
            if e.status == wire.STATUS["BACKEND_CRASHED"]:  # the one before is just being killed
                return False
            what = f"refused with {wire.STATUS_NAME[e.status]}"
    ended = time.monotonic()
    assert ended - began < ENDED_WITHIN_S, f"{os.path.basename(path)}: {what} after {ended - began:.0f} s"
    daemon.notes.append({"what": f"{os.path.basename(path)} is {what}", "seconds": ended - began, "began": began, "ended": ended})
    return True


ATTACKS = {"programs": programs, "large programs": brought}
