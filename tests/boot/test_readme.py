#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Test README.md's section Install on a booted Debian 13: tools/debian13 --boot test_readme.py FOLDER

FOLDER is as for test_boot.py, and in checkout/ are the results of the commands for the builder, which boot.sh ran. This
machine is the gateway. The commands are those of the README, as they are written; scp and ssh are scripts that copy and
run here. The last case fails for a command or a file of the README that no case knows."""

import glob
import json
import os
import re
import shutil
import sys

import readme
from machine import (CONFIG, EXTRA, MODEL, MODEL_FILE, PACKAGES, TOP, Wrong, add_model, call, check, limit_of_connections,
                     package_files, read, run, show, write)

TOOLS = {"scp": "for to; do :; done\nwhile [ $# -gt 1 ]; do cp \"$1\" \"${to#*:}\"; shift; done\n",
         "ssh": "shift\nexec sh -c \"$*\"\n"}
UNITS = ("inferd.socket", "inferd-manager.socket", "inferd.service")
HTTP_UNITS = ("inferd-http.socket", "inferd-http.service")
# What the README names in its text, and what shows that it is right.
NAMES = {
    "import", "rollback", "inferd.conf", "inferd.conf.d", "stage",  # short for what stands beside them
    "dpkg-buildpackage", "-aarm64 -d",  # readme.arm64
    "meson install", "ninja uninstall",  # over an edited file: tests/install
}
BASE = {"libc6", "libgcc-s1", "libsystemd0", "zlib1g"}  # on each Debian with systemd

known = set()


def sh(command, cwd="/root", **names):
    """Run a command of the README; each word that is a key of @names is replaced."""
    known.add(command)
    for name, value in names.items():
        command = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", value, command)
    return call("bash", "-euo", "pipefail", "-c", command, cwd=cwd,
                env={"PATH": "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"})


def status():
    return [(os.stat(path).st_uid, os.stat(path).st_gid, os.stat(path).st_mode) for path in ("/", "/usr", "/usr/bin", "/etc")]


def are_active(units=UNITS):
    return all(show("ActiveState", unit) == "active" for unit in units)


# --- packages --------------------------------------------------------------------------------------------------------------


def packages_are_copied_and_installed(folder):
    for name, text in TOOLS.items():
        write(f"/usr/local/bin/{name}", "#!/bin/sh\nset -e\n" + text)
        os.chmod(f"/usr/local/bin/{name}", 0o755)
    build, install = readme.blocks()[:2]
    known.update(readme.builder())
    for command in build:
        if command not in known:
            sh(command, os.path.join(folder, "checkout"))
    for command in install:
        sh(command)
    check(are_active(UNITS + HTTP_UNITS), "the services and their sockets are not active")


def all_packages_are_listed(folder):
    listed = {name for cell in readme.table("package") for name in readme.spans(cell)}
    built = {os.path.basename(p).split("_")[0] for p in glob.glob(os.path.join(folder, "checkout/build-packages/*.deb"))}
    check(listed == {name for name in built if not name.endswith("-dbgsym")}, f"the README lists {listed}; there are {built}")
    known.update(listed)


def upgrade(commands, folder):
    before = show("MainPID")
    for path in glob.glob("/tmp/*.deb"):
        os.unlink(path)
    for path in package_files(os.path.join(folder, "upgrade"), PACKAGES + ["inferd-http"]):
        shutil.copy(path, "/tmp")
    known.update(commands)
    check(commands == ["apt install"], f"how are newer packages installed: {commands}?")
    for command in readme.blocks()[1]:
        sh(command)
    check(call("dpkg-query", "-W", "-f", "${Version}", "inferd").endswith("+1"), "the version is not the newer one")
    check(show("MainPID") not in (before, "0") and are_active(), "the service did not restart")
    check(read(CONFIG) == read("/usr/share/inferd/inferd.conf"), "an unchanged inferd.conf is not the newer one")


def manage(commands, _):
    add_model()
    call("useradd", "--create-home", "app")
    call("inferctl", "load", MODEL, user="app", expect=1)
    for command in commands:
        if command.startswith("usermod "):
            sh(command, USER="app")
    call("inferctl", "load", MODEL, user="app")
    said = call("inferctl", "import", MODEL_FILE, "--name", "other", user="app", expect=1)
    check("/var/lib/inferd/models" in said, f"import without write access says: {said}")


def change(commands, _):
    write(EXTRA, "[limits]\nconnections = 77\n")
    for command in commands:
        if not command.startswith("/"):
            sh(command)
    check(limit_of_connections() == 77, "the setting is not used")


def update(commands, _):
    shutil.copy(MODEL_FILE, "/root/new.pte")
    for command in commands:
        sh(command, NAME=MODEL)
    check(os.listdir(f"/var/lib/inferd/models/{MODEL}/2"), "there is no version 2")
    check(serving() == "2", f"version {serving()} serves")


def serving():
    return next(m["version"] for m in json.loads(call("inferctl", "--json", "versions", MODEL))["models"] if m["serves"])


def go_back(commands, _):
    for command in commands:
        sh(command, NAME=MODEL)
    check(serving() == "1", f"version {serving()} serves")


def stop(commands, _):
    for command in commands:
        sh(command)
    call("inferctl", "models", expect=1)
    check(not any(show("ActiveState", unit) == "active" for unit in UNITS + HTTP_UNITS), "a client started the service again")


def uninstall(commands, _):
    removed, *purged = [c for c in commands if c.startswith("apt ")]
    sh(removed)
    check(not os.path.exists("/usr/sbin/inferd") and os.path.exists(CONFIG) and os.path.exists(f"/var/lib/inferd/models/{MODEL}"),
          "remove deletes too much or too little")
    for command in purged:
        sh(command)
    check(not any(os.path.exists(path) for path in (CONFIG, "/var/lib/inferd", "/var/cache/inferd")), "purge leaves something")
    check(not re.search(r"(?m)^inferd:", read("/etc/passwd")), "the user stays")
    check(os.path.exists(EXTRA), "purge deleted a file that the administrator had added")


ROWS = {"upgrade": upgrade, "let a user manage models": manage, "change settings": change, "update a model": update,
        "go back to the version before": go_back, "stop it for good": stop, "uninstall": uninstall}


def packages_are_managed(folder):
    """The table of what to do, from its first row to its last."""
    rows = readme.table("to")
    check(list(rows) == list(ROWS), f"the README's table has other rows: {list(rows)}")
    for title, text in rows.items():
        names = readme.spans(text)
        # Before the row is done: the last one deletes them.
        known.update(name for name in names if name.startswith("/") and os.path.exists(name))
        try:
            ROWS[title]([name for name in names if name not in NAMES], folder)
        except Wrong as e:
            raise Wrong(f"{title}: {e}") from e
    shutil.rmtree("/etc/inferd")
    call("apt-get", "-qq", "purge", "inferctl", "inferd-http", "libinferd0")
    check("inferd-http" not in read("/etc/passwd"), "the user of inferd-http stays")


# --- without packages --------------------------------------------------------------------------------------------------------


def a_stage_is_copied_and_started(folder):
    before = status()
    _, _, stage, start, _ = readme.blocks()
    for command in stage:
        if command not in known:
            sh(command, os.path.join(folder, "checkout"))
    check(status() == before, f"folders of the gateway have other owners or modes: {before}, now {status()}")
    check(os.stat("/usr/sbin/inferd").st_uid == 0, "the daemon belongs to a user of the builder")
    for command in start:
        sh(command)
    check(are_active(), "the service and its sockets are not active")
    add_model()
    call("inferctl", "bench", MODEL, "-n", "5", user="app")


def a_stage_has_its_libraries(folder):
    """The packages that the README names are those of the libraries that the programs need."""
    named = set(next(c for c in readme.blocks()[3] if c.startswith("apt install ")).split()[2:])
    needed = set()
    for path in staged(folder):
        with open("/" + path, "rb") as f:
            if f.read(4) == b"\x7fELF":
                needed.update(re.findall(r"NEEDED.*\[(.*)\]", call("readelf", "-d", "/" + path)))
    folders = glob.glob("/usr/lib/*-linux-gnu")
    found = {name: [p for p in (os.path.join(d, name) for d in folders) if os.path.exists(p)] for name in needed}
    packages = {call("dpkg", "-S", os.path.realpath(paths[0])).split(":")[0] for name, paths in found.items()
                if paths and not name.startswith("libinferd")}
    check(packages - BASE == named, f"the programs need {packages - BASE}; the README names {named}")


def staged(folder):
    stage = os.path.join(folder, "checkout/stage")
    return [os.path.relpath(os.path.join(d, n), stage) for d, _, names in os.walk(stage) for n in names]


def a_stage_is_upgraded(folder):
    with open(CONFIG, "a", encoding="utf-8") as f:
        f.write("# edited\n")
    before = show("MainPID")
    names = readme.spans(readme.section())
    option = next(n for n in names if n.startswith("tar "))
    copy = next(c for c in readme.blocks()[2] if c.startswith("tar "))
    known.add(option)
    sh(copy.replace("tar ", option + " ", 1), os.path.join(folder, "checkout"))
    for command in names:
        if command.startswith("systemctl daemon-reload"):
            sh(command)
    check(show("MainPID") not in (before, "0") and are_active(), "the service did not restart")
    check(read(CONFIG).endswith("# edited\n"), "an edited inferd.conf was replaced")


def a_stage_gets_the_plug_in(_):
    names = readme.spans(readme.section())
    libdir = os.path.dirname(os.path.dirname(glob.glob("/usr/lib/*-linux-gnu/inferd/openvino.so")[0]))
    place = "@libdir@"
    for source, target in (("debian/openvino.conf.in", "/etc/inferd/inferd.conf.d/openvino.conf"),
                           ("systemd/openvino.conf", "/etc/systemd/system/inferd.service.d/openvino.conf")):
        check(source in names and target in names, f"the README says no more that {source} goes to {target}")
        write(target, read(os.path.join(TOP, source)).replace(place, libdir))
        known.update((source, target, place))
    call("groupadd", "--force", "render")
    call("systemctl", "daemon-reload")
    call("systemctl", "restart", "inferd.service")
    check(show("MemoryDenyWriteExecute") == "no", "the drop-in has no effect")
    check("openvino" in call("inferctl", "status"), "the daemon does not know the backend")


def a_stage_is_uninstalled(folder):
    for command in readme.blocks()[4]:
        sh(command, os.path.join(folder, "checkout"))
    left = [path for path in staged(folder) if os.path.lexists("/" + path)]
    check(not left, f"left behind: {left}")
    check(not any(show("ActiveState", unit) == "active" for unit in UNITS + HTTP_UNITS), "the service runs on")
    for path in ("/var/lib/inferd", "/var/cache/inferd", "/etc/passwd"):
        check(os.path.exists(path), f"{path} is gone")
        known.add(path)


def everything_was_tried(_):
    commands = [c for block in readme.blocks() for c in block] + readme.spans(readme.section())
    left = [c for c in commands if c not in known | NAMES]
    check(not left, f"no case tried: {left}")


if __name__ == "__main__":
    sys.exit(run([packages_are_copied_and_installed, all_packages_are_listed, packages_are_managed, a_stage_is_copied_and_started,
                  a_stage_has_its_libraries, a_stage_is_upgraded, a_stage_gets_the_plug_in, a_stage_is_uninstalled,
                  everything_was_tried], lambda: None, sys.argv[1]))
