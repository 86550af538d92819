#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Write the kernels as texts of a C file.

    embed.py OUTPUT KERNEL.cl...
"""

import os
import sys


def array(name, text):
    """A string literal may have 4,095 characters only, so an array of numbers."""
    numbers = [str(byte) for byte in text.encode("ascii")] + ["0"]
    lines = (",".join(numbers[i:i + 32]) for i in range(0, len(numbers), 32))
    return f"static const char {name}_text[] = {{\n" + ",\n".join(lines) + "\n};\n"


def main():
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        out.write('#include "delegates/opencl/programs.h"\n\n')
        names = [os.path.splitext(os.path.basename(path))[0] for path in sys.argv[2:]]
        for name, path in zip(names, sys.argv[2:]):
            with open(path, encoding="utf-8") as f:
                out.write(array(name, f.read()))
        rows = "".join(f'\t{{ "{name}", {name}_text }},\n' for name in names)
        out.write(f"const struct ocl_source ocl_sources[] = {{\n{rows}\t{{ 0, 0 }},\n}};\n")


main()
