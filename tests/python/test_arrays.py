#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Test tensors: buffers, indices, assignment, DLPack, NumPy.

    test_arrays.py INFERD
"""
import array
import ctypes
import gc
import unittest

import daemon
import inferd

try:
    import numpy as np
except ImportError:
    np = None


class Buffers(daemon.Case):
    def setUp(self):
        self.b = self.binding("last")
        self.x = self.b.inputs[0]
        self.shape = self.x.shape

    def test_buffer(self):
        view = memoryview(self.x)
        self.assertEqual((view.format, view.shape, view.strides, view.readonly), ("f", self.shape, self.x.strides, False))
        self.assertEqual(view.nbytes, self.x.nbytes)
        self.assertTrue(memoryview(self.b.outputs[0]).readonly)
        with self.assertRaises(TypeError):
            ctypes.c_char.from_buffer(self.b.outputs[0])
        with self.assertRaises((BufferError, TypeError)):  # it is channels-last
            ctypes.c_char.from_buffer(self.x)
        self.assertEqual(len(self.x), self.shape[0])
        self.assertEqual(repr(self.x), f"<inferd.Tensor FP32 {self.shape}>")
        ctypes.c_char.from_buffer(self.binding().inputs[0])

    def test_indices(self):
        n, c, h, w = self.shape
        self.x[...] = 0
        self.x[0, 1] = [[10 * i + k for k in range(w)] for i in range(h)]
        self.assertEqual(self.x[0, 1, 1, 0], 10)
        self.assertEqual(self.x[-n][1][-1][-1], 10 * (h - 1) + w - 1)
        self.assertEqual(self.x[..., -1].shape, (n, c, h))
        self.assertEqual(self.x[0, 1, ::-1, 0].tolist(), [10 * i for i in reversed(range(h))])
        self.assertEqual(self.x[0, 1, :, 1:0].shape, (h, 0))
        self.assertEqual(self.x[0, 1, 9:].tolist(), [])
        self.assertEqual([row.tolist() for row in self.x[0, 1]], self.x[0, 1].tolist())
        self.assertEqual(self.x[0, 1, 0, 0, ...].tolist(), 0)
        for key in n, -n - 1, (0, 9), (0, 0, 0, 0, 0), (..., ...), (0, 0, 0, 0, 0, ...):
            with self.assertRaises(IndexError):
                self.x[key]
        for key in "0", 1.5, None:
            with self.assertRaises(TypeError):
                self.x[key]
        with self.assertRaises(ValueError):
            self.x[::0]
        with self.assertRaises(TypeError):
            del self.x[0]
        with self.assertRaises(TypeError):
            len(self.x[0, 0, 0, 0, ...])

    def test_assignment(self):
        x = self.binding().inputs[0]
        for value in [1, 2], (1.0, 2), array.array("f", [1, 2]), memoryview(array.array("f", [1, 2])), range(1, 3), \
                memoryview(array.array("f", [2, 0, 1]))[::-2], [[1, 2]][0]:
            x[:] = 0
            x[:] = value
            self.assertEqual(x.tolist(), [1, 2])
        x[:] = x[::-1]
        self.assertEqual(x.tolist(), [2, 1])
        x[:] = 5
        x[0] = True
        self.assertEqual(x.tolist(), [1, 5])
        for value in array.array("d", [1, 2]), array.array("i", [1, 2]), b"12345678", "ab", None, ["a", 1], object(), {1, 2}:
            with self.assertRaises(TypeError):
                x[:] = value
        for value in [1], [1, 2, 3], [[1, 2], [3, 4]], array.array("f", [1]), [], [[1], [2]]:
            with self.assertRaises((ValueError, TypeError)):
                x[:] = value
        self.assertEqual(x.tolist()[1:], [5], "a refused value has changed something")
        with self.assertRaises(TypeError):
            self.b.outputs[0][:] = 0
        with self.assertRaises(TypeError):
            self.b.outputs[0] = 0
        with self.assertRaises(TypeError):
            del self.b.inputs[0]

    def test_read_only_and_strided_sources(self):
        n = self.x.nbytes // 4
        source = memoryview(array.array("f", range(n)).tobytes()).cast("f", self.shape)  # read-only
        self.x[:] = source
        self.assertEqual(self.x.tolist(), source.tolist())
        self.x[:] = source[:]
        self.x[:] = memoryview(self.x)
        self.assertEqual(self.x.tolist(), source.tolist())
        self.x[:] = source.tolist()
        self.assertEqual(self.x.tolist(), source.tolist())

    def test_a_sequence_that_misbehaves(self):
        x = self.binding().inputs[0]

        class Raises(list):
            def __getitem__(self, index):
                raise KeyError(index)

        class Shrinks(list):
            def __getitem__(self, index):
                self.clear()
                return list.__getitem__(self, index)

        class Lies(list):
            def __len__(self):
                return 2

        for value in Raises([1, 2]), Shrinks([1, 2]), Lies([1]):
            with self.assertRaises((KeyError, IndexError)):
                x[:] = value
        deep = []
        deep.append(deep)
        with self.assertRaises((ValueError, TypeError)):
            x[:] = [deep, deep]
        with self.assertRaises((ValueError, TypeError)):
            self.binding("dynamic").inputs[0] = deep

    def test_slots(self):
        self.assertEqual((len(self.b.inputs), len(list(self.b.outputs))), (1, 1))
        self.assertEqual(self.b.inputs["input_0"].shape, self.b.inputs[-1].shape)
        for key in 1, -2, 1 << 80:
            with self.assertRaises(IndexError):
                self.b.inputs[key]
        with self.assertRaises(KeyError):
            self.b.inputs["output_0"]
        with self.assertRaises(TypeError):
            self.b.inputs[None]

    def test_dlpack_capsules(self):
        y = self.b.outputs[0]
        self.assertEqual(y.__dlpack_device__(), (1, 0))
        for options, name in ({}, "dltensor"), ({"max_version": None}, "dltensor"), ({"max_version": (0, 8)}, "dltensor"), \
                ({"max_version": (1, 0)}, "dltensor_versioned"), ({"max_version": (2, 1), "copy": True}, "dltensor_versioned"), \
                ({"dl_device": (1, 0), "stream": None, "copy": False}, "dltensor"):
            self.assertIn(f'"{name}"', repr(y.__dlpack__(**options)))
        with self.assertRaises(BufferError):
            y.__dlpack__(dl_device=(2, 0))
        for options in {"max_version": 1}, {"max_version": ("a", 0)}, {"dl_device": "cpu"}, {"size": 1}:
            with self.assertRaises(TypeError):
                y.__dlpack__(**options)

    def test_taking_dlpack(self):
        class Other:
            """An array of a library without buffers."""

            def __init__(self, tensor, **options):
                self.tensor, self.options = tensor, options

            def __dlpack__(self, **options):
                if self.options:
                    options = self.options.get("options", {})
                return self.tensor.__dlpack__(**options)

        class Old:
            def __init__(self, tensor):
                self.tensor = tensor

            def __dlpack__(self, stream=None):
                return self.tensor.__dlpack__(stream=stream)

        class Broken:
            def __init__(self, answer):
                self.answer = answer

            def __dlpack__(self, **_):
                return self.answer

        a, b = self.binding().inputs[0], self.binding().inputs[0]
        a[:] = [1, 2]
        for other in Other(a), Old(a), Other(a[::1]):
            b[:] = 0
            b[:] = other
            self.assertEqual(b.tolist(), [1, 2])
        b[:] = Other(a[::-1])
        self.assertEqual(b.tolist(), [2, 1])
        with self.assertRaises(ValueError):
            b[:] = Other(a[:1])
        with self.assertRaises(BufferError):
            b[:] = Broken(5)
        with self.assertRaises(TypeError):
            b[:] = Broken  # the class

    def test_views_outlive_everything(self):
        d = inferd.connect()
        m = d.open("add_one")
        b = m.bind()
        b.inputs[0][:] = [1, 2]
        b.infer()
        x, view, slots = b.inputs[0], memoryview(b.outputs[0]), b.outputs
        region = memoryview(d.region(4096))
        b.close()
        with self.assertRaises(inferd.FailedPrecondition):
            slots[0]
        m.close()
        d.close()
        del b, m, d
        gc.collect()
        self.assertEqual((x.tolist(), view.tolist(), bytes(region)), ([1, 2], [2, 3], bytes(4096)))
        x[:] = 9
        region[0] = 1


@unittest.skipUnless(np, "NumPy is not installed")
class NumPy(daemon.Case):
    def test_no_copy(self):
        b = self.binding()
        x, y = np.asarray(b.inputs[0]), np.asarray(b.outputs[0])
        x[:] = [1, 2]
        b.infer()
        self.assertEqual(y.tolist(), [2, 3])
        self.assertEqual(x.dtype, np.float32)
        with self.assertRaises(ValueError):
            y[0] = 1
        last = self.binding("last").inputs[0]
        view = np.asarray(last)
        view[...] = np.arange(view.size).reshape(view.shape)
        self.assertEqual((view.strides, last.tolist()), (last.strides, view.tolist()))

    def test_from_dlpack(self):
        b = self.binding()
        x, y = np.from_dlpack(b.inputs[0]), np.from_dlpack(b.outputs[0])
        b.inputs[0][:] = [1, 2]
        b.infer()
        self.assertEqual((x.tolist(), y.tolist()), ([1, 2], [2, 3]))
        self.assertFalse(y.flags.writeable)
        self.assertTrue(np.shares_memory(x, np.asarray(b.inputs[0])))
        del b
        gc.collect()
        self.assertEqual(x.tolist(), [1, 2])

    def test_assigning_arrays(self):
        b = self.binding("last")
        shape = b.inputs[0].shape
        x = np.random.default_rng(1).random(shape, np.float32)
        for source in x, np.asfortranarray(x), x[None], np.flip(np.flip(x, 1), 1), x.astype("=f4"), \
                np.lib.stride_tricks.as_strided(x, shape, x.strides, writeable=False):
            b.inputs[0][:] = 0
            b.inputs[0][:] = source
            np.testing.assert_array_equal(np.asarray(b.inputs[0]), x)
        b.inputs[0][:] = np.broadcast_to(np.float32(3), shape)
        b.inputs[0][0, 0, 0, 0] = np.float64(4)
        b.inputs[0][0, 0, 0, 1] = np.array(5)
        self.assertEqual(np.asarray(b.inputs[0]).sum(), 3 * x.size + 3)
        for source in x.astype(np.float64), x.astype(">f4"), x.astype(np.int32), x.astype(object), x.astype("S4"), \
                x.astype([("a", "f4")]):
            with self.assertRaises((TypeError, ValueError)):
                b.inputs[0][:] = source
        for source in x[:, :1], x.T if x.T.shape != x.shape else x[:, 1:], x.reshape(-1), np.zeros((0,), np.float32), \
                np.zeros((1,) * 20, np.float32):
            with self.assertRaises(ValueError):
                b.inputs[0][:] = source

    def test_results(self):
        m = self.connect().open("efficientnet_lite0")
        x = np.random.default_rng(1).random(m.inputs[0].shape, np.float32)
        b = m.bind()
        b.inputs[0] = x
        b.infer()
        np.testing.assert_array_equal(np.asarray(m(x)), np.asarray(b.outputs[0]))
        copy = m(x)
        m(x + 1)
        np.testing.assert_array_equal(np.asarray(copy), np.asarray(b.outputs[0]))

    def test_dynamic(self):
        b = self.binding("dynamic")
        rng = np.random.default_rng(2)
        largest = [info.shape for info in b.method.inputs]
        for k in range(2):
            shapes = [[max(1, n - k) if i == 0 else n for i, n in enumerate(shape)] for shape in largest]
            arrays = [rng.random(shape, np.float32) for shape in shapes]
            for i, a in enumerate(arrays):
                b.inputs[i] = a
            b.infer()
            np.testing.assert_allclose(np.asarray(b.outputs[0]), arrays[0] @ arrays[1], rtol=1e-4)


if __name__ == "__main__":
    daemon.main()
