# SPDX-License-Identifier: BSD-3-Clause
"""A client of the daemon that is written from ipc/inferd.proto alone.

The file is parsed when the module is loaded: messages are encoded and decoded by the numbers and types that stand
there, so nothing of the daemon's own encoder or of libinferd is in between. A message is a dict; an absent field is
absent. Encoding checks nothing: hostile bytes are made from the same pieces.
"""

import array
import os
import re
import select
import socket
import struct
import time

from log import CRASHED

PROTO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "ipc", "inferd.proto")
PATIENCE_S = 120  # only a failure takes so long
MAX_PACKET = 65536
MAX_FDS = 253  # SCM_MAX_FD

MESSAGES = {}  # name: {field: (number, type, is_repeated)}
ENUMS = {}  # name: {value name: number}


def parse(text):
    text = re.sub(r"//[^\n]*", "", text)
    tokens = re.findall(r'"[^"]*"|[\w.]+|[{}=;]', text)
    stack = []  # names of the messages that are open; None: a oneof or an enum
    i = 0
    while i < len(tokens):
        token = tokens[i]
        if token == "message":
            stack.append(tokens[i + 1])
            MESSAGES[tokens[i + 1]] = {}
            i += 3
        elif token == "enum":
            end = tokens.index("}", i)
            body = tokens[i + 3:end]
            ENUMS[tokens[i + 1]] = {body[k]: int(body[k + 2]) for k in range(0, len(body), 4)}
            i = end + 1
        elif token == "oneof":
            stack.append(None)
            i += 3
        elif token == "}":
            stack.pop()
            i += 1
        elif token in ("syntax", "package"):
            i = tokens.index(";", i) + 1
        else:
            repeated = token == "repeated"
            i += repeated
            kind, name, _, number, _ = tokens[i:i + 5]
            MESSAGES[[s for s in stack if s][-1]][name] = (int(number), kind, repeated)
            i += 5


with open(PROTO, encoding="utf-8") as f:
    parse(f.read())
STATUS = ENUMS["Status"]
STATUS_NAME = {n: name for name, n in STATUS.items()}
# The kinds of request: every field of Request but the id.
KINDS = {name: kind for name, (_, kind, _) in MESSAGES["Request"].items() if name != "id"}


def varint(n):
    n &= (1 << 64) - 1
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def key(number, wire_type):
    return varint(number << 3 | wire_type)


def blob(number, data):
    return key(number, 2) + varint(len(data)) + data


def encode_field(number, kind, value):
    if kind in MESSAGES:
        return blob(number, encode(kind, value))
    if kind == "string":
        return blob(number, value.encode() if isinstance(value, str) else value)
    if kind == "bytes":
        return blob(number, value)
    if kind == "double":
        return key(number, 1) + struct.pack("<d", value)
    return key(number, 0) + varint(int(value))


def encode(message, fields):
    out = b""
    for name, value in fields.items():
        number, kind, repeated = MESSAGES[message][name]
        if repeated and kind not in MESSAGES and kind not in ("string", "bytes"):
            out += blob(number, b"".join(varint(int(v)) for v in value))
        elif repeated:
            out += b"".join(encode_field(number, kind, v) for v in value)
        else:
            out += encode_field(number, kind, value)
    return out


def read_varint(data, at):
    n = shift = 0
    while True:
        byte = data[at]
        at += 1
        n |= (byte & 127) << shift
        if byte < 128:
            return n & (1 << 64) - 1, at
        shift += 7
        if shift > 63:
            raise ValueError("a varint of more than ten bytes")


def as_number(kind, n):
    if kind == "int64":
        return n - (1 << 64) if n >> 63 else n
    return bool(n) if kind == "bool" else n


def decode(message, data):
    by_number = {number: (name, kind, repeated) for name, (number, kind, repeated) in MESSAGES[message].items()}
    fields, at = {}, 0
    while at < len(data):
        tag, at = read_varint(data, at)
        name, kind, repeated = by_number[tag >> 3]  # the daemon sends no field that the file does not have
        wire_type = tag & 7
        if wire_type == 2:
            n, at = read_varint(data, at)
            piece, at = data[at:at + n], at + n
            if len(piece) != n:
                raise ValueError(f"{message}.{name} is cut short")
            if kind in MESSAGES:
                value = decode(kind, piece)
            elif kind == "string":
                value = piece.decode()
            elif kind == "bytes":
                value = piece
            else:  # packed
                k, value = 0, []
                while k < n:
                    number, k = read_varint(piece, k)
                    value.append(as_number(kind, number))
                fields[name] = fields.get(name, []) + value
                continue
        elif wire_type == 1:
            value, at = struct.unpack_from("<d", data, at)[0], at + 8
        elif wire_type == 0:
            number, at = read_varint(data, at)
            value = as_number(kind, number)
        else:
            raise ValueError(f"{message}.{name} has wire type {wire_type}")
        if repeated:
            fields.setdefault(name, []).append(value)
        else:
            fields[name] = value
    return fields


def request(number, kind, body):
    return encode("Request", {"id": number, kind: body})


class Ended(Exception):
    """The daemon has ended the session."""


class Refused(Exception):
    """An answer other than OK where the caller needs OK."""

    def __init__(self, what, reply):
        super().__init__(f"{what}: {STATUS_NAME.get(reply.get('status', 0))}: {reply.get('error')}")
        self.status = reply.get("status", 0)


def be_patient(s, seconds=PATIENCE_S):
    """Time limits of the kernel's own: s.settimeout makes a socket that does not wait for room in the backlog."""
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        s.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", seconds, 0))


class Connection:
    """One session. Not thread safe. Descriptors of replies belong to the caller of take_fds."""

    def __init__(self, path, hello=True):
        """@hello: greet, and come again as long as the user is at a limit: what attacks left is freed a moment later."""
        self.fds = []
        self.last_id = 0
        end = time.monotonic() + PATIENCE_S
        while True:
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
            try:
                be_patient(self.socket)
                self.socket.connect(path)
                if hello:
                    self.greet()
                return
            except Refused as e:
                self.socket.close()
                if e.status != STATUS["RESOURCE_EXHAUSTED"] or time.monotonic() > end:
                    raise
                select.select([], [], [], 0.01)
            except BaseException:
                self.socket.close()
                raise

    def greet(self):
        try:
            self.expect("hello", {"protocol": 1, "client_name": "hostile"})
        except Ended:
            # Turned away. The kernel reports that Hello was not read before it gives what the daemon said.
            raise Refused("connecting", self.receive()) from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.drop_fds()
        self.socket.close()

    def drop_fds(self):
        for fd in self.fds:
            os.close(fd)
        self.fds = []

    def take_fds(self):
        fds, self.fds = self.fds, []
        return fds

    def send_bytes(self, data, fds=()):
        """False: the daemon has hung up."""
        beside = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            self.socket.sendmsg([data], beside)
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    def send(self, kind, body, fds=()):
        self.last_id += 1
        if not self.send_bytes(request(self.last_id, kind, body), fds):
            raise Ended(kind)
        return self.last_id

    def has_reply(self, timeout_s=0):
        return bool(select.select([self.socket], [], [], timeout_s)[0])

    def receive(self):
        """The next reply. Its descriptors replace those of the one before."""
        try:
            data, beside, flags, _ = self.socket.recvmsg(MAX_PACKET, socket.CMSG_SPACE(4 * 16), socket.MSG_CMSG_CLOEXEC)
        except ConnectionResetError:
            raise Ended("reset") from None
        except BlockingIOError:
            raise AssertionError(f"no reply within {PATIENCE_S} s") from None
        self.drop_fds()
        for level, kind, piece in beside:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds = array.array("i")
                fds.frombytes(piece[:len(piece) - len(piece) % 4])
                self.fds += list(fds)
        if not data:
            raise Ended("end")
        assert not flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC), "a reply is larger than a packet"
        reply = decode("Reply", data)
        if "attached" in reply:
            n = reply["attached"]["byte_size"]
            whole = os.pread(self.fds[0], n, 0)
            assert len(whole) == n, "an attached reply is short"
            reply = decode("Reply", whole)
        assert reply.get("status", 0) in STATUS_NAME, reply
        assert bool(reply.get("error")) == bool(reply.get("status")), f"a status and no sentence, or the reverse: {reply}"
        assert not CRASHED.search(reply.get("error", "")), f"a process of the daemon's crashed: {reply}"
        return reply

    def call(self, kind, body, fds=()):
        number = self.send(kind, body, fds)
        reply = self.receive()
        assert reply.get("id", 0) == number, f"asked {number}, answered {reply}"
        return reply

    def expect(self, kind, body, fds=()):
        """The body of an answer that must be OK; {} if it has none."""
        reply = self.call(kind, body, fds)
        if reply.get("status"):
            raise Refused(kind, reply)
        rest = [v for k, v in reply.items() if k not in ("id", "status", "error")]
        return rest[0] if rest else {}
