# SPDX-License-Identifier: BSD-3-Clause
"""The daemon under attack, those who attack it, and the victim.

Everything runs in a folder of its own. If the suite runs as root, the daemon, the victim and each attacker are
different users; else all are one user. A watchdog ends a daemon that takes more memory than `most_bytes`: the suite must
not take the machine that it runs on.
"""

import collections
import ctypes
import mmap
import os
import re
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback

import wire

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
PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4
ATTACKER_BYTES = 3 << 30  # address space of an attacking process
ATTACKER_FDS = 20000
SCALARS = {"INT": "int_value", "BOOL": "bool_value", "DOUBLE": "double_value"}


def until(holds, timeout_s=wire.PATIENCE_S, period_s=0.02):
    """Look every @period_s whether @holds; what it last said, so that a false answer is a time-out."""
    end = time.monotonic() + timeout_s
    while True:
        found = holds()
        if found or time.monotonic() > end:
            return found
        select.select([], [], [], period_s)


def become(uid):
    """In a child: be that user, with bounds, and end with the parent."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if IS_ROOT:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (ATTACKER_FDS, ATTACKER_FDS))
        except (ValueError, PermissionError):  # a container's limit stays
            pass
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # forgotten when the user changes,
        LIBC.prctl(PR_SET_DUMPABLE, 1)                # and so is that /proc/self is one's own
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


def read_text(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read()
    except OSError:
        return ""


class Measures:
    """What a daemon holds, as the kernel counts it."""

    def __init__(self, daemon):
        proc = f"/proc/{daemon.pid}"
        self.rss = daemon.rss()
        self.fds = len(os.listdir(proc + "/fd"))
        self.threads = len(os.listdir(proc + "/task"))
        names = [read_text(f"{proc}/task/{t}/comm").strip() for t in os.listdir(proc + "/task")]
        # threads that stay when they were needed once: for files of clients, and workers that replace others
        self.helpers = sum(n == "helper-files" or n.startswith("cpu-") for n in names)
        # not what a loaded model keeps for its next runs
        maps = re.findall(r"memfd:(?!inferd-activations)\S+", read_text(proc + "/maps"))
        self.memory_files = len(maps)
        self.details = collections.Counter(names) + collections.Counter(maps)
        self.files = sorted(os.path.relpath(os.path.join(folder, name), daemon.folder)
                            for folder, _, names in os.walk(daemon.cache) for name in names)

    def __str__(self):
        return (f"{self.rss >> 20} MB, {self.fds} descriptors, {self.threads} threads, {self.memory_files} memory files, "
                f"{len(self.files)} files")


class Daemon:
    """A daemon in a folder of its own."""

    def __init__(self, options, config="", name="main", models=(), environment=None, most_bytes=3 << 30):
        self.options = options
        self.folder = tempfile.mkdtemp(prefix="inferd-hostile-")
        self.socket = self.folder + "/s"
        self.manager = self.folder + "/m"
        self.models = self.folder + "/models"
        self.cache = self.folder + "/cache"
        self.log = os.path.join(options.work, f"daemon-{name}.log")
        self.environment = environment or {}
        self.most_bytes = most_bytes
        self.peak = 0
        self.samples = []  # (monotonic s, RSS)
        self.process = None
        self.was_ended = None  # by the watchdog: why
        os.mkdir(self.models)
        os.mkdir(self.cache)
        for path in models:
            shutil.copy(path, self.models)
        with open(self.folder + "/inferd.conf", "w", encoding="utf-8") as f:
            f.write(f"[server]\nsocket = {self.socket}\nmanager_socket = {self.manager}\nmodels = {self.models}\n"
                    f"cache = {self.cache}\nlog_level = warning\n{config}")
        if IS_ROOT:
            for folder, folders, names in os.walk(self.folder):
                for entry in [folder] + [os.path.join(folder, x) for x in folders + names]:
                    os.chown(entry, DAEMON_UID, DAEMON_UID)
            os.chmod(self.folder, 0o755)

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
        with open(self.log, "ab") as log:
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
        """A thread that looks at its memory ten times a second, and ends it above most_bytes."""
        def look(process):
            while process.poll() is None:
                try:
                    rss = self.rss()
                except OSError:
                    return
                self.samples.append((time.monotonic(), rss))
                self.peak = max(self.peak, rss)
                if rss > self.most_bytes:
                    self.was_ended = f"it took {rss >> 20} MB, more than {self.most_bytes >> 20}"
                    process.kill()
                select.select([], [], [], 0.1)
        threading.Thread(target=look, args=[self.process], daemon=True).start()

    def rss(self):
        with open(f"/proc/{self.pid}/statm", encoding="ascii") as f:
            return int(f.read().split()[1]) * mmap.PAGESIZE

    def log_tail(self, n=12):
        return "\n".join(read_text(self.log).splitlines()[-n:])

    def is_alive(self):
        return self.process.poll() is None

    def status(self):
        with wire.Connection(self.manager) as c:
            return c.expect("status", {})

    def stop(self):
        """SIGTERM. Its exit status; negative: the signal that ended it."""
        if self.is_alive():
            self.process.terminate()
        try:
            return self.process.wait(wire.PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None

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
            b.memory[:] = bytes(i * 7 % 251 for i in range(64)) * (b.n_bytes // 64) + bytes(b.n_bytes % 64)
            for i in range(0, at, 4):  # floats between 0 and 1, whatever the model: its first input is FP32
                b.memory[i:i + 4] = struct.pack("<f", i % 997 / 997)
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
