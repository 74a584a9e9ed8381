"""Polls that wait: woken by their own news only, one per caller, never more than there is room for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from fedgeom.engines.flower.message_layer import Waiter, WaitingRoom
from tests.waiting import HANG_SECONDS


async def open_line() -> dict[str, Any]:
    await asyncio.Event().wait()
    return {}


async def hung_up() -> dict[str, Any]:
    return {"type": "http.disconnect"}


def run(scene: Callable[[WaitingRoom], Coroutine[Any, Any, None]], most: int = 10) -> WaitingRoom:
    """Play a scene; whoever was in the room is out at the end."""
    room = WaitingRoom(most)
    asyncio.run(asyncio.wait_for(scene(room), HANG_SECONDS))
    assert len(room) == 0
    assert room._topics == {}
    return room


def test_only_news_on_its_own_topic_wake_a_poll() -> None:
    async def scene(room: WaitingRoom) -> None:
        with room.listen(["a", "b"]) as one, room.listen(["c"]) as other:
            assert room.admit("one", one)
            assert room.admit("other", other)
            room.tell(["b", "nobody's"])
            assert await one.wait(HANG_SECONDS, open_line) == "news"
            assert await one.wait(0.01, open_line) == "nothing"  # the same news are not told twice
            assert await other.wait(0.01, open_line) == "nothing"

    run(scene)


def test_news_that_come_before_the_waiting_are_not_missed() -> None:
    async def scene(room: WaitingRoom) -> None:
        with room.listen(["a"]) as waiter:
            room.tell(["a"])
            assert room.admit("one", waiter)
            assert await waiter.wait(HANG_SECONDS, open_line) == "news"

    run(scene)


def test_who_hangs_up_is_noticed_at_once() -> None:
    async def scene(room: WaitingRoom) -> None:
        with room.listen(["a"]) as waiter:
            assert room.admit("one", waiter)
            room.tell(["a"])
            assert (
                await waiter.wait(HANG_SECONDS, hung_up) == "gone"
            )  # also when there are news: nobody would get them

    run(scene)


def test_a_caller_who_comes_again_ends_the_poll_from_before() -> None:
    async def scene(room: WaitingRoom) -> None:
        with room.listen(["a"]) as before:
            assert room.admit("one", before)
            waiting = asyncio.create_task(before.wait(HANG_SECONDS, open_line))
            with room.listen(["a"]) as again:
                assert room.admit("one", again)
                assert await waiting == "nothing"
                assert len(room) == 1
        assert len(room) == 0

    run(scene)


def test_a_full_room_takes_nobody_in_but_who_is_in_may_come_again() -> None:
    async def scene(room: WaitingRoom) -> None:
        with room.listen(["a"]) as one, room.listen(["a"]) as two, room.listen(["a"]) as three:
            assert room.admit("one", one)
            assert room.admit("two", two)
            assert not room.admit("three", three)
            assert room.admit("one", three)
            assert len(room) == 2

    run(scene, most=2)


@pytest.mark.parametrize("many", [500])
def test_many_wait_without_a_thread(many: int) -> None:
    async def scene(room: WaitingRoom) -> None:
        async def poll(number: int) -> str:
            with room.listen([str(number)]) as waiter:
                assert room.admit(str(number), waiter)
                return await waiter.wait(HANG_SECONDS, open_line)

        tasks = [asyncio.create_task(poll(number)) for number in range(many)]
        while len(room) < many:
            await asyncio.sleep(0)
        room.tell([str(number) for number in range(many)])
        assert set(await asyncio.gather(*tasks)) == {"news"}

    run(scene, most=many)


def test_waiters_are_told_apart() -> None:
    async def scene(room: WaitingRoom) -> None:
        assert Waiter() != Waiter()

    run(scene)
