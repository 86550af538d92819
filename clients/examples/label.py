#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Classify images with an ImageNet model that inferd serves.

    label.py [--model NAME] [--labels FILE] [IMAGE.ppm ...]

Without an image, each one that arrives on the standard input is labelled as it comes, such as those of a camera:

    gst-launch-1.0 -q v4l2src ! videoconvert ! video/x-raw,format=RGB ! pnmenc ! fdsink | label.py

The image is cropped to its centre square. Its scale and the labels are those of the model's model.conf, if it has one.
"""
import argparse
import sys

import inferd


def read_image(file):
    """(width, height, bytes of RGB) of the next image in a file of raw PPM; None at its end."""
    fields = []
    while len(fields) < 4:
        line = file.readline()
        if not line:
            return None
        fields += line.split(b"#")[0].split()
    if fields[0] != b"P6" or fields[3] != b"255":
        sys.exit("label: images are raw PPM (P6) with 255 levels; `convert photo.jpg photo.ppm` makes one")
    width, height = int(fields[1]), int(fields[2])
    return width, height, file.read(3 * width * height)


def fill(x, info, width, height, rgb):
    """Write the centre square, scaled to the size of the input, into the memory of the input."""
    size, side = info.shape[2], min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    scale, offset = info.scale or (1 / 128,) * 3, info.offset or (-127 / 128,) * 3
    for c in range(3):
        levels = [pixel * scale[c] + offset[c] for pixel in range(256)]
        channel = 2 - c if info.colour == "BGR" else c
        x[0, c] = [[levels[rgb[3 * ((top + y * side // size) * width + left + k * side // size) + channel]]
                    for k in range(size)] for y in range(size)]


def main():
    parser = argparse.ArgumentParser(description="Classify images.")
    parser.add_argument("--model", default="efficientnet_lite0")
    parser.add_argument("--labels", help="a file with the name of one class on each line")
    parser.add_argument("images", nargs="*")
    options = parser.parse_args()
    with inferd.connect(reconnect=60) as d:
        m = d.open(options.model)
        info, b = m.inputs[0], m.bind()
        if info.datatype != "FP32" or len(info.shape) != 4 or info.shape[1] != 3 or info.shape[2] != info.shape[3]:
            sys.exit(f"label: {options.model} does not take one square image as FP32 [1,3,N,N]")
        labels = open(options.labels, encoding="utf-8").read().splitlines() if options.labels else m.outputs[0].labels
        for path in options.images or [None]:
            with open(path, "rb") if path else sys.stdin.buffer as file:
                while image := read_image(file):
                    fill(b.inputs[0], info, *image)
                    b.infer(timeout=10)
                    scores = b.outputs[0][0].tolist()
                    best = sorted(range(len(scores)), key=scores.__getitem__, reverse=True)[:3]
                    print(path or "-", *(f"{scores[i]:.2f} {labels[i] if i < len(labels) else i}" for i in best),
                          sep="\t", flush=True)


if __name__ == "__main__":
    try:
        main()
    except (inferd.Error, OSError) as error:
        sys.exit(f"label: {error}")
