#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Test that nothing a script does crashes the interpreter, or leaves the daemon with something of it.

    test_rude.py INFERD
"""
import copy
import gc
import os
import pickle
import sys
import threading

import daemon
import inferd


class Rude(daemon.Case):
    config = "methods = 200\nbindings = 120\nregions = 120\n"

    def test_use_after_close(self):
        d = self.connect()
        m = d.open("add_one")
        b, r = m.bind(), d.region(64)
        for thing in b, r, m, d:
            thing.close()
            thing.close()
        for use in (lambda: b.infer(), lambda: b.inputs[0], lambda: b.outputs[0], lambda: b.set_input_shape(0, (2,)),
                    lambda: b.timing, lambda: b.profile, lambda: b.n_copied, lambda: m.bind(), lambda: m([1, 2]),
                    lambda: m.reset(), lambda: m.backend, lambda: m.version, lambda: d.open("add_one"),
                    lambda: d.region(64), lambda: d.fileno(), lambda: b.inputs.__setitem__(0, [1, 2])):
            with self.assertRaises(inferd.Error):
                use()
        self.assertEqual((m.inputs[0].name, len(b.inputs), b.method), ("input_0", 1, m))
        with self.assertRaises(inferd.Error), d:
            d.open("add_one")

    def test_closed_halfway(self):
        d = self.connect()
        m, r = d.open("add_one"), d.region(4096)
        b = m.bind([(r, 0)], [(r, 64)])
        m.close()
        with self.assertRaises(inferd.FailedPrecondition):
            b.infer()
        r.close()
        with self.assertRaises(inferd.FailedPrecondition):
            d.open("add_one").bind([(r, 0)], [(r, 64)])
        b.inputs[0][:] = 1
        with self.assertRaises(inferd.FailedPrecondition):
            d.open(share_with=m, method="forward")

    def test_types_make_nothing(self):
        b = self.binding()
        for thing in b, b.method, b.inputs, b.inputs[0], self.connect(), self.connect().region(64):
            with self.assertRaises(TypeError):
                type(thing)()
            with self.assertRaises(TypeError):
                object.__new__(type(thing))
            with self.assertRaises(TypeError):
                copy.copy(thing)
            with self.assertRaises(TypeError):
                pickle.dumps(thing)
            with self.assertRaises((AttributeError, TypeError)):
                thing.anything = 1
            with self.assertRaises(TypeError):
                type("Sub", (type(thing),), {})

    def test_threads(self):
        """Eight threads on one connection, while others open, bind, close, and look."""
        d = inferd.connect()
        m = d.open("add_one")
        failures, n = [], 200

        def infer(k):
            b = m.bind()
            for i in range(n):
                b.inputs[0][:] = [k, i]
                b.infer()
                if b.outputs[0].tolist() != [k + 1, i + 1]:
                    failures.append((k, i))

        def call(k):
            for i in range(n):
                if m([k, i]).tolist() != [k + 1, i + 1]:
                    failures.append((k, i))

        def churn(k):
            for _ in range(n // 8):
                x = d.open("add_one").bind().inputs[0]
                x[:] = k
                d.region(4096)
                gc.collect()

        threads = [threading.Thread(target=f, args=(k,)) for k, f in enumerate((infer, infer, call, call, churn, churn))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        d.close()

    def test_closing_under_threads(self):
        for _ in range(10):
            d = inferd.connect()
            bindings = [d.open("add_one").bind() for _ in range(4)]
            begun = threading.Barrier(5)

            def work(b):
                begun.wait()
                try:
                    while True:
                        b.infer()
                except inferd.Error:
                    pass
            threads = [threading.Thread(target=work, args=(b,)) for b in bindings]
            for thread in threads:
                thread.start()
            begun.wait()
            d.close()
            for thread in threads:
                thread.join()

    def test_garbage_in_cycles(self):
        for _ in range(20):
            d = inferd.connect()
            m = d.open("add_one")
            m([1, 2])
            cycle = [d, m, m.bind()]
            cycle.append(cycle)
            cycle.append(memoryview(cycle[2].inputs[0]))
        del d, m, cycle
        gc.collect()
        self.assertLess(len(os.listdir("/proc/self/fd")), 40)

    def test_fork(self):
        self.script("""
b = d.open("add_one").bind()
m = b.method
b.inputs[0][:] = [1, 2]
b.infer()
child = os.fork()
if not child:
    assert b.outputs[0].tolist() == [2, 3]
    for use in b.infer, m.bind, m.reset, lambda: d.open("add_one"), lambda: m([1, 2]), d.fileno, lambda: b.timing:
        try:
            use()
            os._exit(1)
        except inferd.Disconnected as e:
            assert "fork" in str(e)
    b.close(), m.close(), d.close()
    with inferd.connect() as own:
        assert own.open("add_one")([1, 2]).tolist() == [2, 3]
    del b, m, d
    import gc
    gc.collect()
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
for _ in range(10):
    b.infer()
""")

    def test_fork_while_another_thread_waits(self):
        self.script("""
b, begun = d.open("efficientnet_lite0").bind(), threading.Event()
def work():
    begun.set()
    for _ in range(20):
        b.infer()
thread = threading.Thread(target=work)
thread.start()
begun.wait()
for _ in range(5):
    child = os.fork()
    if not child:
        try:
            b.infer()
        except inferd.Disconnected:
            del b, d
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
thread.join()
""")

    def test_exit_in_flight(self):
        for text in """
b = d.open("efficientnet_lite0").bind()
async def main():
    b.infer_async()
asyncio.run(main())
""", """
bindings = [d.open("efficientnet_lite0").bind() for _ in range(4)]
for b in bindings:
    threading.Thread(target=lambda b=b: [b.infer() for _ in range(1000)], daemon=True).start()
while not bindings[0].timing.run_ns:
    pass
""", """
b = d.open("efficientnet_lite0").bind()
loop = asyncio.new_event_loop()
async def main():
    b.infer_async()
loop.run_until_complete(main())
""", """
b = d.open("efficientnet_lite0").bind()
class Late:
    def __del__(self, infer=b.infer, x=b.inputs[0]):
        x[...] = 1
        infer()
keep = Late()
sys.keep = keep
""", """
x = memoryview(d.open("add_one").bind().inputs[0])
capsule = d.open("add_one").bind().outputs[0].__dlpack__(max_version=(1, 0))
sys.keep = [x, capsule]
""", """
b = d.open("efficientnet_lite0").bind()
threading.Thread(target=b.infer).start()
d.close()
""":
            self.script(text)

    def test_the_process_ends_while_it_waits(self):
        self.script("""
b = d.open("add_one").bind()
waits = False
def end(*_):
    global waits
    if waits:  # once: a second exception would leave the daemon stopped
        waits = False
        sys.exit(7)
signal.signal(signal.SIGALRM, end)
os.kill(int(sys.argv[1]), signal.SIGSTOP)
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
try:
    waits = True
    while True:
        b.infer()
finally:
    signal.setitimer(signal.ITIMER_REAL, 0)
    os.kill(int(sys.argv[1]), signal.SIGCONT)
""", str(self.daemon.process.pid), status=7)

    def test_memory_ends_with_the_last_view(self):
        def mapped():
            with open("/proc/self/maps", encoding="utf-8") as f:
                return f.read().count("inferd-python")
        d, before = self.connect(), mapped()
        b = d.open("add_one").bind()
        x = memoryview(b.inputs[0])
        self.assertGreater(mapped(), before)
        del b
        gc.collect()
        self.assertEqual(mapped(), before + 1)
        x.release()
        self.assertEqual(mapped(), before)

    def test_the_daemon_forgets(self):
        """Objects that go, in whatever order, go there too."""
        d = self.connect()
        for _ in range(300):  # more than a user may have at once, if they stayed
            m = d.open("add_one")
            b = m.bind()
            del m
            b.infer()
            del b


if __name__ == "__main__":
    sys.setswitchinterval(1e-4)
    daemon.main()
