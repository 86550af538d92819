#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Print as JSON what a process in inferd.service's sandbox can do. test_boot.py runs it in a copy of the unit."""

import ctypes
import errno
import json
import mmap
import os
import socket


def attempt(function):
    """What @function returns, or the name of its error."""
    try:
        return function() or "done"
    except OSError as e:
        return errno.errorcode.get(e.errno, str(e.errno))


def read_passwords():
    with open("/etc/shadow", "rb") as f:
        f.read(1)


def executable_memory():
    mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).close()


def write(path):
    with open(path, "w", encoding="ascii") as f:
        f.write("x")
    os.unlink(path)


def pages_present():
    """mincore, which Python has no function for."""
    with mmap.mmap(-1, mmap.PAGESIZE) as page:
        there = ctypes.create_string_buffer(1)
        start = ctypes.c_char.from_buffer(page)
        libc = ctypes.CDLL(None, use_errno=True)
        rc = libc.mincore(ctypes.byref(start), ctypes.c_size_t(mmap.PAGESIZE), there)
        del start
    if rc < 0:
        raise OSError(ctypes.get_errno(), "mincore")


def status(name):
    with open("/proc/self/status", encoding="ascii") as f:
        return next(line.split()[1] for line in f if line.startswith(name + ":"))


print(json.dumps({
    "home": attempt(lambda: os.listdir("/home")),
    "shadow": attempt(read_passwords),
    "network": attempt(lambda: socket.socket(socket.AF_INET).close()),
    "executable memory": attempt(executable_memory),
    "no new privileges": status("NoNewPrivs"),
    "capabilities": status("CapEff"),
    "devices": sorted(n for n in os.listdir("/dev") if not os.path.isdir("/dev/" + n) and not os.path.islink("/dev/" + n)),
    "write /usr": attempt(lambda: write("/usr/probe")),
    "write models": attempt(lambda: write("/var/lib/inferd/models/probe")),
    "write cache": attempt(lambda: write("/var/cache/inferd/probe")),
    "low priority": attempt(lambda: os.setpriority(os.PRIO_PROCESS, 0, 10)),
    "pages present": attempt(pages_present),
    "user": os.getuid(),
}))
