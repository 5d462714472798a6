"""Do a request once, however often it is sent with one key.

Theory of operation.  The row of a key is inserted by the transaction that carries the request out.
Another request with the same key waits at the unique index for that transaction's end, and then
either finds the row, and is told what the first was told, or, if the first was rolled back, does
the work itself.  So a refused request leaves nothing behind, and may be sent again, mended.

A small request uses `once`.  One with long work does that before it calls `once`, after it has
asked `told_before`, so that no repeat does it again; two at a time may, and one writes what it
came to.  One whose body is a stream claims first and says last what it was::

    with transaction.atomic():
        claim = idempotency.begin(account=account, key=key, now=now)
        ...                                     # read the stream, hashing it; write
        if claim.told is not None:
            return idempotency.replay(claim, request_hash)
        idempotency.finish(claim, request_hash=request_hash, status=201, answer=answer)
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import OperationalError, connection, transaction

from scheduler import sql
from scheduler.models import Account, IdempotencyKey

#: How long a repeat waits for the first.
PATIENCE = timedelta(seconds=60)
_KEY = re.compile(r"[!-~]{1,200}")
_LOCK_NOT_AVAILABLE = "55P03"


class BadKey(ValueError):
    """The idempotency key cannot be kept. Hint: send 1 to 200 visible ASCII characters."""


class KeyReused(ValueError):
    """The key was used for another request. Hint: use a new key for each request."""


class StillUnderWay(RuntimeError):
    """The first request with the key is not done yet. Hint: send it again a little later."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a request was told; `replayed` if that was an earlier one."""

    status: int
    answer: dict[str, Any]
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class Claim:
    """A key that is held until the transaction's end; `told` if it was used before."""

    row_id: int
    request_hash: str = ""
    told: Told | None = None


def begin(*, account: Account, key: str, now: datetime) -> Claim:
    """Claim a key, within the caller's transaction; waits for another request that holds it.

    Raises `BadKey`, and `StillUnderWay` after `PATIENCE`.
    """
    judge(key)
    claimed = _claim({"account_id": account.pk, "key": key, "now": now})
    if claimed is not None:
        return Claim(claimed)
    return _claimed_before(IdempotencyKey.objects.get(account=account, key=key))


def told_before(*, account: Account, key: str, request_hash: Callable[[], str]) -> Told | None:
    """What the key was told before; None if it is new, and then `request_hash` is not asked.

    Outside of transactions, for to hash a long body takes long.  Raises `BadKey`, `KeyReused`.
    """
    judge(key)
    row = IdempotencyKey.objects.filter(account=account, key=key).first()
    sql.release()
    return None if row is None else replay(_claimed_before(row), request_hash())


def judge(key: str) -> None:
    """Refuse (`BadKey`) what cannot be a key: before a long body is read."""
    if not _KEY.fullmatch(key):
        msg = "The idempotency key cannot be kept. Hint: send 1 to 200 visible ASCII characters."
        raise BadKey(msg)


def finish(claim: Claim, *, request_hash: str, status: int, answer: dict[str, Any]) -> Told:
    """Keep what the request was and what it is told."""
    IdempotencyKey.objects.filter(pk=claim.row_id).update(
        request_hash=request_hash, status=status, answer=answer
    )
    return Told(status, answer)


def replay(claim: Claim, request_hash: str) -> Told:
    """Say what the first was told; raises `KeyReused` if that was another request."""
    if claim.told is None or claim.request_hash != request_hash:
        msg = "The key was used for another request. Hint: use a new key for each request."
        raise KeyReused(msg)
    return claim.told


def once(
    act: Callable[[], tuple[int, dict[str, Any]]],
    *,
    account: Account,
    key: str,
    request_hash: str,
    now: datetime,
) -> Told:
    """Act, in one transaction with the key, or say what it came to the first time.

    `act` returns the status and the answer, which JSON can hold; what it raises undoes the claim.
    Raises `BadKey`, `KeyReused`, `StillUnderWay`.
    """
    with transaction.atomic():
        claim = begin(account=account, key=key, now=now)
        if claim.told is not None:
            return replay(claim, request_hash)
        status, answer = act()
        return finish(claim, request_hash=request_hash, status=status, answer=answer)


def _claimed_before(row: IdempotencyKey) -> Claim:
    return Claim(row.pk, row.request_hash, Told(row.status, row.answer, replayed=True))


def _claim(params: dict[str, Any]) -> int | None:
    milliseconds = int(PATIENCE.total_seconds() * 1000)
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('lock_timeout', %s::text, true)", [str(milliseconds)])
            found = sql.fetch_one("people/claim_idempotency_key", params)
            cursor.execute("SELECT set_config('lock_timeout', '0', true)")
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", None) == _LOCK_NOT_AVAILABLE:
            msg = (
                "The first request with this idempotency key is not done yet. "
                "Hint: send it again a little later."
            )
            raise StillUnderWay(msg) from error
        raise
    return None if found is None else int(found["id"])
