#!/usr/bin/env python3
"""Run `inferctl verify --local` and hold it to a number of passes.

    verify.py INFERCTL --at-least N [--under FOLDER] [OPTION...] PATH...

Fails if a file fails, if fewer than N pass (a program that is skipped passes nothing), or if verify says something else
than its exit status. PATHs are below FOLDER; where that is missing (../shared outside the project) the test is skipped.
"""

import argparse
import os
import re
import subprocess
import sys


def main():
    p = argparse.ArgumentParser()
    p.add_argument("inferctl")
    p.add_argument("--at-least", type=int, required=True)
    p.add_argument("--under", default="")
    p.add_argument("--atol")
    p.add_argument("--rtol")
    p.add_argument("paths", nargs="+")
    args = p.parse_args()
    if args.under and not os.path.isdir(args.under):
        print(f"skipped: {args.under} is not there")
        sys.exit(77)
    options = [o for name in ("atol", "rtol") if getattr(args, name) for o in ("--" + name, getattr(args, name))]
    paths = [os.path.join(args.under, path) for path in args.paths]
    r = subprocess.run([args.inferctl, "verify", "--local", *options, *paths], stdout=subprocess.PIPE, text=True, check=False)
    print(r.stdout, end="")
    total = re.fullmatch(r"(\d+) passed, (\d+) failed, (\d+) skipped", r.stdout.rstrip("\n").split("\n")[-1])
    if not total:
        sys.exit(f"no sum; exit status {r.returncode}")
    passed, failed = int(total[1]), int(total[2])
    if (r.returncode != 0) != (failed > 0):
        sys.exit(f"{failed} failed, and the exit status is {r.returncode}")
    if failed:
        sys.exit(1)
    if passed < args.at_least:
        sys.exit(f"{passed} passed, and at least {args.at_least} should")


if __name__ == "__main__":
    main()
