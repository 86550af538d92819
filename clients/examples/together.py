#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Run several models at once, each by a connection with a weight of its own, and see how the daemon divides the processor.

    together.py [--seconds S] [MODEL:WEIGHT ...]

Prints requests a second, the share of the run time, and the median of the waiting time of each. The default is four models.
A user whose weight in inferd.conf is 1 has nothing to divide: all connections count as 1 then.
"""
import argparse
import asyncio
import statistics
import sys
import time

import inferd

IN_FLIGHT = 2  # so that the daemon always has something to choose from


async def ask(m, end, timings):
    b = m.bind()
    while time.monotonic() < end:
        await b.infer_async()
        timings.append(b.timing)


async def load(model, weight, end, timings):
    with inferd.connect(name=f"together-{model}", weight=weight) as d:
        m = d.open(model)
        # a Method with a state takes one request after the other
        await asyncio.gather(*(ask(m, end, timings) for _ in range(1 if m.is_stateful else IN_FLIGHT)))


async def main():
    parser = argparse.ArgumentParser(description="Run several models at once with weights.")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("models", nargs="*", metavar="MODEL:WEIGHT",
                        default=["efficientnet_lite0:4", "yolo11n:2", "minilm:1", "silero_vad:1"])
    options = parser.parse_args()
    models = [(name, int(weight or 1)) for name, _, weight in (m.partition(":") for m in options.models)]
    found = [[] for _ in models]
    for name, weight in models:  # load the models before the clock runs
        with inferd.connect() as d:
            d.open(name)
    end = time.monotonic() + options.seconds
    await asyncio.gather(*(load(name, weight, end, timings) for (name, weight), timings in zip(models, found)))
    total = sum(t.run_ns for timings in found for t in timings)
    for (name, weight), timings in zip(models, found):
        print(name, f"weight {weight}", f"{len(timings) / options.seconds:.1f}/s",
              f"{sum(t.run_ns for t in timings) / total:.2f}",
              f"waits {statistics.median(t.queue_ns for t in timings) / 1e6:.2f} ms", sep="\t")


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except (inferd.Error, OSError, ValueError) as error:
        sys.exit(f"together: {error}")
