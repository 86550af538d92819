# SPDX-License-Identifier: BSD-3-Clause
"""The daemon's log, read for what must never stand there, whatever was attacked: a process for clients' programs or of a
plug-in that crashed, and reports of sanitizers, of the daemon as well as of these processes, whose output is part of the
log. The reply to a client says BACKEND_CRASHED in the end, as for a process that an attack killed, so only the signal
tells the two apart. SIGKILL is not looked for: attacks and the daemon itself send it."""

import re

CRASHED = re.compile(r"killed by signal (?:4|6|7|8|11)\b")  # SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV
REPORT = re.compile(r"ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|: runtime error: |Sanitizer CHECK failed")
# How a sanitizer ends a process for a memory error; one of these follows each "hard rss limit exhausted", which stands
# for the limit of memory that these processes have in other builds.
EXITED = re.compile(r"host process of backend .* exited with status [1-9]")
AT_LIMIT = re.compile(r"hard rss limit exhausted")
MAX_SHOWN = 40  # lines


class Log:
    def __init__(self, path):
        self.path = path
        self.at = 0
        self.skip()

    def skip(self):
        """Begin at what is written from now on."""
        try:
            with open(self.path, "rb") as f:
                self.at = f.seek(0, 2)
        except OSError:
            self.at = 0

    def read(self):
        """The whole lines that were added since the last call."""
        try:
            with open(self.path, "rb") as f:
                f.seek(self.at)
                data = f.read()
        except OSError:
            return []
        data = data[:data.rfind(b"\n") + 1]  # the rest comes with the next call
        self.at += len(data)
        return data.decode("utf-8", "replace").splitlines()

    def complaints(self):
        """What the lines since the last call report; empty: nothing to complain about."""
        return found_in(self.read())


def found_in(lines):
    n_allowed = sum(bool(AT_LIMIT.search(line)) for line in lines)
    bad = []
    for i, line in enumerate(lines):
        if EXITED.search(line) and n_allowed:
            n_allowed -= 1
        elif CRASHED.search(line) or REPORT.search(line) or EXITED.search(line):
            bad.append(i)
    if not bad:
        return ""
    shown = lines[max(0, bad[0] - 2):bad[0] + MAX_SHOWN]
    return f"{len(bad)} lines of the daemon's log report a crash, the first of them:\n" + "\n".join(shown)
