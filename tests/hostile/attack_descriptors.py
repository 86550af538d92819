# SPDX-License-Identifier: BSD-3-Clause
"""Attacks by descriptors: every kind of file that a process can hold, in every number that a packet can carry, where
one is announced and where none is; and shared memory that is not what it seems: unsealed, sparse, punched, shrunk,
of huge pages, secret. What is refused must be refused with a sentence or by the end of the session, and closed."""

import ctypes
import fcntl
import os
import pty
import signal
import socket
import struct
import tempfile

import wire
from daemon import INDICES, LIBC, MAY_RUN, Bound

COUNTS = [0, 1, 2, 3, 15, 16, 17, 64, 252, 253]
SYS_MEMFD_SECRET, SYS_USERFAULTFD, SYS_IO_URING_SETUP, SYS_LANDLOCK, SYS_FSOPEN = 447, 323, 425, 444, 430
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


def syscall(*args):
    fd = LIBC.syscall(*[ctypes.c_long(a) for a in args])
    return fd if fd >= 0 else None


def memfd(n_bytes, seals=0, flags=0):
    fd = os.memfd_create("hostile", os.MFD_CLOEXEC | (os.MFD_ALLOW_SEALING if seals is not None else 0) | flags)
    os.ftruncate(fd, n_bytes)
    if seals:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def secret(n_bytes):
    """Memory that the kernel itself cannot read; None where the kernel has none."""
    fd = syscall(SYS_MEMFD_SECRET, 0)
    if fd is not None:
        os.ftruncate(fd, n_bytes)
    return fd


def huge(n_bytes=2 << 20):
    try:
        return memfd(n_bytes, SEALS, getattr(os, "MFD_HUGETLB", 4))
    except OSError:
        return None


def make_all(folder, program):
    """Name: descriptor, of every kind that this machine has, and those that it has not."""
    with open(folder + "/file", "wb") as f:
        f.write(b"no program" * 1000)
    os.mkfifo(folder + "/fifo")
    params, rules, tmpfs = (ctypes.create_string_buffer(b, 256) for b in (b"", struct.pack("<Q", 1), b"tmpfs"))
    pipe = os.pipe()
    path = folder + "/file"
    make = {
        "file, read": lambda: os.open(path, os.O_RDONLY), "file, write": lambda: os.open(path, os.O_WRONLY),
        "file, append": lambda: os.open(path, os.O_RDWR | os.O_APPEND), "O_PATH": lambda: os.open(path, os.O_PATH),
        "deleted": lambda: os.open(folder, os.O_RDWR | os.O_TMPFILE, 0o600), "folder": lambda: os.open(folder, os.O_RDONLY),
        "O_PATH of a folder": lambda: os.open(folder, os.O_PATH), "fifo": lambda: os.open(folder + "/fifo", os.O_RDWR),
        "pipe, read": lambda: pipe[0], "pipe, write": lambda: pipe[1],
        "null": lambda: os.open("/dev/null", os.O_RDWR), "zero": lambda: os.open("/dev/zero", os.O_RDWR),
        "full": lambda: os.open("/dev/full", os.O_RDWR), "urandom": lambda: os.open("/dev/urandom", os.O_RDONLY),
        "own memory": lambda: os.open("/proc/self/mem", os.O_RDWR), "own maps": lambda: os.open("/proc/self/maps", os.O_RDONLY),
        "folder of /proc": lambda: os.open("/proc/self/fd", os.O_RDONLY),
        "name space": lambda: os.open("/proc/self/ns/net", os.O_RDONLY), "program": lambda: os.open(program, os.O_RDONLY),
        "unix stream": lambda: socket.socket(socket.AF_UNIX).detach(),
        "unix packets": lambda: socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).detach(),
        "unix pair": lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].detach(),
        "tcp": lambda: socket.socket(socket.AF_INET).detach(),
        "udp": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).detach(),
        "netlink": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).detach(),
        "eventfd": lambda: os.eventfd(3), "epoll": lambda: LIBC.epoll_create1(0), "timer": lambda: LIBC.timerfd_create(1, 0),
        "inotify": lambda: LIBC.inotify_init1(0), "signals": lambda: LIBC.signalfd(-1, params, 0),
        "process": lambda: os.pidfd_open(os.getpid()), "user faults": lambda: syscall(SYS_USERFAULTFD, 1),
        "io_uring": lambda: syscall(SYS_IO_URING_SETUP, 4, ctypes.addressof(params)),
        "landlock": lambda: syscall(SYS_LANDLOCK, ctypes.addressof(rules), 8, 0),
        "mount": lambda: syscall(SYS_FSOPEN, ctypes.addressof(tmpfs), 0), "terminal": lambda: pty.openpty()[0],
        "memfd": lambda: memfd(4096, None), "memfd, sealed": lambda: memfd(4096, SEALS), "memfd, empty": lambda: memfd(0, SEALS),
        "memfd, sealed for writing": lambda: memfd(4096, SEALS | fcntl.F_SEAL_WRITE),
        "memfd, huge pages": huge, "memfd, secret": lambda: secret(4096),
    }
    found = {}
    for name, function in make.items():
        try:
            fd = function()
        except OSError:  # this kernel has none, or not for this user
            continue
        if fd is not None and fd >= 0:
            found[name] = fd
    return found, sorted(make.keys() - found.keys())


def kinds(daemon, rng, goes_on):
    """Every kind in every number with a message that announces one, some, none. The number of packets."""
    n = 0
    with tempfile.TemporaryDirectory() as folder:
        fds, missing = make_all(folder, daemon.options.small)
        print(f"  {len(fds)} kinds of descriptors; not here: {', '.join(missing) or 'none'}")
        assert len(fds) >= 28
        messages = [("region_register", {"byte_size": 4096}), ("region_register", {"byte_size": 1 << 40}),
                    ("infer", {"binding": 1}), ("hello", {"protocol": 1})]
        messages += [("method_open", {"model": "x", "from_fd": True, "data_fds": n}) for n in (0, 15, 300)]
        plan = [(fd, count, message) for fd in fds for count in COUNTS for message in messages]
        rng.shuffle(plan)
        for name, count, (kind, body) in plan:
            if not goes_on():
                break
            n += 1
            with wire.Connection(daemon.socket) as c:
                try:
                    if not c.send_bytes(wire.request(2, kind, body), [fds[name]] * count):
                        continue
                except OSError as e:  # a kind that the kernel does not pass on, or too many in flight
                    if name in ("io_uring",) or e.errno in (109, 24):
                        continue
                    raise
                try:
                    reply = c.receive()
                except wire.Ended:
                    continue
                announced = {"region_register": 1}.get(kind, 1 + body.get("data_fds", 0) if body.get("from_fd") else 0)
                good = (kind == "region_register" and count == 1 and body["byte_size"] == 4096 and name in ("memfd, sealed",)) or (
                    kind == "method_open" and name == "program" and count == 1) or (kind == "hello" and not count)
                assert reply.get("status") or good, f"{count} x {name} with {kind} (announces {announced}) was accepted: {reply}"
        loop_of_sockets(daemon)
        for fd in fds.values():
            os.close(fd)
    return n


def loop_of_sockets(daemon):
    """The session's own socket and another one's, sent over each other: a circle for the kernel's collector."""
    with wire.Connection(daemon.socket) as a, wire.Connection(daemon.socket) as b:
        fds = [a.socket.fileno(), b.socket.fileno()]
        for c in (a, b):
            assert c.call("region_register", {"byte_size": 4096}, fds[:1]).get("status")
            c.send_bytes(wire.request(9, "infer", {}), fds * 8)


# --- shared memory -------------------------------------------------------------------------------------


def bind_on(c, model, fd, n_bytes):
    """A binding whose tensors lie in the memory @fd; a reply that refuses it, or (binding, None)."""
    first = Bound(c, model)
    body = dict(first.body)
    reply = c.call("region_register", {"byte_size": n_bytes, "name": "r"}, [fd])
    first.close()
    if reply.get("status"):
        return None, reply
    region = reply["region_created"]["region"]
    for side in ("inputs", "outputs"):
        body[side] = [dict(s, region=region) if "region" in s else s for s in body[side]]
    reply = c.call("bind", body)
    return (None, reply) if reply.get("status") else (reply["bound"]["binding"], None)


def punch(fd, n_bytes):
    """Take the pages away (FALLOC_FL_PUNCH_HOLE | KEEP_SIZE)."""
    LIBC.fallocate(fd, 3, ctypes.c_long(0), ctypes.c_long(n_bytes))


def must_run(reply):
    return not reply.get("status")


def shared_memory(daemon, rng, goes_on, model="efficientnet_lite0_int8"):
    """Regions of each odd kind, as far as they get, and then a run on them. The number of regions."""
    n = 0
    n_bytes = 4 << 20
    # name: (make, byte_size, may it be accepted)
    odd = {
        "sealed": (lambda: memfd(n_bytes, SEALS), n_bytes, True),
        "unsealed": (lambda: memfd(n_bytes), n_bytes, False),
        "no seals possible": (lambda: memfd(n_bytes, None), n_bytes, False),
        "sealed against growing only": (lambda: memfd(n_bytes, fcntl.F_SEAL_GROW), n_bytes, False),
        "sealed against shrinking only": (lambda: memfd(n_bytes, fcntl.F_SEAL_SHRINK), n_bytes, False),
        "sealed against writing": (lambda: memfd(n_bytes, SEALS | fcntl.F_SEAL_WRITE), n_bytes, False),
        "sealed against future writing": (lambda: memfd(n_bytes, SEALS | 0x10), n_bytes, False),
        "shorter than it says": (lambda: memfd(4096, SEALS), n_bytes, False),
        "empty": (lambda: memfd(0, SEALS), n_bytes, False),
        "sparse, 1 TB": (lambda: memfd(1 << 40, SEALS), 1 << 40, False),
        "sparse, 8 EB": (lambda: memfd((1 << 63) - 4096, SEALS), (1 << 63) - 4096, False),
        "size that wraps": (lambda: memfd(n_bytes, SEALS), (1 << 64) - 1, False),
        "odd size": (lambda: memfd(n_bytes + 1, SEALS), n_bytes + 1, True),
        "huge pages": (lambda: huge(n_bytes), n_bytes, True),
        "secret": (lambda: secret(n_bytes), n_bytes, False),
        "read only": (lambda: os.open(f"/proc/self/fd/{memfd(n_bytes, SEALS)}", os.O_RDONLY), n_bytes, False),
        "punched before": (lambda: memfd(n_bytes, SEALS), n_bytes, True),
        "punched while it runs": (lambda: memfd(n_bytes, SEALS), n_bytes, True),
    }
    while goes_on():
        names = list(odd)
        rng.shuffle(names)
        for name in names:
            if not goes_on():
                break
            make, size, may_pass = odd[name]
            try:
                fd = make()
            except OSError:
                fd = None
            if fd is None:
                continue
            with wire.Connection(daemon.socket) as c:
                binding, refusal = bind_on(c, model, fd, size)
                n += 1
                assert may_pass or refusal, f"memory that is {name} was accepted"
                if binding:
                    if name == "punched before":
                        punch(fd, n_bytes)
                    number = c.send("infer", {"binding": binding})
                    while name.startswith("punched while") and not c.has_reply():
                        punch(fd, n_bytes)
                    reply = c.receive()
                    assert reply.get("id") == number
                    assert must_run(reply) or name == "huge pages", f"{name}: {reply}"
                elif name == "sealed":
                    raise AssertionError(f"sealed memory was refused: {refusal}")
            os.close(fd)
    return n


def slots_of(bound, is_wanted):
    """Places of those inputs in the region, as arguments of scribble."""
    return [f"{at}:{tensor['byte_size']}" for at, tensor in bound.slots[:bound.n_inputs]
            if at is not None and is_wanted(tensor["datatype"])]


def scribble(daemon, rng, bound, goes_on):
    """Up to 60 runs while a helper writes: mostly into the inputs that may be indices, if there are any, else into all
    inputs, and sometimes anywhere. The number of runs."""
    n = 0
    places = slots_of(bound, INDICES.__contains__) or slots_of(bound, lambda t: True)
    helper = os.fork()
    if not helper:
        LIBC.prctl(1, signal.SIGKILL)
        os.set_inheritable(bound.fd, True)
        os.execv(daemon.options.scribble, ["scribble", str(bound.fd), str(bound.n_bytes), str(rng.randrange(1 << 30))] + places)
    try:
        while n < 60 and goes_on():
            reply = bound.infer(timeout_us=500000)
            assert reply.get("status", 0) in MAY_RUN, f"a run was answered {reply}"
            n += 1
    finally:
        os.kill(helper, signal.SIGKILL)
        status = os.waitpid(helper, 0)[1]
    assert os.WIFSIGNALED(status), f"nobody changed the memory: the helper ended with {status}"
    return n


def scribbled(daemon, rng, goes_on):
    """Memory that another process changes while runs read it: index inputs, lengths and floats, in values that are valid
    and not, as fast as it can. Each run is answered; which answer does not matter. Each program is run out of the
    repository, by the daemon's own workers, and as a client's own. The number of runs."""
    n = n_own = 0
    seeds = list(daemon.options.seeds)
    rng.shuffle(seeds)
    seeds.sort(key=lambda p: daemon.options.names.get(p) not in daemon.options.indexed)  # those with index inputs first
    while goes_on():
        for path in seeds:
            for name in (daemon.options.names.get(path), None):
                if not goes_on():
                    break
                if not name and path in daemon.options.names and rng.random() < 0.5:
                    continue  # most of the time is the daemon's
                with wire.Connection(daemon.socket) as c, open(path, "rb") as program:
                    try:
                        b = Bound(c, name or "scribbled", [] if name else [program.fileno()])
                    except wire.Refused:
                        continue
                    done = scribble(daemon, rng, b, goes_on)
                    b.close()
                    n, n_own = n + done, n_own + (0 if name else done)
    print(f"  {n - n_own} runs in the daemon, {n_own} in the user's process")
    return n


ATTACKS = {"descriptors": kinds, "shared memory": shared_memory, "memory changed while read": scribbled}
