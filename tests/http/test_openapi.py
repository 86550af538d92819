#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Check the gateway's answers against the protocol's own OpenAPI document, by jsonschema.

    test_openapi.py INFERD INFERD-HTTP INFERCTL

The document ("Data Plane", version 2.0) is the one that PyPI's mlserver carries: the protocol's
open_inference_rest.yaml with the paths without a version and with the extension for binary data. `tools/test
--with clients` installs it; without it the test is skipped.
"""
import importlib.metadata
import json
import os
import pathlib
import re
import sys

CLIENTS = os.environ.get("INFERD_CLIENTS")
if not CLIENTS:
    print("SKIP: PyPI's packages are not installed; tools/test --with clients installs them")
    sys.exit(77)
if pathlib.Path(sys.prefix) != pathlib.Path(CLIENTS):
    os.execv(f"{CLIENTS}/bin/python", [f"{CLIENTS}/bin/python", "-B", *sys.argv])

import gateway  # noqa: E402
import jsonschema  # noqa: E402
from gateway import json_input  # noqa: E402

DOCUMENT = json.loads(importlib.metadata.distribution("mlserver").locate_file(
    "mlserver/rest/openapi/dataplane.json").read_text(encoding="utf-8"))
# The document lets the data be "bytes", which is no type of JSON. The bits of BF16 are our extension: no model here
# has any.
DOCUMENT["components"]["schemas"]["TensorData"] = {"type": "array"}
ERROR = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"], "additionalProperties": False}
# The document has an error response for a few paths and statuses only, and requires nothing of that of an inference.
LEFT_OUT = re.compile("_stream$|/generate$")  # extensions of mlserver


def checker(schema):
    return jsonschema.Draft202012Validator({**schema, "components": DOCUMENT["components"]})


class OpenApi(gateway.Case):
    checked = set()

    def check(self, method, template, status=200, body=None, headers=None, **names):
        """The answer is one that the document allows for @template."""
        operation = DOCUMENT["paths"][template][method.lower()]
        if body is not None and status == 200 and not headers:
            request = operation["requestBody"]["content"]["application/json"]["schema"]
            checker(request).validate(body)
        code, got, text = self.ask(method, template.format(**names), body if body is None else json.dumps(body), headers)
        self.assertEqual(code, status, text)
        self.assertEqual(got["Content-Type"], "application/json")
        answer = json.loads(text)
        response = operation["responses"].get(str(status), {})
        if status != 200:
            checker(ERROR).validate(answer)
        if "content" in response:
            checker(response["content"]["application/json"]["schema"]).validate(answer)
        self.checked.add((method, template, status == 200))
        return answer

    def both(self, method, leaf, model, version="1", **options):
        """The path with a version and without."""
        for path in "/v2/models/{model_name}" + leaf, "/v2/models/{model_name}/versions/{model_version}" + leaf:
            answer = self.check(method, path, model_name=model, model_version=version, **options)
        return answer

    def test_1_server(self):
        for path in "/v2/health/live", "/v2/health/ready", "/v2":
            self.check("GET", path)

    def test_1_models(self):
        for model in self.models:
            self.both("GET", "", model)
            self.both("GET", "/ready", model)
        self.both("GET", "", "none", status=404)
        self.both("GET", "/ready", "none", status=404)

    def test_1_inference(self):
        asked = {"add_one": [json_input("input_0", [2], [1, 2])],
                 "left_out": [json_input("input_0", [4], [1, 2, 3, 4]), json_input("input_1", [1], [3], "INT64"),
                              json_input("input_2", [1], [0.5], "FP64"), json_input("input_3", [1], [True], "BOOL")],
                 "numbers": [json_input("input_0", [3], [1, 5, 2])],
                 "dynamic": [json_input("input_0", [1, 2, 3], [[[1, 2, 3], [4, 5, 6]]]),
                             json_input("input_1", [1, 3, 1], [[[1], [2], [3]]])],
                 "last": [json_input("input_0", [2, 3, 5, 6], [0.5] * 180)],
                 "efficientnet_lite0": [json_input("input_0", [1, 3, 224, 224], [0] * (3 * 224 * 224))]}
        for model, inputs in asked.items():
            with self.subTest(model):
                answer = self.both("POST", "/infer", model, body={"id": "42", "inputs": inputs,
                                                                  "outputs": [{"name": "output_0"}]})
                self.assertEqual((answer["id"], answer["model_name"]), ("42", model))
        self.both("POST", "/infer", "add_one", status=400, body={"inputs": [json_input("input_0", [3], [1, 2, 3])]})
        self.both("POST", "/infer", "add_one", status=400, body={"inputs": 5})
        self.both("POST", "/infer", "none", status=404, body={"inputs": asked["add_one"]})
        classes = self.both("POST", "/infer", "add_one", body={"inputs": asked["add_one"], "outputs": [
            {"name": "output_0", "parameters": {"classification": 1}}]})
        self.assertEqual(classes["outputs"][0]["datatype"], "BYTES")

    def test_2_all_paths(self):
        """Each operation of the protocol was asked for, and those that can fail failed, too."""
        operations = {(method.upper(), path) for path, item in DOCUMENT["paths"].items() if not LEFT_OUT.search(path)
                      for method in item if method in ("get", "post")}
        self.assertEqual({(m, p) for m, p, is_fine in self.checked if is_fine}, operations)
        self.assertEqual({(m, p) for m, p, is_fine in self.checked if not is_fine},
                         {(m, p) for m, p in operations if "{model_name}" in p})

    def test_2_the_document_can_refuse(self):
        wrong = {"model_name": "a", "outputs": [{"name": "b", "shape": [1], "datatype": "FLOAT", "data": [1]}]}
        schema = DOCUMENT["paths"]["/v2/models/{model_name}/infer"]["post"]["responses"]["200"]
        with self.assertRaises(jsonschema.ValidationError):
            checker(schema["content"]["application/json"]["schema"]).validate(wrong)


if __name__ == "__main__":
    gateway.main()
