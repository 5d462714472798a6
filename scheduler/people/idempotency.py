"""Processes a request once, even if it is sent repeatedly with its idempotency key.

Theory of operation.  The transaction that processes a request inserts the row of its key.  A
second request with the same key waits at the unique index for the end of that transaction.  If the
transaction was committed, the second request returns the stored answer; if it was rolled back, the
second request is processed.  A refused request therefore stores no row, and a corrected request can
use the same key.

A short request uses `once`.  A request with long preparation calls `earlier_outcome` before the
preparation, which a repeated request can skip, and `once` after it.  Two concurrent requests may
both prepare, but only one stores its outcome.  A request whose body is a stream claims the key
first and passes the hash of the body at the end::

    with transaction.atomic():
        claim = idempotency.begin(account=account, key=key, now=now)
        ...                                     # read the stream, hashing it; write
        if claim.earlier is not None:
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

#: Maximum time that a repeated request waits for the first.
CLAIM_TIMEOUT = timedelta(seconds=60)
_KEY = re.compile(r"[!-~]{1,200}")
_LOCK_NOT_AVAILABLE = "55P03"


class BadKey(ValueError):
    """The idempotency key is not valid. Hint: send 1 to 200 visible ASCII characters."""


class KeyReused(ValueError):
    """The key was used for another request. Hint: use a new key for each request."""


class StillUnderWay(RuntimeError):
    """The first request with the key is still running. Hint: send the request again later."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The status and answer of a request; `replayed` is True for those of an earlier request."""

    status: int
    answer: dict[str, Any]
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class Claim:
    """A key claimed until the transaction ends; `earlier` is the outcome of an earlier request."""

    row_id: int
    request_hash: str = ""
    earlier: Outcome | None = None


def begin(*, account: Account, key: str, now: datetime) -> Claim:
    """Claim a key in the caller's transaction; wait for a concurrent claim of the same key.

    Raises `BadKey`, and `StillUnderWay` after `CLAIM_TIMEOUT`.
    """
    check_key(key)
    claimed = _claim({"account_id": account.pk, "key": key, "now": now})
    if claimed is not None:
        return Claim(claimed)
    return _claimed_before(IdempotencyKey.objects.get(account=account, key=key))


def earlier_outcome(
    *, account: Account, key: str, request_hash: Callable[[], str]
) -> Outcome | None:
    """Return the outcome of the earlier request with this key; None if the key is new.

    `request_hash` is called only for a used key.  Call this function outside transactions, because
    hashing a long body is slow.  Raises `BadKey`, `KeyReused`.
    """
    check_key(key)
    row = IdempotencyKey.objects.filter(account=account, key=key).first()
    sql.release()
    return None if row is None else replay(_claimed_before(row), request_hash())


def check_key(key: str) -> None:
    """Raise `BadKey` if the key is invalid.  Call this before reading a long body."""
    if not _KEY.fullmatch(key):
        msg = "The idempotency key is not valid. Hint: send 1 to 200 visible ASCII characters."
        raise BadKey(msg)


def finish(claim: Claim, *, request_hash: str, status: int, answer: dict[str, Any]) -> Outcome:
    """Store the request's hash and its outcome in the row of the key."""
    IdempotencyKey.objects.filter(pk=claim.row_id).update(
        request_hash=request_hash, status=status, answer=answer
    )
    return Outcome(status, answer)


def replay(claim: Claim, request_hash: str) -> Outcome:
    """Return the outcome of the earlier request; raise `KeyReused` if its hash differs."""
    if claim.earlier is None or claim.request_hash != request_hash:
        msg = "The key was used for another request. Hint: use a new key for each request."
        raise KeyReused(msg)
    return claim.earlier


def once(
    act: Callable[[], tuple[int, dict[str, Any]]],
    *,
    account: Account,
    key: str,
    request_hash: str,
    now: datetime,
) -> Outcome:
    """Call `act` in one transaction with the key, or return the outcome of the earlier call.

    `act` returns the status and a JSON-serializable answer.  If `act` raises, the claim is rolled
    back.  Raises `BadKey`, `KeyReused`, `StillUnderWay`.
    """
    with transaction.atomic():
        claim = begin(account=account, key=key, now=now)
        if claim.earlier is not None:
            return replay(claim, request_hash)
        status, answer = act()
        return finish(claim, request_hash=request_hash, status=status, answer=answer)


def _claimed_before(row: IdempotencyKey) -> Claim:
    return Claim(row.pk, row.request_hash, Outcome(row.status, row.answer, replayed=True))


def _claim(params: dict[str, Any]) -> int | None:
    milliseconds = int(CLAIM_TIMEOUT.total_seconds() * 1000)
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('lock_timeout', %s::text, true)", [str(milliseconds)])
            row = sql.fetch_one("people/claim_idempotency_key", params)
            cursor.execute("SELECT set_config('lock_timeout', '0', true)")
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", None) == _LOCK_NOT_AVAILABLE:
            raise StillUnderWay(
                "The first request with this idempotency key is not done yet. "
                "Hint: send it again a little later."
            ) from error
        raise
    return None if row is None else int(row["id"])
