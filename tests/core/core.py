#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The core of the runtime is small and makes no system calls.

    core.py [--limit BYTES] CORE.a BASE.a

CORE contains reader, verifier, Plan, Method and executor. With --limit its text must stay
below that many bytes. It may call itself, BASE (the lowest layer, runtime/base), and functions of the
C library that only read or write memory or format a text: no heap, file, thread, clock or
system call. The same rule holds for BASE.
"""

import argparse
import subprocess
import sys

# Functions of the C library: memory, strings, formatting into a buffer. None allocates or calls the kernel.
PURE = {
    "bcmp", "memchr", "memcmp", "memcpy", "memmove", "memset",
    "strchr", "strcmp", "strlen", "strncmp", "strnlen", "strrchr",
    "snprintf", "vsnprintf",
    # Names that the compiler substitutes for those, or adds itself.
    "__snprintf_chk", "__vsnprintf_chk", "__memcpy_chk", "__memset_chk", "__stack_chk_fail",
    "_GLOBAL_OFFSET_TABLE_",
}


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def symbols(archive):
    """(defined, {undefined: member}) of an archive."""
    defined, undefined, member = set(), {}, ""
    for line in run("nm", archive):
        words = line.split()
        if line.endswith(":"):
            member = line[:-1]
        elif len(words) == 2 and words[0] in "Uw":
            undefined.setdefault(words[1], member)
        elif len(words) == 3 and words[1] in "TDBRVWuGS":
            defined.add(words[2])
    return defined, undefined


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--limit", type=int)
    parser.add_argument("core")
    parser.add_argument("base")
    options = parser.parse_args()
    failures = []

    core_has, core_wants = symbols(options.core)
    base_has, base_wants = symbols(options.base)
    if not core_has or not base_has:
        failures.append("an archive defines nothing: is it the right one?")
    for name, member in sorted(core_wants.items()):
        if name not in core_has | base_has | PURE:
            failures.append("%s: asks for %s" % (member, name))
    for name, member in sorted(base_wants.items()):
        if name not in base_has | PURE:
            failures.append("%s: asks for %s" % (member, name))

    rows = [line.split() for line in run("size", options.core)[1:]]
    total = sum(int(row[0]) for row in rows)
    for row in sorted(rows, key=lambda row: -int(row[0])):
        print("%6s  %s" % (row[0], row[5]))
    print("%6d  bytes of text, %d allowed" % (total, options.limit) if options.limit else "%6d  bytes of text" % total)
    data = sum(int(row[1]) + int(row[2]) for row in rows)
    if options.limit and total >= options.limit:
        failures.append("%d bytes of text, %d are allowed" % (total, options.limit))
    if data:
        # .data.rel.ro (tables of names) counts as data; variables would be shared by every program.
        writable = [line for line in run("nm", options.core) if len(line.split()) == 3 and line.split()[1] in "bBC"]
        failures += ["a variable: %s" % line for line in writable]
    for failure in failures:
        print("core:", failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
