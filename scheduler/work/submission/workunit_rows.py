"""Prepares the rows of new workunits, and writes them with COPY.

Theory of operation.  `WorkunitWriter` prepares rows as text.  It needs no database, so `bulk`
prepares all rows before its transaction, which is therefore short.  `write` adds the values that
are known only in the transaction: the id, the priority and the values from the batch.  It also
writes the workunits' inputs, wake-ups and first ledger entries.  Ids are drawn in advance, so that
inputs and ledger entries need no join.  A name that is already taken aborts the transaction; then
`raise_for_taken_names` reads all taken names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import NamedTuple

from django.conf import settings
from django.db import IntegrityError
from django.db.models import F
from psycopg.errors import UniqueViolation

from scheduler import wakeups
from scheduler.lifecycle import NOTHING, Actor, Axis, Because, ReleaseState, WorkunitState
from scheduler.models import Account, Batch
from scheduler.results.rules.replication import RECHECK_INTERVAL
from scheduler.sql import copy_rows, escaped, fetch
from scheduler.work.rules.dependency_graphs import WorkunitReference
from scheduler.work.submission import listed, shares
from scheduler.work.submission.facts import NewEdges, NewFile, NewWorkunit, QueueTarget
from scheduler.work.submission.rules import bundling, new_workunits
from scheduler.work.submission.submission_checks import SubmissionRefused

#: Number of workunits that one COPY writes.
CHUNK_SIZE = 5000
#: Number of names that an error message lists.
_MAX_SHOWN_NAMES = 10
#: Maximum number of shapes whose shared columns a writer caches.
_MAX_CACHED_KINDS = 1000
_NULL = r"\N"
_HELD = ReleaseState.HELD.value
_INACTIVE = ReleaseState.INACTIVE.value
_NO_QUEUES: Mapping[str, QueueTarget] = {}
_RELEASED_COLUMNS = f"{ReleaseState.RELEASED.value}\t0\t{_NULL}"


class DuplicateNames(SubmissionRefused):
    """Workunit names are repeated or already taken. Hint: choose other names, or none.

    `names` has these names.  `where` describes the conflict in the message, as "already taken".
    """

    def __init__(self, names: Sequence[str], *, where: str) -> None:
        self.names, self.count = tuple(names), len(names)
        more = ", ..." * (self.count > _MAX_SHOWN_NAMES)
        shown = ", ".join(names[:_MAX_SHOWN_NAMES]) + more
        super().__init__(
            f"{self.count} workunit name{'s' * (self.count > 1)} {where}: {shown}. "
            "Hint: choose other names, or leave the names out to have them generated."
        )


class NameTaken(Exception):
    """The name of a workunit is already taken. Hint: call `raise_for_taken_names`."""


@dataclass(frozen=True, slots=True)
class CreatedWorkunits:
    """Collects the ids and names of created workunits, in the order of their creation."""

    ids: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)


class WorkunitRow(NamedTuple):
    """A workunit prepared for COPY.

    `own_columns`, `shared_columns` and the text that follows each file id in `inputs` are in
    COPY's text format.  `priority` is the requested priority; None means the priority of the batch
    or, with fair share, the priority by the submitter's share.  `after` and `continuations` are the
    dependencies of the workunit, `bundle` is the label of its task list.
    """

    name: str
    hold_code: int | None
    pending: int
    priority: int | None
    operations: float
    own_columns: str
    shared_columns: str
    inputs: tuple[tuple[int, str], ...]
    after: tuple[WorkunitReference, ...] = ()
    continuations: tuple[WorkunitReference, ...] = ()
    bundle: str | None = None
    can_be_listed: bool = False


class _SharedValues(NamedTuple):
    """The values of a `WorkunitRow` that are equal for workunits of one shape."""

    hold_code: int | None
    pending: int
    priority: int | None
    operations: float
    columns: str
    can_be_listed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionContext:
    """The app, the batch and the batch's settings, which all workunits of a submission share.

    With `in_lists`, the workunits are sent in task lists, which the server makes of them.
    """

    app_id: int
    batch_id: int | None = None
    priority: int | None = None
    waits: bool = False
    outputs_kept: bool = False
    in_lists: bool = False


class WorkunitWriter:
    """Prepares rows, and caches the text of columns that are equal for workunits of one shape.

    Explicit priorities are ignored unless `honors_priorities` is true.  `queues` are the queues
    that the workunits name, by name.
    """

    def __init__(
        self, *, honors_priorities: bool, queues: Mapping[str, QueueTarget] = _NO_QUEUES
    ) -> None:
        self._honors_priorities = honors_priorities
        self._queues = queues
        self._shared: dict[tuple[object, ...], _SharedValues] = {}
        #: The shape of the workunit before, and its values.
        self._last: tuple[tuple[object, ...], _SharedValues] | None = None

    def prepare(
        self, workunit: NewWorkunit, name: str, inputs: Sequence[tuple[int, NewFile]]
    ) -> WorkunitRow:
        """Return the row of a valid workunit; `inputs` are pairs of a file id and an input file."""
        key = new_workunits.shape(workunit)
        # Often the shape of the workunit before; a comparison is faster than a hash.
        if self._last is None or key != self._last[0]:
            self._last = key, self._values_of(workunit, key)
        shared = self._last[1]
        meta = escaped(json.dumps(dict(workunit.meta))) if workunit.meta else "{}"
        return WorkunitRow(
            name,
            shared.hold_code,
            shared.pending,
            shared.priority,
            shared.operations,
            f"{escaped(workunit.command_line)}\t{meta}",
            shared.columns,
            tuple([(file_id, _reference(file)) for file_id, file in inputs]) if inputs else (),
            workunit.after,
            workunit.continuations,
            workunit.bundle,
            shared.can_be_listed,
        )

    def _values_of(self, workunit: NewWorkunit, key: tuple[object, ...]) -> _SharedValues:
        """Return the values that workunits with this shape share, from the cache if possible."""
        shared = self._shared.get(key)
        if shared is None:
            if len(self._shared) >= _MAX_CACHED_KINDS:
                self._shared.clear()
            queue_id = None if workunit.queue is None else self._queues[workunit.queue].id
            shared = self._shared[key] = _SharedValues(
                workunit.hold,
                workunit.pending_dependency_count,
                workunit.priority if self._honors_priorities else None,
                workunit.operations,
                _shared_columns(workunit, queue_id),
                bundling.can_be_listed(workunit),
            )
        return shared


def write(
    rows: Iterable[WorkunitRow],
    context: SubmissionContext,
    *,
    draw_ids: Callable[[int], Sequence[int]],
    submitter: Account | None,
    created: CreatedWorkunits | None = None,
    continued: Collection[str] = (),
    now: datetime,
) -> list[NewEdges]:
    """Write rows in the caller's transaction, chunk by chunk, and add their number to the batch.

    Returns the edges of rows with dependencies, which the caller must insert.  `draw_ids` returns
    ids for a number of new rows, and raises an exception to refuse them.  `continued` has the
    names that are continuations of other rows: these workunits are created inactive, too.

    With fair share, the priority of a workunit without a requested priority is computed from the
    submitter's share.  The ids and names of an earlier attempt, which was rolled back, are removed
    from `created`, and those of the new workunits are added.  Raises `NameTaken`, after which the
    transaction must be rolled back.  Wakes the transitioner.
    """
    if created is not None:
        created.ids.clear()
        created.names.clear()
    clock = shares.ShareClock(submitter, now=now) if settings.PROJECT.fair_share else None
    wakeups.after_commit("transitioner")
    edges: list[NewEdges] = []
    lists = listed.NewLists(
        context.app_id,
        context.batch_id,
        in_lists=context.in_lists,
        continued=continued,
        now=now,
    )
    workunit_end, ledger_end = _workunit_end(context, now), _ledger_end(now)
    wakeup_end = f"\t{now.isoformat()}\n"
    remaining, count = iter(rows), 0
    while chunk := list(islice(remaining, CHUNK_SIZE)):
        ids = draw_ids(len(chunk))
        priorities = _priorities(chunk, context, clock)
        bundle_ids = lists.assign(chunk, ids, priorities)
        _copy_workunits(
            _workunits(chunk, ids, priorities, bundle_ids, context, workunit_end, continued)
        )
        copy_rows("work/submission/copy_wakeups", "".join([f"{id_}{wakeup_end}" for id_ in ids]))
        if settings.PROJECT.ledger:
            entries = "".join([f"{id_}{ledger_end}" for id_ in ids])
            copy_rows("work/submission/copy_first_moves", entries)
        if inputs := _inputs(chunk, ids):
            copy_rows("work/submission/copy_inputs", inputs)
        edges += [
            NewEdges(id_, row.after, row.continuations)
            for id_, row in zip(ids, chunk, strict=True)
            if row.after or row.continuations
        ]
        count += len(ids)
        if created is not None:
            created.ids.extend(ids)
            created.names.extend([row.name for row in chunk])
    lists.finish()
    if clock:
        clock.save()
    _count_in_batch(context, count)
    return edges


def _copy_workunits(text: str) -> None:
    try:
        copy_rows("work/submission/copy_workunits", text)
    except IntegrityError as error:
        if isinstance(error.__cause__, UniqueViolation):
            raise NameTaken from error
        raise


def _count_in_batch(context: SubmissionContext, count: int) -> None:
    if context.batch_id is not None and count:
        total = F("workunits_submitted") + count
        Batch.objects.filter(pk=context.batch_id).update(workunits_submitted=total)


def raise_for_taken_names(names: Iterable[str]) -> None:
    """Raise `DuplicateNames` if any of the names is taken; call it outside the transaction."""
    remaining = iter(names)
    taken: list[str] = []
    while chunk := list(islice(remaining, CHUNK_SIZE)):
        taken += [
            row["name"] for row in fetch("work/submission/read_taken_names", {"names": chunk})
        ]
    if taken:
        raise DuplicateNames(taken, where="already taken")


def _workunit_end(context: SubmissionContext, now: datetime) -> str:
    """Return the last columns of `copy_workunits.sql`, equal for all rows of a submission."""
    moment = now.isoformat()
    batch = _NULL if context.batch_id is None else context.batch_id
    kept, waits = ("t" if flag else "f" for flag in (context.outputs_kept, context.waits))
    # The transitioner looks earlier, and then need not write a row only to set this time.
    recheck_at = (now + RECHECK_INTERVAL).isoformat()
    return f"\t{context.app_id}\t{batch}\t{kept}\t{waits}\t{moment}\t{recheck_at}\n"


def _ledger_end(now: datetime) -> str:
    """Return all columns of `copy_first_moves.sql` after the workunit's id."""
    codes = (Axis.WORKUNIT, NOTHING, WorkunitState.OPEN, Because.SUBMITTED, Actor.SUBMITTER)
    return "\t".join(["", now.isoformat(), *(str(int(code)) for code in codes)]) + "\n"


def _workunits(
    chunk: Sequence[WorkunitRow],
    ids: Sequence[int],
    priorities: Sequence[int],
    bundle_ids: Sequence[str],
    context: SubmissionContext,
    end: str,
    continued: Collection[str],
) -> str:
    """Return the text for COPY, with columns in the order of `copy_workunits.sql`."""
    may_be_released = not (context.waits or continued)
    release = [
        _RELEASED_COLUMNS
        if may_be_released and row.hold_code is None and not (row.pending or row.after)
        else _release_columns(row, context, continued)
        for row in chunk
    ]
    columns = zip(ids, chunk, priorities, release, bundle_ids, strict=True)
    return "".join(
        [
            f"{id_}\t{row.name}\t{priority}\t{released}"
            f"\t{row.own_columns}\t{row.shared_columns}\t{bundle}{end}"
            for id_, row, priority, released, bundle in columns
        ]
    )


def _release_columns(
    row: WorkunitRow, context: SubmissionContext, continued: Collection[str]
) -> str:
    # The count is computed again when the edges are inserted.
    pending = row.pending + context.waits + len(row.after) + (row.name in continued)
    if pending:
        return f"{_INACTIVE}\t{pending}\t{_NULL}"
    return _RELEASED_COLUMNS if row.hold_code is None else f"{_HELD}\t0\t{row.hold_code}"


def _priorities(
    chunk: Sequence[WorkunitRow], context: SubmissionContext, clock: shares.ShareClock | None
) -> Sequence[int]:
    requested = [context.priority if row.priority is None else row.priority for row in chunk]
    if clock is None:
        return [priority or 0 for priority in requested]
    pairs = zip(chunk, requested, strict=True)
    assigned = iter(clock.assign([row.operations for row, priority in pairs if priority is None]))
    return [next(assigned) if priority is None else priority for priority in requested]


def _inputs(chunk: Sequence[WorkunitRow], ids: Sequence[int]) -> str:
    return "".join(
        [
            f"{id_}\t{position}\t{file_id}\t{reference}\n"
            for id_, row in zip(ids, chunk, strict=True)
            for position, (file_id, reference) in enumerate(row.inputs)
        ]
    )


def _reference(file: NewFile) -> str:
    return f"{file.open_name}\t{'t' if file.copy_file else 'f'}\t{'t' if file.sticky else 'f'}"


def _interval(duration: timedelta | None) -> str | None:
    return None if duration is None else f"{duration.total_seconds():f} seconds"


def _shared_columns(workunit: NewWorkunit, queue_id: int | None) -> str:
    """Return the columns of `copy_workunits.sql` that are equal for workunits of one shape."""
    values = (
        escaped(json.dumps([output.as_json() for output in workunit.outputs])),
        int(sum(output.max_nbytes for output in workunit.outputs)),
        workunit.keywords,
        workunit.rsc_fpops_est,
        workunit.rsc_fpops_bound,
        workunit.rsc_memory_bound,
        workunit.rsc_disk_bound,
        workunit.rsc_bandwidth_bound,
        workunit.requested_cpus,
        workunit.requested_gpus,
        f"{workunit.delay_bound.total_seconds():f} seconds",
        _interval(workunit.expected_duration),
        _interval(workunit.max_termination_time),
        workunit.min_quorum,
        workunit.target,
        workunit.max_error_results,
        workunit.total,
        workunit.successes,
        workunit.max_timeouts,
        workunit.size_class,
        workunit.app_version_num,
        workunit.target_host,
        workunit.target_account,
        workunit.target_team,
        queue_id,
        workunit.broadcast,
        workunit.start_after,
        workunit.start_before,
        workunit.end_before,
        workunit.group,
    )
    return "\t".join([_NULL if value is None else str(value) for value in values])
