"""A layer without a task of its own answers as Starlette's does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("flwr", reason="Flower is not installed")

from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from fedgeom.engines.flower.patches import DirectLayer

PIECES = (b"que", b"stion")


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answer with the body, and with what a layer noted."""
    request = Request(scope, receive)
    noted = getattr(request.state, "noted", "")
    await Response(await request.body(), 202, headers={"x-noted": noted})(scope, receive, send)


async def flow(scope: Any, receive: Any, send: Any) -> None:
    """Answer in two pieces."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"1"), (b"a", b"2")]})
    await send({"type": "http.response.body", "body": b"one ", "more_body": True})
    await send({"type": "http.response.body", "body": b"two"})


async def fail(scope: Any, receive: Any, send: Any) -> None:
    """Break."""
    raise LookupError("nobody knows")


async def pass_on(request: Any, call_next: Any) -> Any:
    return await call_next(request)


async def read_and_note(request: Any, call_next: Any) -> Any:
    request.state.noted = (await request.body()).decode()
    response = await call_next(request)
    response.headers["x-after"] = "yes"
    return response


async def refuse(request: Any, call_next: Any) -> Any:
    return JSONResponse({"detail": "no"}, 401)


async def translate(request: Any, call_next: Any) -> Any:
    try:
        return await call_next(request)
    except LookupError as error:
        return JSONResponse({"detail": str(error)}, 404)


def answer(app: Any) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Return status, headers and body."""
    pieces, sent = list(PIECES), []

    async def receive() -> dict[str, Any]:
        if not pieces:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/", "headers": [], "state": {}}
    asyncio.run(app(scope, receive, send))
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], sorted(sent[0]["headers"]), body


@pytest.mark.parametrize("dispatch", [pass_on, read_and_note, refuse, translate])
@pytest.mark.parametrize("app", [echo, flow])
def test_answers_are_those_of_starlettes_layer(app, dispatch):
    assert answer(DirectLayer(app, dispatch)) == answer(BaseHTTPMiddleware(app, dispatch))


def test_what_a_layer_has_read_and_noted_is_there_inside_it():
    status, headers, body = answer(DirectLayer(DirectLayer(echo, read_and_note), read_and_note))
    assert (status, body) == (202, b"question")
    assert (b"x-noted", b"question") in headers
    assert headers.count((b"x-after", b"yes")) == 1


def test_who_is_refused_by_a_layer_does_not_get_inside():
    assert answer(DirectLayer(fail, refuse))[0] == 401


def test_what_goes_wrong_inside_is_seen_by_the_layer():
    assert answer(DirectLayer(DirectLayer(fail, pass_on), translate))[0] == 404
    with pytest.raises(LookupError):
        answer(DirectLayer(fail, pass_on))


def test_no_answer_is_an_error():
    async def silent(scope: Any, receive: Any, send: Any) -> None:
        pass

    with pytest.raises(RuntimeError, match="no response"):
        answer(DirectLayer(silent, pass_on))
