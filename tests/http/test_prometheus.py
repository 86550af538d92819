#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Test /metrics and the files of clients/scale for Prometheus with Prometheus' own promtool.

    test_prometheus.py INFERD INFERD-HTTP INFERCTL

`tools/test --with clients` gets promtool from Debian's package; without it the test is skipped.
"""
import os
import re
import subprocess
import sys

import gateway

PROMTOOL = f"{os.environ.get('INFERD_CLIENTS', '')}/usr/bin/promtool"
if not os.path.exists(PROMTOOL):
    print("SKIP: promtool is not installed; tools/test --with clients installs it")
    sys.exit(77)

FOLDER = gateway.TOP / "clients" / "scale"


class Prometheus(gateway.Case):
    models = {"add_one": gateway.PROGRAMS["add_one"], 'a "strange\\ n\u00e4me': gateway.PROGRAMS["last"]}

    def promtool(self, *arguments, text=None, expect=0):
        r = subprocess.run([PROMTOOL, *arguments], input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                           timeout=120)
        self.assertEqual(r.returncode, expect, r.stdout)
        return r.stdout

    def test_metrics(self):
        self.json("GET", "/v2/models/add_one")
        self.json("GET", "/v2/models/a%20%22strange%5C%20n%C3%A4me")
        text = self.ask("GET", "/metrics")[2]
        self.assertIn('{model="a \\"strange\\\\ n\u00e4me",version="1"'.encode(), text)
        self.promtool("check", "metrics", text=text)
        self.promtool("check", "metrics", text=text + b"inferd_requests_total 1\n", expect=3)

    def test_configuration(self):
        self.promtool("check", "config", str(FOLDER / "prometheus.yml"))

    def test_alerts_name_metrics_that_exist(self):
        self.json("GET", "/v2/models/add_one")
        text = self.ask("GET", "/metrics")[2].decode()
        names = set(re.findall(r"inferd_\w+", (FOLDER / "alerts.yml").read_text(encoding="utf-8")))
        self.assertGreater(len(names), 3)
        for name in names:
            self.assertRegex(text, rf"(?m)^{name}[ {{]")


if __name__ == "__main__":
    gateway.main()
