#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Write the kernels as texts of a C file.

    embed.py OUTPUT KERNEL.cl...
"""

import os
import sys


def quoted(line):
    return '"' + line.replace("\\", "\\\\").replace('"', '\\"') + '\\n"'


def main():
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        out.write('#include "delegates/opencl/programs.h"\n\nconst struct ocl_source ocl_sources[] = {\n')
        for path in sys.argv[2:]:
            with open(path, encoding="utf-8") as f:
                lines = "\n\t\t".join(quoted(line) for line in f.read().splitlines())
            out.write(f'\t{{ "{os.path.splitext(os.path.basename(path))[0]}",\n\t\t{lines} }},\n')
        out.write("\t{ 0, 0 },\n};\n")


main()
