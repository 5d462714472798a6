"""The waiting room answers hosts when their cancellations change."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection

import pytest

from scheduler.pool.cancellations import Cancellations
from scheduler.pool.facts import PoolHost
from scheduler.pool.waiting import (
    BURST,
    NotOfThePool,
    RateLimit,
    TooManyRequests,
    TooManyWaiters,
    WaitingRoom,
)

NOTHING = Cancellations().cursor


class Fake:
    """A database with cancellations by host; a token is the number of its host."""

    def __init__(self) -> None:
        self.aborts: dict[int, tuple[str, ...]] = {}
        self.reads: list[list[int]] = []
        self.threads: set[str] = set()
        self.fails = False

    def recognize(self, token: str, _address: str) -> PoolHost | None:
        self.threads.add(threading.current_thread().name)
        return PoolHost(1, int(token), 1) if token.isdecimal() else None

    def read(self, host_ids: Collection[int]) -> dict[int, Cancellations]:
        self.threads.add(threading.current_thread().name)
        self.reads.append(sorted(host_ids))
        if self.fails:
            raise OSError("the database is away")
        return {host_id: Cancellations(self.aborts.get(host_id, ())) for host_id in host_ids}


def room_of(fake: Fake, **limits: int) -> WaitingRoom:
    return WaitingRoom(fake.recognize, fake.read, poll_seconds=0.02, **limits)


async def wait(room: WaitingRoom, host: int, seconds: float = 5.0) -> Cancellations:
    return await room.answer(str(host), "", cursor=NOTHING, timeout_seconds=seconds)


async def until(room: WaitingRoom, count: int) -> None:
    while room.waiting != count:  # noqa: ASYNC110 - the room has no event
        await asyncio.sleep(0.005)


def test_a_host_is_answered_when_its_results_are_cancelled() -> None:
    async def scenario() -> None:
        fake = Fake()
        room = room_of(fake)
        first, second = (asyncio.create_task(wait(room, host)) for host in (1, 2))
        await until(room, 2)
        fake.aborts[1] = ("a_0",)
        assert (await first).aborts == ("a_0",)
        assert not second.done()
        second.cancel()
        room.close()

    asyncio.run(scenario())


def test_known_cancellations_are_not_sent_again_before_the_timeout() -> None:
    async def scenario() -> None:
        fake = Fake()
        fake.aborts[1] = ("a_0",)
        room = room_of(fake)
        known = await wait(room, 1)
        began = asyncio.get_running_loop().time()
        again = await room.answer("1", "", cursor=known.cursor, timeout_seconds=0.2)
        assert again == known
        assert asyncio.get_running_loop().time() - began >= 0.2
        assert room.waiting == 0
        room.close()

    asyncio.run(scenario())


def test_one_thread_and_one_statement_serve_all_waiting_hosts() -> None:
    async def scenario() -> None:
        fake = Fake()
        room = room_of(fake)
        tasks = [asyncio.create_task(wait(room, host)) for host in range(1, 31)]
        await until(room, 30)
        fake.reads.clear()
        await asyncio.sleep(0.2)
        assert fake.reads[-1] == list(range(1, 31))
        assert len(fake.reads) <= 11
        assert len(fake.threads) == 1
        for task in tasks:
            task.cancel()
        await until(room, 0)
        await asyncio.sleep(0.05)
        fake.reads.clear()
        await asyncio.sleep(0.1)
        assert fake.reads == []  # nothing is read while no host waits
        room.close()

    asyncio.run(scenario())


def test_a_second_request_of_a_host_ends_the_first() -> None:
    async def scenario() -> None:
        fake = Fake()
        room = room_of(fake)
        first = asyncio.create_task(wait(room, 1))
        await until(room, 1)
        second = asyncio.create_task(wait(room, 1))
        assert (await first).aborts == ()
        assert room.waiting == 1
        second.cancel()
        room.close()

    asyncio.run(scenario())


def test_waiters_are_bounded_and_unknown_tokens_refused() -> None:
    async def scenario() -> None:
        fake = Fake()
        room = room_of(fake, max_waiters=2)
        tasks = [asyncio.create_task(wait(room, host)) for host in (1, 2)]
        await until(room, 2)
        with pytest.raises(TooManyWaiters):
            await wait(room, 3)
        with pytest.raises(NotOfThePool):
            await room.answer("nobody", "", cursor="", timeout_seconds=1)
        for task in tasks:
            task.cancel()
        room.close()

    asyncio.run(scenario())


def test_a_token_that_is_used_too_often_is_refused() -> None:
    async def scenario() -> None:
        fake = Fake()
        fake.aborts[1] = ("a_0",)
        room = room_of(fake)
        for _ in range(BURST):
            await wait(room, 1)
        with pytest.raises(TooManyRequests):
            await wait(room, 1)
        room.close()

    asyncio.run(scenario())


def test_a_bucket_fills_again_with_time() -> None:
    limit = RateLimit()
    assert [limit.take("t", 0.0) for _ in range(BURST + 1)] == [True] * BURST + [False]
    assert not limit.take("t", 0.1)
    assert limit.take("t", 1.0)


def test_a_failed_read_does_not_end_the_waiting() -> None:
    async def scenario() -> None:
        fake = Fake()
        room = room_of(fake)
        task = asyncio.create_task(wait(room, 1))
        await until(room, 1)
        fake.fails = True
        await asyncio.sleep(0.1)
        assert not task.done()
        fake.fails, fake.aborts[1] = False, ("a_0",)
        assert (await task).aborts == ("a_0",)
        room.close()

    asyncio.run(scenario())
