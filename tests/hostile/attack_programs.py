# SPDX-License-Identifier: BSD-3-Clause
"""Attacks by programs: real ones with one or a few numbers changed, opened from a descriptor and run. Each is answered;
what needs more than its user may have is refused within a second. With --large, numbers also grow without bound, and the
programs of ../shared/models/attacks are brought: not under a sanitizer, where no process has a limit on its memory."""

import os
import time

import flatbuffer
import wire
from daemon import Bound

REFUSED_WITHIN_S = 1.0
ENDED_WITHIN_S = 20  # generous: the victim measures what a run in the way costs
RUN_US = 500000
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


def try_program(c, data, rng):
    """Open it, run it, close it. The status of the open."""
    fd = os.memfd_create("program", os.MFD_CLOEXEC)
    try:
        os.write(fd, data)
        began = time.monotonic()
        try:
            b = Bound(c, "mutated", [fd])
        except wire.Refused as e:
            lasted = time.monotonic() - began
            assert e.status in MAY_OPEN, f"refused with an odd status: {e}"
            return e.status, lasted
        except (KeyError, ValueError, OverflowError, OSError) as e:  # tensors that this client cannot lay out itself
            raise wire.Ended(str(e)) from e
        b.memory[:64] = rng.randbytes(64)
        for _ in range(3):
            reply = b.infer(timeout_us=RUN_US)
            assert reply.get("status", 0) in wire.STATUS_NAME
        b.close()
        c.expect("method_close", {"method": b.method})
        c.expect("region_unregister", {"region": b.region})
        return 0, time.monotonic() - began
    finally:
        os.close(fd)


def programs(daemon, rng, goes_on):
    """Mutations of the programs of this tree. The number of programs."""
    options = daemon.options
    seeds = []
    for path in options.seeds:
        with open(path, "rb") as f:
            data = f.read()
        sites = flatbuffer.program_sites(data)
        if sites:
            seeds.append((os.path.basename(path), data, sites))
    n = opened = 0
    while goes_on():
        with wire.Connection(daemon.socket) as c:
            for _ in range(20):
                if not goes_on():
                    break
                name, data, sites = rng.choice(seeds)
                program, changes = mutated(rng, data, sites, options.large)
                with open(os.path.join(options.programs, f"{os.getuid()}.pte"), "wb") as f:
                    f.write(program)
                n += 1
                try:
                    status, lasted = try_program(c, program, rng)
                except wire.Ended:
                    break
                except wire.Refused:  # an output that cannot be bound, a limit
                    break
                except AssertionError as e:
                    raise AssertionError(f"{name}: {'; '.join(changes)}: {e}") from e
                opened += not status
                if options.check_latency and status == wire.STATUS["RESOURCE_EXHAUSTED"]:
                    assert lasted < REFUSED_WITHIN_S, f"{name}: {'; '.join(changes)}: refused after {lasted:.1f} s"
    print(f"  {n} programs, {opened} of them were opened")
    if options.large:
        for path in options.attacks:
            attack_of_others(daemon, path)
    return n


def attack_of_others(daemon, path):
    """A program of ../shared/models/attacks: four runs with a deadline of a second, then the client hangs up."""
    with wire.Connection(daemon.socket) as c, open(path, "rb") as program:
        began = time.monotonic()
        try:
            bound = [Bound(c, "attack", [program.fileno()])]
            bound += [Bound(c, "attack", [program.fileno()]) for _ in range(3)]
        except wire.Refused as e:
            print(f"  {os.path.basename(path)}: refused after {time.monotonic() - began:.2f} s: {e}")
            return
        for b in bound:
            c.send("infer", {"binding": b.binding, "timeout_us": 1000000})
        statuses = []
        for _ in bound:
            statuses.append(wire.STATUS_NAME[c.receive().get("status", 0)])
            lasted = time.monotonic() - began
        assert lasted < ENDED_WITHIN_S, f"{os.path.basename(path)}: runs with a deadline of a second ended after {lasted:.0f} s"
        print(f"  {os.path.basename(path)}: {statuses} after {lasted:.2f} s")


ATTACKS = {"programs": programs}
