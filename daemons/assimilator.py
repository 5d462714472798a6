"""Passes every finished workunit, successful or failed, to its app's assimilator.

The daemon claims workunits by a lease with a fencing token, calls the assimilator outside a
transaction, and marks the workunits as assimilated by an update that checks the token.  Files are
synced once per batch, before any workunit is marked.  A workunit whose assimilator fails is retried
with growing back-off, and parked after too many failures.  A full disk does not count as a failure:
the workunit is retried later.  A batch processes workunits with earlier failures last.  When the
failed calls of an app have taken as long as the app's time limit, the pass skips the app's
remaining workunits, so that a hanging assimilator delays other apps little.
"""

from __future__ import annotations

import errno
import logging
import traceback
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from json import loads
from time import monotonic
from typing import TYPE_CHECKING, Any

from django.db import DatabaseError, OperationalError, transaction

from daemons import low_water, poison
from daemons.full_disk import FullDisk
from daemons.science import assimilators, dataset, worker
from daemons.science.interfaces import Defer, Records, TransientScienceError
from daemons.tally import WHOLE, Shard, Tally
from scheduler import sql, storage
from scheduler.lifecycle import Actor, AssimilateState, Axis, Because, sources
from scheduler.sql.low_water import LowWaterMark

if TYPE_CHECKING:
    from pathlib import Path

    from daemons.science.interfaces import Assimilator, Written

log = logging.getLogger(__name__)

PACKAGE = "daemons.sql"
#: The maximum time between the claim of a batch and its last call of an assimilator.
TIME_LIMIT = timedelta(minutes=10)
#: The duration of a lease, in addition to the longest time limit of any app.  It must be longer
#: than a batch takes.
LEASE = timedelta(minutes=30)
#: After a call longer than this, the processed workunits are settled before the next call.
SLOW = timedelta(seconds=1)
#: The minimum and the maximum delay of a deferred workunit.
MIN_DEFERRAL, MAX_DEFERRAL = timedelta(seconds=1), timedelta(days=365)

#: The delay before a workunit is retried after the disk was full.
FULL_DISK_DELAY = timedelta(seconds=30)

#: The maximum length of an error in the log; characters.
_MAX_REASON_LENGTH = 500
_FULL_DISK = frozenset({errno.ENOSPC, errno.EDQUOT})
_MACHINE_ERRORS = frozenset({errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM})
#: Ids and lease tokens of the workunits of passes that a database error interrupted.
_unsettled: list[tuple[int, int]] = []
_full_disk = FullDisk()
#: The low-water mark in the queue of finished workunits, by shard.
_queues: dict[Shard, LowWaterMark[int]] = {}
_SOURCES = list(sources(Axis.ASSIMILATION, AssimilateState.DONE))


@dataclass(slots=True)
class _Batch:
    """The outcomes of claimed rows that are not written yet, and the counts of the pass."""

    now: datetime
    began: float = field(default_factory=monotonic)
    done: list[dict[str, Any]] = field(default_factory=list)
    #: Rows whose assimilators failed, and their tracebacks by workunit id.
    failed: list[dict[str, Any]] = field(default_factory=list)
    failures: worker.Failures = field(default_factory=worker.Failures)
    #: Rows whose leases will be released, each with the time of its retry (None: at once).
    released: list[tuple[dict[str, Any], datetime | None]] = field(default_factory=list)
    written: list[Path | str] = field(default_factory=list)
    records: list[Records] = field(default_factory=list)
    #: The total duration of failed calls in seconds, by app id.
    failure_seconds: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    #: The assimilators, by app id.
    assimilators: dict[int, Assimilator] = field(default_factory=dict)
    #: Ids of apps whose files were written, and ids of apps for which the disk was full.
    kept_app_ids: set[int] = field(default_factory=set)
    put_off_app_ids: set[int] = field(default_factory=set)
    #: The error that reported the full disk.
    full_disk: str = ""
    counts: Counter[str] = field(default_factory=Counter)

    def moment(self) -> datetime:
        """Return the time of the pass plus the whole seconds since the batch began."""
        return self.now + timedelta(seconds=int(monotonic() - self.began))


def run_pass(*, now: datetime, limit: int, shard: Shard = WHOLE) -> Tally:
    """Assimilate at most `limit` finished workunits.

    No transaction is open during a call, except for `transactional` assimilators.
    """
    _release_unsettled()
    claimed = _claim(now=now, limit=limit, shard=shard)
    if not claimed:
        return Tally()
    batch = _Batch(now)
    try:
        # Workunits with earlier failures are likely to fail again, perhaps slowly.  They are
        # processed after all other workunits are settled.
        for has_failed in (False, True):
            _assimilate_rows([row for row in claimed if row["has_failed"] is has_failed], batch)
            _settle_batch(batch)
    except DatabaseError:
        # Other processes cannot claim these rows until the leases end, so the next pass releases
        # the leases.
        _unsettled.extend((row["id"], row["lease_token"]) for row in claimed)
        raise
    if waiting := batch.counts["waiting for room on disk"]:
        _full_disk.record_full(batch.put_off_app_ids, workunits=waiting, reason=batch.full_disk)
    _full_disk.record_kept(batch.kept_app_ids - batch.put_off_app_ids)
    return Tally(
        seen=len(claimed),
        counts=dict(batch.counts),
        more=len(claimed) >= limit or bool(batch.counts["left for the next pass"]),
    )


def _release_unsettled() -> None:
    """Release the leases of passes that a database error interrupted."""
    if _unsettled:
        ids, tokens = zip(*_unsettled, strict=True)
        params = {"ids": list(ids), "tokens": list(tokens), "again_ats": [None] * len(ids)}
        sql.execute("put_off_assimilation", params, PACKAGE)
        _unsettled.clear()


def _claim(*, now: datetime, limit: int, shard: Shard) -> list[dict[str, Any]]:
    queue = _queues.setdefault(shard, LowWaterMark(0))
    params = {**shard.params, "now": now, "lease": LEASE, "limit": limit, "sources": _SOURCES}
    rows = low_water.read(
        queue,
        lambda after: sql.fetch("lease_unassimilated", {"after_id": after, **params}, PACKAGE),
    )
    # Many rows have the same JSON text, so each text is decoded once.
    outputs = {text: loads(text) for text in {row["outputs"] for row in rows}}
    for row in rows:
        row["outputs"] = outputs[row["outputs"]]
    if rows:
        queue.mark = rows[-1]["id"]
    return rows


def _assimilate_rows(rows: list[dict[str, Any]], batch: _Batch) -> None:
    for row in rows:
        if monotonic() - batch.began > TIME_LIMIT.total_seconds() or _is_exhausted(row, batch):
            batch.released.append((row, None))
            batch.counts["left for the next pass"] += 1
            continue
        began = monotonic()
        if not _assimilate_row(row, batch):
            batch.failure_seconds[row["app_id"]] += monotonic() - began
        if monotonic() - began > SLOW.total_seconds():
            _settle_batch(batch)


def _is_exhausted(row: dict[str, Any], batch: _Batch) -> bool:
    """Return whether the failed calls of the row's app took at least its time limit in total."""
    seconds: float = batch.failure_seconds[row["app_id"]]
    return seconds > 0 and seconds >= row["science_time_limit"].total_seconds()


def _assimilate_row(row: dict[str, Any], batch: _Batch) -> bool:
    """Assimilate or defer one workunit; return False if its assimilator failed."""
    try:
        assimilate = batch.assimilators.get(row["app_id"])
        if assimilate is None:
            assimilate = batch.assimilators[row["app_id"]] = assimilators.find(
                row["assimilator"], row["assimilator_options"], row["science_time_limit"]
            )
        if getattr(assimilate, "transactional", False):
            _assimilate_in_transaction(assimilate, row, batch)
        else:
            for output in _call(assimilate, row):
                (batch.records if isinstance(output, Records) else batch.written).append(output)  # type: ignore[arg-type]
            batch.done.append(row)
    except Defer as deferral:
        return _defer(row, deferral, batch)
    except Exception as error:  # noqa: BLE001 - science may raise anything
        _fail(row, error, batch)
        return False
    return True


def _call(assimilate: Assimilator, row: dict[str, Any]) -> list[Written]:
    """Call the assimilator; return its files and records, or raise its `Defer`."""
    answer = assimilate(assimilators.assimilation_of(row))
    if isinstance(answer, Defer):
        raise answer
    return list(answer or ())


def _assimilate_in_transaction(assimilate: Assimilator, row: dict[str, Any], batch: _Batch) -> None:
    """Mark the workunit as assimilated and call its assimilator in one transaction."""
    with transaction.atomic():
        settled = _settle([row], now=batch.now)
        if settled:
            outputs = _call(assimilate, row)
            paths = [output for output in outputs if not isinstance(output, Records)]
            if paths:
                storage.sync_results(paths)
    batch.counts["assimilated"] += settled
    batch.counts["settled by another"] += 1 - settled
    batch.kept_app_ids.add(row["app_id"])


def _defer(row: dict[str, Any], deferral: Defer, batch: _Batch) -> bool:
    """Schedule the retry that the assimilator requested.

    Returns False if the requested time is not valid, which counts as a failure.
    """
    moment = batch.moment()
    try:
        requested = deferral.until
        until = requested if isinstance(requested, datetime) else moment + requested
        until = min(max(until, moment + MIN_DEFERRAL), moment + MAX_DEFERRAL)
    except (TypeError, OverflowError) as error:
        _fail(row, error, batch)
        return False
    batch.released.append((row, until))
    batch.counts["deferred"] += 1
    return True


def _fail(row: dict[str, Any], error: Exception, batch: _Batch) -> None:
    if isinstance(error, OSError) and error.errno in _FULL_DISK:
        batch.full_disk = str(error)
        batch.put_off_app_ids.add(row["app_id"])
        batch.released.append((row, batch.moment() + FULL_DISK_DELAY))
        batch.counts["waiting for room on disk"] += 1
        return
    # The traceback is kept with the workunit: `manage.py parked show`.
    extra = {"workunit": row["name"], "app": row["app"], "reason": str(error)[:_MAX_REASON_LENGTH]}
    if transient := _is_transient(error):
        log.warning("assimilation_put_off", extra=extra)
    else:
        log.error("assimilation_failed", extra=extra)
    batch.failed.append(row)
    batch.failures.errors[row["id"]] = _traceback_of(error)
    if transient:
        batch.failures.transient.add(row["id"])


def _is_transient(error: Exception) -> bool:
    """Return whether the machine, the database or science code reported a transient error."""
    if isinstance(error, OSError):
        return error.errno in _MACHINE_ERRORS
    return isinstance(error, TransientScienceError | OperationalError)


def _traceback_of(error: Exception) -> str:
    """Return the traceback of an error, which may come from a worker process."""
    remote = getattr(error, "traceback", "")
    return str(remote) if remote else "".join(traceback.format_exception(error))


def _settle_batch(batch: _Batch) -> None:
    """Mark the finished rows of the batch as assimilated, and release all other rows.

    The files of the finished rows are written and synced first.  Clears the batch's lists.
    """
    _keep_files(batch)
    if batch.done:
        settled = _settle(batch.done, now=batch.now)
        batch.counts["assimilated"] += settled
        batch.counts["settled by another"] += len(batch.done) - settled
        batch.kept_app_ids.update(row["app_id"] for row in batch.done)
    moment = batch.moment()
    records = poison.record(
        poison.Stage.ASSIMILATE,
        batch.failures.errors,
        {row["id"]: row["app_id"] for row in batch.failed},
        now=moment,
        transient=batch.failures.transient,
    )
    for row in batch.failed:
        record = records[row["id"]]
        batch.counts["parked" if record.parked else "put off"] += 1
        batch.released.append((row, moment + record.wait))
    if batch.released:
        params = {
            "ids": [row["id"] for row, _ in batch.released],
            "tokens": [row["lease_token"] for row, _ in batch.released],
            "again_ats": [again_at for _, again_at in batch.released],
        }
        sql.execute("put_off_assimilation", params, PACKAGE)
    batch.failures = worker.Failures()
    for rows in (batch.done, batch.failed, batch.released, batch.written, batch.records):
        rows.clear()


def _keep_files(batch: _Batch) -> None:
    """Write and sync the files and records of the batch.

    Rows whose files cannot be written are removed from `batch.done`.  They are recorded as failed,
    or retried later if the disk is full.
    """
    errors: dict[int, Exception] = {}
    try:
        if batch.records:
            paths, errors = dataset.put(batch.records)
            batch.written += paths
        if batch.written:
            storage.sync_results(batch.written)
    except OSError as error:
        if error.errno not in _FULL_DISK:
            log.exception("result_sync_failed", extra={"files": len(batch.written)})
        errors = {row["id"]: error for row in batch.done}
    for row in batch.done:
        if row_error := errors.get(row["id"]):
            _fail(row, row_error, batch)
    batch.done = [row for row in batch.done if row["id"] not in errors]


def _settle(rows: list[dict[str, Any]], *, now: datetime) -> int:
    params = {
        "now": now,
        "ids": [row["id"] for row in rows],
        "tokens": [row["lease_token"] for row in rows],
        "sources": _SOURCES,
        "source": int(AssimilateState.READY),
        "target": int(AssimilateState.DONE),
        "axis": Axis.ASSIMILATION.value,
        "because": Because.ASSIMILATED.value,
        "by": Actor.ASSIMILATOR.value,
    }
    settled = sql.fetch("settle_assimilated", params, PACKAGE)
    return len(settled)
