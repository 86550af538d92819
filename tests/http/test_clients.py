#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Test the gateway with clients that others wrote: each method of both of PyPI's tritonclient, and perf_analyzer.

    test_clients.py INFERD INFERD-HTTP INFERCTL

$INFERD_CLIENTS is the environment that `tools/test --with clients` installs them into; without it the test is skipped.
"""
import asyncio
import inspect
import os
import pathlib
import subprocess
import sys

CLIENTS = os.environ.get("INFERD_CLIENTS")
if not CLIENTS:
    print("SKIP: PyPI's clients are not installed; tools/test --with clients installs them")
    sys.exit(77)
if pathlib.Path(sys.prefix) != pathlib.Path(CLIENTS):
    os.execv(f"{CLIENTS}/bin/python", [f"{CLIENTS}/bin/python", "-B", *sys.argv])

import gateway  # noqa: E402
import numpy as np  # noqa: E402
import tritonclient.http as triton  # noqa: E402
import tritonclient.http.aio as triton_aio  # noqa: E402
import tritonclient.utils.shared_memory as shm  # noqa: E402
from tritonclient.utils import InferenceServerException  # noqa: E402

sys.path.append(str(gateway.TOP / "tests" / "support"))
import pictures  # noqa: E402

METHODS = {name for name, _ in inspect.getmembers(triton.InferenceServerClient, inspect.isfunction) if name[0] != "_"}
METHODS_AIO = {name for name, _ in inspect.getmembers(triton_aio.InferenceServerClient, inspect.isfunction) if name[0] != "_"}
LOCAL = {"close", "plugin", "register_plugin", "unregister_plugin"}  # ask the gateway nothing


class Recorder:
    """A client whose calls are noted by name; of the asynchronous one each call is run to its end."""

    def __init__(self, client, loop=None):
        self.client, self.loop, self.called = client, loop, set()

    def __getattr__(self, name):
        found = getattr(self.client, name)

        def call(*args, **kwargs):
            self.called.add(name)
            result = found(*args, **kwargs)
            return self.loop.run_until_complete(result) if inspect.iscoroutine(result) else result
        return call


class Both:
    """The cases, which run with either client."""

    config = "load = yes\nshared_memory = yes\n"
    called = set()

    def tearDown(self):
        type(self).called |= self.c.called

    def refused(self, has, call, *args, **kwargs):
        with self.assertRaises(InferenceServerException) as e:
            call(*args, **kwargs)
        self.assertIn(has, str(e.exception))

    @staticmethod
    def input(name, array, binary=True):
        kinds = {"float32": "FP32", "int64": "INT64", "float64": "FP64", "bool": "BOOL"}
        x = triton.InferInput(name, array.shape, kinds[array.dtype.name])
        x.set_data_from_numpy(array, binary_data=binary)
        return x

    def test_1_health(self):
        self.assertTrue(self.c.is_server_live())
        self.assertTrue(self.c.is_server_ready())
        self.assertTrue(self.c.is_model_ready("add_one"))
        self.assertTrue(self.c.is_model_ready("add_one", "1"))
        self.assertFalse(self.c.is_model_ready("none"))

    def test_1_metadata(self):
        self.assertEqual(self.c.get_server_metadata()["name"], "inferd")
        m = self.c.get_model_metadata("efficientnet_lite0", "1")
        self.assertEqual(m["inputs"][0]["shape"], [1, 3, 224, 224])
        self.assertEqual(self.c.get_model_config("efficientnet_lite0")["input"][0]["dims"], [1, 3, 224, 224])
        self.refused("Request for unknown model", self.c.get_model_metadata, "none")

    def test_1_repository(self):
        self.c.load_model("add_one")
        states = {m["name"]: m["state"] for m in self.c.get_model_repository_index()}
        self.assertEqual(states["add_one"], "READY")
        self.c.unload_model("add_one")
        states = {m["name"]: m["state"] for m in self.c.get_model_repository_index()}
        self.assertEqual(states["add_one"], "UNAVAILABLE")
        self.refused("Request for unknown model: 'none'", self.c.load_model, "none")

    def test_1_settings(self):
        self.assertEqual(self.c.get_trace_settings()["trace_level"], ["OFF"])
        self.assertEqual(self.c.get_trace_settings("add_one")["trace_level"], ["OFF"])
        self.refused("can only be read", self.c.update_trace_settings, settings={"trace_rate": "1"})
        self.assertIn("log_info", self.c.get_log_settings())
        self.refused("can only be read", self.c.update_log_settings, {"log_info": False})

    def test_1_infer(self):
        for binary_in in True, False:
            for binary_out in True, False:
                r = self.c.infer("add_one", [self.input("input_0", np.array([1, 2.5], np.float32), binary_in)], request_id="7",
                                 outputs=[triton.InferRequestedOutput("output_0", binary_data=binary_out)], priority=2,
                                 timeout=10_000_000)
                np.testing.assert_array_equal(r.as_numpy("output_0"), [2, 3.5])
                self.assertEqual(r.get_response()["id"], "7")
        r = self.c.infer("left_out", [self.input("input_0", np.array([1, 2, 3, 4], np.float32)),
                                      self.input("input_1", np.array([3])), self.input("input_2", np.array([0.5])),
                                      self.input("input_3", np.array([True]))])
        np.testing.assert_array_equal(r.as_numpy("output_0"), [3.5, 6.5, 9.5, 12.5])
        self.assertGreater(self.c.get_inference_statistics("add_one")["model_stats"][0]["inference_count"], 0)
        self.refused("unexpected shape", self.c.infer, "add_one", [self.input("input_0", np.zeros(3, np.float32))])
        self.refused("Request for unknown model", self.c.infer, "none", [self.input("input_0", np.zeros(2, np.float32))])

    def test_1_as_inferctl(self):
        """Equal to the bit, with each compression."""
        x = np.random.default_rng(3).normal(size=(1, 3, 224, 224)).astype(np.float32)
        np.save(self.folder / "x.npy", x)
        self.run_inferctl("infer", "efficientnet_lite0", "-i", f"{self.folder}/x.npy", "-o", f"{self.folder}/y.npy")
        y = np.load(self.folder / "y.npy")
        for encoding in None, "gzip", "deflate":
            r = self.c.infer("efficientnet_lite0", [self.input("input_0", x)], request_compression_algorithm=encoding,
                             response_compression_algorithm=encoding)
            self.assertEqual(r.as_numpy("output_0").tobytes(), y.tobytes())
        top = self.c.infer("efficientnet_lite0", [self.input("input_0", x)],
                           outputs=[triton.InferRequestedOutput("output_0", class_count=2)]).as_numpy("output_0")
        self.assertEqual(int(top.flatten()[0].split(b":")[1]), int(y.argmax()))

    def test_1_order_of_dimensions(self):
        x = np.random.default_rng(4).normal(size=(2, 3, 5, 6)).astype(np.float32)
        np.save(self.folder / "x.npy", x)
        self.run_inferctl("infer", "last", "-i", f"{self.folder}/x.npy", "-o", f"{self.folder}/y.npy")
        y = self.c.infer("last", [self.input("input_0", x)]).as_numpy("output_0")
        np.testing.assert_array_equal(y, np.load(self.folder / "y.npy"))

    def test_1_sequences(self):
        x = [np.random.default_rng(i).normal(size=(1, 3, 32)).astype(np.float32) for i in range(2)]
        def step(i, sequence):
            return self.c.infer("decoder", [self.input("input_0", x[i]), self.input("input_1", np.array([3 * i]))],
                                sequence_id=sequence, sequence_start=i == 0, sequence_end=i == 1).as_numpy("output_0")
        alone = [step(0, 1), step(1, 1)]
        mixed = [step(0, 2), step(0, "a"), step(1, 2), step(1, "a")]
        np.testing.assert_array_equal(mixed[2], alone[1])
        np.testing.assert_array_equal(mixed[3], alone[1])

    def test_1_bodies(self):
        x = self.input("input_0", np.array([1, 2], np.float32))
        kind = triton.InferenceServerClient if self.c.loop is None else triton_aio.InferenceServerClient
        self.c.called |= {"generate_request_body", "parse_response_body"}
        body, size = kind.generate_request_body([x])
        _, headers, answer = self.ask("POST", "/v2/models/add_one/infer", body, {"Inference-Header-Content-Length": str(size)})
        r = kind.parse_response_body(answer, header_length=int(headers["Inference-Header-Content-Length"]))
        np.testing.assert_array_equal(r.as_numpy("output_0"), [2, 3])

    def test_1_system_shared_memory(self):
        x = np.array([1, 2], np.float32)
        handle = shm.create_shared_memory_region("both", f"/inferd-clients-{os.getpid()}", 16)
        self.addCleanup(shm.destroy_shared_memory_region, handle)
        shm.set_shared_memory_region(handle, [x])
        self.c.register_system_shared_memory("both", f"/inferd-clients-{os.getpid()}", 16)
        self.assertEqual(self.c.get_system_shared_memory_status()[0]["byte_size"], 16)
        self.assertEqual(self.c.get_system_shared_memory_status("both")[0]["name"], "both")
        i, o = triton.InferInput("input_0", [2], "FP32"), triton.InferRequestedOutput("output_0")
        i.set_shared_memory("both", 8)
        o.set_shared_memory("both", 8, 8)
        self.c.infer("add_one", [i], outputs=[o])
        np.testing.assert_array_equal(shm.get_contents_as_numpy(handle, np.float32, [2], 8), [2, 3])
        self.c.unregister_system_shared_memory("both")
        self.c.unregister_system_shared_memory()
        self.assertEqual(self.c.get_system_shared_memory_status(), [])

    def test_1_cuda_shared_memory(self):
        self.assertEqual(self.c.get_cuda_shared_memory_status(), [])
        self.refused("inferd has no CUDA", self.c.register_cuda_shared_memory, "a", b"x", 0, 8)
        self.c.unregister_cuda_shared_memory()


class Blocking(Both, gateway.Case):
    def setUp(self):
        client = triton.InferenceServerClient(f"127.0.0.1:{self.port}", concurrency=2)
        self.addCleanup(client.close)
        self.c = Recorder(client)

    def test_1_async_infer(self):
        x = [self.input("input_0", np.array([i, i], np.float32)) for i in range(8)]
        started = [self.c.async_infer("add_one", [one]) for one in x]
        for i, one in enumerate(started):
            np.testing.assert_array_equal(one.get_result().as_numpy("output_0"), [i + 1, i + 1])

    def test_2_all_methods(self):
        self.assertEqual(METHODS - LOCAL - self.called, set())


class Asynchronous(Both, gateway.Case):
    def setUp(self):
        loop = asyncio.new_event_loop()
        self.addCleanup(loop.close)

        async def connect():
            return triton_aio.InferenceServerClient(f"127.0.0.1:{self.port}")
        client = loop.run_until_complete(connect())
        self.addCleanup(lambda: loop.run_until_complete(client.close()))
        self.c = Recorder(client, loop)

    def test_2_all_methods(self):
        self.assertEqual(METHODS_AIO - LOCAL - self.called, set())


class PerfAnalyzer(gateway.Case):
    config = "shared_memory = yes\n"
    models = {"add_one": gateway.PROGRAMS["add_one"], "efficientnet_lite0": gateway.EFFICIENTNET}

    def measure(self, *options):
        # it wants a library of CUDA as soon as shared memory is asked for, of either kind
        cudart, = pathlib.Path(CLIENTS).glob("lib/python3*/site-packages/nvidia/cuda_runtime/lib/libcudart.so.*")
        link = self.folder / "libcudart.so"
        if not link.exists():
            link.symlink_to(cudart)
        r = subprocess.run([f"{CLIENTS}/bin/perf_analyzer", "-m", "add_one", "-u", f"127.0.0.1:{self.port}", "-i", "http",
                            "--measurement-mode", "count_windows", "--measurement-request-count", "200", "-s", "99",
                            "--concurrency-range", "2", *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           check=False, timeout=200, env={**os.environ, "LD_LIBRARY_PATH": str(self.folder)})
        self.assertEqual(r.returncode, 0, r.stdout)
        self.assertRegex(r.stdout, r"Throughput: [1-9]", r.stdout)

    def test_bodies(self):
        self.measure()

    def test_shared_memory(self):
        for name in "input_0_0_0", "output_0":  # it leaves its files
            self.addCleanup(pathlib.Path("/dev/shm", name).unlink, missing_ok=True)
        self.measure("--shared-memory", "system", "--output-shared-memory-size", "4096")


class Example(gateway.Case):
    models = {"add_one": gateway.PROGRAMS["add_one"], "efficientnet_lite0": gateway.EFFICIENTNET}

    def test_remote(self):
        """clients/examples/remote.py, as a user runs it."""
        def example(*args):
            return subprocess.run([sys.executable, gateway.TOP / "clients" / "examples" / "remote.py", "--url",
                                   f"127.0.0.1:{self.port}", *args], capture_output=True, text=True, check=False, timeout=100)
        image = self.folder / "chelsea.ppm"
        image.write_bytes(pictures.ppm(gateway.TOP / "tests" / "data" / "chelsea.png"))
        r = example("--top", "2", image)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertRegex(r.stdout, r"^\d+\.\d\d\t28[1-5]\n\d+\.\d\d\t\d+\n$")
        for args in (["--model", "add_one", image], ["--model", "nothing", image], [gateway.TOP / "tests" / "data" / "chelsea.png"]):
            r = example(*args)
            self.assertEqual((r.returncode, r.stderr[:8]), (1, "remote: "), r.stderr)


if __name__ == "__main__":
    gateway.main()
