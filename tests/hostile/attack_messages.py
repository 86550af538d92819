# SPDX-License-Identifier: BSD-3-Clause
"""Attacks by messages: every kind in every state of a session, with wrong, stale and foreign handles, and packets that are
no messages. Each well-formed request is answered exactly once or ends its session; a handle that this session was
not given never works.
"""

import collections
import fcntl
import os
import resource
import select
import socket
import struct

import wire
from daemon import Bound, until

MANAGER = {"repository_model_load", "repository_model_unload", "backend_restart"}
# Fields that are a handle of the session, by kind of request.
HANDLES = {"method_close": "method", "method_reset": "method", "region_unregister": "region", "bind": "method",
           "unbind": "binding", "infer": "binding", "cancel": "request"}
TEXTS = ["", "double", "nowhere", "../../etc/passwd", "a" * 300, "a" * 60000, "\0x", "\n", "%n%s", "é" * 99,
         "efficientnet_lite0_int8"]
NUMBERS = [0, 1, 2, 3, 7, 63, 64, 255, 4096, 65535, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 40, 1 << 63, (1 << 64) - 1]


def any_value(rng, kind, depth):
    if kind in wire.MESSAGES:
        return any_body(rng, kind, depth + 1)
    if kind == "string":
        return rng.choice(TEXTS)
    if kind == "bytes":
        return rng.randbytes(rng.choice([0, 1, 100]))
    if kind == "double":
        return rng.choice([0.0, -1.0, float("nan"), float("inf"), 1e308])
    return rng.choice(NUMBERS)


def any_body(rng, message, depth=0):
    """A well-formed body with values of all kinds."""
    body = {}
    for name, (_, kind, repeated) in wire.MESSAGES[message].items():
        if rng.random() < 0.4:
            continue
        if repeated:
            n = rng.choice([0, 1, 2, 3, 17, 300])
            body[name] = [any_value(rng, kind, depth) for _ in range(n if depth < 2 else min(n, 3))]
        else:
            body[name] = any_value(rng, kind, depth)
    return body


def broken(rng, data):
    """Bytes that were a message."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(len(data)) if data else 0
        how = rng.randrange(7)
        if how == 0 and data:
            data[at] ^= 1 << rng.randrange(8)
        elif how == 1 and data:
            data[at] = rng.choice([0, 127, 128, 255])
        elif how == 2:
            del data[at:]
        elif how == 3:
            data[at:at] = rng.randbytes(rng.randrange(1, 9))
        elif how == 4:
            data[at:at] = b"\xff" * rng.choice([9, 10, 11])  # varints that do not end
        elif how == 5:
            data += data[:rng.randrange(len(data) + 1)]
        else:  # any field with any wire type
            data[at:at] = wire.key(rng.randrange(1, 130), rng.randrange(8)) + wire.varint(rng.choice(NUMBERS))
    return bytes(data[:70000])


# --- states of a session ------------------------------------------------------------------------------


class State:
    """A session in one state, with the handles that it was given."""

    def __init__(self, daemon, name, model):
        self.c = wire.Connection(daemon.socket, hello=name != "silent")
        self.given = set()
        self.bound = None
        if name in ("silent", "greeted"):
            return
        if name == "region":
            self.given.add(("region_unregister", self.c.expect("region_create", {"byte_size": 4096})["region"]))
            return
        self.bound = Bound(self.c, model)
        self.given = {("method_close", self.bound.method), ("method_reset", self.bound.method), ("bind", self.bound.method),
                      ("region_unregister", self.bound.region), ("unbind", self.bound.binding), ("infer", self.bound.binding)}
        if name == "in_flight":
            self.given.add(("cancel", self.c.send("infer", {"binding": self.bound.binding})))
        elif name == "stale":
            for kind, body in (("unbind", {"binding": self.bound.binding}), ("method_close", {"method": self.bound.method}),
                               ("region_unregister", {"region": self.bound.region})):
                self.c.expect(kind, body)
            self.given = set()

    def close(self):
        if self.bound:
            self.bound.close()
        self.c.close()


STATES = ["silent", "greeted", "region", "bound", "in_flight", "stale"]


def settle(state, expected):
    """Receive until each request of @expected (id: how often it was sent) is answered as often, or the session ends."""
    answers, n = {}, collections.Counter()
    try:
        while n != expected:
            reply = state.c.receive()
            number = reply.get("id", 0)
            n[number] += 1
            assert n[number] <= expected[number], f"request {number}: {n[number]} answers; {reply}"
            answers[number] = reply
    except wire.Ended:
        return answers, True
    return answers, False


def states(daemon, rng, goes_on, model="efficientnet_lite0_int8"):
    """Every kind of request in every state, each with several bodies. The number of requests."""
    n = 0
    plan = [(state, kind, how) for state in STATES for kind in wire.KINDS for how in ("empty", "any", "handle", "twice", "manager")]
    rng.shuffle(plan)
    n += foreign(daemon, model)
    while goes_on():
        for i, (name, kind, how) in enumerate(plan):
            if not goes_on():
                break
            n += one_state(daemon, rng, name, kind, how, model)
            n += foreign(daemon, model) if i % 100 == 99 else 0
    return n


def foreign(daemon, model):
    """A session tries the live handles of another one: each is refused, and the other one notices nothing. The number
    of requests."""
    with wire.Connection(daemon.socket) as mine, wire.Connection(daemon.socket) as theirs:
        own = Bound(mine, model)
        live = [Bound(theirs, model) for _ in range(3)]  # the last one's handles are numbers that the first has not used
        last = live[-1]
        assert {last.method, last.region, last.binding}.isdisjoint({own.method, own.region, own.binding})
        memory = os.memfd_create("named", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(memory, 4096)
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        theirs.expect("region_register", {"byte_size": 4096, "name": "theirs"}, [memory])
        os.close(memory)
        before = len(theirs.expect("region_status", {})["regions"])
        theirs.last_id = 5000
        in_flight = theirs.send("infer", {"binding": last.binding})
        attempts = [("method_close", {"method": last.method}), ("method_reset", {"method": last.method}),
                    ("method_open", {"share_with": last.method}), ("region_unregister", {"region": last.region}),
                    ("region_unregister", {"name": "theirs"}), ("unbind", {"binding": last.binding}),
                    ("infer", {"binding": last.binding}), ("cancel", {"request": in_flight}),
                    ("bind", dict(own.body, method=last.method))]
        for side in ("inputs", "outputs"):  # memory of the other session's
            slots = [dict(s, region=last.region) if "region" in s else s for s in own.body[side]]
            attempts.append(("bind", dict(own.body, **{side: slots})))
        for kind, body in attempts:
            reply = mine.call(kind, body)
            assert reply.get("status"), f"{kind} with a handle of another session works: {body}: {reply}"
        reply = theirs.receive()
        assert reply.get("id") == in_flight and not reply.get("status"), f"another session's request in flight: {reply}"
        for b in live:
            reply = b.infer()
            assert not reply.get("status"), f"another session's binding: {reply}"
        assert len(theirs.expect("region_status", {})["regions"]) == before, "another session lost a region"
        for b in live + [own]:
            b.close()
        return len(attempts)


def one_state(daemon, rng, name, kind, how, model):
    state = State(daemon, name, model)
    try:
        body = any_body(rng, wire.KINDS[kind]) if how in ("any", "twice") else {}
        body.pop("from_fd", None)  # announces a descriptor that is not there: attack_descriptors
        number = 1000 + rng.randrange(1000)
        handle = None
        if kind in HANDLES and how == "handle":
            handle = rng.choice(NUMBERS + [5, 6, 9, 99])
            body = {HANDLES[kind]: handle}
            if kind == "bind" and state.bound:
                body = dict(state.bound.body, method=handle)
        data = wire.request(number, kind, body)
        if len(data) > wire.MAX_PACKET:
            return 0
        times = 2 if how == "twice" else 1  # an id that is in use already
        for _ in range(times):
            if not state.c.send_bytes(data):
                return 1
        expected = collections.Counter({number: times} | {h: 1 for k, h in state.given if k == "cancel"})
        answers, has_ended = settle(state, expected)
        reply = answers.get(number)
        where = f"{kind} ({how}) in state {name}"
        if name == "silent" and kind != "hello":
            assert has_ended or (reply and reply.get("status")), f"{where} was served without Hello"
        if reply is None:
            assert has_ended, f"{where} was not answered"
            return 1
        if kind in MANAGER:
            assert reply.get("status"), f"{where}: a manager's message was served on the clients' socket: {reply}"
        if handle and (kind, handle) not in state.given:
            # Unregistering region 0 means all regions; anything else was never given to this session.
            assert reply.get("status"), f"{where}: handle {handle} was never given, and works"
        return 1
    finally:
        state.close()


def packets(daemon, rng, goes_on, model="efficientnet_lite0_int8"):
    """Packets that are no messages, and messages that are broken. The number of packets."""
    n = 0
    kinds = list(wire.KINDS)
    while goes_on():
        with wire.Connection(daemon.socket, hello=rng.random() < 0.9) as c:
            for _ in range(rng.randrange(1, 20)):
                how = rng.randrange(6)
                if how == 0:
                    data = rng.randbytes(rng.choice([1, 2, 10, 1000, 65536]))
                elif how == 1:
                    # nested far too deeply
                    data = b""
                    for _ in range(rng.choice([50, 500])):
                        data = wire.blob(rng.randrange(1, 23), data)
                elif how == 2:
                    kind = rng.choice(kinds)
                    data = wire.request(rng.choice(NUMBERS), kind, any_body(rng, wire.KINDS[kind]))
                    data += wire.request(1, rng.choice(kinds), {})  # two bodies in one
                else:
                    kind = rng.choice(kinds)
                    data = broken(rng, wire.request(rng.choice(NUMBERS), kind, any_body(rng, wire.KINDS[kind])))
                n += 1
                try:
                    if not data or not c.send_bytes(data):
                        break
                    while c.has_reply():
                        c.receive()
                except (wire.Ended, OSError):  # too long for a packet: EMSGSIZE
                    break
    return n


def shared_socket(daemon, rng, goes_on, model="efficientnet_lite0_int8"):
    """A forked session: two processes send on one socket, then one of them dies. Every request is answered, to
    either of them. The number of requests."""
    n = 0
    while goes_on():
        c = wire.Connection(daemon.socket)
        b = Bound(c, model)
        pid = os.fork()
        if not pid:
            for i in range(20):
                c.send_bytes(wire.request(5000 + i, rng.choice(["status", "server_metadata", "region_status"]), {}))
            os._exit(0)
        for _ in range(20):
            c.send("infer", {"binding": b.binding})
        os.waitpid(pid, 0)
        answered = []
        while len(answered) < 40:
            answered.append(c.receive().get("id", 0))
        assert len(set(answered)) == 40, "a request of a shared session was answered twice"
        n += 40
        b.close()
        c.close()
    return n


def deaf(daemon, rng, goes_on):
    """Clients that ask and never read. The number of sessions; the daemon ends each."""
    n = 0
    while goes_on():
        kind = rng.choice(["status", "repository_index", "server_metadata", "region_create", "model_metadata", "model_statistics"])
        body = {"region_create": {"byte_size": 4096}, "model_metadata": {"name": "efficientnet_lite0_int8"}}.get(kind, {})
        with wire.Connection(daemon.socket) as c:
            wire.be_patient(c.socket, 30)
            try:
                for i in range(100000):
                    if not c.send_bytes(wire.request(i, kind, body)):
                        break
                    if i % 64 == 0 and not goes_on():
                        break
            except BlockingIOError:
                raise AssertionError(f"who asks for {kind} and never reads is neither served nor cut off") from None
        n += 1
    return n


N_CROWD = 10000


def n_open(sockets):
    """On how many of them the daemon has not hung up."""
    poller = select.poll()
    for s in sockets:
        poller.register(s, 0)
    return len(sockets) - len(poller.poll(0))


def crowd(daemon, rng, goes_on):
    """10,000 connections of one user at the same time, silent, half greeted or with a request on its way; once at least.
    The daemon serves as many as the user may have, and turns all others away. The number of connections."""
    n = 0
    n_may = daemon.options.connections
    most = min(N_CROWD, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 100)
    if most < N_CROWD:
        print(f"  NOT TRIED: {N_CROWD} connections at once; only {most} descriptors are allowed here")
    while not n or goes_on():
        held = []
        try:
            while len(held) < most:
                s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
                wire.be_patient(s)
                s.connect(daemon.socket)
                held.append(s)
                if len(held) % 3 == 0:
                    try:
                        s.send(wire.request(1, "hello", {"protocol": 1}) if len(held) % 2 else struct.pack("<I", len(held)))
                    except (BrokenPipeError, ConnectionResetError):
                        pass  # turned away already
            n += len(held)
            is_decided = until(lambda: n_open(held) <= n_may)
            assert is_decided, f"{n_open(held)} connections of one user are open, which may have {n_may}"
            daemon.notes.append({"what": "connections that one user made and held at the same time", "count": len(held)})
            daemon.notes.append({"what": "those of them that are served", "count": n_open(held)})
        finally:
            for s in held:
                s.close()
    return n


ATTACKS = {"messages": states, "packets": packets, "forked socket": shared_socket, "never read": deaf, "10,000 connections": crowd}
