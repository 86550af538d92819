# SPDX-License-Identifier: BSD-3-Clause
"""Read the expected outputs of bundled programs (.bpte, BP08) in Python, with our own FlatBuffers reader.

It shares no code with the reader in runtime/, so that a mistake in one of them shows. Source of the layout:
devtools/bundled_program/schema/bundled_program_schema.fbs of ExecuTorch, and the FlatBuffers internals document.
"""

import struct

import numpy as np

DTYPES = {0: "u1", 1: "i1", 2: "<i2", 3: "<i4", 4: "<i8", 5: "<f2", 6: "<f4", 7: "<f8", 9: "<c8",
          10: "<c16", 11: "?", 15: "bf16", 27: "<u2", 28: "<u4", 29: "<u8"}
TENSOR, INT, BOOL, DOUBLE = 1, 2, 3, 4  # the union ValueUnion


class Table:
    """One table: fields are found through its vtable by number."""

    def __init__(self, data, at):
        self.data, self.at = data, at
        self.vtable = at - struct.unpack_from("<i", data, at)[0]
        self.n = (struct.unpack_from("<H", data, self.vtable)[0] - 4) // 2

    def place(self, field):
        if field >= self.n:
            return None
        offset = struct.unpack_from("<H", self.data, self.vtable + 4 + 2 * field)[0]
        return self.at + offset if offset else None

    def scalar(self, field, form, default=0):
        at = self.place(field)
        return default if at is None else struct.unpack_from("<" + form, self.data, at)[0]

    def table(self, field):
        at = self.place(field)
        return None if at is None else Table(self.data, at + struct.unpack_from("<I", self.data, at)[0])

    def vector(self, field):
        """(where the items begin, how many)"""
        at = self.place(field)
        if at is None:
            return 0, 0
        at += struct.unpack_from("<I", self.data, at)[0]
        return at + 4, struct.unpack_from("<I", self.data, at)[0]

    def bytes(self, field):
        at, n = self.vector(field)
        return self.data[at:at + n]

    def scalars(self, field, form):
        at, n = self.vector(field)
        return list(struct.unpack_from(f"<{n}{form}", self.data, at)) if n else []

    def tables(self, field):
        at, n = self.vector(field)
        places = [at + 4 * i for i in range(n)]
        return [Table(self.data, p + struct.unpack_from("<I", self.data, p)[0]) for p in places]


def as_array(data, dtype, shape, dim_order):
    """Dense bytes in dim order to an array of @shape; bfloat16 becomes float32."""
    if dtype == "bf16":
        flat = (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
    else:
        flat = np.frombuffer(data, dtype)
    if not shape:
        return flat.reshape(())
    order = list(dim_order) or list(range(len(shape)))
    stored = flat.reshape([shape[d] for d in order])
    return stored.transpose(np.argsort(order))


def value(table):
    """(array or number, "bf16"-aware dtype) or None for a value that is not given."""
    kind, inner = table.scalar(0, "B"), table.table(1)
    if inner is None:
        return None
    if kind == TENSOR:
        dtype = DTYPES[inner.scalar(0, "b")]
        return as_array(inner.bytes(2), dtype, inner.scalars(1, "i"), inner.bytes(3)), dtype
    if kind == INT:
        return inner.scalar(0, "q"), "int"
    if kind == BOOL:
        return bool(inner.scalar(0, "B")), "bool"
    if kind == DOUBLE:
        return inner.scalar(0, "d", 0.0), "double"
    return None


def expected(path):
    """[(method, [[value or None, …] for each case])]"""
    with open(path, "rb") as f:
        data = f.read()
    if data[4:8] != b"BP08":
        raise ValueError(f"{path} is no bundled program")
    root = Table(data, struct.unpack_from("<I", data, 0)[0])
    return [(suite.bytes(0).decode(), [[value(v) for v in case.tables(1)] for case in suite.tables(1)])
            for suite in root.tables(1)]
