# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of the packages share: the booted machine, seen as root. They run in a container that is thrown away
afterwards, so nothing is undone."""

import glob
import json
import os
import re
import select
import subprocess
import sys
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL = "efficientnet_lite0"
MODEL_FILE = os.path.join(TOP, "tests/models/efficientnet_lite0_int8.pte")
CONFIG = "/etc/inferd/inferd.conf"
EXTRA = "/etc/inferd/inferd.conf.d/test.conf"
PACKAGES = ["inferd", "inferctl", "libinferd0", "libinferd-dev"]
PATIENCE_S = 60  # for an event that comes in a second; only a hang takes so long

# dpkg asks nothing and keeps changed configuration, whoever calls apt.
APT_CONF = 'APT::Get::Assume-Yes "true";\nDpkg::Options { "--force-confold"; };\nDpkg::Use-Pty "0";\n'


class Wrong(Exception):
    """What a case found."""


def call(*argv, user=None, expect=0, **options):
    """Run a command, as @user (None: root). Its output; Wrong unless its status is @expect (None: any but 0)."""
    argv = (["runuser", "-u", user, "--"] if user else []) + list(argv)
    env = dict(os.environ, DEBIAN_FRONTEND="noninteractive", LC_ALL="C.UTF-8", **options.pop("env", {}))
    options.setdefault("cwd", "/")
    r = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                       timeout=300, check=False, **options)
    if (r.returncode != expect) if expect is not None else r.returncode == 0:
        raise Wrong(f"`{' '.join(argv)}` ended with {r.returncode}:\n{r.stdout.strip()}")
    return r.stdout


def check(condition, what):
    if not condition:
        raise Wrong(what)


def show(name, unit="inferd.service"):
    return call("systemctl", "show", "--value", "--property", name, unit).strip()


def apt(*arguments):
    return call("apt-get", "-qq", "--no-install-recommends", "--allow-downgrades", *arguments)


def package_files(folder, names):
    return [glob.glob(os.path.join(folder, name + "_*.deb"))[0] for name in names]


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def add_model():
    call("install", "-D", "-m644", MODEL_FILE, f"/var/lib/inferd/models/{MODEL}/1/model.pte")


def limit_of_connections():
    users = json.loads(call("inferctl", "--json", "status"))["users"]
    return users[0]["limits"]["connections"]["limit"]


class Journal:
    """The journal of the service from now on."""

    def __init__(self):
        self.cursor = re.search(r"cursor: (.*)", call("journalctl", "-n1", "--show-cursor")).group(1)
        self.process = subprocess.Popen(["journalctl", "--follow", "-u", "inferd.service", "-o", "cat", "--after-cursor", self.cursor],
                                        stdout=subprocess.PIPE)
        self.text = ""

    def wait_for(self, pattern):
        """Until it says so, after what was waited for before."""
        deadline = time.monotonic() + PATIENCE_S
        while not (m := re.search(pattern, self.text)):
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                raise Wrong(f"the journal does not say '{pattern}':\n{self.text}")
            self.text += os.read(self.process.stdout.fileno(), 65536).decode()
        self.text = self.text[m.end():]

    def entries(self):
        """All since the beginning, each with its fields."""
        text = call("journalctl", "-u", "inferd.service", "-o", "json", "--after-cursor", self.cursor)
        return [json.loads(line) for line in text.splitlines()]

    def close(self):
        self.process.kill()
        self.process.wait()


def run(cases, before_each, *arguments):
    """Call each case with the arguments and print its line, `ok NAME` or `not ok NAME: WHY`. The exit status."""
    failed = 0
    write("/etc/apt/apt.conf.d/90test", APT_CONF)
    for case in cases:
        name = case.__name__.replace("_", " ")
        before_each()
        try:
            case(*arguments)
            print("ok", name, flush=True)
        except (Wrong, subprocess.TimeoutExpired, OSError, KeyError, LookupError, ValueError) as e:
            print(f"not ok {name}: {e or repr(e)}", flush=True)
            failed += 1
            if case is cases[0]:
                break
    if failed:
        print(call("journalctl", "-u", "inferd.service", "-n", "60", "--no-pager"))
    print(f"{os.path.basename(sys.argv[0])}: {len(cases)} cases, {failed} failed")
    return 1 if failed else 0
