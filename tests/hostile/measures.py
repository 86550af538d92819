# SPDX-License-Identifier: BSD-3-Clause
"""What a daemon and its processes hold, as the kernel counts it.

Clients' programs and plug-ins run in processes that the daemon's spawner starts, so what an attack takes may be there as
well as in the daemon. Pages that a process shares (clients' memory, copies of files) count where it says "resident" only."""

import collections
import mmap
import os
import re

HOSTS = ("inferd-program-", "inferd-delegate")  # names of processes are cut to 15 characters


def read_text(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read()
    except OSError:
        return ""


def listed(path):
    """Names in that folder; none if the process has ended, or may not be looked at."""
    try:
        return os.listdir(path)
    except OSError:
        return []


def descendants(pid):
    """Processes that @pid has started, and those that they have started."""
    found = []
    for thread in listed(f"/proc/{pid}/task"):
        for child in read_text(f"/proc/{pid}/task/{thread}/children").split():
            found += [int(child)] + descendants(int(child))
    return found


def hosts_of(pid):
    return [p for p in descendants(pid) if read_text(f"/proc/{p}/comm").startswith(HOSTS)]


def resident(pid):
    """Bytes of memory, and those of them that no other process shares; 0 if it has ended."""
    fields = read_text(f"/proc/{pid}/statm").split()
    if not fields:
        return 0, 0
    return int(fields[1]) * mmap.PAGESIZE, (int(fields[1]) - int(fields[2])) * mmap.PAGESIZE


class Measures:
    """At one moment."""

    def __init__(self, daemon):
        proc = f"/proc/{daemon.pid}"
        self.rss = resident(daemon.pid)[0]
        self.fds = len(listed(proc + "/fd"))
        names = [read_text(f"{proc}/task/{t}/comm").strip() for t in listed(proc + "/task")]
        self.threads = len(names)
        # threads that stay when they were needed once: for files of clients, and workers that replace others
        self.helpers = sum(n == "helper-files" or n.startswith("cpu-") for n in names)
        # not what a loaded model keeps for its next runs
        maps = re.findall(r"memfd:(?!inferd-activations)\S+", read_text(proc + "/maps"))
        self.memory_files = len(maps)
        self.details = collections.Counter(names) + collections.Counter(maps)
        self.files = sorted(os.path.relpath(os.path.join(folder, name), daemon.folder)
                            for folder, _, names in os.walk(daemon.cache) for name in names)
        hosts = hosts_of(daemon.pid)
        self.n_hosts = len(hosts)
        private = {f"{read_text(f'/proc/{p}/comm').strip()} {p}": resident(p)[1] for p in hosts}
        self.host_private = sum(private.values())
        self.largest_host = max(private, key=private.get, default="none")
        # The most of one: how many there are depends on who has used one in the last seconds.
        self.host_fds = max([len(listed(f"/proc/{p}/fd")) for p in hosts] or [0])
        self.host_threads = max([len(listed(f"/proc/{p}/task")) for p in hosts] or [0])

    def __str__(self):
        return (f"{self.rss >> 20} MB, {self.fds} descriptors, {self.threads} threads, {self.memory_files} memory files, "
                f"{len(self.files)} files; {self.n_hosts} hosts: {self.host_private >> 20} MB, "
                f"most of it in {self.largest_host}; at most "
                f"{self.host_fds} descriptors, {self.host_threads} threads")
