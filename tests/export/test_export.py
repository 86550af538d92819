#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Test tools/export without PyTorch: its command line, its tables, and its report."""

import ast
import contextlib
import io
import os
import subprocess
import sys
import types
import unittest
from pathlib import Path

here = Path(__file__).resolve().parents[2] / "tools/export"
sys.path.insert(0, str(here))

import arguments  # noqa: E402
import backends  # noqa: E402
import catalog  # noqa: E402
import environment  # noqa: E402
import report  # noqa: E402
from report import Result  # noqa: E402


def chosen(*argv):
    return [(model.name, backend) for model, backend in arguments.chosen(arguments.parse(argv))]


class CommandLine(unittest.TestCase):
    def refused(self, *argv):
        said = io.StringIO()
        with contextlib.redirect_stderr(said), self.assertRaises(SystemExit) as end:
            arguments.parse(argv)
        self.assertEqual(end.exception.code, 2)
        return said.getvalue()

    def test_a_model_has_its_own_backends(self):
        self.assertEqual(chosen("--model", "silero_vad"), [("silero_vad", "portable"), ("silero_vad", "xnnpack")])

    def test_backends_replace_them_in_the_order_given(self):
        self.assertEqual(chosen("--model", "mlp", "lstm", "--backends", "openvino", "portable"),
                         [("mlp", "openvino"), ("mlp", "portable"), ("lstm", "openvino"), ("lstm", "portable")])

    def test_short_names_and_several_partitioners(self):
        self.assertEqual(chosen("--model", "mlp", "--backends", "ethos-u", "xnnpack+vulkan", "ethos-u55-128"),
                         [("mlp", "ethos-u55-128"), ("mlp", "xnnpack+vulkan")])

    def test_all(self):
        everything = chosen("--all")
        self.assertEqual({name for name, _ in everything}, {model.name for model in catalog.MODELS})
        self.assertEqual(chosen("--all", "--backends", "portable"), [(model.name, "portable") for model in catalog.MODELS])
        self.assertEqual({name for name, _ in chosen("--survey")}, {model.name for model in catalog.SURVEY})
        self.assertEqual({name for name, _ in chosen("--peers")}, {model.name for model in catalog.PEERS})

    def test_mistakes(self):
        self.assertIn("either --model NAME or --all", self.refused())
        self.assertIn("either --model NAME or --all", self.refused("--all", "--survey"))
        self.assertIn("either --model NAME or --all", self.refused("--all", "--model", "mlp"))
        self.assertIn("no model 'nothing'; known: efficientnet_lite0", self.refused("--model", "nothing"))
        self.assertIn("no backend 'tpu'; known: portable", self.refused("--model", "mlp", "--backends", "xnnpack+tpu"))

    def test_the_program_itself_lists_without_pytorch(self):
        ran = subprocess.run([sys.executable, here / "export", "--list"], capture_output=True, text=True,
                             env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        for name in [model.name for model in catalog.MODELS] + list(backends.BACKENDS):
            self.assertRegex(ran.stdout, rf"(?m)^  {name} ")


class Node:
    def __init__(self, name="", tag=None, sources=()):
        self.meta, self.all_input_nodes = {"delegation_tag": tag} if tag else {}, list(sources)


class Chooser:
    """What a partitioner answers, without one."""

    def __init__(self, nodes=(), tags=None):
        graph = types.SimpleNamespace(nodes=nodes)
        self.result = types.SimpleNamespace(tagged_exported_program=types.SimpleNamespace(graph=graph), partition_tags=tags)

    def partition(self, program):
        return self.result


class Tables(unittest.TestCase):
    def test_every_model_can_be_built_and_its_backends_exist(self):
        models = catalog.MODELS + catalog.SURVEY + catalog.BATCHES + catalog.PEERS
        self.assertEqual(len(catalog.BY_NAME), len(models))
        for model in models:
            file, function = model.build.split(":")
            tree = ast.parse((here / "models" / (file + ".py")).read_text())
            functions = {node.name: node.args for node in tree.body if isinstance(node, ast.FunctionDef)}
            self.assertIn(function, functions, model.name)
            taken = [arg.arg for arg in functions[function].args]
            if not functions[function].kwarg:
                self.assertLessEqual(set(model.options), set(taken), model.name)
            for name in model.backends + tuple(model.names):
                self.assertEqual(backends.canonical(name), name)

    def test_no_two_exports_write_one_file(self):
        files = [model.file(backend) for model in catalog.MODELS + catalog.SURVEY + catalog.BATCHES + catalog.PEERS
                 for backend in dict.fromkeys(model.backends + tuple(backends.BACKENDS))]
        self.assertEqual(len(files), len(set(files)))

    def test_joined_recipes(self):
        table = dict(backends.BACKENDS)
        self.addCleanup(lambda: (backends.BACKENDS.clear(), backends.BACKENDS.update(table)))
        backend = backends.backend
        pa, pb = Chooser(), Chooser()
        backend("a", "")(lambda: backends.Recipe([pa], quantizer="qa"))
        backend("b", "")(lambda: backends.Recipe([pb], transform="tb"))
        backend("c", "")(lambda: backends.Recipe(lower="lc"))
        backend("d", "")(lambda: backends.Recipe(write="wd"))
        joined = backends.recipe("b+a+portable")
        self.assertEqual((joined.partitioners, joined.quantizer, joined.transform), ([pb, pa], "qa", "tb"))
        for two in ("a+a", "a+c", "a+d"):
            self.assertRaises(backends.Unavailable, backends.recipe, two)

    def test_what_is_left_without_inputs_stays_with_the_kernels(self):
        fed, full, add = Node("fed"), Node(tag="constants"), Node(tag="sums")
        add.all_input_nodes = [fed, full]
        tail = Node(tag="constants", sources=[full])
        result = backends.after_another(Chooser([fed, full, add, tail], {"constants": 1, "sums": 2})).partition(None)
        self.assertEqual(result.partition_tags, {"sums": 2})
        self.assertEqual([node.meta.get("delegation_tag") for node in (full, add, tail)], [None, "sums", None])

    def test_a_missing_sdk_is_named(self):
        kept = os.environ.pop("QNN_SDK_ROOT", None)
        with self.assertRaises(backends.Unavailable) as said:
            backends.recipe("qnn")
        if kept is not None:
            os.environ["QNN_SDK_ROOT"] = kept
        self.assertIn("QNN_SDK_ROOT", str(said.exception))


class Environment(unittest.TestCase):
    def test_every_package_is_pinned_once(self):
        packages = environment.packages(environment.REQUIREMENTS.read_text())
        for line in packages:
            self.assertRegex(line, r"^[A-Za-z0-9._-]+==[^ ]+$")
        names = [line.split("==")[0].lower().replace("_", "-") for line in packages]
        self.assertEqual(len(names), len(set(names)))
        self.assertIn("executorch==1.5.1", packages)
        self.assertIn("torch==2.13.0", packages)

    def test_the_key_is_of_what_is_installed(self):
        self.assertEqual(environment.key("a==1\n", (3, 13)), environment.key("# why\na==1  # so\n\n", (3, 13)))
        self.assertNotEqual(environment.key("a==1", (3, 13)), environment.key("a==2", (3, 13)))
        self.assertNotEqual(environment.key("a==1", (3, 13)), environment.key("a==1", (3, 14)))


class Report(unittest.TestCase):
    def test_sizes(self):
        self.assertEqual([report.size(n) for n in (0, 999, 1000, 35_184_640, 2_000_000_000)],
                         ["0 B", "999 B", "1.0 kB", "35.2 MB", "2000.0 MB"])

    def test_report(self):
        results = [
            Result("small", "portable", 1.25, "", 2000, 3500, "9 kernels", "original"),
            Result("small", "xnnpack", 12, "", 1000, 2500, "1 XnnpackBackend", "original"),
            Result("small", "qnn", 0, "no SDK", is_lacking=True),
            Result("small", "vulkan", 0.5, "it broke"),
            Result("mlp", "portable", 2, "", 500, 900, "5 kernels", "PyTorch"),
        ]
        self.assertEqual(report.report(results).splitlines(), [
            "model  backend     time    .pte   .bpte  delegates and kernels  expected outputs",
            "-----  --------  ------  ------  ------  ---------------------  ----------------",
            "small  portable   1.2 s  2.0 kB  3.5 kB  9 kernels              original",
            "small  xnnpack   12.0 s  1.0 kB  2.5 kB  1 XnnpackBackend       original",
            "small  qnn        0.0 s       -       -  needs an SDK           -",
            "small  vulkan     0.5 s       -       -  failed                 -",
            "mlp    portable   2.0 s   500 B   900 B  5 kernels              PyTorch",
            "",
            "small: 2/4 backends exported, failed: vulkan, lacking an SDK: qnn",
            "  qnn: no SDK",
            "  vulkan: it broke",
            "mlp: 1/1 backends exported",
        ])


if __name__ == "__main__":
    unittest.main()
