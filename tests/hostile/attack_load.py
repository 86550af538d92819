# SPDX-License-Identifier: BSD-3-Clause
"""Attacks by load alone, with well-formed requests: one user has as many requests of a model in flight as it may have; more
models are opened, run and closed than memory_budget has room for; a manager loads and unloads without end. All answers
are exact, what is refused is refused for a limit, and memory_budget is kept."""

import os
import select

import wire
from daemon import Bound, fill

MORE = 100  # requests than the user may have in flight
OPEN_AT_ONCE = 3  # models, of each client that cycles
REFUSED = wire.STATUS["RESOURCE_EXHAUSTED"]
# A model that is being unloaded, that memory_budget has no room for, or whose load was cut short.
MAY_REFUSE = {wire.STATUS[s] for s in ("UNAVAILABLE", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION")}


def output_of(bound):
    at, tensor = bound.slots[bound.n_inputs]
    return bound.memory[at:at + tensor["byte_size"]]


def expected_output(daemon):
    """Of the model that the victim uses, and of its copies, for what fill writes."""
    with wire.Connection(daemon.socket) as c:
        b = Bound(c, daemon.options.model_name)
        fill(b)
        reply = b.infer()
        assert not reply.get("status"), reply
        expected = output_of(b)
        b.close()
        return expected


def saturation(daemon, rng, goes_on):
    """As many requests in flight as the user may have, and more; for each that is answered another one. The number of
    answers."""
    expected = expected_output(daemon)
    with wire.Connection(daemon.socket) as c:
        users = c.expect("status", {})["users"]
        limits = next(u["limits"] for u in users if u.get("uid", 0) == os.getuid())
        n_most = next(limit["limit"] for limit in limits if limit["name"] == "requests")
        # One request a binding. All but one write to the same place; that one's answers are looked at.
        b, probe = Bound(c, daemon.options.model_name), Bound(c, daemon.options.model_name)
        fill(b)
        fill(probe)
        bindings = [probe.binding, b.binding] + [c.expect("bind", b.body)["binding"] for _ in range(n_most + MORE - 2)]
        of_request = {c.send("infer", {"binding": binding}): binding for binding in bindings}
        refused = []
        n = n_refused = n_compared = 0
        while not n_refused or not n_compared or goes_on():
            reply = c.receive()
            binding = of_request.pop(reply["id"])
            assert reply.get("status", 0) in (0, REFUSED), f"with {len(of_request)} requests in flight: {reply}"
            if reply.get("status"):
                assert "requests" in reply["error"], f"refused for another limit: {reply}"
                n_refused += 1
                refused.append(binding)
                if not of_request:  # another attacker, who is the same user, has them all
                    select.select([], [], [], 0.01)
                    refused.pop()
                    of_request[c.send("infer", {"binding": binding})] = binding
                continue
            n += 1
            if binding == probe.binding:
                assert output_of(probe) == expected, "a wrong answer"
                probe.memory[probe.slots[probe.n_inputs][0]] ^= 0xff
                n_compared += 1
            if probe.binding in refused:
                refused[refused.index(probe.binding)], binding = binding, probe.binding
            of_request[c.send("infer", {"binding": binding})] = binding
        probe.close()
        b.close()
    print(f"  of {n_most + MORE} requests at once {n_refused} were refused; {n} answered, {n_compared} of them compared")
    return n


def cycling(daemon, rng, goes_on):
    """Copies of a model, more than memory_budget has room for, are opened, run and closed, some of them at once. The
    number of opens."""
    expected = expected_output(daemon)
    opened, n_refused = [], 0
    while goes_on() or len(set(opened)) < 2:
        with wire.Connection(daemon.socket) as c:
            held = []
            for name in rng.sample(daemon.options.copies, OPEN_AT_ONCE):
                try:
                    b = Bound(c, name)
                except wire.Refused as e:
                    assert e.status in MAY_REFUSE, e
                    n_refused += 1
                    continue
                held.append(b)
                opened.append(name)
                fill(b)
                reply = b.infer()
                assert not reply.get("status"), f"{name}: {reply}"
                assert output_of(b) == expected, f"{name}: a wrong answer"
            status = c.expect("status", {})
            assert status["memory_used"] <= status["memory_budget"], f"{status['memory_used']} of {status['memory_budget']} bytes"
            for b in held:
                b.close()
    print(f"  {len(opened)} opens of {len(set(opened))} models, {n_refused} refused")
    return len(opened)


def reloading(daemon, rng, goes_on):
    """A manager loads and unloads models, some of them while a client uses them. The number of loads."""
    expected = expected_output(daemon)
    n = n_loaded = 0
    with wire.Connection(daemon.manager) as manager:
        while goes_on() or not n_loaded:
            name = rng.choice(daemon.options.copies)
            reply = manager.call("repository_model_load", {"model_name": name})
            assert reply.get("status", 0) in MAY_REFUSE | {0}, reply
            n += 1
            n_loaded += not reply.get("status")
            with wire.Connection(daemon.socket) as c:
                try:
                    b = Bound(c, name)
                except wire.Refused as e:
                    assert e.status in MAY_REFUSE, e
                    continue
                fill(b)
                number = c.send("infer", {"binding": b.binding})
                if rng.random() < 0.5:
                    manager.call("repository_model_unload", {"model_name": name})
                reply = c.receive()
                assert reply.get("id") == number and reply.get("status", 0) in MAY_REFUSE | {0}, reply
                assert reply.get("status") or output_of(b) == expected, f"{name}: a wrong answer"
                b.close()
            manager.call("repository_model_unload", {"model_name": name})
    return n


ATTACKS = {"saturation": saturation, "more models than memory": cycling, "loads and unloads": reloading}
AS_ROOT = {"loads and unloads"}
BUDGETS = {"more models than memory": 64 << 20}  # the victim's model and two of five copies
