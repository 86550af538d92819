# SPDX-License-Identifier: BSD-3-Clause
"""Processor shares as on a gateway that systemd has booted: the daemon has the CPUWeight of its unit, and the victim and
each attacker are services of other users, with the usual weight.

It takes root, and a cgroup hierarchy of version 1 or 2 with the controller "cpu" in which groups can be made. Else `why` says
what is missing, and the kernel divides the processors by sessions (become in daemon.py)."""

import errno
import fcntl
import glob
import os
import re

ROOT = "/sys/fs/cgroup"
UNIT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "systemd", "inferd.service.in")
USUAL = 100  # CPUWeight of a unit that sets none
SHARES_V1 = 1024  # cpu.shares for that weight


def weight_of_unit():
    with open(UNIT, encoding="utf-8") as f:
        return int(re.search(r"^CPUWeight=(\d+)$", f.read(), re.MULTILINE)[1])


def write(path, text):
    with open(path, "w", encoding="ascii") as f:
        f.write(text)


def remove(folder):
    """A group and those in it; they have no processes any more."""
    for group in glob.glob(folder + "/*/") + [folder]:
        os.rmdir(group)


class Shares:
    def __init__(self, is_root):
        self.why, self.folder, self.lock = "", None, None
        self.daemon = weight_of_unit()
        if not is_root:
            self.why = "not root"
            return
        base = ROOT + "/cpu"
        self.is_v1 = os.path.exists(base + "/cpu.shares")
        if not self.is_v1:
            base = ROOT
        try:
            self.make(base)
        except OSError as e:
            self.why = f"no group with the controller cpu can be made in {base}: {e.strerror}"
            self.folder = None

    def make(self, base):
        if not self.is_v1:
            with open(base + "/cgroup.controllers", encoding="ascii") as f:
                if "cpu" not in f.read().split():
                    raise OSError(errno.ENOENT, "there is no such controller")
        for folder in glob.glob(base + "/inferd-hostile-*"):
            self.remove_left_over(folder)
        self.folder = f"{base}/inferd-hostile-{os.urandom(4).hex()}"
        os.mkdir(self.folder)
        self.lock = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(self.lock, fcntl.LOCK_SH)
        if not self.is_v1:
            for folder in (base, self.folder):
                write(folder + "/cgroup.subtree_control", "+cpu")

    def remove_left_over(self, folder):
        """Of a suite that was killed: nobody has locked it."""
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove(folder)
            os.close(lock)
        except OSError:
            pass

    def enter(self, name, weight):
        """This process becomes one of the service @name, with all that it starts. Called as root."""
        if not self.folder:
            return
        group = f"{self.folder}/{name}"
        os.makedirs(group, exist_ok=True)
        if self.is_v1:
            write(group + "/cpu.shares", str(weight * SHARES_V1 // USUAL))
        else:
            write(group + "/cpu.weight", str(weight))
        write(group + "/cgroup.procs", "0")

    def remove(self):
        """False: a process of some group has not ended."""
        try:
            if self.folder:
                remove(self.folder)
                os.close(self.lock)
            return True
        except OSError:
            return False

    def __str__(self):
        if self.why:
            return f"NOT EMULATED: the shares of services, CPUWeight={self.daemon} ({self.why}); sessions share the processors"
        return f"processor shares (CPUWeight): the daemon {self.daemon}, the victim and each attacker {USUAL}"
