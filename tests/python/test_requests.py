#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Test what the package inferd asks of the daemon: Methods, bindings, regions, requests, restarts.

    test_requests.py INFERD
"""
import fcntl
import mmap
import os
import signal
import threading

import daemon
import inferd

F_ADD_SEALS, SEALS = 1033, 2 | 4  # shrink, grow


class Requests(daemon.Case):
    def test_one_request(self):
        with inferd.connect() as d:
            m = d.open("add_one")
            b = m.bind()
            b.inputs[0][:] = [1, 2]
            b.infer()
            self.assertEqual(b.outputs[0].tolist(), [2, 3])
            self.assertGreater(b.timing.run_ns, 0)
            self.assertEqual(b.n_copied, 0)
            self.assertIs(b.method, m)
            self.assertFalse(d.closed)
        self.assertTrue(d.closed)

    def test_calls(self):
        m = self.connect().open("add_one")
        first, second = m([1, 2]), m(input_0=[3, 4])
        self.assertEqual((first.tolist(), second.tolist()), ([2, 3], [4, 5]))
        self.assertFalse(first.readonly)
        for args, named in ((), {}), (([1, 2], [3, 4]), {}), ((), {"x": [1, 2]}), (([1, 2],), {"input_0": [1, 2]}):
            with self.assertRaises(TypeError):
                m(*args, **named)

    def test_what_a_method_is(self):
        d = self.connect()
        m = d.open("efficientnet_lite0")
        self.assertEqual((m.version, m.backend, m.is_stateful), ("1", "xnnpack", False))
        x, = m.inputs
        self.assertEqual((x.name, x.datatype, x.shape, x.dim_order, x.n_bytes),
                         ("input_0", "FP32", (1, 3, 224, 224), (0, 1, 2, 3), 4 * 3 * 224 * 224))
        self.assertEqual((x.is_dynamic, x.is_scalar, x.labels, x.layout, x.scale), (False, False, (), None, ()))
        self.assertEqual(m.outputs[0].shape, (1, 1000))
        self.assertTrue(d.open("decoder").is_stateful)

    def test_numbers(self):
        m = self.connect().open("numbers")
        y, total, any_positive, largest = m([1, 5, 2])
        self.assertEqual((y.tolist(), total, any_positive, largest), ([2, 6, 3], 8.0, True, 1))
        self.assertEqual([type(v) for v in (total, any_positive, largest)], [float, bool, int])

    def test_scalar_inputs(self):
        b = self.binding("left_out")
        for i, value in enumerate(([1, 2, 3, 4], 3, 0.5, True)):
            b.inputs[i] = value
        b.infer()
        self.assertEqual(b.outputs[0].tolist(), [3.5, 6.5, 9.5, 12.5])
        b.inputs[3] = False
        with self.assertRaisesRegex(inferd.InvalidArgument, "one value of this Bool"):
            b.infer()
        with self.assertRaises(TypeError):
            b.inputs[1]
        with self.assertRaises(TypeError):
            b.inputs[1] = "three"
        with self.assertRaises(OverflowError):
            b.inputs[1] = 1 << 70
        with self.assertRaises(inferd.InvalidArgument):
            b.inputs[1] = float("inf")

    def test_missing_number(self):
        b = self.binding("left_out")
        with self.assertRaisesRegex(inferd.InvalidArgument, "is a number"):
            b.infer()

    def test_strings(self):
        d = self.connect()
        self.assertEqual(d.open("add_one", method="get_name")(), 'caf\u00e9 "\u4e2d" \x1b[31m\n')
        self.assertEqual(d.open("add_one", method="get_n")(), 7)
        self.assertEqual(d.open("add_one", method="get_scale")(), 0.5)
        self.assertIs(d.open("add_one", method="has_cache")(), True)

    def test_dim_order(self):
        m = self.connect().open("last")
        b = m.bind()
        self.assertEqual(m.inputs[0].dim_order, (0, 2, 3, 1))
        n, c, h, w = m.inputs[0].shape
        self.assertEqual(b.inputs[0].strides, (4 * c * h * w, 4, 4 * c * w, 4 * c))
        b.inputs[0][0, c - 1, 0, 0] = 7
        self.assertEqual(memoryview(b.inputs[0]).tolist()[0][c - 1][0][0], 7)

    def test_dynamic(self):
        b = self.binding("dynamic")
        shape = b.method.inputs[0].shape
        self.assertTrue(all(info.is_dynamic for info in b.method.inputs))
        self.assertEqual(b.inputs[0].shape, shape)
        with self.assertRaises(inferd.InvalidArgument):
            b.set_input_shape(0, [n + 1 for n in shape])
        for wrong in shape + (1,), [1] * 20:
            with self.assertRaises(ValueError):
                b.set_input_shape(0, wrong)
        for wrong in "abc", 5, [1 << 70] * 3, [None] * 3:
            with self.assertRaises((TypeError, OverflowError)):
                b.set_input_shape(0, wrong)
        with self.assertRaises(IndexError):
            b.set_input_shape(9, shape)
        small = (1, *shape[1:])
        b.set_input_shape("input_0", small)
        self.assertEqual(b.inputs[0].shape, small)

    def test_own_program(self):
        d = self.connect()
        path = daemon.SMALL / "constants.pte"
        with open(path, "rb") as f:
            for file in path, str(path), os.fsencode(path), f, f.fileno():
                self.assertEqual(d.open_program(file, name="mine")([1, 2]).tolist(), [2, 3])
        with self.assertRaises(FileNotFoundError):
            d.open_program(path.with_suffix(".nothing"))
        with self.assertRaises(TypeError):
            d.open_program(1.5)
        with self.assertRaises(inferd.Error):
            d.open_program(__file__)

    def test_data_files(self):
        folder = daemon.MODELS / "external"
        data = folder / "_default_external_constant.ptd"
        d = self.connect()
        m = d.open_program(folder / "mlp.bpte", data=[data])
        self.assertEqual(len(m.outputs), 1)
        with self.assertRaises(inferd.Error):
            d.open_program(folder / "mlp.bpte")
        with self.assertRaises(ValueError):
            d.open_program(folder / "mlp.bpte", data=[data] * 16)

    def test_shared_state(self):
        d = self.connect()
        begin = d.open("shared", method="begin")
        level = d.open(share_with=begin, method="level")
        alone = d.open("shared", method="level")
        before, untouched = level(), alone()
        self.assertEqual(before.tolist(), untouched.tolist())
        begin([[float(i + 8 * k) for i in range(8)] for k in range(4)], range(4))
        self.assertNotEqual(level().tolist(), before.tolist())
        self.assertEqual(alone().tolist(), untouched.tolist())
        begin.reset()
        self.assertEqual(level().tolist(), before.tolist())
        with self.assertRaises(inferd.InvalidArgument):
            self.connect().open(share_with=begin)
        with self.assertRaises(TypeError):
            d.open(share_with="begin")
        with self.assertRaises(TypeError):
            d.open()

    def test_regions(self):
        d = self.connect()
        m, r = d.open("add_one"), d.region(4096)
        a = m.bind([(r, 0)], [(r, 64)])
        b = m.bind([(r, 64)], [(r, 128)])
        a.inputs[0][:] = [1, 2]
        a.infer()
        b.infer()  # its input is the other's output
        self.assertEqual(b.outputs[0].tolist(), [3, 4])
        self.assertEqual(memoryview(r)[128:136].cast("f").tolist(), [3, 4])
        r.close()
        b.infer()
        self.assertIsNone(m.bind([d.region(64)], [None]).outputs[0])
        for inputs, outputs in ([(r, 0)], [(d.region(64), 0)]), ([(d.region(64), 8)], [d.region(64)]), \
                ([(d.region(64), 64)], [d.region(64)]), ([d.region(64)], []), ([(d.region(64), -64)], [d.region(64)]), \
                ([self.connect().region(64)], [d.region(64)]):
            with self.assertRaises((inferd.Error, ValueError)):
                m.bind(inputs, outputs)
        for inputs in ([1], [("r", 0)], [()], 5):
            with self.assertRaises(TypeError):
                m.bind(inputs, [d.region(64)])
        with self.assertRaises(TypeError):
            m.bind([d.region(64)])
        for size in 0, -1:
            with self.assertRaises(ValueError):
                d.region(size)
        for size in 1 << 61, 1 << 80:
            with self.assertRaises((OSError, OverflowError, inferd.Error)):
                d.region(size)

    def test_imported_region(self):
        d = self.connect()
        fd = os.memfd_create("mine", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
        self.addCleanup(os.close, fd)
        os.truncate(fd, 4096)
        with self.assertRaisesRegex(inferd.FailedPrecondition, "seal"):
            d.import_region(fd)
        fcntl.fcntl(fd, F_ADD_SEALS, SEALS)
        r = d.import_region(fd)
        self.assertEqual(len(r), 4096)
        b = d.open("add_one").bind([(r, 0)], [(r, 2048)])
        with mmap.mmap(fd, 4096) as mine:
            memoryview(b.inputs[0]).cast("B")[:] = bytes(memoryview(b.inputs[0]))
            mine[0:8] = bytes(memoryview(inferd.connect().open("add_one")([4, 5])).cast("B"))
            b.infer()
            self.assertEqual(memoryview(mine)[2048:2056].cast("f").tolist(), [6, 7])
        with self.assertRaises(inferd.InvalidArgument):
            d.import_region(fd, 8192)
        with open(__file__, "rb") as f, self.assertRaises(inferd.Error):
            d.import_region(f)
        with self.assertRaises((OSError, ValueError)):
            d.import_region(-1)

    def test_options(self):
        b = self.binding()
        for priority in None, inferd.Priority.BATCH, 3:
            b.infer(priority=priority, timeout=30)
        b.infer(profile=True)
        self.assertEqual(b.profile[8:12], b"ED00")
        b.infer()
        self.assertIsNone(b.profile)
        for named in {"priority": 9}, {"priority": "batch"}, {"timeout": -1}, {"timeout": "1"}, {"timeout": float("nan")}, \
                {"speed": 1}:
            with self.assertRaises((TypeError, ValueError)):
                b.infer(**named)
        with self.assertRaises(TypeError):
            b.infer(1)

    def test_errors(self):
        d = self.connect()
        with self.assertRaisesRegex(inferd.NotFound, "nothing") as caught:
            d.open("nothing")
        self.assertEqual(caught.exception.status, 5)
        self.assertIsInstance(caught.exception, (inferd.Error, LookupError))
        with self.assertRaises(inferd.NotFound):
            d.open("add_one", method="backward")
        with self.assertRaises(inferd.NotFound):
            d.open("add_one", version="9")
        with self.assertRaisesRegex(inferd.Disconnected, "cannot connect"):
            inferd.connect("/nonexistent/socket")
        self.assertTrue(issubclass(inferd.MissedDeadline, TimeoutError))
        with self.assertRaises(ValueError):
            d.open("a\0b")
        classes = {c.status for c in vars(inferd).values() if isinstance(c, type) and issubclass(c, inferd.Error)}
        self.assertEqual(classes, {1, 2, 3, 5, 7, 8, 9, 12, 13, 14, 32, 33, 34, 35, 64})

    def test_deadline(self):
        b = self.binding()
        with self.daemon.paused():
            with self.assertRaises(TimeoutError):
                b.infer(timeout=0.02)
        b.infer()
        with self.assertRaises(inferd.MissedDeadline):
            self.binding("efficientnet_lite0").infer(timeout=0)

    def test_the_lock_is_free_while_waiting(self):
        b, stopped = self.binding(), threading.Event()
        with self.daemon.paused():
            waiting = threading.Thread(target=b.infer)
            waiting.start()
            other = threading.Thread(target=stopped.set)
            other.start()
            self.assertTrue(stopped.wait(60), "another thread did not run")
        waiting.join()

    def test_ctrl_c(self):
        """A signal's exception ends a call that waits; the next request is answered."""
        b = self.binding()
        waits = False

        def end(*_):
            nonlocal waits
            if waits:  # once, and nowhere else: further signals may come at any time
                waits = False
                raise ZeroDivisionError
        before = signal.signal(signal.SIGUSR1, end)
        self.addCleanup(signal.signal, signal.SIGUSR1, before)
        done, main = threading.Event(), threading.main_thread().ident

        def interrupt():  # until it does: a signal just before the call sleeps is not noticed
            while not done.wait(0.01):
                signal.pthread_kill(main, signal.SIGUSR1)

        with self.daemon.paused():
            thread = threading.Thread(target=interrupt)
            thread.start()
            try:
                with self.assertRaises(ZeroDivisionError):
                    waits = True
                    while True:
                        b.infer()
            finally:
                done.set()
                thread.join()
        b.inputs[0][:] = [1, 2]
        b.infer()
        self.assertEqual(b.outputs[0].tolist(), [2, 3])

    def test_calls_without_a_timeout_have_that_of_the_connection(self):
        d = self.connect(timeout=1)  # on a busy machine the calls after the pause take a while
        m = d.open("add_one")
        with self.daemon.paused():
            for call in m.reset, lambda: d.region(4096), lambda: m.bind(timeout=0.2):
                with self.assertRaises(inferd.MissedDeadline):
                    call()
        m.reset()
        self.assertEqual(len(d.region(4096)), 4096)

    def test_a_handler_that_returns(self):
        b, seen = self.binding(), []
        before = signal.signal(signal.SIGUSR1, lambda *_: seen.append(self.refused(b)))
        self.addCleanup(signal.signal, signal.SIGUSR1, before)
        main = threading.main_thread().ident
        enough = threading.Event()

        def interrupt():
            while not seen:
                signal.pthread_kill(main, signal.SIGUSR1)
                enough.wait(0.01)
            os.kill(self.daemon.process.pid, signal.SIGCONT)

        daemon.stop(self.daemon.process.pid)
        thread = threading.Thread(target=interrupt)
        thread.start()
        b.infer()
        thread.join()
        self.assertIn(True, seen)

    @staticmethod
    def refused(b):
        try:
            b.infer()
        except inferd.Busy:
            return True
        return False


class Restarts(daemon.Case):
    models = {"add_one": daemon.SMALL / "constants.pte"}

    def test_restart(self):
        d = self.connect(reconnect=60)
        b = d.open("add_one").bind()
        lost = self.binding()
        self.daemon.stop()
        self.daemon.start()
        b.inputs[0][:] = [1, 2]
        b.infer()
        self.assertEqual(b.outputs[0].tolist(), [2, 3])
        with self.assertRaises(ConnectionError):
            lost.infer()
        with self.assertRaises(inferd.Disconnected):
            lost.method.bind()


if __name__ == "__main__":
    daemon.main()
