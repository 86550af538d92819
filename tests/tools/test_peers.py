#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Test tests/bench/peers.py without the engines and without times: who is compared, ratios, means, table, status."""
import argparse
import pathlib
import sys
import tempfile
import textwrap
import unittest

HERE = pathlib.Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[1] / "bench"))

import packages  # noqa: E402
import peers  # noqa: E402

# In the place of peer_engine.py and inferctl: logs who was asked, and answers what the test wants.
PROGRAM = """\
import json, sys
args = sys.argv[1:]
with open({log!r}, "a") as log:
    log.write(" ".join(args[:2]) + "\\n")
if args[0] == "compare":
    print(json.dumps({{"error": {ours}}}))
elif args[0] == "infer":
    pass
elif args[0] == "bench":
    print(json.dumps({{"p50_ms": 1.0}}))
elif args[1] == "openvino":
    print(json.dumps({{"p50_ms": 0.5, "error": 0.5, "version": "3"}}))
elif args[1] == "ncnn":
    print(json.dumps({{"failure": "no such layer"}}))
else:
    print(json.dumps({{"p50_ms": 2.0, "error": 1e-5, "version": "2"}}))
"""


def rounds(*times):
    return [{"p50_ms": p50} for p50 in times]


def made(ours, theirs, network="net", threads=1, **more):
    engines = {name: {"error": 0, "version": "1"} if name in (peers.OURS, *theirs) else {"left_out": "why not"}
               for name in (peers.OURS, *peers.ENGINES)}
    return peers.row(network, more.get("kind", "fp32"), threads, engines, {peers.OURS: ours, **theirs})


class Rows(unittest.TestCase):
    def test_ratio_is_the_median_of_pairs_with_the_fastest(self):
        r = made(rounds(1, 4, 2), {"onnxruntime": rounds(3, 0.5, 3), "openvino": rounds(1, 2, 4)})
        self.assertEqual(r["fastest"], "openvino")
        self.assertEqual(r["ratio"], 1)  # of 1, 2 and 0.5
        self.assertEqual(r["best_ratio"], 1 / 0.5)
        self.assertEqual((r["engines"][peers.OURS]["p50_ms"], r["engines"][peers.OURS]["best_ms"]), (2, 1))

    def test_means_are_of_each_number_of_threads(self):
        rows = [made(rounds(1), {"openvino": rounds(8)}), made(rounds(1), {"openvino": rounds(0.5)}),
                made(rounds(3), {"openvino": rounds(1)}, threads=2)]
        self.assertEqual({n: [round(x, 9) for x in pair] for n, pair in peers.means(rows).items()}, {1: [0.5, 0.5], 2: [3, 3]})

    def test_status(self):
        fast, slow = (made(rounds(1), {"openvino": rounds(t)}) for t in (2, 0.5))
        alone, wrong = made(rounds(1), {}), made(rounds(1), {"openvino": rounds(2)})
        wrong["engines"][peers.OURS] = {"left_out": "its outputs are wrong by 1"}
        for rows, wanted in (([fast], 0), ([slow], 1), ([fast, fast, slow], 0), ([fast, slow], 1), ([fast, alone], 2),
                             ([], 2), ([fast, wrong], 1)):
            self.assertEqual(peers.status(rows), wanted, rows)

    def test_table(self):
        text = "\n".join(peers.table([made(rounds(2, 3, 4), {"openvino": rounds(2, 2, 2)}, "slow", kind="int8"),
                                      made(rounds(1), {"onnxruntime": rounds(2)}, "fast")]))
        self.assertIn("| slow int8 | 1 | 3 / 2 |", text)
        self.assertIn("| **2 / 2** |", text)
        self.assertIn("| 1.50 | 1.00 |", text)
        self.assertIn("Above 1.05 (network, type, threads): slow int8 1 (1.50).", text)
        self.assertIn("Without ncnn: slow int8, fast fp32: why not", text)


class Measuring(unittest.TestCase):
    def measure(self, ours):
        with tempfile.TemporaryDirectory() as place:
            place = pathlib.Path(place)
            (place / "engine.py").write_text(PROGRAM.format(log=str(place / "log"), ours=ours))
            subject = peers.Peers(argparse.Namespace(build=str(place), rounds=3, ms=20), sys.executable, place / "engine.py")
            subject.inferctl = place / "inferctl"
            subject.inferctl.write_text(f"#!/bin/sh\nexec {sys.executable} -B {place}/engine.py \"$@\"\n")
            subject.inferctl.chmod(0o755)
            r = subject.measure(place, "fp32", 1, {"outputs": 1, "left_out": {}})
            return r, (place / "log").read_text().splitlines()

    def test_outputs_first_and_then_rounds_in_turn(self):
        r, log = self.measure(0)
        self.assertEqual(log[6:], ["bench --local", "run onnxruntime"] * 3, textwrap.indent("\n".join(log), "  "))
        self.assertEqual((r["fastest"], r["ratio"], r["best_ratio"]), ("onnxruntime", 0.5, 0.5))
        self.assertEqual(r["engines"]["openvino"], {"left_out": "its outputs are wrong by 0.5"})
        self.assertEqual(r["engines"]["ncnn"], {"left_out": "no such layer"})

    def test_our_own_wrong_outputs(self):
        for error in (1, "float('nan')"):
            r, _ = self.measure(error)
            self.assertIn("left_out", r["engines"][peers.OURS])
            self.assertEqual(peers.status([r]), 1)


class Packages(unittest.TestCase):
    def test_lists_agree_on_versions(self):
        """One package has one version in all lists: pip would refuse an environment of several of them."""
        versions = {}
        for names in packages.VERSIONS.values():
            for package in names.split():
                name, version = package.split("==")
                self.assertEqual(versions.setdefault(name, version), version, name)


if __name__ == "__main__":
    unittest.main()
