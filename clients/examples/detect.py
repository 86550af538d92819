#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Draw a box around what a YOLO detector finds in an image.

    detect.py [--model NAME] [--labels FILE] [--threshold P] IMAGE.ppm BOXES.ppm

Prints score, label and place (left, top, width, height) of each box. The image is scaled to the size of the input, and the
boxes back to the image. The labels are those of the file, else of the model's model.conf, else numbers.
"""
import argparse
import sys

import inferd
from label import read_image


def overlap(a, b):
    """Intersection over union of two boxes (left, top, right, bottom)."""
    def area(left, top, right, bottom):
        return max(right - left, 0) * max(bottom - top, 0)
    both = area(max(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2]), min(a[3], b[3]))
    return both / (area(*a) + area(*b) - both)


def boxes_of(rows, width, height, threshold):
    """[(score, label, box)], the best one first: of boxes of one label that overlap only the best one stays."""
    found, kept = [], []
    for place, scores in enumerate(zip(*rows[4:])):
        label = max(range(len(scores)), key=scores.__getitem__)
        if scores[label] >= threshold:
            x, y, w, h = (row[place] for row in rows[:4])
            box = (max(x - w / 2, 0), max(y - h / 2, 0), min(x + w / 2, width), min(y + h / 2, height))
            if box[0] < box[2] and box[1] < box[3]:
                found.append((scores[label], label, box))
    for score, label, box in sorted(found, key=lambda f: -f[0])[:1000]:
        if all(label != other or overlap(box, best) <= 0.45 for _, other, best in kept):
            kept.append((score, label, box))
    return kept[:100]


def draw(rgb, width, left, top, right, bottom):
    for y in range(top, bottom):
        for x in range(left, right) if y in (top, bottom - 1) else (left, right - 1):
            rgb[3 * (y * width + x):3 * (y * width + x) + 3] = b"\xff\xff\xff"


def main():
    parser = argparse.ArgumentParser(description="Draw a box around what a YOLO detector finds.")
    parser.add_argument("--model", default="yolo11n")
    parser.add_argument("--labels", help="a file with the name of one class on each line")
    parser.add_argument("--threshold", type=float, default=0.25, help="boxes with a lower score are left out")
    parser.add_argument("image")
    parser.add_argument("boxes")
    options = parser.parse_args()
    with open(options.image, "rb") as file:
        width, height, rgb = read_image(file) or sys.exit(f"detect: {options.image} is empty")
    with inferd.connect() as d:
        m = d.open(options.model)
        b, shape = m.bind(), m.inputs[0].shape
        if m.inputs[0].datatype != "FP32" or len(shape) != 4 or shape[1] != 3 or len(m.outputs[0].shape) != 3:
            sys.exit(f"detect: {options.model} is no detector of the YOLO family")
        labels = open(options.labels, encoding="utf-8").read().splitlines() if options.labels else m.outputs[0].labels
        rows, columns = shape[2], shape[3]
        for c in range(3):
            b.inputs[0][0, c] = [[rgb[3 * (y * height // rows * width + x * width // columns) + c] / 255
                                  for x in range(columns)] for y in range(rows)]
        b.infer(timeout=10)
        picture = bytearray(rgb)
        for score, label, box in boxes_of(b.outputs[0][0].tolist(), columns, rows, options.threshold):
            left, top, right, bottom = (int(v * whole / part) for v, whole, part in
                                        zip(box, (width, height) * 2, (columns, rows) * 2))
            draw(picture, width, left, top, max(right, left + 1), max(bottom, top + 1))
            print(f"{score:.3f}", labels[label] if label < len(labels) else label, left, top, right - left, bottom - top, sep="\t")
        with open(options.boxes, "wb") as file:
            file.write(b"P6\n%d %d\n255\n" % (width, height) + picture)


if __name__ == "__main__":
    try:
        main()
    except (inferd.Error, OSError) as error:
        sys.exit(f"detect: {error}")
