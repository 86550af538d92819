#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Test the wheel: what is in it, and that an environment with nothing else runs a program that uses the whole package.

    test_wheel.py INFERD

$INFERD_CLIENTS is the environment with meson-python and abi3audit that `tools/test --with clients` installs; without it the test is
skipped.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

CLIENTS = os.environ.get("INFERD_CLIENTS")
if not CLIENTS:
    print("SKIP: meson-python is not installed; tools/test --with clients installs it")
    sys.exit(77)

import daemon  # noqa: E402

PROGRAM = pathlib.Path(__file__).with_name("everything.py")


class Wheel(daemon.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = tempfile.TemporaryDirectory(prefix="inferd-wheel-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.run_program(f"{CLIENTS}/bin/python", "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation",
                        "--wheel-dir", cls.folder, "--config-settings", f"build-dir={cls.folder}/build", daemon.TOP)
        cls.wheel, = cls.folder.glob("*.whl")

    @staticmethod
    def run_program(*argv):
        """The program's output. The package that was built for the tests is hidden from it."""
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        r = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=400,
                           env=environment)
        if r.returncode:
            raise AssertionError(f"{argv} ended with {r.returncode}: {r.stdout}")
        return r.stdout

    def test_what_is_in_it(self):
        self.assertRegex(self.wheel.name, r"^inferd-[\d.]+-cp311-abi3-linux_\w+\.whl$")
        with zipfile.ZipFile(self.wheel) as z:
            names = {n for n in z.namelist() if ".dist-info/" not in n}
            metadata, tags = (z.read(n).decode() for name in ("METADATA", "WHEEL") for n in z.namelist()
                              if n.endswith(".dist-info/" + name))
        self.assertEqual(names, {"inferd/" + n for n in ("__init__.py", "_inferd.abi3.so", "_inferd.pyi", "py.typed")})
        self.assertIn("\nRequires-Python: >=3.11\n", metadata)
        self.assertNotIn("Requires-Dist", metadata)
        self.assertEqual(tags.count("\nTag: "), 1)
        self.assertIn("\nTag: cp311-abi3-linux_", tags)

    def test_symbols(self):
        """The extension uses nothing outside the stable ABI of the tag's Python."""
        report = self.folder / "report"
        self.run_program(f"{CLIENTS}/bin/abi3audit", "--strict", "--report", "--output", report, self.wheel)
        found, = json.loads(report.read_text())["specs"].values()
        result, = (o["result"] for o in found["wheel"])
        self.assertEqual((result["is_abi3"], result["is_abi3_baseline_compatible"], result["baseline"]), (True, True, "3.11"))

    def test_bare_environment(self):
        bare = self.folder / "bare"
        python = str(bare / "bin" / "python")
        self.run_program(sys.executable, "-m", "venv", "--without-pip", bare)
        self.run_program(f"{CLIENTS}/bin/python", "-m", "pip", "--quiet", "--python", python, "install", "--no-index", self.wheel)
        found = self.run_program(python, "-B", "-c", "import inferd; print(inferd.__file__)").strip()
        self.assertTrue(found.startswith(f"{bare}/"), found)
        self.run_program(python, "-B", PROGRAM, self.daemon.socket, daemon.PROGRAMS["add_one"])


if __name__ == "__main__":
    daemon.main()
