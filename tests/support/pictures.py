# SPDX-License-Identifier: BSD-3-Clause
"""Pictures for programs that read raw PPM."""
import struct
import zlib


def ppm(path):
    """A PNG of 8-bit RGB as raw PPM."""
    data, at, packed = path.read_bytes(), 8, b""
    while at < len(data):
        n, kind = struct.unpack_from(">I4s", data, at)
        if kind == b"IHDR":
            width, height, depth, colours = struct.unpack_from(">IIBB", data, at + 8)
            assert (depth, colours) == (8, 2)
        packed += data[at + 8:at + 8 + n] if kind == b"IDAT" else b""
        at += n + 12
    raw, n, above, rows = zlib.decompress(packed), 3 * width, bytearray(3 * width), []
    for y in range(height):
        kind, row = raw[y * (n + 1)], bytearray(raw[y * (n + 1) + 1:(y + 1) * (n + 1)])
        for i in range(n):
            left, up, corner = (row[i - 3] if i >= 3 else 0), above[i], (above[i - 3] if i >= 3 else 0)
            nearest = min((left, up, corner), key=lambda p: abs(left + up - corner - p))
            row[i] = (row[i] + (0, left, up, (left + up) // 2, nearest)[kind]) & 255
        rows.append(row)
        above = row
    return b"P6\n# a comment\n%d %d\n255\n" % (width, height) + b"".join(rows)
