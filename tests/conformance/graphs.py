#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Read the graph of every program that ExecuTorch exported for VulkanBackend, and draw it.

    graphs.py INFERCTL ARCHIVE MODELS --at-least N [--at-most PROGRAM=N ...]

ARCHIVE is the corpus of one-operator programs. MODELS is a folder of larger ones, which may be absent. Reading checks
that the sizes of every result are those that its operator's shape rule gives, so this holds the rules against PyTorch's. With --at-most, PROGRAM, a path beside
MODELS, may have N operators that need a kernel after all passes.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

from corpus import unpack

NO_GRAPH = "no payload of the program is a graph"


def inspect(inferctl, path, form):
    return subprocess.run([inferctl, "inspect", "--graph", form, path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)


def count_kernels(text):
    """Operators that make a tensor in memory of its own."""
    calls = re.findall(r"^(%\d+: .*) = (?!input|constant|state)\S+\(", text, re.MULTILINE)
    return sum(not re.search(r" in %\d+( from row \d+ of dim \d+)?$", results) for results in calls)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("inferctl")
    p.add_argument("archive")
    p.add_argument("models")
    p.add_argument("--at-least", type=int, required=True)
    p.add_argument("--at-most", action="append", default=[])
    args = p.parse_args()
    n_read = n_failed = 0
    with tempfile.TemporaryDirectory() as folder:
        files = [os.path.join(folder, name) for name in unpack(args.archive, folder) if name.startswith("vulkan")]
        if os.path.isdir(args.models):
            files += [os.path.join(args.models, name) for name in sorted(os.listdir(args.models)) if name.endswith(".bpte")]
        for path in files:
            text, simplified, dot = (inspect(args.inferctl, path, form) for form in ("text", "simplified", "dot"))
            if text.returncode != 0 and NO_GRAPH in text.stderr:
                continue
            if text.returncode or simplified.returncode or dot.returncode or "\nreturn " not in text.stdout or "digraph" not in dot.stdout:
                print(f"FAIL  {os.path.basename(path)}: {(text.stderr or simplified.stderr).strip()}")
                n_failed += 1
            else:
                n_read += 1
    for program, limit in (item.split("=") for item in args.at_most):
        path = os.path.join(os.path.dirname(args.models), program)
        if not os.path.exists(path):
            continue
        n = count_kernels(inspect(args.inferctl, path, "simplified").stdout)
        if not 0 < n <= int(limit):
            print(f"FAIL  {program}: {n} operators need a kernel, at most {limit} should")
            n_failed += 1
    print(f"{n_read} programs' graphs were read, {n_failed} failed")
    return 1 if n_failed or n_read < args.at_least else 0


if __name__ == "__main__":
    sys.exit(main())
