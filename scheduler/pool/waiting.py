"""Holds requests of hosts until their results are cancelled.

Theory of operation.  A host sends the cursor of the cancellations that it knows, and waits while
they are the same.  One statement reads the cancellations of all waiting hosts, twice a second.  It
runs in the only thread that uses the database, as does the check of tokens, so that the process has
one connection whatever the number of hosts.  Nothing is read while no host waits.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from scheduler.pool.cancellations import Cancellations
    from scheduler.pool.facts import PoolHost

T = TypeVar("T")

log = logging.getLogger(__name__)

#: The interval at which the cancellations of waiting hosts are read.
POLL_SECONDS: Final = 0.5
#: The maximum number of waiting hosts.
MAX_WAITERS: Final = 1000
#: The maximum number of requests that wait for the check of their token.
MAX_CHECKS: Final = 64
#: A token may be used this often at once, and then this many times a second.
BURST: Final = 10
REQUESTS_PER_SECOND: Final = 2.0
#: The maximum number of tokens whose requests are counted.
_MAX_COUNTED: Final = 10_000


class Refused(Exception):
    """The request is not answered now; `retry_after` is in seconds."""

    retry_after = 5


class TooManyRequests(Refused):
    """The token was used too often. Hint: wait a few seconds between requests."""


class TooManyWaiters(Refused):
    """Too many hosts wait. Hint: try again later, or start another `runpool`."""


class NotOfThePool(Exception):
    """The token belongs to no host of the pool. Hint: `manage.py pool enroll HOST`."""


@dataclass(slots=True)
class RateLimit:
    """Token buckets of the least recently used tokens' hashes."""

    buckets: OrderedDict[bytes, tuple[float, float]] = field(default_factory=OrderedDict)

    def take(self, token: str, now: float) -> bool:
        """Count a request; return False if there were too many."""
        key = hashlib.sha256(token.encode()).digest()
        left, since = self.buckets.pop(key, (float(BURST), now))
        left = min(float(BURST), left + (now - since) * REQUESTS_PER_SECOND)
        self.buckets[key] = (max(left - 1, 0.0), now)
        if len(self.buckets) > _MAX_COUNTED:
            self.buckets.popitem(last=False)
        return left >= 1


@dataclass(slots=True)
class _Waiter:
    cursor: str
    future: asyncio.Future[Cancellations]


class WaitingRoom:
    """The waiting requests of one process; all methods run in its event loop.

    `recognize` returns the host of a token, or None; `read` returns the cancellations of hosts.
    Both run in the database thread.
    """

    def __init__(
        self,
        recognize: Callable[[str, str], PoolHost | None],
        read: Callable[[Collection[int]], Mapping[int, Cancellations]],
        *,
        max_waiters: int = MAX_WAITERS,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self._recognize, self._read = recognize, read
        self._max_waiters, self._poll_seconds = max_waiters, poll_seconds
        self._waiting: dict[int, _Waiter] = {}
        self._checks = 0
        self._limit = RateLimit()
        self._database = ThreadPoolExecutor(1, thread_name_prefix="database")
        self._poll: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """The number of waiting hosts."""
        return len(self._waiting)

    async def answer(
        self, token: str, address: str, *, cursor: str, timeout_seconds: float
    ) -> Cancellations:
        """Return the cancellations of a host when they differ from `cursor`, or after the time.

        A second request of a host ends the first one, whose connection is lost in most cases.
        Raises `NotOfThePool`, `TooManyRequests` and `TooManyWaiters`.
        """
        if not self._limit.take(token, monotonic()):
            raise TooManyRequests("This token was used too often. Hint: wait some seconds.")
        host_id = await self._check(token, address)
        current = (await self._in_thread(self._read, [host_id]))[host_id]
        if current.cursor != cursor or not timeout_seconds:
            return current
        if earlier := self._waiting.pop(host_id, None):
            _finish(earlier, current)
        if len(self._waiting) >= self._max_waiters:
            raise TooManyWaiters(f"{len(self._waiting)} hosts wait. Hint: try again later.")
        waiter = _Waiter(cursor, asyncio.get_running_loop().create_future())
        self._waiting[host_id] = waiter
        if self._poll is None or self._poll.done():
            self._poll = asyncio.create_task(self._poll_while_hosts_wait())
        try:
            return await asyncio.wait_for(waiter.future, timeout_seconds)
        except TimeoutError:
            return current
        finally:
            if self._waiting.get(host_id) is waiter:
                del self._waiting[host_id]

    async def _check(self, token: str, address: str) -> int:
        if self._checks >= MAX_CHECKS:
            raise TooManyWaiters("Too many requests wait. Hint: try again later.")
        self._checks += 1
        try:
            pool_host = await self._in_thread(self._recognize, token, address)
        finally:
            self._checks -= 1
        if pool_host is None:
            raise NotOfThePool("The token is no valid host token.")
        return pool_host.host_id

    async def _in_thread(self, function: Callable[..., T], *arguments: object) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._database, function, *arguments)

    async def _poll_while_hosts_wait(self) -> None:
        was_well = True
        while self._waiting:
            await asyncio.sleep(self._poll_seconds)
            host_ids = list(self._waiting)
            try:
                by_host = await self._in_thread(self._read, host_ids)
            except Exception as error:  # noqa: BLE001 - the database may be back at the next read
                if was_well:
                    log.warning("pool_read_failed", extra={"reason": str(error).strip()})
                was_well = False
                continue
            was_well = True
            for host_id, cancellations in by_host.items():
                waiter = self._waiting.get(host_id)
                if waiter is not None and waiter.cursor != cancellations.cursor:
                    _finish(waiter, cancellations)

    def close(self) -> None:
        """End the database thread; waiting requests are not answered."""
        self._database.shutdown(wait=False, cancel_futures=True)


def _finish(waiter: _Waiter, cancellations: Cancellations) -> None:
    if not waiter.future.done():
        waiter.future.set_result(cancellations)
