# SPDX-License-Identifier: BSD-3-Clause
"""Make the Python environment for exporting, once, in the user's cache folder.

Its folder is ${XDG_CACHE_HOME:-~/.cache}/inferd/export-KEY. KEY is a digest of requirements.txt and of Python's version,
so a changed list makes a new environment. requirements.txt names every package with all dependencies, and pip installs
exactly this list. An environment is complete when it has the file `complete`; an incomplete one is made again. A lock
lets other processes wait for the one that makes it.

Inside tools/debian13 the cache folder is in the root, so the environment is deleted with the root.
"""

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

here = Path(__file__).resolve().parent
REQUIREMENTS = here / "requirements.txt"
ROOM_MB = 9000  # what it takes while it is made


def packages(text):
    """The lines of a requirements file that name something, without comments."""
    lines = (line.split("#")[0].strip() for line in text.splitlines())
    return [line for line in lines if line]


def key(text, version=sys.version_info[:2]):
    return hashlib.sha256("\n".join(packages(text) + [str(tuple(version))]).encode()).hexdigest()[:16]


def cache():
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "inferd"


def folder():
    return cache() / ("export-" + key(REQUIREMENTS.read_text()))


def ready():
    """The environment's Python, after making the environment if it has to be."""
    env = folder()
    cache().mkdir(parents=True, exist_ok=True)
    with open(cache() / "export.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (env / "complete").exists():
            make(env)
    return env / "bin/python"


def make(env):
    if platform.machine() != "x86_64":
        sys.exit("export: some of the packages exist for x86-64 only: export on such a machine")
    shutil.rmtree(env, ignore_errors=True)
    free = shutil.disk_usage(cache()).free // 1_000_000
    if free < ROOM_MB:
        sys.exit(f"export: {cache()} has {free} MB free; the environment takes {ROOM_MB}")
    print(f"export: installing {len(packages(REQUIREMENTS.read_text()))} packages in {env} (once; some minutes)",
          file=sys.stderr, flush=True)
    log = env.with_suffix(".log")
    with open(log, "w") as out:
        for command in ([sys.executable, "-m", "venv", env],
                        [env / "bin/pip", "install", "--no-deps", "--no-cache-dir", "--no-compile", "-r", REQUIREMENTS]):
            if subprocess.run(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL).returncode != 0:
                sys.stderr.write("".join(log.read_text(errors="replace").splitlines(True)[-10:]))
                sys.exit(f"export: the packages could not be installed; the whole log is {log}")
    log.unlink()
    (env / "complete").touch()


def clean():
    """Delete what other lists of requirements have left."""
    for env in sorted(cache().glob("export-????????????????")):
        if env != folder():
            print(f"export: deleting {env}")
            shutil.rmtree(env)
