#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Run the corpus of one-operator programs through `inferctl verify --local`, and account for every file.

    corpus.py INFERCTL ARCHIVE BEYOND KNOWN [--absent BACKEND]... [--at-least N]

Each file must pass, or be skipped because all missing operators are listed in BEYOND or its backend is an --absent one,
or fail with the words that KNOWN lists for it. Any other result is a failure. A file of KNOWN that passes or does not
exist is a failure, too, so the lists can only become shorter.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

# What stands in the suite from which the quantized ones come.
COARSE = ["--atol", "0.1", "--rtol", "0.04"]


def options_of(path):
    return COARSE if path.startswith("xnnpack_q") else []


def read_list(path):
    """{first word: the rest}, one a line; # begins a comment."""
    rows = {}
    with open(path, encoding="utf-8") as f:
        for line in f:
            line = line.split("#", 1)[0].strip()
            if line:
                name, _, rest = line.partition(" ")
                if not rest.strip() or name in rows:
                    sys.exit(f"{path}: '{name}' has no reason, or two")
                rows[name] = rest.strip()
    return rows


def unpack(archive, folder):
    subprocess.run(["tar", "--zstd", "-xf", archive, "-C", folder], check=True)
    files = []
    for where, _, names in os.walk(folder):
        files += [os.path.relpath(os.path.join(where, name), folder) for name in names if name.endswith(".bpte")]
    return sorted(files)


def verify(inferctl, folder, files, options):
    """{file: (verdict, reason)} for what did not pass; how many passed."""
    r = subprocess.run([inferctl, "verify", "--local", *options, *files], cwd=folder, stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, text=True, check=False)
    lines = r.stdout.rstrip("\n").split("\n")
    total = re.fullmatch(r"(\d+) passed, (\d+) failed, (\d+) skipped", lines[-1])
    if not total:
        sys.exit(f"no sum at the end, but '{lines[-1]}'; exit status {r.returncode}")
    found = {}
    for line in lines:
        m = re.match(r"(FAIL|skip)  (\S+?\.bpte): (.*)", line)
        if m:
            found[m[2]] = (m[1], m[3])
    passed, failed, skipped = (int(n) for n in total.groups())
    if passed + failed + skipped != len(files) or failed + skipped != len(found):
        sys.exit(f"{len(files)} files were given and {len(found)} named, and the sum is '{lines[-1]}'")
    if (r.returncode != 0) != (failed > 0):
        sys.exit(f"{failed} failed, and the exit status is {r.returncode}")
    return found, passed


def excuse(reason, beyond, absent):
    """Why a file may be skipped, or None."""
    m = re.search(r"operators that are missing: (.*)", reason)
    if m:
        names = [name for name in re.split(r"[,\s]+", m[1]) if name]
        return "operators" if names and all(name in beyond for name in names) else None
    m = re.search(r"[Bb]ackend '?(\w+)", reason)
    return m[1] if m and m[1] in absent else None


def main():
    p = argparse.ArgumentParser()
    p.add_argument("inferctl")
    p.add_argument("archive")
    p.add_argument("beyond")
    p.add_argument("known")
    p.add_argument("--absent", action="append", default=[])
    p.add_argument("--at-least", type=int, default=1)
    args = p.parse_args()
    args.inferctl = os.path.abspath(args.inferctl)
    beyond, known = read_list(args.beyond), read_list(args.known)
    wrong, excused, n_known, passed = [], {}, 0, 0
    with tempfile.TemporaryDirectory(prefix="inferd-corpus-") as folder:
        files = unpack(args.archive, folder)
        wrong += [f"{name} stands in {args.known} and does not exist" for name in known if name not in files]
        for options in ([], COARSE):
            some = [name for name in files if options_of(name) == options]
            found, n = verify(args.inferctl, folder, some, options)
            passed += n
            for name in some:
                verdict, reason = found.get(name, ("pass", ""))
                if name in known:
                    if verdict == "FAIL" and known[name] in reason:
                        n_known += 1
                    else:
                        wrong.append(f"{name} should fail with '{known[name]}': {verdict} {reason}")
                elif verdict == "skip" and excuse(reason, beyond, args.absent):
                    why = excuse(reason, beyond, args.absent)
                    excused[why] = excused.get(why, 0) + 1
                elif verdict != "pass":
                    wrong.append(f"{verdict} {name}: {reason}")
    for line in wrong:
        print(line)
    for why, n in sorted(excused.items()):
        print(f"{n} left out: {'operators of the list' if why == 'operators' else why + ' is not there'}")
    print(f"{len(files)} files: {passed} passed, {n_known} refused as known, {len(wrong)} wrong")
    if passed < args.at_least:
        sys.exit(f"{passed} passed, and at least {args.at_least} should")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
