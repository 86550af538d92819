#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Read the commands of README.md's section Install.

    readme.py builder    print those for the computer that builds, each on a line
    readme.py arm64      print those that build the packages, as they are for an arm64 gateway

boot.sh runs these, test_readme.py the others. Both run the text of the README, so that it cannot say something else than
what was tried."""

import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GATEWAY = "root@gateway"


def section():
    with open(os.path.join(TOP, "README.md"), encoding="utf-8") as f:
        return re.search(r"(?ms)^## Install$(.*?)^## ", f.read()).group(1)


def blocks():
    """The indented paragraphs, each as its commands, without comments."""
    found, inside = [], False
    for line in section().splitlines():
        is_code = line.startswith("    ")
        if is_code and not inside:
            found.append([])
        if is_code:
            found[-1].append(re.sub(r"\s{2,}#.*", "", line.strip()))
        inside = is_code
    return found


def table(first_column):
    """The table with the heading @first_column, as {first cell: second cell}."""
    rows = re.search(rf"(?m)^\| {first_column} \|.*\n\|-.*\n((?:\|.*\n)*)", section()).group(1)
    return dict([cell.strip() for cell in row.strip("|").split(" | ")] for row in rows.splitlines())


def spans(text):
    """What stands between backquotes."""
    return re.findall(r"`([^`]+)`", re.sub(r"(?m)^    .*", "", text))


def builder():
    """The commands that touch no gateway; the blocks between run on one."""
    build, _, stage, *_ = blocks()
    return [c for c in build + stage if GATEWAY not in c]


def arm64():
    more = re.search(r"For an arm64 gateway add `([^`]+)` to `([^`]+)`", section())
    build = [c for c in blocks()[0] if GATEWAY not in c]
    changed = [c.replace(more.group(2), f"{more.group(2)} {more.group(1)}") for c in build]
    assert changed != build, "no command is different for arm64"
    return changed


if __name__ == "__main__":
    print("\n".join({"builder": builder, "arm64": arm64}[sys.argv[1]]()))
