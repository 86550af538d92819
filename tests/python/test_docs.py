#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Test that the examples of the docstrings run, and that the type stubs name what there is.

    test_docs.py INFERD
"""
import ast
import doctest
import inspect
import pathlib
import unittest

import daemon
import inferd
from inferd import _inferd


class Docs(daemon.Case):
    def test_examples(self):
        n = 0
        runner = doctest.DocTestRunner()
        names = {"inferd": inferd}
        documented = [inferd] + [getattr(inferd, name) for name in inferd.__all__]
        for thing in documented:
            pieces = [thing] + (list(vars(thing).values()) if inspect.isclass(thing) else [])
            for piece in pieces:
                text = getattr(piece, "__doc__", None)
                if not isinstance(text, str) or ">>>" not in text:
                    continue
                name = getattr(piece, "__qualname__", repr(piece))
                test = doctest.DocTestParser().get_doctest(text, dict(names), name, None, None)
                runner.run(test)
                n += len(test.examples)
        self.assertEqual(runner.failures, 0)
        self.assertGreater(n, 10)

    def test_everything_is_documented(self):
        for name in inferd.__all__:
            thing = getattr(inferd, name)
            self.assertTrue(thing.__doc__, name)
            if thing.__module__ == "inferd" and inspect.isclass(thing) and not issubclass(thing, (Exception, tuple, int)):
                for member, value in vars(thing).items():
                    if not member.startswith("_"):
                        self.assertTrue(value.__doc__, f"{name}.{member}")


class Stubs(unittest.TestCase):
    def setUp(self):
        path = pathlib.Path(inferd.__file__).with_name("_inferd.pyi")
        self.tree = ast.parse(path.read_text(encoding="utf-8"))
        self.assertTrue(path.with_name("py.typed").exists())

    def test_names(self):
        stubs = {node.name: node for node in self.tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))
                 and not node.name.startswith("_")}
        self.assertEqual(sorted(stubs), sorted(n for n in vars(_inferd) if not n.startswith("_")))
        self.assertEqual(sorted(stubs), sorted(n for n in inferd.__all__ if n != "Priority"))
        for name, node in stubs.items():
            thing = getattr(inferd, name)
            if not isinstance(node, ast.ClassDef) or issubclass(thing, Exception):
                continue
            members = {n.name for n in node.body if isinstance(n, ast.FunctionDef)}
            for member in members - {"__buffer__"}:
                self.assertTrue(hasattr(thing, member), f"{name}.{member}")
            public = {n for n in vars(thing) if not n.startswith("_")} - {"n_fields", "n_sequence_fields", "n_unnamed_fields"}
            self.assertEqual(public - members, set(), name)

    def test_signatures(self):
        for node in self.tree.body:
            if getattr(node, "name", "_").startswith("_"):
                continue
            functions = [node] if isinstance(node, ast.FunctionDef) else getattr(node, "body", [])
            owner = _inferd if isinstance(node, ast.FunctionDef) else getattr(_inferd, node.name)
            for function in functions:
                if not isinstance(function, ast.FunctionDef) or function.decorator_list or function.name.startswith("__"):
                    continue
                signature = inspect.signature(getattr(owner, function.name))
                given = function.args
                names = [a.arg for a in given.posonlyargs + given.args + given.kwonlyargs]
                self.assertEqual(names, list(signature.parameters), f"{owner}.{function.name}")


if __name__ == "__main__":
    daemon.main()
