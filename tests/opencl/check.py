#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Try the OpenCL plug-in on PoCL with inferd-delegate-check, and a program of the corpus.

    check.py INFERD-DELEGATE-CHECK OPENCL.so CORPUS.tar.zst

The plug-in is in a process of its own, and compiles in another one, which may start the linker. Without PoCL the test is
skipped.
"""

import os
import struct
import subprocess
import sys
import tempfile

PROGRAM = "vulkan/abs_shapes.bpte"


def program_of(bundle):
    """The bytes of the program in a bundled program, a FlatBuffer: field 2 of its root."""
    root = struct.unpack_from("<I", bundle, 0)[0]
    fields = root - struct.unpack_from("<i", bundle, root)[0]
    at = root + struct.unpack_from("<H", bundle, fields + 4 + 2 * 2)[0]
    at += struct.unpack_from("<I", bundle, at)[0]
    n = struct.unpack_from("<I", bundle, at)[0]
    return bundle[at + 4:at + 4 + n]


def main():
    check, plugin, corpus = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="inferd-opencl-") as folder:
        subprocess.run(["tar", "--zstd", "-xf", corpus, "-C", folder, PROGRAM], check=True)
        path = os.path.join(folder, "program.pte")
        with open(os.path.join(folder, PROGRAM), "rb") as bundle, open(path, "wb") as program:
            program.write(program_of(bundle.read()))
        r = subprocess.run([check, "-b", "-o", "devices=cpu", "-o", "platforms=Portable Computing Language", plugin, path],
                           stdout=subprocess.PIPE, text=True, check=False)
    print(r.stdout, end="")
    if r.returncode == 2 and "no OpenCL" in r.stdout:
        print("skipped: there is no PoCL")
        sys.exit(77)
    sys.exit(r.returncode)


main()
