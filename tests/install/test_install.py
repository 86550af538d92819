#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Test `meson install`: what is installed where, and that a client can be built against it.

    test_install.py BUILD-FOLDER CC

Installs into an empty folder, checks each file that users rely on and that no internal
header is installed, then compiles and links a client with nothing but the flags that
pkg-config has for the installed tree. A second installation and `ninja uninstall` must keep
an edited configuration.
"""

import glob
import os
import subprocess
import sys
import tempfile

# Patterns below the destination; each must be there.
WANTED = {
    "the daemon": "**/sbin/inferd",
    "the tool": "**/bin/inferctl",
    "the library": "**/libinferd.*",
    "the process of a plug-in": "**/inferd/inferd-delegate-host",
    "the process of a user's programs": "**/inferd/inferd-program-host",
    "the public header": "**/include/inferd.h",
    "the pkg-config file": "**/pkgconfig/inferd.pc",
    "the service": "**/systemd/system/inferd.service",
    "the socket": "**/systemd/system/inferd.socket",
    "the configuration": "**/etc/inferd/inferd.conf",
    "the documented configuration": "**/share/inferd/inferd.conf",
    "the administrators' socket": "**/systemd/system/inferd-manager.socket",
    "the user": "**/sysusers.d/inferd.conf",
    "the folders": "**/tmpfiles.d/inferd.conf",
    "the daemon's man page": "**/man8/inferd.8*",
    "the library's man page": "**/man3/libinferd.3*",
    "the configuration's man page": "**/man5/inferd.conf.5*",
    "the model description's man page": "**/man5/model.conf.5*",
    "the tool's man page": "**/man1/inferctl.1*",
    "the page of the plug-ins' tool": "**/man1/inferd-delegate-check.1*",
}
# Where they were built: without the headers of Python and of GStreamer they are not.
PYTHON = {"the Python package": "**/inferd/__init__.py", "its types": "**/inferd/_inferd.pyi"}
HTTP = {"the gateway": "**/sbin/inferd-http", "its service": "**/systemd/system/inferd-http.service",
        "its socket": "**/systemd/system/inferd-http.socket", "its service for a user": "**/systemd/user/inferd-http.service",
        "its socket for a user": "**/systemd/user/inferd-http.socket", "its configuration": "**/etc/inferd/inferd-http.conf",
        "its user": "**/sysusers.d/inferd-http.conf", "its man page": "**/man8/inferd-http.8*"}
GSTREAMER = {"the plugin of GStreamer": "**/gstreamer-1.0/libgstinferd.so"}
HEADERS = {"inferd.h", "inferd-delegate.h"}

CLIENT = """
#include <inferd.h>
#include <stdio.h>
int main(void)
{
\tprintf("%p\\n", (void *)inferd_open);
\treturn 0;
}
"""


def files_below(folder):
    return sorted(os.path.join(d, n) for d, _, names in os.walk(folder) for n in names)


def main():
    build, cc = sys.argv[1], sys.argv[2:]
    wrong = []
    with tempfile.TemporaryDirectory() as destination:
        install(build, destination)
        found = {}
        wanted = WANTED
        if glob.glob(os.path.join(build, "clients/python/inferd/_inferd*.so")):
            wanted = {**wanted, **PYTHON}
        if os.path.exists(os.path.join(build, "clients/http/inferd-http")):
            wanted = {**wanted, **HTTP}
        if os.path.exists(os.path.join(build, "clients/gstreamer/libgstinferd.so")):
            wanted = {**wanted, **GSTREAMER}
        for what, pattern in wanted.items():
            hits = [p for p in glob.glob(os.path.join(destination, pattern), recursive=True)
                    if not os.path.isdir(p)]
            found[what] = hits
            if not hits:
                wrong.append(f"{what} is not installed ({pattern})")
        for path in files_below(destination):
            if path.endswith(".h") and os.path.basename(path) not in HEADERS:
                wrong.append(f"{os.path.relpath(path, destination)} is installed, and is nobody's business")
        for what in ("the service", "the socket", "its service", "its service for a user"):
            for path in found.get(what, []):
                with open(path, encoding="utf-8") as f:
                    text = f.read()
                if "@" in "".join(line for line in text.splitlines() if line.startswith("Exec")):
                    wrong.append(f"{what} has a place that was not filled in")
                for line in text.splitlines():
                    if line.startswith("ExecStart="):
                        program = line.split("=", 1)[1].split()[0].lstrip("-+!@")
                        if not os.access(destination + program, os.X_OK):
                            wrong.append(f"{what} starts {program}, which is not installed")
        if found["the pkg-config file"]:
            wrong += try_client(destination, os.path.dirname(found["the pkg-config file"][0]), cc)
        if found["the configuration"]:
            wrong += try_again(build, destination, found["the configuration"][0])
        if wrong:
            print("installed:")
            for path in files_below(destination):
                print("  /" + os.path.relpath(path, destination))
    for line in wrong:
        print(line)
    return 1 if wrong else 0


def run(argv, **options):
    r = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    if r.returncode:
        sys.exit(f"{' '.join(argv)}: {r.stdout}")


def install(build, destination):
    run(["meson", "install", "-C", build, "--no-rebuild", "--destdir", destination])


def try_again(build, destination, config):
    """Install over edited configurations, then uninstall; both must keep them."""
    if not os.path.isdir(config + ".d"):
        return ["there is no folder inferd.conf.d"]
    edited = glob.glob(os.path.join(os.path.dirname(config), "*.conf"))
    for path in edited:
        with open(path, "w", encoding="utf-8") as f:
            f.write("# edited\n")
    wrong = []
    install(build, destination)
    for what in ("a second installation", "uninstalling"):
        if what == "uninstalling":
            run(["ninja", "-C", build, "uninstall"], env=dict(os.environ, DESTDIR=destination))
        for path in edited:
            if not os.path.exists(path):
                wrong.append(f"{what} deleted the edited {path}")
                continue
            with open(path, encoding="utf-8") as f:
                if f.read() != "# edited\n":
                    wrong.append(f"{what} replaced the edited {path}")
    left = [p for p in files_below(destination) if p not in edited and not os.path.basename(p).startswith("client")]
    return wrong + [f"uninstalling left {p}" for p in left]


def try_client(destination, pc_folder, cc):
    """Build CLIENT against the installed tree alone, and run it."""
    env = dict(os.environ, PKG_CONFIG_PATH=pc_folder, PKG_CONFIG_SYSROOT_DIR=destination)
    r = subprocess.run(["pkg-config", "--cflags", "--libs", "inferd"], env=env, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True, check=False)
    if r.returncode:
        return ["pkg-config does not find inferd: " + r.stdout.strip()]
    flags = r.stdout.split()
    source = os.path.join(destination, "client.c")
    with open(source, "w", encoding="utf-8") as f:
        f.write(CLIENT)
    program = os.path.join(destination, "client")
    r = subprocess.run(cc + ["-Wall", "-Werror", "-o", program, source] + flags, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True, check=False)
    if r.returncode:
        return [f"a client does not build with {' '.join(flags)}:\n{r.stdout}"]
    folders = [f[2:] for f in flags if f.startswith("-L")]
    r = subprocess.run([program], env=dict(os.environ, LD_LIBRARY_PATH=":".join(folders)), stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True, check=False)
    return [] if r.returncode == 0 else [f"a client does not start: {r.stdout}"]


if __name__ == "__main__":
    sys.exit(main())
