"""Hands every finished workunit, good or failed, to the science.

Claim, act, settle: a lease with a fencing token is taken, the science works with no transaction
open, and a guarded update settles what still carries our token.  Files are synced once per batch
before anything counts as assimilated.  Whatever fails is put off, longer each time; others go on.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from importlib import import_module
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from django.conf import settings
from django.db import transaction

from daemons.science import copy_files
from daemons.science.interfaces import Assimilation, Output
from daemons.tally import WHOLE, Shard, Tally
from scheduler import sql, storage
from scheduler.lifecycle import (
    Actor,
    AssimilateState,
    Axis,
    Because,
    ErrorMask,
    sources,
)

if TYPE_CHECKING:
    from daemons.science.interfaces import Assimilator, Written

log = logging.getLogger(__name__)

PACKAGE = "daemons.sql"
#: No workunit of a batch is begun later than this after the claim.
TIME_LIMIT = timedelta(minutes=10)
#: How long a claim holds: outlives the time limit by what one workunit may take.
LEASE = timedelta(minutes=30)
FIRST_WAIT, LONGEST_WAIT = timedelta(seconds=10), timedelta(hours=1)

#: What an app may name as its assimilator, besides ``python:package.module.function``.
ASSIMILATORS: dict[str, Assimilator] = {"copy_files": copy_files.assimilate}
_SOURCES = list(sources(Axis.ASSIMILATION, AssimilateState.DONE))


class UnknownAssimilator(LookupError):
    """An app names an assimilator that cannot be found. Hint: the message says what was tried."""


@dataclass(slots=True)
class _Batch:
    """What became of the claimed rows."""

    done: list[dict[str, Any]] = field(default_factory=list)
    failed: list[dict[str, Any]] = field(default_factory=list)
    untouched: list[dict[str, Any]] = field(default_factory=list)
    written: list[Written] = field(default_factory=list)
    settled: int = 0


def run_pass(*, now: datetime, limit: int, shard: Shard = WHOLE) -> Tally:
    """Hand over what is ready; never while a transaction is open, unless the science asks so."""
    claimed = sql.fetch(
        "claim_unassimilated",
        {
            "now": now,
            "lease_until": now + LEASE,
            "limit": limit,
            "sources": _SOURCES,
            "shard_count": shard.count,
            "shard_index": shard.index,
        },
        PACKAGE,
    )
    if not claimed:
        return Tally()
    batch = _hand_over(claimed, now=now)
    _settle_batch(batch, now=now)
    return Tally(
        seen=len(claimed),
        counts={
            "assimilated": batch.settled,
            "put off": len(batch.failed),
            "settled by another": len(batch.done) - batch.settled,
        },
        more=len(claimed) >= limit,
    )


@cache
def find(name: str) -> Assimilator:
    """The assimilator of a name; raises `UnknownAssimilator`."""
    if found := ASSIMILATORS.get(name):
        return found
    kind, _, path = name.partition(":")
    module, _, function = path.rpartition(".")
    if kind != "python" or not module:
        msg = (
            f"There is no assimilator {name!r}. Hint: name one of {', '.join(ASSIMILATORS)}, "
            "or a function as python:package.module.function."
        )
        raise UnknownAssimilator(msg)
    try:
        return cast("Assimilator", getattr(import_module(module), function))
    except (ImportError, AttributeError) as error:
        msg = f"Assimilator {name!r} cannot be imported: {error}. Hint: is it on PYTHONPATH?"
        raise UnknownAssimilator(msg) from error


def assimilation(row: dict[str, Any]) -> Assimilation:
    """What the science is told of a claimed row."""
    has_failed = row["canonical_result_id"] is None
    names = zip(row["positions"] or (), row["names"] or (), strict=True)
    return Assimilation(
        key=f"{settings.PROJECT.name}/{row['id']}",
        workunit_id=row["id"],
        workunit_name=row["name"],
        app=row["app"],
        batch_id=row["batch_id"],
        meta=row["meta"],
        errors=tuple(bit.name or "" for bit in ErrorMask(row["error_mask"])) if has_failed else (),
        cancel_reason=row["cancel_reason"],
        canonical_result_id=row["canonical_result_id"],
        canonical_result_name=row["canonical_result_name"],
        outputs=tuple(
            Output(
                position,
                row["outputs"][position].get("open_name", ""),
                name,
                storage.upload_path(name),
            )
            for position, name in names
        ),
    )


def _hand_over(claimed: list[dict[str, Any]], *, now: datetime) -> _Batch:
    batch = _Batch()
    began = monotonic()
    for row in claimed:
        if monotonic() - began > TIME_LIMIT.total_seconds():
            batch.untouched.append(row)
            continue
        try:
            assimilate = find(row["assimilator"])
            if getattr(assimilate, "transactional", False):
                batch.settled += _hand_over_and_settle(assimilate, row, now=now)
            else:
                batch.written += assimilate(assimilation(row)) or ()
        except Exception:
            log.exception("assimilation failed", extra={"workunit": row["name"], "app": row["app"]})
            batch.failed.append(row)
        else:
            batch.done.append(row)
    return batch


def _hand_over_and_settle(assimilate: Assimilator, row: dict[str, Any], *, now: datetime) -> int:
    """Exactly once: what the science writes to our database commits with the settlement."""
    with transaction.atomic():
        settled = _settle([row], now=now)
        if settled and (written := list(assimilate(assimilation(row)) or ())):
            storage.sync_results(written)
    return settled


def _settle_batch(batch: _Batch, *, now: datetime) -> None:
    try:
        if batch.written:
            storage.sync_results(batch.written)
    except OSError:
        # What may not be on disk is not done; nothing waits for its lease to run out.
        log.exception("results not on disk", extra={"files": len(batch.written)})
        batch.failed += [row for row in batch.done if not _is_transactional(row)]
        batch.done = [row for row in batch.done if _is_transactional(row)]
    pending = [row for row in batch.done if not _is_transactional(row)]
    if pending:
        batch.settled += _settle(pending, now=now)
    put_off = batch.failed + batch.untouched
    if put_off:
        waits = [_wait(row["lease_token"]) for row in batch.failed]
        sql.execute(
            "put_off_assimilation",
            {
                "ids": [row["id"] for row in put_off],
                "tokens": [row["lease_token"] for row in put_off],
                "again_ats": [now + wait for wait in waits] + [None] * len(batch.untouched),
            },
            PACKAGE,
        )


def _is_transactional(row: dict[str, Any]) -> bool:
    return bool(getattr(find(row["assimilator"]), "transactional", False))


def _settle(rows: list[dict[str, Any]], *, now: datetime) -> int:
    settled = sql.fetch(
        "settle_assimilated",
        {
            "now": now,
            "ids": [row["id"] for row in rows],
            "tokens": [row["lease_token"] for row in rows],
            "sources": _SOURCES,
            "source": int(AssimilateState.READY),
            "target": int(AssimilateState.DONE),
            "axis": Axis.ASSIMILATION.value,
            "because": Because.ASSIMILATED.value,
            "by": Actor.ASSIMILATOR.value,
        },
        PACKAGE,
    )
    return len(settled)


def _wait(attempts: int) -> timedelta:
    """How long a workunit waits after failing; its token counts how often it was tried."""
    doublings: int = 2 ** min(attempts - 1, 20)
    return min(FIRST_WAIT * doublings, LONGEST_WAIT)
