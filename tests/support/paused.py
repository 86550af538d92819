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


class Paused:
    """with: the process does not run."""

    def __init__(self, pid):
        self.pid = pid

    def __enter__(self):
        os.kill(self.pid, signal.SIGSTOP)
        while not is_stopped(self.pid):  # kill returns before they have stopped
            os.sched_yield()

    def __exit__(self, *_):
        os.kill(self.pid, signal.SIGCONT)
