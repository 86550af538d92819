#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Test the gateway's answers that need no run: health, metadata, configuration, statistics, the repository, settings.

    test_protocol.py INFERD INFERD-HTTP INFERCTL
"""
import contextlib
import http.client
import json
import os
import socket
import threading
import unittest.mock

import gateway


MODEL_REQUESTS = 'inferd_model_requests_total{model="numbers",version="1",result="success"}'


def metrics(case):
    """{name and labels: value}, each once."""
    code, headers, text = case.ask("GET", "/metrics")
    case.assertEqual((code, headers["Content-Type"]), (200, "text/plain; version=0.0.4; charset=utf-8"))
    lines = [line.rsplit(" ", 1) for line in text.decode().splitlines() if line[0] != "#"]
    case.assertEqual(len(lines), len(dict(lines)))
    return {name: float(value) for name, value in lines}


class Protocol(gateway.Case):
    def test_health(self):
        self.live()
        self.assertEqual(self.json("GET", "/v2/health/ready"), {"ready": True})
        self.assertEqual(self.json("GET", "/v2/models/add_one/ready"), {"name": "add_one", "ready": True})
        self.assertEqual(self.json("GET", "/v2/models/add_one/versions/1/ready")["ready"], True)
        self.refuse("GET", "/v2/models/none/ready", status=404, has="Request for unknown model: 'none' is not found")
        self.refuse("GET", "/v2/models/add_one/versions/2/ready", status=404, has="unknown model")

    def test_head(self):
        code, headers, body = self.ask("HEAD", "/v2/health/live")
        self.assertEqual((code, headers["Content-Length"], body), (200, "13", b""))

    def test_unix_socket(self):
        c = gateway.UnixConnection(self.path)
        self.addCleanup(c.close)
        self.assertEqual(self.json("GET", "/v2", connection=c, headers={"Host": "anything"})["name"], "inferd")

    def test_server(self):
        server = self.json("GET", "/v2")
        self.assertEqual(server["name"], "inferd")
        self.assertIn("binary_tensor_data", server["extensions"])
        self.assertRegex(server["version"], r"^\d+\.\d+")
        self.assertEqual(self.json("GET", "/v2/"), server)

    def test_metadata(self):
        m = self.json("GET", "/v2/models/efficientnet_lite0")
        self.assertEqual((m["name"], m["versions"]), ("efficientnet_lite0", ["1"]))
        self.assertEqual(m["inputs"], [{"name": "input_0", "datatype": "FP32", "shape": [1, 3, 224, 224]}])
        self.assertEqual(m["outputs"], [{"name": "output_0", "datatype": "FP32", "shape": [1, 1000]}])
        self.assertEqual(self.json("GET", "/v2/models/efficientnet_lite0/versions/1"), m)
        self.refuse("GET", "/v2/models/none", status=404, has="Request for unknown model: 'none'")
        self.refuse("GET", "/v2/models/add_one/versions/7", status=404, has="Request for unknown model: 'add_one'")

    def test_dynamic_sizes_are_minus_one(self):
        m = self.json("GET", "/v2/models/dynamic")
        self.assertEqual([t["shape"] for t in m["inputs"]], [[-1, -1, -1]] * 2)

    def test_numbers(self):
        m = self.json("GET", "/v2/models/left_out")
        self.assertEqual([(t["datatype"], t["shape"]) for t in m["inputs"]],
                         [("FP32", [4]), ("INT64", [1]), ("FP64", [1]), ("BOOL", [1])])

    def test_configuration(self):
        c = self.json("GET", "/v2/models/efficientnet_lite0/config")
        self.assertEqual((c["name"], c["backend"], c["max_batch_size"]), ("efficientnet_lite0", "xnnpack", 0))
        self.assertEqual((c["input"][0]["data_type"], c["input"][0]["dims"]), ("TYPE_FP32", [1, 3, 224, 224]))
        self.assertNotIn("sequence_batching", c)
        self.assertIn("sequence_batching", self.json("GET", "/v2/models/decoder/config"))

    def test_statistics(self):
        self.json("POST", "/v2/models/numbers/infer", {"inputs": [gateway.json_input("input_0", [3], [1, 2, 3])]})
        one, = self.json("GET", "/v2/models/numbers/stats")["model_stats"]
        self.assertEqual((one["name"], one["version"]), ("numbers", "1"))
        self.assertGreaterEqual(one["inference_stats"]["success"]["count"], 1)
        self.assertGreater(one["inference_stats"]["compute_infer"]["ns"], 0)
        self.assertIn("numbers", [m["name"] for m in self.json("GET", "/v2/models/stats")["model_stats"]])
        self.refuse("GET", "/v2/models/none/stats", status=404, has="unknown model")

    def test_statistics_of_an_unloaded_model(self):
        one, = self.json("GET", "/v2/models/last/stats")["model_stats"]
        self.assertEqual((one["name"], one["inference_count"]), ("last", 0))

    def test_repository(self):
        models = self.json("POST", "/v2/repository/index")
        self.assertEqual(sorted(m["name"] for m in models), sorted(gateway.PROGRAMS))
        self.json("GET", "/v2/models/add_one")  # loads it
        ready = self.json("POST", "/v2/repository/index", {"ready": True})
        self.assertIn("add_one", [m["name"] for m in ready])
        self.assertEqual({m["state"] for m in ready}, {"READY"})
        for what in "load", "unload":
            self.refuse("POST", f"/v2/repository/models/add_one/{what}", status=403, has="'load' in inferd-http.conf")

    def test_metrics(self):
        before = metrics(self).get(MODEL_REQUESTS, 0)
        self.json("POST", "/v2/models/numbers/infer", {"inputs": [gateway.json_input("input_0", [3], [1, 2, 3])]})
        found = metrics(self)
        self.assertEqual(found[MODEL_REQUESTS], before + 1)
        self.assertEqual(found['inferd_model_requests_total{model="numbers",version="1",result="failure"}'], 0)
        self.assertGreater(found['inferd_model_run_seconds_sum{model="numbers",version="1"}'], 0)
        self.assertEqual(found['inferd_model_run_seconds_count{model="numbers",version="1"}'], before + 1)
        self.assertGreater(found["inferd_resident_memory_bytes"], 1 << 20)
        self.assertGreater(found["inferd_models_memory_bytes"], 0)
        self.assertGreaterEqual(found["inferd_requests_total"], 1)
        self.assertGreaterEqual(found['inferd_queue_completed_total{queue="cpu"}'], 1)
        self.assertGreaterEqual(found["inferd_http_connections"], 1)
        self.refuse("POST", "/metrics", status=405, has="GET")
        self.refuse("GET", "/metrics", status=403, headers={"Host": "evil.example"})

    def test_settings(self):
        for path in "/v2/trace/setting", "/v2/models/add_one/trace/setting":
            self.assertEqual(self.json("GET", path)["trace_level"], ["OFF"])
            self.refuse("POST", path, {"trace_rate": "5"}, status=403)
        self.assertEqual(self.json("GET", "/v2/logging")["log_verbose_level"], 0)
        self.refuse("POST", "/v2/logging", {"log_info": False}, status=403)

    def test_cuda(self):
        self.assertEqual(self.json("GET", "/v2/cudasharedmemory/status"), [])
        self.assertEqual(self.json("POST", "/v2/cudasharedmemory/unregister"), {})
        self.refuse("POST", "/v2/cudasharedmemory/region/a/register", {}, status=501, has="CUDA")

    def test_shared_memory_is_off(self):
        self.refuse("POST", "/v2/systemsharedmemory/region/a/register", {"key": "/a", "offset": 0, "byte_size": 4},
                    status=403, has="'shared_memory'")
        self.assertEqual(self.json("GET", "/v2/systemsharedmemory/status"), [])

    def test_paths(self):
        for path in ("/", "/v2/inferd/status", "/v2/inferd/models", "/v1", "/v2/nothing", "/v2/models", "/v2/models/a/nothing", "/v2//health/live", "/v2/models/a%2Fb",
                     "/v2/models/%2e%2e/config", "/v2/models/../config", "/v2/models/a%00b", "/v2/models/%zz", "/v2/models/a%",
                     "/v2/models/.hidden", "/v2/models/a/versions/one", "/v2/models/a/versions/-1",
                     "/v2/models/" + "a" * 300, "/v2/models/a/b/c/d/e/f/g/h/i"):
            self.refuse("GET", path, status=404)
        self.refuse("GET", "/v2/models/%ff", has="UTF-8")
        self.refuse("GET", "/v2/models/caf%C3%A9", status=404, has="caf\u00e9")
        self.assertEqual(self.json("GET", "/v2/models/add%5fone")["name"], "add_one")
        self.assertEqual(self.json("GET", "/v2?x=1")["name"], "inferd")

    def test_service_manager(self):
        """The gateway tells systemd that it is ready, and again and again that its loop runs."""
        path, folder = str(self.folder / "second.sock"), self.folder
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.bind(str(folder / "notify"))
            s.settimeout(120)
            with unittest.mock.patch.dict(os.environ, NOTIFY_SOCKET=str(folder / "notify"), WATCHDOG_USEC="2000000"):
                second = gateway.Process([self.inferd_http, "--config", str(folder / "inferd-http.conf"), "--socket", path],
                                         path, folder / "second.log")
            said = [s.recv(4096) for _ in range(4)]
            second.end()
        self.assertEqual(said, [b"READY=1"] + [b"WATCHDOG=1"] * 3)

    def test_methods(self):
        self.refuse("POST", "/v2/health/live", status=405, has="GET")
        self.refuse("GET", "/v2/models/add_one/infer", status=405, has="POST")
        self.refuse("DELETE", "/v2", status=405)
        code, headers, _ = self.ask("PUT", "/v2/logging")
        self.assertEqual((code, headers["Allow"]), (405, "GET, POST"))

    def test_hosts(self):
        for host in "evil.example", "evil.example:8000", "127.0.0.1.evil.example", "localhost.evil.example", "[::1", "", ":80":
            self.refuse("GET", "/v2/health/live", status=403, headers={"Host": host})
        for host in "localhost", "LOCALHOST:8000", "127.0.0.1", "192.168.1.5:80", "[::1]:8000", "[::1]":
            self.assertEqual(self.ask("GET", "/v2/health/live", headers={"Host": host})[0], 200)
        self.refuse("GET", "/v2/health/live", status=403, headers={"Origin": "http://localhost"}, has="browser")


class Allowed(gateway.Case):
    """What an administrator may allow."""

    models = {"add_one": gateway.PROGRAMS["add_one"]}
    config = "load = yes\nhosts = gateway.example\nrequest_timeout = 2s\n"

    def state(self):
        return self.json("POST", "/v2/repository/index")[0]["state"]

    def test_load(self):
        self.assertEqual(self.json("POST", "/v2/repository/models/add_one/load", {"parameters": {}}), {})
        self.assertEqual(self.state(), "READY")
        self.assertEqual(self.json("POST", "/v2/repository/models/add_one/unload"), {})
        self.assertEqual(self.state(), "UNAVAILABLE")
        self.refuse("POST", "/v2/repository/models/none/load", status=404, has="none")

    def test_metrics_of_an_unloaded_model(self):
        self.json("POST", "/v2/models/add_one/infer", {"inputs": [gateway.json_input("input_0", [2], [1, 2])]})
        before = {k: v for k, v in metrics(self).items() if k.startswith("inferd_model_")}
        self.assertEqual(len(before), 7)
        self.json("POST", "/v2/repository/models/add_one/unload")
        after = metrics(self)
        self.assertEqual({k: after.get(k) for k in before}, before)
        self.assertGreater(self.json("GET", "/v2/models/add_one/stats")["model_stats"][0]["inference_count"], 0)

    def test_host(self):
        self.assertEqual(self.ask("GET", "/v2", headers={"Host": "gateway.EXAMPLE:8000"})[0], 200)
        self.refuse("GET", "/v2", status=403, headers={"Host": "example"})

    def test_daemon_that_does_not_answer(self):
        with gateway.Paused(self.daemon.process.pid):
            for path in "/v2", "/v2/health/ready", "/v2/models/add_one", "/v2/models/add_one/ready":
                self.refuse("GET", path, status=504)
            self.refuse("POST", "/v2/models/add_one/infer", {"inputs": [gateway.json_input("input_0", [2], [1, 2])]}, status=504)
            self.live()
        self.assertEqual(self.json("GET", "/v2/health/ready"), {"ready": True})

    def test_daemon_that_ends(self):
        c = self.connect()
        request = {"inputs": [gateway.json_input("input_0", [2], [1, 2])]}
        self.json("POST", "/v2/models/add_one/infer", request, connection=c)
        type(self).daemon.end()
        try:
            self.refuse("GET", "/v2/health/ready", status=503)
        finally:
            type(self).daemon = self.start_daemon()
        answer = self.json("POST", "/v2/models/add_one/infer", request, connection=c)
        self.assertEqual(answer["outputs"][0]["data"], [2, 3])


class End(gateway.Case):
    """SIGTERM. Each test ends its gateway; the next one has a new one."""

    models = {"add_one": gateway.PROGRAMS["add_one"]}
    request = {"inputs": [gateway.json_input("input_0", [2], [1, 2])]}

    def setUp(self):
        self.c = gateway.UnixConnection(self.path)
        self.addCleanup(self.c.close)
        self.json("POST", "/v2/models/add_one/infer", self.request, connection=self.c)

    def begin(self):
        """Send an inference to the daemon, which is paused. Another connection of the gateway."""
        self.c.request("POST", "/v2/models/add_one/infer", json.dumps(self.request))
        other = gateway.UnixConnection(self.path)
        self.addCleanup(other.close)
        for _ in range(2):  # the gateway has one thread: it has read the request when the second one is answered
            self.json("GET", "/v2/health/live", connection=other)
        return other

    def ended(self):
        """The gateway has ended, without an error."""
        try:
            self.assertEqual(self.gateway.process.wait(60), 0, self.gateway.text())
        finally:
            self.gateway.log.close()
            type(self).gateway = self.start_gateway()

    def test_a_request_in_flight_is_answered(self):
        with gateway.Paused(self.daemon.process.pid):
            other = self.begin()
            self.gateway.process.terminate()
            while self.ask("GET", "/v2/health/live", connection=other)[1]["Connection"] != "close":
                pass  # until the signal has arrived
        r = self.c.getresponse()
        self.assertEqual((r.status, r.headers["Connection"]), (200, "close"))
        self.assertEqual(json.loads(r.read())["outputs"][0]["data"], [2, 3])
        self.ended()

    def test_a_request_that_takes_too_long(self):
        with gateway.Paused(self.daemon.process.pid):
            self.begin()
            self.gateway.process.terminate()
            with self.assertRaises((http.client.RemoteDisconnected, ConnectionResetError)):
                self.c.getresponse()
            self.ended()

    def test_a_request_that_begins_at_the_end(self):
        """The headers are a bit larger than what one call receives, so the last call of all may complete them. Then the
        request does not begin; if they were complete before, it is answered."""
        headers = {"X-Long": "x" * 49300}
        self.assertEqual(self.ask("GET", "/v2/health/ready", headers=headers, connection=self.c)[0], 200)
        with gateway.Paused(self.gateway.process.pid):
            self.gateway.process.terminate()
            self.c.request("GET", "/v2/health/ready", headers=headers)
        with contextlib.suppress(http.client.RemoteDisconnected, ConnectionResetError):
            self.assertEqual(self.c.getresponse().status, 200)
        self.ended()


class Little(gateway.Case):
    """An answer that is larger than the memory of the gateway."""

    models = {f"{'m' * 200}{i}": gateway.PROGRAMS["add_one"] for i in range(300)}
    config = "memory = 64K\n"

    def test_answer(self):
        self.refuse("POST", "/v2/repository/index", status=503, has="no memory left for this answer")
        self.live()


class Crowd(gateway.Case):
    """More connections than the gateway has."""

    models = {"add_one": gateway.PROGRAMS["add_one"]}
    config = "connections = 6\n"

    def test_idle_ones_make_room(self):
        idle = [self.raw(b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n") for _ in range(6)]
        for s in idle:
            self.assertIn(b"200 OK", s.recv(4096))
        self.live()
        self.assertEqual(idle[0].recv(4096), b"")

    def test_a_crowd_waits(self):
        """Many who come at once are all answered: nobody is refused for want of room."""
        request = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        with gateway.Paused(self.gateway.process.pid):
            crowd = [self.raw(request) for _ in range(60)]
        for s in crowd:
            self.assertIn(b"200 OK", s.recv(4096))

    def test_nobody_makes_room_for_nobody(self):
        """As many connections as there may be all stay."""
        idle = [self.raw(b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n") for _ in range(6)]
        for s in idle:
            self.assertIn(b"200 OK", s.recv(4096))
        for s in idle:
            s.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertIn(b"200 OK", s.recv(4096))

    def test_one_user_of_the_unix_socket_has_half(self):
        connections = []
        for _ in range(3):
            s = socket.socket(socket.AF_UNIX)
            self.addCleanup(s.close)
            s.connect(self.path)
            connections.append(s)
        self.live()

    def test_many_at_once(self):
        failed = []

        def work():
            try:
                c = self.connect()
                for _ in range(20):
                    answer = self.json("POST", "/v2/models/add_one/infer",
                                       {"inputs": [gateway.json_input("input_0", [2], [1, 2])]}, connection=c)
                    assert answer["outputs"][0]["data"] == [2, 3]
                c.close()
            except Exception as e:  # the main thread reports it
                failed.append(e)
        threads = [threading.Thread(target=work) for _ in range(5)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(failed, [])


if __name__ == "__main__":
    gateway.main()
