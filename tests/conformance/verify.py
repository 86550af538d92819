#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Run `inferctl verify` and require a number of passes.

    verify.py INFERCTL --at-least N [--inferd INFERD] [--under FOLDER|ARCHIVE] [--config FILE [--skip-where TEXT]]
        [--atol A] [--rtol R] PATH...

It runs with --local, or through an inferd that the test starts. The test fails if a file fails, if fewer than N pass (a
skipped program does not pass), or if verify's output contradicts its exit status. PATHs are below FOLDER, or inside
ARCHIVE (.tar.zst), which is unpacked. Without FOLDER or ARCHIVE (../shared may be absent) the test is skipped.
INFERD_EMULATOR in the environment is a command to run INFERCTL under: a build for another processor.
With --config a run with --local has the plug-ins of that file; the test is skipped if verify gives TEXT as the reason why
it skips a program: the plug-in's device is not there.
"""

import argparse
import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time


def start(inferd, inferctl, folder):
    """An inferd with an empty repository, listening."""
    socket = os.path.join(folder, "inferd.sock")
    os.mkdir(os.path.join(folder, "models"))
    log = open(os.path.join(folder, "log"), "w+")
    daemon = subprocess.Popen([inferd, "--models", os.path.join(folder, "models"), "--socket", socket, "--manager-socket",
                               "", "--cache", "", "--log-level", "error"], stderr=log, stdin=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while subprocess.run([inferctl, "--socket", socket, "models"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                         check=False).returncode:
        if daemon.poll() is not None or time.monotonic() > deadline:
            daemon.kill()
            log.seek(0)
            sys.exit("inferd does not answer: " + log.read())
    return daemon, socket


def main():
    p = argparse.ArgumentParser()
    p.add_argument("inferctl")
    p.add_argument("--at-least", type=int, required=True)
    p.add_argument("--inferd")
    p.add_argument("--under", default="")
    p.add_argument("--config")
    p.add_argument("--skip-where")
    p.add_argument("--atol")
    p.add_argument("--rtol")
    p.add_argument("paths", nargs="+")
    args = p.parse_args()
    if args.under and not os.path.exists(args.under):
        print(f"skipped: {args.under} is not there")
        sys.exit(77)
    options = [o for name in ("atol", "rtol") if getattr(args, name) for o in ("--" + name, getattr(args, name))]
    daemon = None
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="inferd-verify-"))
        under = args.under
        if os.path.isfile(under):
            subprocess.run(["tar", "--zstd", "-xf", under, "-C", folder, "--wildcards",
                            *[f"*{path}/*" for path in args.paths]], check=True)
            under = folder
        if args.inferd:
            daemon, socket = start(args.inferd, args.inferctl, folder)
            stack.callback(daemon.wait)
            stack.callback(daemon.terminate)
            options += ["--socket", socket]
        else:
            options += ["--local"] + (["--config", args.config] if args.config else [])
        emulator = os.environ.get("INFERD_EMULATOR", "").split()
        r = subprocess.run([*emulator, args.inferctl, "verify", *options, *[os.path.join(under, path) for path in args.paths]],
                           stdout=subprocess.PIPE, text=True, check=False)
    print(r.stdout, end="")
    absent = [line for line in r.stdout.splitlines() if line.startswith("skip") and args.skip_where and args.skip_where in line]
    if absent:
        print("skipped: " + absent[0])
        sys.exit(77)
    total = re.fullmatch(r"(\d+) passed, (\d+) failed, (\d+) skipped", r.stdout.rstrip("\n").split("\n")[-1])
    if not total:
        sys.exit(f"no sum; exit status {r.returncode}")
    passed, failed = int(total[1]), int(total[2])
    if (r.returncode != 0) != (failed > 0):
        sys.exit(f"{failed} failed, and the exit status is {r.returncode}")
    if daemon and daemon.returncode != 0:
        sys.exit(f"inferd ended with {daemon.returncode}")
    if failed:
        sys.exit(1)
    if passed < args.at_least:
        sys.exit(f"{passed} passed, and at least {args.at_least} should")


if __name__ == "__main__":
    main()
