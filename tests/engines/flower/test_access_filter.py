"""No control from other machines: they reach the fleet's part of the port, and nothing else."""

from __future__ import annotations

import asyncio

import pytest

from fedgeom.engines.flower.patches import REFUSAL, AccessFilter, may_pass


def scope(path, client, server=("10.0.0.7", 8000), kind="http"):
    return {"type": kind, "path": path, "client": client and (client, 5), "server": server}


CONTROL, RUNTIME, FLEET = "/v1/control/start-run", "/v1/runtime/acquire-task", "/v1/fleet/pull-messages"


@pytest.mark.parametrize("path", [CONTROL, RUNTIME, "/docs", "/openapi.json", "/", "/v1/fleet", "/v1/fleetx/a"])
@pytest.mark.parametrize("client", ["10.0.0.8", "203.0.113.5", "2001:db8::1", "::ffff:10.0.0.8", "name", None])
def test_other_machines_reach_the_fleet_only(path, client):
    assert not may_pass(scope(path, client))
    assert may_pass(scope(FLEET, client))
    assert not may_pass(scope(FLEET, client, kind="websocket"))


@pytest.mark.parametrize("client", ["127.0.0.1", "127.0.0.9", "::1", "::ffff:127.0.0.1", "10.0.0.7"])
@pytest.mark.parametrize("path", [CONTROL, RUNTIME, FLEET])
def test_this_machine_reaches_everything(path, client):
    assert may_pass(scope(path, client))


def passed(given):
    """Send a request through the filter; return whether it passed, and what was answered."""
    through, answered = [], []

    async def app(scope, receive, send):
        through.append(scope)

    async def send(message):
        answered.append(message)

    asyncio.run(AccessFilter(app)(given, None, send))
    return bool(through), answered


def test_what_passes_and_what_is_answered_to_the_rest():
    assert passed(scope(FLEET, "10.0.0.8")) == (True, [])
    assert passed({"type": "lifespan"}) == (True, [])
    through, answered = passed(scope(CONTROL, "10.0.0.8"))
    assert not through
    assert answered[0]["status"] == 403
    assert (b"content-length", str(len(REFUSAL)).encode()) in answered[0]["headers"]
    assert answered[1]["body"] == REFUSAL
    through, answered = passed(scope(CONTROL, "10.0.0.8", kind="websocket"))
    assert not through
    assert answered[0]["type"] == "websocket.close"
