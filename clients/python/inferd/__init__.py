# SPDX-License-Identifier: BSD-3-Clause
"""Run ExecuTorch models through the inference daemon inferd.

    import inferd

    with inferd.connect() as d:
        m = d.open("efficientnet_lite0")
        b = m.bind()
        b.inputs[0][:] = x          # any array of the right datatype and shape
        b.infer()
        y = b.outputs[0]            # numpy.asarray(y), torch.from_dlpack(y), memoryview(y), y.tolist()

Inputs and outputs are the memory that is shared with the daemon: nothing is copied but what you assign. `m(x)` does all
of the above, and returns copies. `await b.infer_async()` is a request on the event loop.

Every exception is an Error, with a class for each status: NotFound, MissedDeadline, ... Times are in seconds. A
connection belongs to the process that opened it, so connect after a fork. Threads may share a connection, and take turns
on it. inferd.h describes the same calls for C in more words.
"""
import enum

from ._inferd import (
    BackendCrashed, Binding, Busy, Cancelled, Connection, Disconnected, Error, FailedPrecondition, Internal,
    InvalidArgument, Method, MissedDeadline, NotFound, PermissionDenied, Region, ResourceExhausted, Slots, StateLost,
    Tensor, TensorInfo, Timing, Unavailable, Unimplemented, Unknown, connect)

__all__ = [
    "BackendCrashed", "Binding", "Busy", "Cancelled", "Connection", "Disconnected", "Error", "FailedPrecondition",
    "Internal", "InvalidArgument", "Method", "MissedDeadline", "NotFound", "PermissionDenied", "Priority", "Region",
    "ResourceExhausted", "Slots", "StateLost", "Tensor", "TensorInfo", "Timing", "Unavailable", "Unimplemented", "Unknown",
    "connect"]


class Priority(enum.IntEnum):
    """What a request may be: waiting requests of a higher priority run first."""

    INTERACTIVE = 0  # the default
    REALTIME = 1  # above it
    BATCH = 2
    IDLE = 3
