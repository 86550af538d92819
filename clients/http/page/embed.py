#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Make one file of HTML of the page's sources, and write it as a C file with the content security policy that it needs.

    embed.py OUTPUT.c PAGE.html STYLE.css SCRIPT.js...

The style and the scripts take the places of the lines @style@ and @script@. The policy names them by their SHA-256, so a
browser runs nothing else.
"""
import base64
import hashlib
import sys

POLICY = ("default-src 'none'; script-src '{script}'; style-src '{style}'; img-src blob: data:; media-src blob:; connect-src 'self'; "
          "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'")


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def digest(text):
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def main():
    out, html, css, *scripts = sys.argv[1:]
    style, script = read(css), "".join(map(read, scripts))
    for text, end in (style, "</style"), (script, "</script"), (script, "<!--"):
        if end in text:
            sys.exit(f"embed.py: {end} would end the element that it stands in")
    page = read(html)
    for place, text in ("@style@", style), ("@script@", script):
        before, after = page.split(place)  # once
        page = before + text + after
    data = page.encode()
    numbers = ",\n".join(",".join(str(b if b < 128 else b - 256) for b in data[i:i + 32]) for i in range(0, len(data), 32))
    with open(out, "w", encoding="utf-8") as f:
        f.write(f'#include "clients/http/page/page_data.h"\n\nconst char http_page_text[] = {{\n{numbers}\n}};\n'
                f"const size_t http_page_n_bytes = sizeof(http_page_text);\n"
                f'const char http_page_policy[] = "{POLICY.format(script=digest(script), style=digest(style))}";\n')


main()
