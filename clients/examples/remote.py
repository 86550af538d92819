#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ask the HTTP gateway with PyPI's tritonclient[http], as one would ask Triton: classify an image.

    remote.py [--url HOST:PORT] [--model NAME] [--top N] IMAGE.ppm

The image is a raw PPM; its centre square is scaled to the size of the input, as (rgb - 127) / 128. The labels are those of the
model's model.conf; without them classes are numbers. Nothing in here knows of inferd but the address: `listen` in
inferd-http.conf.
"""
import argparse
import sys

import numpy as np
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException


def read_ppm(path):
    with open(path, "rb") as file:
        if file.readline().strip() != b"P6":
            sys.exit(f"remote: {path} is no raw PPM (P6); `convert photo.jpg photo.ppm` makes one")
        fields = []
        while len(fields) < 3:
            fields += file.readline().split(b"#")[0].split()
        width, height = int(fields[0]), int(fields[1])
        return np.frombuffer(file.read(3 * width * height), np.uint8).reshape(height, width, 3)


def main():
    parser = argparse.ArgumentParser(description="Classify an image by HTTP.")
    parser.add_argument("--url", default="127.0.0.1:8000")
    parser.add_argument("--model", default="efficientnet_lite0")
    parser.add_argument("--top", type=int, default=3)
    parser.add_argument("image")
    options = parser.parse_args()
    client = triton.InferenceServerClient(options.url)
    metadata = client.get_model_metadata(options.model)
    shape = metadata["inputs"][0]["shape"]
    if len(shape) != 4 or shape[1] != 3 or metadata["inputs"][0]["datatype"] != "FP32":
        sys.exit(f"remote: {options.model} does not take one image as FP32 [1,3,N,N]")
    image = read_ppm(options.image)
    side, size = min(image.shape[:2]), shape[2]
    places = np.arange(size) * side // size
    square = image[(image.shape[0] - side) // 2 + places][:, (image.shape[1] - side) // 2 + places]
    x = triton.InferInput(metadata["inputs"][0]["name"], shape, "FP32")
    x.set_data_from_numpy(((square.transpose(2, 0, 1)[None] - np.float32(127)) / 128).astype(np.float32))
    name = metadata["outputs"][0]["name"]
    answer = client.infer(options.model, [x], outputs=[triton.InferRequestedOutput(name, class_count=options.top)])
    for line in answer.as_numpy(name).flatten():
        score, index, *label = line.decode().split(":", 2)
        print(f"{float(score):.2f}", label[0] if label else index, sep="\t")


if __name__ == "__main__":
    try:
        main()
    except (InferenceServerException, OSError) as error:
        sys.exit(f"remote: {error}")
