# SPDX-License-Identifier: BSD-3-Clause
"""The daemon under attack, those who attack it, and the victim.

Everything runs in a folder of its own. If the suite runs as root, the daemon, the victim and each attacker are
different users; else all are one user. A watchdog ends a daemon that takes more memory than `most_bytes`: the suite must
not take the machine that it runs on.
"""

import array
import ctypes
import mmap
import os
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

import wire
from log import Log
from measures import hosts_of, read_text, resident
from shares import USUAL, Shares

DAEMON_UID, VICTIM_UID, ATTACKER_UID = 64501, 64502, 64510  # further attackers count up


def others_reach(path):
    """Whether any user may go to @path."""
    while path != "/":
        path = os.path.dirname(path)
        if not os.stat(path).st_mode & 1:
            return False
    return True


# Whether users can be made up: without root, or in a checkout that only root can enter, all are one.
IS_ROOT = os.geteuid() == 0 and others_reach(os.path.abspath(__file__))
LIBC = ctypes.CDLL(None, use_errno=True)
SHARES = Shares(IS_ROOT)
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_KEEPCAPS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE = 1, 4, 8, 47, 2
RLIMIT_NICE, CAP_SYS_NICE, CAPABILITY_VERSION_3 = 13, 23, 0x20080522
ATTACKER_BYTES = 3 << 30  # address space of an attacking process
ATTACKER_FDS = 20000
# What a run may be answered that is well-formed, whatever its program and its tensors hold. BUSY: the one before was given
# up, and a worker is still in it.
MAY_RUN = {wire.STATUS[s] for s in ("OK", "INVALID_ARGUMENT", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "UNIMPLEMENTED",
                                    "INTERNAL", "MISSED_DEADLINE", "STATE_LOST", "BACKEND_CRASHED", "BUSY")}
INDICES = ("INT32", "INT64", "BOOL")  # datatypes of tensors that may be indices, lengths or masks
SCALARS = {"INT": "int_value", "BOOL": "bool_value", "DOUBLE": "double_value"}


def until(holds, timeout_s=wire.PATIENCE_S, period_s=0.02):
    """Look every @period_s whether @holds; what it last said, so that a false answer is a time-out."""
    end = time.monotonic() + timeout_s
    while True:
        found = holds()
        if found or time.monotonic() > end:
            return found
        select.select([], [], [], period_s)


def set_limit_nice():
    """As LimitNICE=+0 of the unit: a thread may have its priority back. False: root may not raise limits here."""
    try:
        resource.setrlimit(RLIMIT_NICE, (20, 20))
        return True
    except (ValueError, PermissionError):
        return False


def take_sys_nice():
    """The same by a capability that the process has kept, and no other; it stays over exec."""
    bit = 1 << CAP_SYS_NICE
    LIBC.capset((ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0), (ctypes.c_uint32 * 6)(bit, bit, bit, 0, 0, 0))
    LIBC.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_NICE, 0, 0)


def become(uid):
    """In a child: be that user, with bounds, and end with the parent. The processor is divided as on a gateway, where
    services have cgroups and logins are sessions: between them, not between their threads."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()
    SHARES.enter(f"user-{uid}.service", SHARES.daemon if uid == DAEMON_UID else USUAL)
    if IS_ROOT:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (ATTACKER_FDS, ATTACKER_FDS))
        except (ValueError, PermissionError):  # a container's limit stays
            pass
        keeps_nice = uid == DAEMON_UID and not set_limit_nice()
        if keeps_nice:
            LIBC.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0)
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # forgotten when the user changes,
        LIBC.prctl(PR_SET_DUMPABLE, 1)                # and so is that /proc/self is one's own
        if keeps_nice:
            take_sys_nice()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def in_child(function, uid=ATTACKER_UID, bytes_max=ATTACKER_BYTES):
    """Run @function as that user in a new process; its pid. What it raises is printed, and the status is 1."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        become(uid)
        if bytes_max:
            resource.setrlimit(resource.RLIMIT_AS, (bytes_max, bytes_max))
        function()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def wait_for(pid, timeout_s):
    """The exit status of the child @pid, as waitpid's; None if it had to be killed."""
    fd = os.pidfd_open(pid)
    is_done = select.select([fd], [], [], timeout_s)[0]
    os.close(fd)
    if not is_done:
        os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    return status if is_done else None


def wrapped(options, name, program, environment):
    """The path of a script that runs @program with these variables: the daemon gives the processes that it starts an
    environment of its own."""
    path = os.path.join(options.work, name)
    with open(path + ".new", "w", encoding="utf-8") as f:
        f.write("#!/bin/sh\n" + "".join(f"export {k}='{v}'\n" for k, v in environment.items()) + f"exec '{program}'\n")
    os.chmod(path + ".new", 0o755)
    os.rename(path + ".new", path)
    return path


class Daemon:
    """A daemon in a folder of its own."""

    def __init__(self, options, config="", name="main", models=(), environment=None, most_bytes=3 << 30, program_host=None):
        self.options = options
        self.folder = tempfile.mkdtemp(prefix="inferd-hostile-")
        self.socket = self.folder + "/s"
        self.manager = self.folder + "/m"
        self.models = self.folder + "/models"
        self.cache = self.folder + "/cache"
        self.log_path = os.path.join(options.work, f"daemon-{name}.log")
        self.log = Log(self.log_path)
        self.environment = environment or {}
        self.most_bytes = most_bytes
        self.samples = []  # (monotonic s, bytes that are resident of the daemon, of its processes together)
        self.budget = 0  # memory_budget
        self.notes = []  # what an attack has to tell besides its number: dicts, printed and on the page
        self.process = None
        self.was_ended = None  # by the watchdog: why
        os.mkdir(self.models)
        os.mkdir(self.cache)
        for path in models:
            self.add_model(path, os.path.basename(path))
        host = program_host or options.program_host
        with open(self.folder + "/inferd.conf", "w", encoding="utf-8") as f:
            f.write(f"[server]\nsocket = {self.socket}\nmanager_socket = {self.manager}\nmodels = {self.models}\n"
                    f"cache = {self.cache}\nprogram_host = {host}\n"
                    # what processes print, a sanitizer's report for one, is logged with this level
                    f"log_level = {'info' if options.sanitized else 'warning'}\n{config}")
        if IS_ROOT:
            for folder, folders, names in os.walk(self.folder):
                for entry in [folder] + [os.path.join(folder, x) for x in folders + names]:
                    os.chown(entry, DAEMON_UID, DAEMON_UID)
            os.chmod(self.folder, 0o755)

    def add_model(self, path, name):
        """Before it starts."""
        to = os.path.join(self.models, name)
        shutil.copy(path, to)
        if IS_ROOT:
            os.chown(to, DAEMON_UID, DAEMON_UID)

    @property
    def pid(self):
        return self.process.pid

    def start(self, may_fail=False, when_late=None):
        """Start it and wait until it is ready. False, if it @may_fail: it ended before; None: neither, and it was
        killed. @when_late is called if it is not ready after three seconds: what it wants to say may be what fails."""
        notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        path = self.folder + "/n"
        if os.path.exists(path):
            os.unlink(path)
        notify.bind(path)
        if IS_ROOT:
            os.chown(path, DAEMON_UID, DAEMON_UID)
        env = dict(os.environ, NOTIFY_SOCKET=path, **self.environment)
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [self.options.inferd, "--config", self.folder + "/inferd.conf"], stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, env=env, preexec_fn=lambda: become(DAEMON_UID))
        with notify:
            is_ready = False
            begin = time.monotonic()
            end = begin + (10 if may_fail else wire.PATIENCE_S)
            while not is_ready and time.monotonic() < end:
                if select.select([notify], [], [], 0.05)[0]:
                    is_ready = b"READY=1" in notify.recv(4096)
                elif self.process.poll() is not None:
                    break
                elif when_late and time.monotonic() > begin + 3:
                    when_late()
        if not is_ready and may_fail and self.is_alive():
            self.kill()
            return None
        if not is_ready and not (may_fail and self.process.poll() is not None):
            raise AssertionError(f"the daemon does not become ready ({self.process.poll()}):\n{self.log_tail()}")
        return is_ready

    def watch(self):
        """A thread that looks at its memory and that of its processes ten times a second, and ends it above most_bytes."""
        def look(process):
            while process.poll() is None:
                daemon = resident(self.pid)[0]
                hosts = [resident(p) for p in hosts_of(self.pid)]
                self.samples.append((time.monotonic(), daemon, sum(h[0] for h in hosts)))
                for what, n_bytes in (("it", daemon), ("its processes", sum(h[1] for h in hosts))):
                    if n_bytes > self.most_bytes:
                        self.was_ended = f"{what} took {n_bytes >> 20} MB, more than {self.most_bytes >> 20}"
                        process.kill()
                select.select([], [], [], 0.1)
        threading.Thread(target=look, args=[self.process], daemon=True).start()

    def peaks(self, begin=0.0, end=float("inf")):
        """The most resident memory between two times, of the daemon and of its processes together, in bytes."""
        within = [s for s in self.samples if begin <= s[0] <= end] or [(0, 0, 0)]
        return max(s[1] for s in within), max(s[2] for s in within)

    def log_tail(self, n=40):
        return "\n".join(read_text(self.log_path).splitlines()[-n:])

    def is_alive(self):
        return self.process.poll() is None

    def status(self):
        with wire.Connection(self.manager) as c:
            return c.expect("status", {})

    def check_log(self):
        found = self.log.complaints()
        assert not found, found

    def set_budget(self, n_bytes):
        """Reload the configuration with that memory_budget; it must have one that is set."""
        if n_bytes == self.budget:
            return
        path = self.folder + "/inferd.conf"
        text = read_text(path).replace(f"\nmemory_budget = {self.budget}\n", f"\nmemory_budget = {n_bytes}\n")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        self.process.send_signal(signal.SIGHUP)
        if not until(lambda: self.status().get("memory_budget", 0) == n_bytes):
            raise AssertionError(f"memory_budget is not {n_bytes} after a reload:\n{self.log_tail()}")
        self.budget = n_bytes

    def stop(self):
        """SIGTERM. Its exit status; negative: the signal that ended it. Nothing in its log must report a crash."""
        if self.is_alive():
            self.process.terminate()
        try:
            status = self.process.wait(wire.PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            status = None
        self.check_log()
        return status

    def kill(self):
        if self.process and self.is_alive():
            self.process.kill()
            self.process.wait()

    def remove(self):
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class Bound:
    """An open Method with a region over all its tensors and a binding."""

    def __init__(self, connection, model, fds=(), backend="", method="", inputs=None):
        self.connection = connection
        self.opened = connection.expect("method_open", {
            "model": model, "method": method, "backend": backend, "from_fd": bool(fds), "data_fds": max(0, len(fds) - 1)}, fds)
        self.method = self.opened["method"]
        self.slots, at = [], 0
        for tensor in self.opened.get("inputs", []) + self.opened.get("outputs", []):
            if tensor.get("scalar") or tensor.get("datatype") in ("None", "String") or not tensor.get("byte_size"):
                self.slots.append((None, tensor))
            else:
                self.slots.append((at, tensor))
                at += tensor["byte_size"] + 63 & ~63
        self.n_bytes = max(at, 4096)
        self.region = connection.expect("region_create", {"byte_size": self.n_bytes})["region"]
        self.fd = connection.take_fds()[0]
        self.memory = mmap.mmap(self.fd, self.n_bytes)
        self.n_inputs = len(self.opened.get("inputs", []))
        self.body = {"method": self.method, "inputs": [self.slot(*s) for s in self.slots[:self.n_inputs]],
                     "outputs": [self.slot(*s) for s in self.slots[self.n_inputs:]]}
        self.binding = connection.expect("bind", self.body)["binding"]

    def slot(self, at, tensor):
        if at is not None:
            return {"region": self.region, "offset": at}
        if tensor.get("datatype") in SCALARS:
            return {SCALARS[tensor["datatype"]]: 1}
        return {}

    def infer(self, timeout_us=0):
        return self.connection.call("infer", {"binding": self.binding, "timeout_us": timeout_us})

    def close(self):
        self.memory.close()
        os.close(self.fd)


def fill(bound):
    """Write floats between 0 and 1 over all inputs of a model whose first input is FP32, the same each time."""
    n_bytes = bound.slots[bound.n_inputs][0]
    bound.memory[:n_bytes] = array.array("f", [i % 997 / 997 for i in range(997)] * (n_bytes // 4 // 997 + 1)).tobytes()[:n_bytes]


class Victim:
    """Starts tests/hostile/victim.c on a session of its own user, and collects what it says."""

    def __init__(self, daemon, helper, model):
        self.answers = []  # (began s, latency s, word)
        ready, child_ready = os.pipe()
        lines, child_lines = os.pipe()

        def begin():
            c = wire.Connection(daemon.socket)
            b = Bound(c, model)
            at, tensor = b.slots[b.n_inputs]
            fill(b)
            first = b.infer()
            assert not first.get("status"), first
            os.set_inheritable(c.socket.fileno(), True)
            os.set_inheritable(b.fd, True)
            os.dup2(child_lines, 1)
            os.write(child_ready, b"1")
            packet = wire.request(77, "infer", {"binding": b.binding})
            c.socket.setblocking(True)
            os.execv(helper, [helper, str(c.socket.fileno()), str(b.fd), str(at), str(tensor["byte_size"]), packet.hex()])

        self.pid = in_child(begin, VICTIM_UID, None)
        os.close(child_ready)
        os.close(child_lines)
        if os.read(ready, 1) != b"1":
            raise AssertionError("the victim was not served before any attack")
        os.close(ready)
        self.stream = os.fdopen(lines, encoding="ascii")
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        for line in self.stream:
            began, latency, word = line.split()
            self.answers.append((int(began) / 1e9, int(latency) / 1e9, word))

    def between(self, begin, end):
        return [a for a in self.answers if begin <= a[0] < end]

    def stop(self):
        """False: it had ended before."""
        ended, _ = os.waitpid(self.pid, os.WNOHANG)
        if not ended:
            os.kill(self.pid, signal.SIGTERM)
            os.waitpid(self.pid, 0)
        self.thread.join(10)
        return not ended
