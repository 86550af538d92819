#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Test the manifests of clients/scale against the schemas of Kubernetes and KServe, and what they start.

    test_kubernetes.py INFERD INFERD-HTTP INFERCTL

$INFERD_CLIENTS is the environment that `tools/test --with clients` installs: kubernetes-validate has Kubernetes'
own schemas, and kserve the classes that are generated from KServe's. Without it the test is skipped.
"""
import importlib.metadata
import os
import pathlib
import re
import shutil
import sys
import tempfile
import types
import unittest

CLIENTS = os.environ.get("INFERD_CLIENTS")
if not CLIENTS:
    print("SKIP: PyPI's packages are not installed; tools/test --with clients installs them")
    sys.exit(77)
if pathlib.Path(sys.prefix) != pathlib.Path(CLIENTS):
    os.execv(f"{CLIENTS}/bin/python", [f"{CLIENTS}/bin/python", "-B", *sys.argv])

# The package kserve imports a server and its dependencies; its models alone need nothing of them.
package = types.ModuleType("kserve")
package.__path__ = [str(importlib.metadata.distribution("kserve").locate_file("kserve"))]
sys.modules["kserve"] = package

import gateway  # noqa: E402
import kserve.models  # noqa: E402
import kubernetes_validate  # noqa: E402
import yaml  # noqa: E402

FOLDER = gateway.TOP / "clients" / "scale"
PLAIN = {"str": str, "int": int, "bool": bool, "object": object}


def read(name):
    return yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))


def build(kind, value, where):
    """Make an object of KServe's class @kind, whose constructor refuses what is missing. Unknown fields are errors.
    What is Kubernetes' own, kubernetes-validate checks."""
    if kind in PLAIN:
        if not isinstance(value, PLAIN[kind]):
            raise TypeError(f"{where}: {value!r} is no {kind}")
        return value
    if kind.startswith("list["):
        if not isinstance(value, list):
            raise TypeError(f"{where}: {value!r} is no list")
        return [build(kind[5:-1], v, f"{where}[{i}]") for i, v in enumerate(value)]
    if kind.startswith("dict("):
        inner = kind[5:-1].split(", ", 1)[1]
        return {k: build(inner, v, f"{where}.{k}") for k, v in value.items()}
    made = getattr(kserve.models, kind, None)
    if made is None and kind.startswith("V1"):
        return value
    names = {v: k for k, v in made.attribute_map.items()}
    if set(value) - set(names):
        raise TypeError(f"{where}: {kind} has no {set(value) - set(names)}")
    return made(**{names[k]: build(made.openapi_types[names[k]], v, f"{where}.{k}") for k, v in value.items()})


def check_pod(spec):
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": spec}
    kubernetes_validate.validate(pod, kubernetes_validate.latest_version(), strict=True)


class Manifests(unittest.TestCase):
    def test_daemon_set(self):
        kubernetes_validate.validate(read("daemonset.yaml"), kubernetes_validate.latest_version(), strict=True)

    def test_serving_runtime(self):
        runtime = read("serving-runtime.yaml")
        self.assertEqual((runtime["apiVersion"], runtime["kind"]), ("serving.kserve.io/v1alpha1", "ServingRuntime"))
        build("V1alpha1ServingRuntime", runtime, "runtime")
        check_pod({k: runtime["spec"][k] for k in ("containers", "volumes")})

    def test_inference_service(self):
        service, runtime = read("inference-service.yaml"), read("serving-runtime.yaml")
        self.assertEqual((service["apiVersion"], service["kind"]), ("serving.kserve.io/v1beta1", "InferenceService"))
        build("V1beta1InferenceService", service, "service")
        model = service["spec"]["predictor"]["model"]
        check_pod({"containers": [{"name": "model", "resources": model["resources"]}]})
        self.assertEqual(model["runtime"], runtime["metadata"]["name"])
        self.assertIn(model["modelFormat"]["name"], [f["name"] for f in runtime["spec"]["supportedModelFormats"]])
        self.assertIn(model["protocolVersion"], runtime["spec"]["protocolVersions"])

    def test_wrong_ones_are_found(self):
        """What is checked here would be found."""
        runtime = read("serving-runtime.yaml")
        runtime["spec"]["modelFormats"] = []
        self.assertRaisesRegex(TypeError, "modelFormats", build, "V1alpha1ServingRuntime", runtime, "runtime")
        del runtime["spec"]["modelFormats"], runtime["spec"]["containers"]
        self.assertRaisesRegex(ValueError, "containers", build, "V1alpha1ServingRuntime", runtime, "runtime")
        daemons = read("daemonset.yaml")
        daemons["spec"]["template"]["spec"]["containers"][0]["volumeMount"] = []
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(daemons, kubernetes_validate.latest_version(), strict=True)

    def test_nobody_has_privileges(self):
        pods = [read("serving-runtime.yaml")["spec"], read("daemonset.yaml")["spec"]["template"]["spec"]]
        user = re.search(r"^USER (\d+):(\d+)$", (FOLDER / "Containerfile").read_text(encoding="utf-8"), re.M).groups()
        for container in (c for pod in pods for c in pod["containers"]):
            context = container["securityContext"]
            self.assertEqual((str(context["runAsUser"]), str(context["runAsGroup"])), user)
            self.assertEqual((context["runAsNonRoot"], context["allowPrivilegeEscalation"], context["readOnlyRootFilesystem"],
                              context["capabilities"]), (True, False, True, {"drop": ["ALL"]}))

    def test_daemon_of_a_node(self):
        """The daemon takes the arguments of the DaemonSet, and serves."""
        container, = read("daemonset.yaml")["spec"]["template"]["spec"]["containers"]
        with tempfile.TemporaryDirectory(prefix="inferd-node-") as folder:
            (pathlib.Path(folder) / "add_one").mkdir()
            shutil.copy(gateway.PROGRAMS["add_one"], f"{folder}/add_one/model.pte")
            args = [a.replace("/run/inferd", folder).replace("$(INFERD_WORKERS)", "1") for a in container["args"]]
            self.assertIn(f"{folder}/inferd.sock", args)
            mounts = {m["mountPath"]: m["name"] for m in container["volumeMounts"]}
            models = "/var/lib/inferd/models"  # the default, which is not named
            self.assertEqual(mounts, {"/run/inferd": "sockets", models: "models"})
            daemon = gateway.Process([gateway.Case.inferd, *args, "--models", folder], f"{folder}/inferd.sock", f"{folder}/log")
            try:
                gateway.Case.socket = f"{folder}/inferd.sock"
                self.assertIn(b"add_one", gateway.Case.run_inferctl(gateway.Case(), "models"))
            finally:
                daemon.end()


if __name__ == "__main__":
    gateway.main()
