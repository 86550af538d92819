#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Test inferd's packages in a booted Debian 13: tools/debian13 --boot test_boot.py FOLDER

FOLDER has the packages, and in upgrade/ the same ones with a higher version and another inferd.conf. A case builds on
those before it.
"""

import json
import os
import pwd
import re
import shutil
import subprocess
import sys
import time

from machine import (CONFIG, EXTRA, MODEL, MODEL_FILE, PACKAGES, PATIENCE_S, TOP, Journal, Wrong, add_model, apt, call, check,
                     limit_of_connections, package_files, read, run, show, write)

BUNDLED = os.path.join(TOP, "tests/models/small/gelu_xnnpack.bpte")
CORPUS, VULKAN = os.path.join(TOP, "tests/conformance/corpus.tar.zst"), "vulkan/abs_shapes.bpte"
EXPOSURE_TENTHS = 15
CLIENTS = ["python3-inferd", "inferd-http", "gstreamer1.0-inferd"]  # each has a test in debian/tests
CHANGE = "# changed by the administrator\n"
N_KILLS = 6  # systemd gives up after five starts in ten seconds, unless the unit says otherwise

found_before = set()  # what has a name of inferd's in the root already: checkouts that it was used for leave their mount points


def traces():
    return set(call("find", "/", "-xdev", "(", "-path", os.path.dirname(TOP), "-o", "-path", "/tmp", ")", "-prune", "-o",
                    "-iname", "*inferd*", "-print", "-o", "-iname", "inferctl*", "-print").split())


# --- the cases, in order --------------------------------------------------------------------------------------------------


def installs(folder):
    found_before.update(traces())
    apt("install", *package_files(folder, PACKAGES))
    check(pwd.getpwnam("inferd").pw_uid, "there is no user inferd")
    for unit in ("inferd.socket", "inferd-manager.socket", "inferd.service"):
        check(show("ActiveState", unit) == "active" and show("UnitFileState", unit) == "enabled", f"{unit} is not active and enabled")
    check(os.stat("/run/inferd/inferd-manager.sock").st_mode & 0o777 == 0o660, "everybody may use the manager socket")
    call("inferd", "--check")


def starts_for_an_ordinary_user(_):
    call("systemctl", "stop", "inferd.service")
    check(show("ActiveState") == "inactive", "the service did not stop")
    call("useradd", "--create-home", "app")
    add_model()
    check(MODEL in call("inferctl", "models", user="app"), "the model is not listed")
    check(show("ActiveState") == "active", "a connection did not start the service")


def is_ready_when_systemctl_returns(_):
    call("systemctl", "restart", "inferd.service")
    check(show("SubState") == "running" and show("NotifyAccess") == "main", "the service does not run")
    check(show("StatusText"), "the daemon tells no status")
    check(show("ExecMainPID") == show("MainPID") != "0", "there is no main process")


def computes_exactly_in_the_sandbox(_):
    """XNNPACK's kernels, the cache, and the copies of models work under MemoryDenyWriteExecute and without devices."""
    write("/tmp/zeros.raw", "\0" * (4 * 3 * 224 * 224))
    os.chmod("/tmp/zeros.raw", 0o644)
    call("inferctl", "infer", MODEL, "-i", "/tmp/zeros.raw", "-o", "/tmp/served.npy")
    call("inferctl", "infer", "--local", MODEL_FILE, "-i", "/tmp/zeros.raw", "-o", "/tmp/local.npy")
    call("cmp", "/tmp/served.npy", "/tmp/local.npy")
    call("inferctl", "bench", MODEL, "-n", "20", "-c", "2", user="app")
    # Memory that everybody may pass to the daemon, and a program of the user's own in a process of the user's.
    check("1 passed, 0 failed, 0 skipped" in call("inferctl", "verify", BUNDLED, user="app"), "a user's own program does not run")
    # The process says when it cannot lower its priority.
    check("usual priority" not in call("journalctl", "-u", "inferd.service"), "a user's own program is made at the usual priority")
    # A tool that is killed for a denied call would be in the journal.
    check("SIGSYS" not in call("journalctl", "-u", "inferd.service"), "a system call killed the daemon")


def restarts_after_the_watchdog(_):
    write("/run/systemd/system/inferd.service.d/test.conf", "[Service]\nWatchdogSec=3s\n")
    call("systemctl", "daemon-reload")
    call("systemctl", "restart", "inferd.service")
    before = show("MainPID")
    journal = Journal()
    try:
        os.kill(int(before), 19)  # SIGSTOP: nobody feeds the watchdog
        journal.wait_for("Watchdog timeout")
        journal.wait_for("Started inferd.service")
    finally:
        journal.close()
    check(show("NRestarts") == "1" and show("MainPID") != before, "the service was not restarted")
    check(MODEL in call("inferctl", "models", user="app"), "the service does not answer afterwards")
    os.unlink("/run/systemd/system/inferd.service.d/test.conf")
    call("systemctl", "daemon-reload")
    call("systemctl", "restart", "inferd.service")


def restarts_however_often_it_is_killed(_):
    journal = Journal()
    try:
        for _ in range(N_KILLS):
            os.kill(int(show("MainPID")), 9)
            journal.wait_for("Started inferd.service")
    finally:
        journal.close()
    check(show("NRestarts") == str(N_KILLS), f"{show('NRestarts')} restarts after {N_KILLS} kills")
    check(MODEL in call("inferctl", "models", user="app"), "the service does not answer afterwards")
    call("systemctl", "restart", "inferd.service")


def waits_until_a_fault_is_mended(_):
    """A daemon that fails at each start takes neither its sockets nor the clients that wait with it."""
    call("systemctl", "stop", "inferd.service")
    write(EXTRA, "[limits]\nconnections = many\n")
    journal = Journal()
    with subprocess.Popen(["runuser", "-u", "app", "--", "inferctl", "models"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True) as client:
        try:
            for _ in range(N_KILLS):
                journal.wait_for("Failed with result 'exit-code'")
            check(client.poll() is None, "a client did not wait")
            os.unlink(EXTRA)
            said, _ = client.communicate(timeout=PATIENCE_S)
        finally:
            client.kill()
            journal.close()
    check(client.returncode == 0 and MODEL in said, f"a client that waited was told: {said}")
    for unit in ("inferd.socket", "inferd-manager.socket"):
        check(show("ActiveState", unit) == "active", f"{unit} is {show('ActiveState', unit)}")
    check(MODEL in call("inferctl", "models", user="app"), "the service does not answer afterwards")


def wait_for_status(is_it, what):
    """Until the daemon tells systemd a status of which @is_it is true; it tells one each second."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_it(status := show("StatusText")):
        if time.monotonic() > deadline:
            raise Wrong(f"{what}: {status}")


def reloads(_):
    before = show("MainPID")
    write(EXTRA, "[limits]\nconnections = 77\n")
    call("systemctl", "reload", "inferd.service")
    check(limit_of_connections() == 77, f"the limit is {limit_of_connections()}, not 77")
    check(show("MainPID") == before, "the reload started another process")


def refuses_a_faulty_reload(_):
    before = show("MainPID")
    write(EXTRA, "[limits]\nconnections = many\n")
    said = call("systemctl", "reload", "inferd.service", expect=None)
    check("failed" in said.lower(), f"systemctl says: {said}")
    check(EXTRA in call("inferd", "--check", expect=1), "--check does not name the file")
    check(show("ActiveState") == "active" and show("MainPID") == before, "the service did not go on")
    check(limit_of_connections() == 77, "the former limit does not hold any more")
    # The status of later has both.
    wait_for_status(lambda s: "faulty" in s and EXTRA in s and "requests answered" in s, "the status does not name the fault")
    write(EXTRA, "[limits]\nconnections = 78\n")
    call("systemctl", "reload", "inferd.service")
    wait_for_status(lambda s: "faulty" not in s and "requests answered" in s, "the status still names a fault that is mended")
    check(limit_of_connections() == 78, "the limit is not the new one")


def refuses_users_outside_the_group(_):
    call("useradd", "--groups", "inferd", "keeper")
    said = call("inferctl", "load", MODEL, user="app", expect=1)
    check("ermission denied" in said or "manager" in said, f"the reason is missing: {said}")
    call("inferctl", "load", MODEL, user="keeper")


def is_sandboxed(_):
    """What a process sees in a copy of the unit that runs a probe instead of the daemon."""
    unit = read("/usr/lib/systemd/system/inferd.service")
    unit = re.sub(r"(?m)^(Requires|Wants|After|ExecReload|WatchdogSec|Restart|Also|WantedBy)=.*\n", "", unit)
    unit = re.sub(r"(?m)^Type=.*", "Type=oneshot\nStandardOutput=truncate:/run/probe.json", unit)
    # The real path, because ProtectHome may hide the checkout.
    call("install", "-m644", os.path.join(TOP, "tests/boot/probe.py"), "/usr/share/probe.py")
    unit, n = re.subn(r"(?m)^ExecStart=.*", "ExecStart=/usr/bin/python3 -B /usr/share/probe.py", unit)
    check(n == 1, "the unit has no ExecStart=")
    write("/run/systemd/system/probe.service", unit)
    call("systemctl", "daemon-reload")
    call("systemctl", "start", "probe.service")
    seen = json.loads(read("/run/probe.json"))
    refused = ("EACCES", "EPERM", "EROFS")
    wrong = [what for what in ("home", "shadow", "executable memory", "write /usr", "write models")
             if seen[what] not in refused]
    check(not wrong, f"not refused: {wrong} of {seen}")
    check(seen["network"] == "EAFNOSUPPORT", f"a socket of the network: {seen['network']}")
    check(seen["no new privileges"] == "1" and int(seen["capabilities"], 16) == 0 and seen["user"] != 0, f"privileges: {seen}")
    check(set(seen["devices"]) <= {"null", "zero", "full", "random", "urandom", "tty"}, f"devices: {seen['devices']}")
    # No namespace is allowed. A container that was started in a chroot, as here, could make none in any case.
    check(show("RestrictNamespaces") == "yes", f"namespaces: {show('RestrictNamespaces')}")
    denied = {what: seen[what] for what in ("low priority", "pages present") if seen[what] != "done"}
    check(not denied, f"the daemon or a program's process needs these: {denied}")
    check(seen["write cache"] == "done", "the cache is not writable, so this probe proves nothing")


def is_not_exposed(_):
    call("systemd-analyze", "security", "--no-pager", f"--threshold={EXPOSURE_TENTHS}", "inferd.service")


def openvino_brings_its_drop_in(folder):
    check(show("MemoryDenyWriteExecute") == "yes", "the base unit allows writable code")
    before = show("MainPID")
    apt("install", *package_files(folder, ["inferd-openvino"]))
    check(show("MemoryDenyWriteExecute") == "no" and show("MainPID") != before, "the service does not run with the drop-in")
    check("openvino" in call("inferctl", "status"), "the daemon does not know the backend")
    apt("purge", "inferd-openvino")
    check(show("MemoryDenyWriteExecute") == "yes" and show("ActiveState") == "active", "the drop-in stays")


def opencl_runs_in_the_sandbox(folder):
    """With PoCL, whose linker only the process that compiles may start; in the service's own sandbox."""
    apt("install", *package_files(folder, ["inferd-opencl"]))
    check(show("MemoryDenyWriteExecute") == "no", "the service does not run with the drop-in")
    check("opencl" in call("inferctl", "status"), "the daemon does not know the backend")
    write(EXTRA, "[backend opencl]\ndevices = cpu\nbuild_tools = yes\n")
    call("systemctl", "restart", "inferd.service")
    call("tar", "--zstd", "-xf", CORPUS, "-C", "/tmp", VULKAN)
    call("inferctl", "import", os.path.join("/tmp", VULKAN), "--name", "vulkan")
    check("gpu0: " in call("inferctl", "status"), "the device is not shown")
    call("inferctl", "bench", "vulkan", "-n", "5", user="app")
    check("opencl" in call("inferctl", "models"), "another backend serves the program")
    os.unlink(EXTRA)
    shutil.rmtree("/var/lib/inferd/models/vulkan")
    apt("purge", "inferd-opencl")
    check(show("MemoryDenyWriteExecute") == "yes" and show("ActiveState") == "active", "the drop-in stays")


def passes_autopkgtest(folder):
    """debian/tests: a stranger's programs, with libinferd-dev or one package of clients alone, as an ordinary user."""
    for part in ("debian", "clients/examples", "tests/models/small"):
        shutil.copytree(os.path.join(TOP, part), os.path.join("/tmp/tree", part))
    if os.path.exists("/etc/apt/sources.list"):
        os.unlink("/etc/apt/sources.list")  # there is no network
    # The whole container is for this test, which autopkgtest cannot know.
    packages = package_files(folder, PACKAGES + CLIENTS)
    call("autopkgtest", "--ignore-restrictions=isolation-container", "-B", *packages, "/tmp/tree/", "--", "null")
    apt("purge", *CLIENTS)


def reinstalls_and_keeps_a_changed_file(folder):
    with open(CONFIG, "a", encoding="utf-8") as f:
        f.write(CHANGE)
    apt("install", "--reinstall", *package_files(folder, PACKAGES))
    check(read(CONFIG).endswith(CHANGE), "the changed file was replaced")


def upgrades_and_restarts(folder):
    before, socket = show("MainPID"), show("InvocationID", "inferd.socket")
    apt("install", *package_files(os.path.join(folder, "upgrade"), PACKAGES))
    check(show("MainPID") not in (before, "0"), "the service was not restarted")
    check(show("InvocationID", "inferd.socket") == socket, "the socket was restarted: clients would fail meanwhile")
    call("inferctl", "bench", MODEL, "-n", "5", user="app")
    check(read(CONFIG).endswith(CHANGE), "the changed file was replaced")
    check(os.path.exists(CONFIG + ".dpkg-dist"), "the upgrade has the same inferd.conf, so there was nothing to keep")


def stops_for_good(_):
    call("systemctl", "disable", "--now", "inferd.socket", "inferd-manager.socket", "inferd.service")
    call("inferctl", "models", user="app", expect=1)
    check(show("ActiveState") == "inactive", "a client started the service again")


def purge_leaves_nothing(_):
    apt("purge", *PACKAGES)
    call("systemctl", "daemon-reload")
    left = traces() - found_before
    check(not left, f"left behind: {sorted(left)}")
    check("inferd" not in [u.pw_name for u in pwd.getpwall()], "the user stays")
    check("inferd" not in call("getent", "group"), "the group stays")
    units = call("systemctl", "list-units", "--all", "--plain", "--no-legend", "inferd*").split()
    check(not units, f"units: {units}")
    check(not os.path.exists("/run/inferd"), "/run/inferd stays")


CASES = [installs, starts_for_an_ordinary_user, is_ready_when_systemctl_returns, computes_exactly_in_the_sandbox,
         restarts_after_the_watchdog, restarts_however_often_it_is_killed, waits_until_a_fault_is_mended, reloads,
         refuses_a_faulty_reload, refuses_users_outside_the_group, is_sandboxed, is_not_exposed, openvino_brings_its_drop_in,
         opencl_runs_in_the_sandbox, passes_autopkgtest, reinstalls_and_keeps_a_changed_file, upgrades_and_restarts, stops_for_good, purge_leaves_nothing]


def forget_settings():
    if os.path.exists(EXTRA):  # of a case that failed: it would disturb the next
        os.unlink(EXTRA)


if __name__ == "__main__":
    sys.exit(run(CASES, forget_settings, sys.argv[1]))
