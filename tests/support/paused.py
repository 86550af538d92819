# SPDX-License-Identifier: BSD-3-Clause
"""A process that does not run for a while."""
import os
import pathlib
import signal


def is_stopped(pid):
    """Whether none of its threads runs any more. A thread that ends meanwhile counts as running."""
    try:
        return all(stat.read_text(errors="replace").rpartition(")")[2].split()[0] == "T"
                   for stat in pathlib.Path(f"/proc/{pid}/task").glob("*/stat"))
    except OSError:
        return False


def stop(pid):
    """Stop the process, and wait until it has stopped: kill returns before that."""
    os.kill(pid, signal.SIGSTOP)
    while not is_stopped(pid):
        os.sched_yield()


class Paused:
    """with: the process does not run."""

    def __init__(self, pid):
        self.pid = pid

    def __enter__(self):
        stop(self.pid)

    def __exit__(self, *_):
        os.kill(self.pid, signal.SIGCONT)
