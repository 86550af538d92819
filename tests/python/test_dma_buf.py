#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Test regions of dma-bufs: of a camera's frames, and of a memfd, of which the kernel's udmabuf makes one.

    test_dma_buf.py INFERD

tools/kernel has both devices; its camera is vivid.
"""
import fcntl
import mmap
import os
import pathlib
import struct
import sys
import unittest

DEVICE = pathlib.Path("/dev/udmabuf")
CAMERA = pathlib.Path("/dev/video0")
if not DEVICE.exists():
    print("SKIP: the kernel has no udmabuf, so there is nothing that makes a dma-buf")
    sys.exit(77)

import daemon  # noqa: E402

UDMABUF_CREATE = 0x40187542  # _IOW('u', 0x42, struct udmabuf_create), include/uapi/linux/udmabuf.h
CLOEXEC = 1
PAGE = mmap.PAGESIZE

# include/uapi/linux/videodev2.h, on 64-bit machines
REQBUFS, QUERYBUF, QBUF, EXPBUF = 0xC0145608, 0xC0585609, 0xC058560F, 0xC0405610
DQBUF, STREAMON, STREAMOFF = 0xC0585611, 0x40045612, 0x40045613
CAPTURE, MMAP = 1, 1
BUFFER = "=5I4x32x2IQI12x"  # index, type, bytesused, flags, field; sequence, memory, offset, length
EXPORT = "=4Ii44x"  # type, index, plane, flags, fd
SIDE = 5  # of the model's input, a cube


class Camera:
    """The frames of CAMERA: each a dma-buf in @fds, and in @maps the memory as the camera itself maps it."""

    def __init__(self, n):
        self.file = open(CAMERA, "r+b", buffering=0)
        n = struct.unpack_from("=I", self.ask(REQBUFS, "=5I", n, CAPTURE, MMAP, 0, 0))[0]
        self.fds, self.maps = [], []
        for i in range(n):
            self.fds.append(struct.unpack(EXPORT, self.ask(EXPBUF, EXPORT, CAPTURE, i, 0, os.O_RDWR | os.O_CLOEXEC, -1))[4])
            *_, offset, length = struct.unpack(BUFFER, self.buffer(QUERYBUF, i))
            self.maps.append(mmap.mmap(self.file.fileno(), length, offset=offset))
            self.buffer(QBUF, i)
        self.ask(STREAMON, "=i", CAPTURE)

    def ask(self, request, layout, *values):
        argument = bytearray(struct.pack(layout, *values))
        fcntl.ioctl(self.file, request, argument)
        return argument

    def buffer(self, request, i=0):
        return self.ask(request, BUFFER, i, CAPTURE, 0, 0, 0, 0, MMAP, 0, 0)

    def take(self):
        """Wait for a frame; its index. The camera does not write it until it is put back."""
        return struct.unpack_from("=I", self.buffer(DQBUF))[0]

    def close(self):
        self.ask(STREAMOFF, "=i", CAPTURE)
        for m in self.maps:
            m.close()
        for fd in self.fds:
            os.close(fd)
        self.file.close()


class DmaBuf(daemon.Case):
    models = {"add_one": daemon.PROGRAMS["add_one"],
              "max": daemon.TOP / "tests" / "corpus" / "opdb" / "max.reduction_with_dim.uint8.1.bpte"}

    def make(self, n_bytes):
        """The descriptors of a dma-buf and of the memory below it, through which the device writes."""
        memory = os.memfd_create("device", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
        self.addCleanup(os.close, memory)
        os.truncate(memory, n_bytes)
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        with open(DEVICE, "r+b", buffering=0) as device:
            fd = fcntl.ioctl(device, UDMABUF_CREATE, bytearray(struct.pack("=IIQQ", memory, CLOEXEC, 0, n_bytes)))
        self.addCleanup(os.close, fd)
        return fd, memory

    def test_input_of_a_device(self):
        d = self.connect()
        fd, memory = self.make(PAGE)
        r = d.import_region(fd)
        self.assertEqual(len(r), PAGE)
        b = d.open("add_one").bind([(r, 64)], [(d.region(PAGE), 0)])
        for values in (1, 2), (3, 4.5):
            with mmap.mmap(memory, PAGE) as written:
                written[64:72] = struct.pack("<2f", *values)
            b.infer()
            self.assertEqual(b.outputs[0].tolist(), [v + 1 for v in values])
            self.assertEqual(b.inputs[0].tolist(), list(values))
        self.assertEqual(b.n_copied, 0)

    @unittest.skipUnless(CAMERA.exists(), "there is no camera")
    def test_camera(self):
        camera = Camera(3)
        self.addCleanup(camera.close)
        d = self.connect()
        m = d.open("max")
        self.assertEqual(m.inputs[0].shape, (SIDE, SIDE, SIDE))
        bindings = []
        for fd, frame in zip(camera.fds, camera.maps):
            out = d.region(PAGE)
            bindings.append(m.bind([(d.import_region(fd), len(frame) // 2)], [(out, 0), (out, 64)]))
        seen = set()
        for _ in range(3 * len(bindings)):
            i = camera.take()
            x = camera.maps[i][len(camera.maps[i]) // 2:][:SIDE ** 3]
            rows = [[x[(j * SIDE + k) * SIDE:][:SIDE] for k in range(SIDE)] for j in range(SIDE)]
            bindings[i].infer()
            self.assertEqual(bindings[i].outputs[0].tolist(), [[[max(column) for column in zip(*square)]] for square in rows])
            seen.add(x)
            camera.buffer(QBUF, i)
        self.assertNotIn(bytes(SIDE ** 3), seen)
        self.assertEqual([b.n_copied for b in bindings], [0] * len(bindings))

    def test_view_outlives_it(self):
        d = self.connect()
        fd, memory = self.make(PAGE)
        view = memoryview(d.import_region(fd))
        d.close()
        os.pwrite(memory, b"seen", 0)
        self.assertEqual(bytes(view[:4]), b"seen")


if __name__ == "__main__":
    daemon.main()
