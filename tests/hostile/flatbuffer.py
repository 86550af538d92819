# SPDX-License-Identifier: BSD-3-Clause
"""Find what a FlatBuffer consists of, without its schema, and change one thing.

Tables are found by their vtables: a field's place and width follow from the offsets that stand there. A field of four
bytes that leads to a table, a vector or a string in range is walked, and is a number as well. So every size, offset,
dtype, dim order, instruction target, payload field and count of a program is a site, under a path of field numbers
(1[0].2[14].1.2[0]: plan 0, value 14, sizes, first). Source: flatbuffers.dev/internals."""

import struct

MOST_SITES = 20000
FORMATS = {1: "<B", 2: "<H", 4: "<I", 8: "<Q"}


class Site:
    """A number in the file: where, how wide, and what kind: scalar, count, item or offset."""

    def __init__(self, kind, path, at, width):
        self.kind, self.path, self.at, self.width = kind, path, at, width


class Walker:
    def __init__(self, data, base, end):
        self.data, self.base, self.end = data, base, end
        self.sites = []
        self.seen = set()

    def u(self, at, width):
        return struct.unpack_from(FORMATS[width], self.data, at)[0]

    def vtable(self, table):
        """[(field, place, width)] if a table is plausible there, else None."""
        if table + 4 > self.end or table % 4 or table < self.base:
            return None
        place = table - struct.unpack_from("<i", self.data, table)[0]
        if place < self.base or place + 4 > self.end or place % 2:
            return None
        n_vtable, n_table = self.u(place, 2), self.u(place + 2, 2)
        if n_vtable < 4 or n_vtable % 2 or n_vtable > 200 or n_table < 4:
            return None
        if place + n_vtable > self.end or table + n_table > self.end:
            return None
        offsets = [self.u(place + 4 + 2 * i, 2) for i in range((n_vtable - 4) // 2)]
        if any(o and (o < 4 or o >= n_table) for o in offsets):
            return None
        used = sorted(set(o for o in offsets if o)) + [n_table]
        fields = []
        for i, o in enumerate(offsets):
            if o:
                room = used[used.index(o) + 1] - o
                width = max(w for w in (1, 2, 4, 8) if w <= room and not o % min(w, 4))
                fields.append((i, table + o, width))
        return fields

    def walk(self, table, path=""):
        if table in self.seen or len(self.sites) > MOST_SITES:
            return
        self.seen.add(table)
        fields = self.vtable(table)
        for number, at, width in fields or []:
            name = f"{path}.{number}".lstrip(".")
            if width == 4:
                target = at + self.u(at, 4)
                if self.u(at, 4) >= 4 and target + 4 <= self.end and self.follow(name, target):
                    self.sites.append(Site("offset", name, at, 4))
                    continue
            self.sites.append(Site("scalar", name, at, width))
            if width == 8:  # may be two of four bytes
                self.sites.append(Site("scalar", name, at, 4))

    def follow(self, path, target):
        if self.vtable(target):
            self.walk(target, path)
            return True
        n = self.u(target, 4)
        if target % 4 or target + 4 + n > self.end:
            return False
        self.sites.append(Site("count", path, target, 4))
        items = target + 4
        if n and items + 4 * n <= self.end and all(self.vtable(items + 4 * i + self.u(items + 4 * i, 4)) for i in range(min(n, 8))):
            for i in range(n):
                self.sites.append(Site("offset", f"{path}[{i}]", items + 4 * i, 4))
                self.walk(items + 4 * i + self.u(items + 4 * i, 4), f"{path}[{i}]")
            return True
        width = 4 if items + 4 * n <= self.end else 1
        if n < 16 and not items % 8 and items + 8 * n <= self.end and all(self.u(items + 8 * i, 8) < 1 << 40 for i in range(n)):
            width = 8
        for i in range(min(n, 64)):
            self.sites.append(Site("item", f"{path}[{i}]", items + width * i, width))
        if width != 1 and n < 64:  # a dim order or a string has bytes
            for i in range(n):
                self.sites.append(Site("item", f"{path}[{i}]", items + i, 1))
        return True


def sites_of(data, base, end):
    """All sites of the FlatBuffer that begins at @base."""
    walker = Walker(data, base, end)
    walker.walk(base + walker.u(base, 4))
    return walker.sites


def program_sites(data):
    """All sites of a .pte or .bpte and of the XNNPACK payloads in it: a list of those of each FlatBuffer."""
    found = []
    for marker in (b"ET12", b"BP08", b"XN00", b"XN01"):
        at = data.find(marker)
        while at >= 0 and len(found) < 40:
            base = at - 4
            try:
                sites = sites_of(data, base, len(data)) if base >= 0 else []
            except struct.error:
                sites = []
            if len(sites) > 5:
                found.append(sites)
            at = data.find(marker, at + 1)
    for marker, fields in ((b"eh00", [(4, 4), (8, 8), (16, 8), (24, 8)]), (b"XH00", [(4, 2), (6, 4), (10, 4), (14, 4), (18, 8)])):
        at = data.find(marker)
        if at >= 0:  # the extended header, and the one of a payload
            found.append([Site("header", marker.decode(), at + o, w) for o, w in fields if at + o + w <= len(data)])
    return found
