#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Test on a booted Debian 13 that applications do not notice restarts: tools/debian13 --boot test_restarts.py FOLDER

FOLDER is as for test_boot.py. Eight clients of an ordinary user (clients.c) send requests while the service is restarted,
killed and upgraded. No request may fail, and every answer must be exact. The longest pauses are printed beside the time
from the service's stop to READY, as the journal has it; they decide nothing. The environment variables
INFERD_BOOT_RESTARTS and INFERD_BOOT_KILLS say how often."""

import os
import random
import subprocess
import sys

from machine import (EXTRA, MODEL, MODEL_FILE, PACKAGES, PATIENCE_S, TOP, Journal, Wrong, add_model, apt, call, check,
                     package_files, run, show, write)

N_RESTARTS = int(os.environ.get("INFERD_BOOT_RESTARTS", "20"))
N_KILLS = int(os.environ.get("INFERD_BOOT_KILLS", "5"))
N_CLIENTS = 8  # as in clients.c
N_INPUT_BYTES = 4 * 3 * 224 * 224
N_OUTPUT_BYTES = 4 * 1000
FOLDER = "/var/tmp/restarts"  # that an ordinary user may read

# systemd.journal-fields(7): the identifiers of what the manager says of a unit.
STOPPING = "de5b426a63be47a7b6ac3eaac82e2f6f"
PROCESS_EXITED = "98e322203f7a4ed290d09fe03c09fe15"
STARTED = "39f53479d3a045ac8e11786248231fbf"


def installs(folder):
    apt("install", *package_files(folder, PACKAGES))
    call("useradd", "--create-home", "app")
    add_model()
    write(EXTRA, f"[model {MODEL}]\npin = yes\nwarm_up = 2\n")  # READY with the model
    call("systemctl", "restart", "inferd.service")


def make_clients():
    """The program, and an input for each client with the output that it must get, computed without the daemon."""
    os.makedirs(FOLDER)
    flags = call("pkg-config", "--cflags", "--libs", "inferd").split()
    call("gcc", "-O2", "-Wall", "-Werror", "-pthread", "-o", f"{FOLDER}/clients", os.path.join(TOP, "tests/boot/clients.c"), *flags)
    numbers = random.Random(1)
    inputs, outputs = b"", b""
    for i in range(N_CLIENTS):
        one = b"".join(numbers.choice((b"\x00\x00\x80\x3f", b"\x00\x00\x80\xbf", b"\0\0\0\0")) for _ in range(N_INPUT_BYTES // 4))
        with open(f"{FOLDER}/one.raw", "wb") as f:
            f.write(one)
        call("inferctl", "infer", "--local", MODEL_FILE, "-i", f"{FOLDER}/one.raw", "-o", f"{FOLDER}/one.npy")
        with open(f"{FOLDER}/one.npy", "rb") as f:
            outputs += f.read()[-N_OUTPUT_BYTES:]  # behind the header
        inputs += one
    check(len({outputs[i * N_OUTPUT_BYTES:(i + 1) * N_OUTPUT_BYTES] for i in range(N_CLIENTS)}) == N_CLIENTS,
          "two clients have the same answer, so a mistaken one would not be seen")
    for name, data in (("inputs", inputs), ("outputs", outputs)):
        with open(f"{FOLDER}/{name}", "wb") as f:
            f.write(data)


def restart(_):
    call("systemctl", "restart", "inferd.service")


def kill(journal):
    os.kill(int(show("MainPID")), 9)
    journal.wait_for("Started inferd.service")


def stop_to_ready(journal):
    """How long the service was away each time, in ms."""
    away, since = [], None
    for entry in journal.entries():
        what, at = entry.get("MESSAGE_ID"), int(entry["__MONOTONIC_TIMESTAMP"]) / 1e3
        if what in (STOPPING, PROCESS_EXITED) and since is None:
            since = at
        if what == STARTED and since is not None:
            away.append(at - since)
            since = None
    return away


class Clients:
    """The program as the ordinary user."""

    def __init__(self):
        self.process = subprocess.Popen(["runuser", "-u", "app", "--", f"{FOLDER}/clients", MODEL, f"{FOLDER}/inputs",
                                         f"{FOLDER}/outputs"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)

    def fail(self):
        _, why = self.process.communicate(timeout=PATIENCE_S)
        raise Wrong(why.strip() or f"the clients ended with {self.process.returncode}")

    def longest_ms(self):
        """Wait until all have been served from now on; their longest request since the last time."""
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            self.fail()
        line = self.process.stdout.readline()
        return float(line) if line else self.fail()

    def end(self):
        """How many requests they sent, and their median in ms."""
        said, why = self.process.communicate(timeout=PATIENCE_S)
        check(self.process.returncode == 0, why)
        n, median_ms = said.split()
        return int(n), float(median_ms)


def disturb(clients, what, n, act):
    """@act @n times under load. What, and for each time the longest pause and how long the service was away, in ms."""
    journal = Journal()
    try:
        clients.longest_ms()
        pauses = []
        for _ in range(n):
            act(journal)
            pauses.append(clients.longest_ms())
        away = stop_to_ready(journal)
    finally:
        journal.close()
    check(len(away) == n, f"the journal has {len(away)} restarts, not {n}")
    return what, list(zip(pauses, away))


def goes_on_under_load(folder):
    make_clients()
    clients = Clients()

    def upgrade(_):
        apt("install", *package_files(os.path.join(folder, "upgrade"), PACKAGES))

    try:
        rows = [disturb(clients, "restarts", N_RESTARTS, restart), disturb(clients, "kills", N_KILLS, kill),
                disturb(clients, "upgrades", 1, upgrade)]
        n_requests, median_ms = clients.end()
    finally:
        clients.process.kill()
        clients.process.wait()
    for what, times in rows:
        print(f"    {len(times)} {what}: longest pause {max(t[0] for t in times):.0f} ms, longest stop to READY "
              f"{max(t[1] for t in times):.0f} ms; pause less one request ÷ stop to READY: at most "
              f"{max((pause - median_ms) / away for pause, away in times):.2f} ×")
    print(f"    {n_requests} requests of {N_CLIENTS} clients, each exact; one takes {median_ms:.1f} ms")
    check(n_requests >= N_CLIENTS * (N_RESTARTS + N_KILLS + 1), "that was no load")


if __name__ == "__main__":
    sys.exit(run([installs, goes_on_under_load], lambda: None, sys.argv[1]))
