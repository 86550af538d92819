#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Test requests on an event loop of asyncio.

    test_async.py INFERD
"""
import asyncio
import gc
import selectors
import sys
import threading

import daemon
import inferd


async def turn():
    """Let the loop run what waits now."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    loop.call_soon(future.set_result, None)
    await future


class Loops(daemon.Case):
    def bindings(self, n, model="add_one", d=None):
        m = (d or self.connect()).open(model)
        return [m.bind() for _ in range(n)]

    def test_many_at_once(self):
        bindings = self.bindings(64)
        for i, b in enumerate(bindings):
            b.inputs[0][:] = i

        async def main():
            for _ in range(5):
                await asyncio.gather(*(b.infer_async() for b in bindings))
        asyncio.run(main())
        self.assertEqual([b.outputs[0][0] for b in bindings], [i + 1 for i in range(64)])

    def test_each_loop(self):
        b, = self.bindings(1)

        async def main():
            for _ in range(3):
                self.assertIsNone(await b.infer_async(timeout=60, priority=inferd.Priority.BATCH))
            await asyncio.wait_for(b.infer_async(), 60)
        for _ in range(3):
            asyncio.run(main())
        for selector in selectors.SelectSelector, selectors.PollSelector, selectors.EpollSelector:
            loop = asyncio.SelectorEventLoop(selector())
            loop.run_until_complete(main())
            loop.close()
        asyncio.run(main(), debug=True)

    def test_an_idle_connection_is_not_watched(self):
        d = self.connect()
        b, = self.bindings(1, "add_one", d)

        async def main():
            loop = asyncio.get_running_loop()
            await b.infer_async()
            self.assertIn(d.fileno(), loop._selector.get_map(), "a task goes on with it")
            for _ in range(3):
                await turn()
            self.assertNotIn(d.fileno(), loop._selector.get_map())
        asyncio.run(main())

    def test_errors(self):
        b, = self.bindings(1)
        n, = self.bindings(1, "left_out")
        with self.assertRaises(RuntimeError):
            b.infer_async()  # no loop

        async def main():
            with self.assertRaises(TypeError):
                b.infer_async(speed=1)
            with self.assertRaisesRegex(inferd.InvalidArgument, "is a number"):
                n.infer_async()
            with self.daemon.paused():
                first = b.infer_async()
                with self.assertRaises(inferd.Busy):
                    b.infer_async()
                with self.assertRaises(inferd.Busy):
                    b.infer()
            await first
            with self.assertRaises(inferd.MissedDeadline) as caught:
                with self.daemon.paused():
                    await b.infer_async(timeout=0.01)
            self.assertIn("timeout", str(caught.exception))
            await b.infer_async()
            b.close()
            with self.assertRaises(inferd.FailedPrecondition):
                b.infer_async()
        asyncio.run(main())

    def test_cancelling(self):
        """A cancelled request leaves the queue, and a next one on its binding waits for that."""
        slow, b = self.bindings(1, "efficientnet_lite0")[0], self.bindings(1)[0]

        async def wait(binding):
            await binding.infer_async()

        async def main():
            with self.daemon.paused():
                task = asyncio.ensure_future(wait(b))
                await turn()
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                again = b.infer_async()
                with self.assertRaises(inferd.Busy):
                    b.infer_async()
                again.cancel()
                await turn()
                again = b.infer_async()
                self.assertFalse(again.done())
            b.inputs[0][:] = [1, 2]
            await again
            self.assertEqual(b.outputs[0].tolist(), [2, 3])
            with self.assertRaises(TimeoutError):
                with self.daemon.paused():
                    await asyncio.wait_for(slow.infer_async(), 0.01)
            await slow.infer_async()
        asyncio.run(main())

    def test_a_thousand_cancelled(self):
        d = self.connect()
        bindings = self.bindings(100, "efficientnet_lite0", d)

        async def main():
            for _ in range(10):
                tasks = [asyncio.ensure_future(self.wait(b)) for b in bindings]
                await turn()
                for task in tasks:
                    task.cancel()
                ended = await asyncio.gather(*tasks, return_exceptions=True)
                self.assertTrue(all(isinstance(e, asyncio.CancelledError) for e in ended))
            await asyncio.gather(*(b.infer_async() for b in bindings[:2]))
        asyncio.run(main())
        bindings[2].method.bind().infer()

    @staticmethod
    async def wait(b):
        await b.infer_async()

    def test_closing_in_flight(self):
        for close in ("binding", "method", "connection"):
            d = inferd.connect()
            b, other = self.bindings(2, "add_one", d)

            async def main():
                with self.daemon.paused():
                    futures = [b.infer_async(), other.infer_async()]
                    if close == "connection":
                        d.close()
                    elif close == "binding":
                        b.close()
                    else:
                        b.method.close()
                first, second = await asyncio.gather(*futures, return_exceptions=True)
                self.assertIsInstance(first, (inferd.Cancelled, type(None)))
                if close != "method":
                    self.assertIsInstance(first, inferd.Cancelled)
                if close == "binding":
                    self.assertIsNone(second)
            asyncio.run(main())
            d.close()

    def test_closing_in_another_thread(self):
        d = inferd.connect()
        b, = self.bindings(1, "add_one", d)

        async def main():
            with self.daemon.paused():
                future = b.infer_async()
                thread = threading.Thread(target=d.close)
                thread.start()
                with self.assertRaises(inferd.Cancelled):
                    await future
                thread.join()
        asyncio.run(main(), debug=False)

    def test_a_loop_that_was_closed(self):
        d = inferd.connect()
        b, other = self.bindings(2, "add_one", d)
        first, second = asyncio.new_event_loop(), asyncio.new_event_loop()

        async def start():
            return b.infer_async()

        async def refused():
            with self.assertRaises(RuntimeError):
                other.infer_async()

        with self.daemon.paused():
            future = first.run_until_complete(start())
            second.run_until_complete(refused())
            first.close()
        self.assertFalse(future.done())
        second.run_until_complete(self.wait(other))
        second.close()
        d.close()

    def test_the_daemon_dies(self):
        d = self.connect()
        bindings = self.bindings(8, "add_one", d)

        async def main():
            with self.daemon.paused():
                futures = [b.infer_async() for b in bindings]
                self.daemon.process.kill()
            ended = await asyncio.gather(*futures, return_exceptions=True)
            self.assertTrue(all(isinstance(e, inferd.Disconnected) for e in ended), ended)
            with self.assertRaises(inferd.Disconnected):
                await bindings[0].infer_async()
            for _ in range(5):
                await turn()
        asyncio.run(main())
        self.daemon.process.wait()
        self.daemon.start()

    def test_nothing_stays(self):
        b, = self.bindings(1)

        async def main(n):
            for _ in range(n):
                await b.infer_async()

        def grown(do):
            do(500)
            gc.collect()
            before = sys.getallocatedblocks()
            do(5000)
            gc.collect()
            return sys.getallocatedblocks() - before
        self.assertLess(grown(lambda n: [b.infer() for _ in range(n)]), 500)
        self.assertLess(grown(lambda n: asyncio.run(main(n))), 500)


if __name__ == "__main__":
    daemon.main()
