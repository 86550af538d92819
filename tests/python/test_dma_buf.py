#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Test a region of a dma-buf, as a camera gives it; the kernel's udmabuf makes one of a memfd.

    test_dma_buf.py INFERD
"""
import fcntl
import mmap
import os
import pathlib
import struct
import sys

DEVICE = pathlib.Path("/dev/udmabuf")
if not DEVICE.exists():
    print("SKIP: the kernel has no udmabuf, so there is nothing that makes a dma-buf")
    sys.exit(77)

import daemon  # noqa: E402

UDMABUF_CREATE = 0x40187542  # _IOW('u', 0x42, struct udmabuf_create), include/uapi/linux/udmabuf.h
CLOEXEC = 1
PAGE = mmap.PAGESIZE


class DmaBuf(daemon.Case):
    def make(self, n_bytes):
        """The descriptors of a dma-buf and of the memory below it, through which the device writes."""
        memory = os.memfd_create("device", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
        self.addCleanup(os.close, memory)
        os.truncate(memory, n_bytes)
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        with open(DEVICE, "r+b", buffering=0) as device:
            fd = fcntl.ioctl(device, UDMABUF_CREATE, struct.pack("=IIQQ", memory, CLOEXEC, 0, n_bytes))
        self.addCleanup(os.close, fd)
        return fd, memory

    def test_input_of_a_device(self):
        d = self.connect()
        fd, memory = self.make(PAGE)
        r = d.import_region(fd)
        self.assertEqual(len(r), PAGE)
        b = d.open("add_one").bind([(r, 64)])
        for values in (1, 2), (3, 4.5):
            with mmap.mmap(memory, PAGE) as written:
                written[64:72] = struct.pack("<2f", *values)
            b.infer()
            self.assertEqual(b.outputs[0].tolist(), [v + 1 for v in values])
            self.assertEqual(b.inputs[0].tolist(), list(values))
        self.assertEqual(b.n_copied, 0)

    def test_view_outlives_it(self):
        d = self.connect()
        fd, memory = self.make(PAGE)
        view = memoryview(d.import_region(fd))
        d.close()
        os.pwrite(memory, b"seen", 0)
        self.assertEqual(bytes(view[:4]), b"seen")


if __name__ == "__main__":
    daemon.main()
