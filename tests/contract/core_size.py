#!/usr/bin/env python3
"""The core of the runtime stays small and asks its host for nothing.

    core_size.py --max BYTES ARCHIVE...

The archives together (program reader and verifier, Plan, Method, executor, and
the floor under them) have at most BYTES of text as `size` counts it, which
includes constants; and `nm` finds no symbol left undefined but the few below,
none of which allocates, locks, or enters the kernel.
"""

import argparse
import re
import subprocess
import sys

# All else the core needs is handed to it in tables.
ALLOWED = re.compile(
    r"mem(cmp|cpy|move|set|chr)|str(cmp|ncmp|chr|len|nlen|rchr)|v?snprintf"
    r"|__(mem(cpy|move|set)|v?snprintf)_chk|__stack_chk_fail(_local)?"  # the same, hardened
    r"|_GLOBAL_OFFSET_TABLE_|__(aarch64_|atomic_|u?div|u?mod|u?mul|clz|ctz|popcount)\w+"  # the compiler's own
)


def lines(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def text_bytes(archives):
    return sum(int(line.split()[0]) for line in lines("size", *archives)[1:])


def undefined(archives):
    """Symbols that no object among the archives defines."""
    needed, defined = {}, set()
    origin = "?"
    for line in lines("nm", *archives):
        words = line.split()
        if line.endswith(":"):
            origin = line[:-1]
        elif len(words) == 2 and words[0] in "Uuwv":
            needed.setdefault(words[1], origin)
        elif len(words) == 3:
            defined.add(words[2])
    return {name: origin for name, origin in needed.items() if name not in defined}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--max", type=int, required=True)
    parser.add_argument("archives", nargs="+")
    args = parser.parse_args()
    n_bytes = text_bytes(args.archives)
    print(f"text: {n_bytes} of at most {args.max} bytes")
    bad = {name: origin for name, origin in undefined(args.archives).items() if not ALLOWED.fullmatch(name)}
    for name, origin in sorted(bad.items()):
        print(f"{origin}: needs {name}, which the core may not use")
    if n_bytes < 1000:
        print("that is too little to be true: are these the archives?")
    return 1 if bad or n_bytes > args.max or n_bytes < 1000 else 0


if __name__ == "__main__":
    sys.exit(main())
