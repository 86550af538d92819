#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Read our profiles with ExecuTorch's Inspector.

    test_inspector.py INFERCTL MODELS

It needs the environment of tools/export (`tools/test --with export` makes it), else it is skipped. The Inspector's events
are compared with the program as the exporter's reader sees it, with the ETRecord of the export, and with the Perfetto
trace of the same program.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
import warnings
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
INSIDE = "INFERD_INSPECTOR_TEST"


def enter():
    """This file again, on the environment's Python."""
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(TOP / "tools/export"))
    import environment

    folder = environment.folder()
    if not (folder / "complete").exists():
        print("skip: ExecuTorch's Inspector is not installed (tools/test --with export does it, 7 GB)")
        sys.exit(77)
    python = folder / "bin/python"
    os.environ.update({INSIDE: "1", "PYTHONPYCACHEPREFIX": str(folder / "pycache"), "PYTHONNOUSERSITE": "1",
                       "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"})
    os.execv(python, [python, *sys.argv])


if __name__ == "__main__" and INSIDE not in os.environ:
    enter()

warnings.simplefilter("ignore")
import logging  # noqa: E402

logging.disable(logging.WARNING)
import numpy  # noqa: E402
import torch  # noqa: E402
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner  # noqa: E402
from executorch.devtools import Inspector  # noqa: E402
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower  # noqa: E402
from executorch.exir.schema import DelegateCall, JumpFalseCall, KernelCall, MoveCall  # noqa: E402
from torch import nn  # noqa: E402

INFERCTL, MODELS = sys.argv[1], Path(sys.argv[2])
WHOLE = "Method::execute"


class Counts(nn.Module):
    """Linear layers, a kernel that no delegate takes between them, and state."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 4)
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x):
        y = self.first(x).relu().cumsum(0)
        z = self.second(y)
        self.seen.add_(z.sum(0))
        return z.sort(-1)[0] + self.seen, y.argmax(-1)


def profile(program, *options):
    """The path of an ETDump of one run of @program."""
    path = program.with_suffix(".etdump")
    subprocess.run([INFERCTL, "infer", "--local", program, "--profile", path, *options], check=True, capture_output=True)
    return path


def opened(program, *options, **more):
    """The events of its one block."""
    block, = Inspector(etdump_path=str(profile(program, *options)), **more).event_blocks
    return block


def instruction_names(plan):
    names = []
    for chain in plan.chains:
        for instruction in chain.instructions:
            args = instruction.instr_args
            if isinstance(args, KernelCall):
                op = plan.operators[args.op_index]
                names.append("native_call_" + op.name.split("::")[1] + ("." + op.overload if op.overload else ""))
            elif isinstance(args, DelegateCall):
                names.append("DELEGATE_CALL")
            else:
                names.append("MOVE_CALL" if isinstance(args, MoveCall) else "JF_CALL" if isinstance(args, JumpFalseCall) else "FREE_CALL")
    return names


class Profiles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kept = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.kept.name)
        cls.addClassCleanup(cls.kept.cleanup)
        torch.set_grad_enabled(False)
        torch.set_num_threads(1)
        torch.manual_seed(0)
        cls.x = torch.randn(5, 8)
        numpy.save(cls.folder / "x.npy", cls.x.numpy())
        cls.plans = {}
        for name, partitioners in (("kernels", []), ("xnnpack", [XnnpackPartitioner()])):
            edge = to_edge_transform_and_lower(torch.export.export(Counts().eval(), (cls.x,)), partitioner=partitioners,
                                               compile_config=EdgeCompileConfig(_check_ir_validity=False),
                                               generate_etrecord=True)
            made = edge.to_executorch()
            (cls.folder / f"{name}.pte").write_bytes(made.buffer)
            made.get_etrecord().save(str(cls.folder / f"{name}.etrecord"))
            cls.plans[name] = made.executorch_program.execution_plan[0]

    def block(self, name):
        return opened(self.folder / f"{name}.pte", "--input", self.folder / "x.npy",
                      etrecord=str(self.folder / f"{name}.etrecord"))

    def check_events(self, events, names):
        """Instructions in their order, each with its number; parts of delegates with the number of their call."""
        self.assertEqual([event.name for event in events if not event.is_delegated_op and event._instruction_id != -1],
                         names)
        self.assertEqual([event._instruction_id for event in events
                          if not event.is_delegated_op and event._instruction_id != -1], list(range(len(names))))
        whole = next(event for event in events if event.name == WHOLE)
        milliseconds = [event.perf_data.avg for event in events if event._instruction_id != -1 and not event.is_delegated_op]
        self.assertGreaterEqual(min(milliseconds), 0)
        self.assertLessEqual(sum(milliseconds), whole.perf_data.avg)
        first, last = whole.start_time[0], whole.start_time[0] + whole.perf_data.avg * 1e6
        for event in events:
            self.assertTrue(first <= event.start_time[0] <= last, event.name)

    def test_kernels(self):
        block = self.block("kernels")
        self.assertEqual(block.name, "Execute")
        self.check_events(block.events, instruction_names(self.plans["kernels"]))
        self.assertFalse(any(event.is_delegated_op for event in block.events))
        # By its number, the ETRecord knows what each instruction was in the model.
        for op in ("cumsum", "sort", "argmax"):
            event = next(event for event in block.events if event.name.startswith("native_call_" + op))
            self.assertTrue(any(op in kind for kind in event.op_types), (event.name, event.op_types))
            self.assertTrue(event.stack_traces)

    def test_delegate(self):
        block = self.block("xnnpack")
        events, names = block.events, instruction_names(self.plans["xnnpack"])
        self.check_events(events, names)
        calls = [event for event in events if event.name == "DELEGATE_CALL"]
        self.assertEqual(len(calls), names.count("DELEGATE_CALL"))
        self.assertGreaterEqual(len(calls), 2)
        for call in calls:
            self.assertEqual(call.delegate_backend_name, "XnnpackBackend")
            self.assertTrue(call.op_types)
            parts = [event for event in events if event.is_delegated_op and event._instruction_id == call._instruction_id]
            self.assertTrue(parts)
            for part in parts:
                self.assertEqual(part.name, part.delegate_debug_identifier)
                self.assertRegex(part.name, r" #[0-9]+$")
                self.assertEqual(part.delegate_backend_name, "XnnpackBackend")
        linear = ("Fully Connected", "override linear")  # XNNPACK's, or ours where it is faster
        self.assertTrue(any(event.name.startswith(linear) for event in events if event.is_delegated_op))

    def test_table(self):
        frame = self.block("xnnpack").to_dataframe(include_units=True)
        self.assertEqual(set(frame["event_block_name"]), {"Execute"})
        self.assertTrue((frame["avg (ms)"] >= 0).all())
        self.assertIn(WHOLE, list(frame["event_name"]))

    def test_branches_and_bundled_programs(self):
        """A jump over instructions leaves them out; the trace for Perfetto names the same events in the same order."""
        for file in ("small/two_methods_cond.bpte", "small/gelu_xnnpack.bpte"):
            program = self.folder / Path(file).name
            program.write_bytes((MODELS / file).read_bytes())
            events = opened(program).events
            trace = self.folder / "trace.json"
            subprocess.run([INFERCTL, "infer", "--local", program, "--profile", trace], check=True, capture_output=True)
            told = [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"]
            self.assertEqual([event.name for event in events], [event["name"] for event in told])
            self.assertEqual([event._instruction_id for event in events],
                             [event.get("args", {}).get("instruction", -1) for event in told])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], warnings="ignore")
