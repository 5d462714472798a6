"""Processes a request once, even if it is sent again with its idempotency key.

Theory of operation.  The transaction that processes a request inserts the row of its key.  A
second request with the same key waits at the unique index for the end of that transaction.  If the
transaction was committed, the second request returns the stored answer; if it was rolled back, the
second request is processed.  A refused request therefore stores no row, and a corrected request can
use the same key.

Handlers call `once`.  A handler with a long preparation first calls `earlier_outcome`, so that a
repeated request skips the preparation, and then `once`.  Two concurrent requests may both prepare,
but only one writes its outcome.
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

#: Maximum time that a repeated request waits for the first request with its key.
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
    """The status and answer of a request.

    `replayed` is True if an earlier request with the same key stored them.
    """

    status: int
    answer: dict[str, Any]
    replayed: bool = False


def earlier_outcome(
    *, account: Account, key: str, request_hash: Callable[[], str]
) -> Outcome | None:
    """Return the outcome of the earlier request with this key, or None if the key is new.

    `request_hash` returns the hash of the request, and is called only for a used key.  Call this
    function outside transactions, because hashing a long body is slow.  Raises `BadKey` for an
    invalid key, and `KeyReused` if the earlier request had another hash.
    """
    _check(key)
    row = IdempotencyKey.objects.filter(account=account, key=key).first()
    sql.release()
    return None if row is None else _replayed(row, request_hash())


def once(
    act: Callable[[], tuple[int, dict[str, Any]]],
    *,
    account: Account,
    key: str,
    request_hash: str,
    now: datetime,
) -> Outcome:
    """Call `act` and store its outcome under the key, or return the outcome stored earlier.

    `act` returns the status and an answer that JSON can represent.  It runs in the transaction
    that stores the key, so if it raises, the key can be used again.  Raises `BadKey` for an invalid
    key, `KeyReused` if the earlier request had another hash, and `StillUnderWay` after
    `CLAIM_TIMEOUT`.
    """
    _check(key)
    with transaction.atomic():
        row_id = _claim({"account_id": account.pk, "key": key, "now": now})
        if row_id is None:
            return _replayed(IdempotencyKey.objects.get(account=account, key=key), request_hash)
        status, answer = act()
        IdempotencyKey.objects.filter(pk=row_id).update(
            request_hash=request_hash, status=status, answer=answer
        )
        return Outcome(status, answer)


def _check(key: str) -> None:
    if not _KEY.fullmatch(key):
        msg = "The idempotency key is not valid. Hint: send 1 to 200 visible ASCII characters."
        raise BadKey(msg)


def _replayed(row: IdempotencyKey, request_hash: str) -> Outcome:
    """Return the stored outcome; raise `KeyReused` if another request stored it."""
    if row.request_hash != request_hash:
        msg = "The key was used for another request. Hint: use a new key for each request."
        raise KeyReused(msg)
    return Outcome(row.status, row.answer, replayed=True)


def _claim(params: dict[str, Any]) -> int | None:
    """Insert the row of a key and return its id; None if the key was used before.

    Waits for a concurrent request with the key; raises `StillUnderWay` after `CLAIM_TIMEOUT`.
    """
    milliseconds = int(CLAIM_TIMEOUT.total_seconds() * 1000)
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('lock_timeout', %s::text, true)", [str(milliseconds)])
            row = sql.fetch_one("people/claim_idempotency_key", params)
            cursor.execute("SELECT set_config('lock_timeout', '0', true)")
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", None) == _LOCK_NOT_AVAILABLE:
            raise StillUnderWay(
                "The first request with this idempotency key is still running. "
                "Hint: send the request again later."
            ) from error
        raise
    return None if row is None else int(row["id"])
