# SPDX-License-Identifier: BSD-3-Clause
"""A program that uses all of the package inferd: mypy checks it strictly, and it runs (test_types.py).

A comment "type: ignore" marks a wrong use. mypy names each that it would not have noticed.
"""
from __future__ import annotations

import asyncio
import fcntl
import os
import pathlib
import sys
from collections.abc import Sequence
from typing import BinaryIO

import inferd

SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def describe(tensors: Sequence[inferd.TensorInfo]) -> list[str]:
    """What is known of inputs or outputs."""
    lines: list[str] = []
    for t in tensors:
        numbers: tuple[int, ...] = t.shape + t.dim_order + (t.n_bytes,)
        floats: tuple[float, ...] = t.scale + t.offset
        words: list[str | None] = [t.name, t.datatype, t.layout, t.colour, *t.labels]
        lines.append(f"{words} {numbers} {floats} {t.is_dynamic or t.is_scalar}")
    return lines


def requests(d: inferd.Connection) -> None:
    with d.open("add_one", version="1", method="forward", backend=None, timeout=10) as m:
        print(describe(m.inputs), describe(m.outputs), m.is_stateful, m.backend, m.version)
        with m.bind(timeout=5) as b:
            b.inputs[0][:] = [1, 2]
            b.infer(timeout=5, priority=inferd.Priority.BATCH, profile=True)
            y: inferd.Tensor = b.outputs["output_0"]
            shape: tuple[int, ...] = y.shape + y.strides
            profile: bytes | None = b.profile
            timing: inferd.Timing = b.timing
            ns: int = timing.queue_ns + timing.run_ns + b.n_copied + y.nbytes
            print(shape, y.datatype, y.readonly, profile is not None, ns >= 0, b.method is m)
            assert [float(x) for x in y] == y.tolist() == memoryview(y).tolist() == [2, 3]
            assert len(y) == 2 and len(list(b.inputs)) == len(b.inputs) == 1
            print(y.__dlpack_device__(), y.__dlpack__(max_version=(1, 0)))
            b.infer(timeout="soon" if len(sys.argv) > 9 else None)  # type: ignore[arg-type]
        answer = m([4, 5])
        assert answer.tolist() == [5, 6]
        m.reset()
        if len(sys.argv) > 9:
            m.reset(1)  # type: ignore[call-arg]


def memory(d: inferd.Connection) -> None:
    region: inferd.Region = d.region(8192)
    fd = os.memfd_create("everything", os.MFD_ALLOW_SEALING)
    os.truncate(fd, 4096)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)
    imported = d.import_region(fd, 4096)
    os.close(fd)
    m = d.open("add_one")
    b = m.bind([(region, 0)], [(imported, 64)])
    memoryview(region)[0:8] = bytes(memoryview(m([1, 2])).cast("B"))
    b.infer()
    assert memoryview(imported)[64:72].cast("f").tolist() == [3, 4]
    print(len(region), len(imported))
    b.close()
    region.close()
    m.close()


def programs(d: inferd.Connection, program: pathlib.Path) -> None:
    with open(program, "rb") as f:
        files: list[BinaryIO | int | pathlib.Path | str | bytes] = [f, f.fileno(), program, str(program), bytes(program)]
        for file in files:
            m = d.open_program(file, name="mine", data=[], method="forward", backend=None, timeout=60)
            assert m([1, 2]).tolist() == [2, 3]
    if len(sys.argv) > 9:
        d.open_program(1.5)  # type: ignore[arg-type]
    first: inferd.Method = d.open("decoder")
    with d.open("decoder", share_with=None) as second:
        print(first.is_stateful, second.is_stateful)


def shapes(d: inferd.Connection) -> None:
    b: inferd.Binding = d.open("dynamic").bind()
    inputs: inferd.Slots = b.inputs
    b.set_input_shape(0, [1, 2, 3])
    inputs["input_1"] = [[[1.0], [2.0], [3.0]]]
    b.inputs[0] = [[[1, 2, 3], [4, 5, 6]]]
    b.infer()
    print(b.outputs[0].tolist())


async def on_the_loop(d: inferd.Connection) -> None:
    bindings = [d.open("add_one").bind() for _ in range(4)]
    for b in bindings:
        b.inputs[0][...] = [1, 2]
    nothing: list[None] = await asyncio.gather(*(b.infer_async(timeout=10, priority=2) for b in bindings))
    print(nothing, [b.outputs[0].tolist() for b in bindings])


def errors(d: inferd.Connection) -> None:
    classes: list[type[inferd.Error]] = [
        inferd.BackendCrashed, inferd.Busy, inferd.Cancelled, inferd.Disconnected, inferd.FailedPrecondition, inferd.Internal,
        inferd.InvalidArgument, inferd.MissedDeadline, inferd.NotFound, inferd.PermissionDenied, inferd.ResourceExhausted,
        inferd.StateLost, inferd.Unavailable, inferd.Unimplemented, inferd.Unknown]
    try:
        d.open("none")
    except inferd.NotFound as e:
        status: int = e.status
        print(status, e, classes)
    else:
        raise AssertionError("there is such a model")
    timeout: TimeoutError = inferd.MissedDeadline()
    lost: ConnectionError = inferd.Disconnected()
    print(timeout, lost)


def main(socket: str, program: str) -> None:
    with inferd.connect(socket, name="everything", weight=50, reconnect=5, timeout=10) as d:
        print(d.fileno() >= 0, d.closed)
        requests(d)
        memory(d)
        programs(d, pathlib.Path(program))
        shapes(d)
        asyncio.run(on_the_loop(d))
        errors(d)
    assert d.closed


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
