"""Hands every finished workunit, good or failed, to the science.

Claim, act, settle: a lease with a fencing token is taken, the science works with no transaction
open, and a guarded update settles what still carries our token.  Files are synced once per batch
before anything counts as assimilated.  Whatever fails is put off, longer each time, and parked when
it failed too often; others go on.  A full disk is nobody's failure: workunits wait until there is
room.  What failed before comes last in a batch, and an app whose
science failed slowly is left alone for the rest of it, so that a hang costs others little.
"""

from __future__ import annotations

import errno
import logging
import traceback
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from time import monotonic
from typing import TYPE_CHECKING, Any

from django.db import DatabaseError, OperationalError, transaction

from daemons import poison
from daemons.full_disk import FullDisk
from daemons.low_water import LowWater
from daemons.poison import Stage
from daemons.science import assimilators, dataset
from daemons.science.interfaces import (
    Defer,
    Records,
    TransientScienceError,
)
from daemons.tally import WHOLE, Shard, Tally
from scheduler import sql, storage
from scheduler.lifecycle import (
    Actor,
    AssimilateState,
    Axis,
    Because,
    sources,
)

if TYPE_CHECKING:
    from pathlib import Path

    from daemons.science.interfaces import Assimilator, Written

log = logging.getLogger(__name__)

PACKAGE = "daemons.sql"
#: No workunit of a batch is begun later than this after the claim.
TIME_LIMIT = timedelta(minutes=10)
#: How long a claim holds beyond the longest time limit of any app's science: it outlives the batch.
LEASE = timedelta(minutes=30)
#: What took longer than this makes the daemon settle what is done, so that nobody waits for it.
SLOW = timedelta(seconds=1)
#: The shortest and the longest time for which a workunit can be deferred.
SOONEST, LATEST = timedelta(seconds=1), timedelta(days=365)

#: When what found the disk full is tried again.
NO_ROOM = timedelta(seconds=30)

#: How much of what went wrong goes into the log; characters.
_EXCERPT = 500
_FULL_DISK = frozenset({errno.ENOSPC, errno.EDQUOT})
_TROUBLES_OF_THE_MACHINE = frozenset(
    {errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
)
#: Ids and tokens of what this process claimed in passes that the database broke off.
_unsettled: list[tuple[int, int]] = []
_full_disk = FullDisk()
#: Where this process goes on, by its share of the work.
_queues: dict[Shard, LowWater[int]] = {}
_SOURCES = list(sources(Axis.ASSIMILATION, AssimilateState.DONE))


@dataclass(slots=True)
class _Batch:
    """What became of the claimed rows that are not yet settled, and counts of those that are."""

    now: datetime
    began: float = field(default_factory=monotonic)
    done: list[dict[str, Any]] = field(default_factory=list)
    failed: list[_Failure] = field(default_factory=list)
    #: Rows that are given back, and when they are handed over again (None: at once).
    given_back: list[tuple[dict[str, Any], datetime | None]] = field(default_factory=list)
    written: list[Path] = field(default_factory=list)
    records: list[Records] = field(default_factory=list)
    #: By app id, the seconds that failures of its science took.
    lost: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    #: By app id.
    assimilators: dict[int, Assimilator] = field(default_factory=dict)
    #: Ids of apps whose answers were kept, and of those for which there was no room; why not.
    kept: set[int] = field(default_factory=set)
    put_off: set[int] = field(default_factory=set)
    full_disk: str = ""
    counts: Counter[str] = field(default_factory=Counter)

    def moment(self) -> datetime:
        """Now, counted from the beginning of the pass, in whole seconds."""
        return self.now + timedelta(seconds=int(monotonic() - self.began))


@dataclass(frozen=True, slots=True)
class _Failure:
    """A row on which the science failed, with the traceback."""

    row: dict[str, Any]
    error: str
    transient: bool = False


def run_pass(*, now: datetime, limit: int, shard: Shard = WHOLE) -> Tally:
    """Hand over what is ready; never while a transaction is open, unless the science asks so."""
    _give_back_unsettled()
    claimed = _claim(now=now, limit=limit, shard=shard)
    if not claimed:
        return Tally()
    batch = _Batch(now)
    try:
        # What failed before may fail again, and slowly: it comes last, when others are settled.
        for has_failed in (False, True):
            _hand_over([row for row in claimed if row["has_failed"] is has_failed], batch)
            _settle_batch(batch)
    except DatabaseError:
        # Nobody else takes them before their lease ends: the next pass gives back what is left.
        _unsettled.extend((row["id"], row["lease_token"]) for row in claimed)
        raise
    if waiting := batch.counts["waiting for room on disk"]:
        _full_disk.meets(batch.put_off, workunits=waiting, reason=batch.full_disk)
    _full_disk.leaves(batch.kept - batch.put_off)
    return Tally(
        seen=len(claimed),
        counts=dict(batch.counts),
        more=len(claimed) >= limit or bool(batch.counts["left for the next pass"]),
    )


def _give_back_unsettled() -> None:
    """Give back at once what a pass had claimed while the database went away."""
    if _unsettled:
        ids, tokens = zip(*_unsettled, strict=True)
        params = {"ids": list(ids), "tokens": list(tokens), "again_ats": [None] * len(ids)}
        sql.execute("put_off_assimilation", params, PACKAGE)
        _unsettled.clear()


def _claim(*, now: datetime, limit: int, shard: Shard) -> list[dict[str, Any]]:
    queue = _queues.setdefault(shard, LowWater(0))
    params = {
        "now": now,
        "lease": LEASE,
        "limit": limit,
        "sources": _SOURCES,
        "shard_count": shard.count,
        "shard_index": shard.index,
    }
    rows = queue.read(
        lambda after: sql.fetch("claim_unassimilated", {"after_id": after, **params}, PACKAGE)
    )
    if rows:
        queue.mark = rows[-1]["id"]
    return rows


def _hand_over(rows: list[dict[str, Any]], batch: _Batch) -> None:
    for row in rows:
        if monotonic() - batch.began > TIME_LIMIT.total_seconds() or _is_exhausted(row, batch):
            batch.given_back.append((row, None))
            batch.counts["left for the next pass"] += 1
            continue
        began = monotonic()
        if not _hand_over_one(row, batch):
            batch.lost[row["app_id"]] += monotonic() - began
        if monotonic() - began > SLOW.total_seconds():
            _settle_batch(batch)


def _is_exhausted(row: dict[str, Any], batch: _Batch) -> bool:
    """Whether failures of an app's science took as long as one hang may: it must wait."""
    lost: float = batch.lost[row["app_id"]]
    return lost > 0 and lost >= row["science_time_limit"].total_seconds()


def _hand_over_one(row: dict[str, Any], batch: _Batch) -> bool:
    """Hand one workunit over; whether the science did not fail."""
    try:
        assimilate = batch.assimilators.get(row["app_id"])
        if assimilate is None:
            assimilate = batch.assimilators[row["app_id"]] = assimilators.find(
                row["assimilator"], row["assimilator_options"], row["science_time_limit"]
            )
        if getattr(assimilate, "transactional", False):
            _hand_over_and_settle(assimilate, row, batch)
        else:
            for one in _asked(assimilate, row):
                (batch.records if isinstance(one, Records) else batch.written).append(one)  # type: ignore[arg-type]
            batch.done.append(row)
    except Defer as later:
        return _defer(row, later, batch)
    except Exception as error:  # noqa: BLE001 - science may raise anything
        _fail(row, error, batch)
        return False
    return True


def _asked(assimilate: Assimilator, row: dict[str, Any]) -> list[Written]:
    """What the science wrote; raises what it raises, and `Defer` if it returned that."""
    answer = assimilate(assimilators.told(row))
    if isinstance(answer, Defer):
        raise answer
    return list(answer or ())


def _hand_over_and_settle(assimilate: Assimilator, row: dict[str, Any], batch: _Batch) -> None:
    """Exactly once: what the science writes to our database commits with the settlement."""
    with transaction.atomic():
        settled = _settle([row], now=batch.now)
        if settled:
            written = [one for one in _asked(assimilate, row) if not isinstance(one, Records)]
            if written:
                storage.sync_results(written)
    batch.counts["assimilated"] += settled
    batch.counts["settled by another"] += 1 - settled
    batch.kept.add(row["app_id"])


def _defer(row: dict[str, Any], later: Defer, batch: _Batch) -> bool:
    """Put a workunit off as its science asks; whether the science named a moment."""
    moment = batch.moment()
    try:
        until = later.until if isinstance(later.until, datetime) else moment + later.until
        until = min(max(until, moment + SOONEST), moment + LATEST)
    except (TypeError, OverflowError) as error:
        _fail(row, error, batch)
        return False
    batch.given_back.append((row, until))
    batch.counts["deferred"] += 1
    return True


def _fail(row: dict[str, Any], error: Exception, batch: _Batch) -> None:
    if isinstance(error, OSError) and error.errno in _FULL_DISK:
        batch.full_disk = str(error)
        batch.put_off.add(row["app_id"])
        batch.given_back.append((row, batch.moment() + NO_ROOM))
        batch.counts["waiting for room on disk"] += 1
        return
    told = _told(error)
    transient = _is_transient(error)
    # The traceback is kept with the workunit: `manage.py parked show`.
    extra = {"workunit": row["name"], "app": row["app"], "reason": str(error)[:_EXCERPT]}
    if transient:
        log.warning("assimilation put off", extra=extra)
    else:
        log.error("assimilation failed", extra=extra)
    batch.failed.append(_Failure(row, told, transient))


def _is_transient(error: Exception) -> bool:
    """Whether it says nothing of the workunit: the science says so, the disk or the database."""
    if isinstance(error, OSError):
        return error.errno in _TROUBLES_OF_THE_MACHINE
    return isinstance(error, TransientScienceError | OperationalError)


def _told(error: Exception) -> str:
    """The traceback, of the worker's process if the science failed there."""
    remote = getattr(error, "traceback", "")
    return str(remote) if remote else "".join(traceback.format_exception(error))


def _settle_batch(batch: _Batch) -> None:
    """Write, sync and settle what is done; count and give back the rest.  Empties the batch."""
    _keep_files(batch)
    if batch.done:
        settled = _settle(batch.done, now=batch.now)
        batch.counts["assimilated"] += settled
        batch.counts["settled by another"] += len(batch.done) - settled
        batch.kept.update(row["app_id"] for row in batch.done)
    moment = batch.moment()
    for failure, record in _count_failures(batch.failed, now=moment):
        batch.counts["parked" if record.parked else "put off"] += 1
        batch.given_back.append((failure.row, moment + record.wait))
    if batch.given_back:
        sql.execute(
            "put_off_assimilation",
            {
                "ids": [row["id"] for row, _ in batch.given_back],
                "tokens": [row["lease_token"] for row, _ in batch.given_back],
                "again_ats": [again_at for _, again_at in batch.given_back],
            },
            PACKAGE,
        )
    for rows in (batch.done, batch.failed, batch.given_back, batch.written, batch.records):
        rows.clear()


def _keep_files(batch: _Batch) -> None:
    """Put the batch's files on the disk; what may not be there is not done."""
    troubles: dict[int, Exception] = {}
    try:
        if batch.records:
            paths, troubles = dataset.put(batch.records)
            batch.written += paths
        if batch.written:
            storage.sync_results(batch.written)
    except OSError as error:
        if error.errno not in _FULL_DISK:
            log.exception("results not on disk", extra={"files": len(batch.written)})
        troubles = {row["id"]: error for row in batch.done}
    for row in batch.done:
        if trouble := troubles.get(row["id"]):
            _fail(row, trouble, batch)
    batch.done = [row for row in batch.done if row["id"] not in troubles]


def _count_failures(
    failed: list[_Failure], *, now: datetime
) -> list[tuple[_Failure, poison.Record]]:
    records = poison.record(
        Stage.ASSIMILATE,
        {failure.row["id"]: failure.error for failure in failed},
        {failure.row["id"]: failure.row["app_id"] for failure in failed},
        now=now,
        transient={failure.row["id"] for failure in failed if failure.transient},
    )
    return [(failure, records[failure.row["id"]]) for failure in failed]


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
