"""Create workunits: thousands in a handful of statements.

Theory of operation.  All checks run before anything is written, and all faults are reported at
once.  File contents are hashed (those given by path are copied) before the transaction opens, and
are synced to disk under their final names before it commits: a crash in between leaves a file
without a row, never a row without its file.  `births` writes the rows.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.db.models import F

from scheduler.files.rules.refused_names import usable
from scheduler.models import Account, Batch
from scheduler.work.submission import births, new_batches, new_inputs, shares
from scheduler.work.submission.births import DuplicateNames, SubmissionContext, WorkunitRow
from scheduler.work.submission.facts import NewBatch, NewFile, NewOutput, NewWorkunit
from scheduler.work.submission.new_batches import BatchRefused
from scheduler.work.submission.rules import new_workunits
from scheduler.work.submission.submission_checks import (
    Judge,
    SubmissionRefused,
    Target,
    UnknownApp,
    find_target,
    may_set_priority,
)

__all__ = [
    "BadWorkunits",
    "BatchRefused",
    "DuplicateNames",
    "NewBatch",
    "NewFile",
    "NewOutput",
    "NewWorkunit",
    "Submission",
    "SubmissionRefused",
    "UnknownApp",
    "submit",
]

#: Number of faults that a message shows; the exception carries them all.
_MAX_SHOWN_FAULTS = 10
#: Attempts at writing: a name conflict is retried, since its holder may have rolled back.
_MAX_ATTEMPTS = 3


class BadWorkunits(SubmissionRefused):
    """Some workunits are invalid; `faults` has all faults by index. Hint: each has its own."""

    def __init__(self, faults: Mapping[int, tuple[new_workunits.Fault, ...]], total: int) -> None:
        self.faults = dict(faults)
        lines = [f"  [{index}] {fault}" for index, all_ in faults.items() for fault in all_]
        hidden = len(lines) - _MAX_SHOWN_FAULTS
        more = [f"  ... and {hidden} more."] if hidden > 0 else []
        head = f"{len(faults)} of {total} workunits cannot be submitted:"
        super().__init__("\n".join([head, *lines[:_MAX_SHOWN_FAULTS], *more]))


@dataclass(frozen=True, slots=True)
class Submission:
    """The created workunits; `workunit_ids` and `names` are in the order of the input."""

    batch_id: int | None
    workunit_ids: tuple[int, ...]
    names: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def count(self) -> int:
        """Number of workunits created."""
        return len(self.workunit_ids)


#: Called with the ids and names of each chunk of created workunits.
OnCreated = Callable[[Sequence[int], Sequence[str]], None]


class CreatedWorkunits:
    """Collects the ids and names of created workunits, in order."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.names: list[str] = []

    def start(self) -> OnCreated:
        """Discard the workunits of a rolled-back attempt; return the callback for a new one."""
        self.ids.clear()
        self.names.clear()
        return self._add

    def _add(self, ids: Sequence[int], names: Sequence[str]) -> None:
        self.ids += ids
        self.names += names


def submit(
    *,
    app: str,
    workunits: Sequence[NewWorkunit],
    batch: NewBatch | str | None = None,
    submitter: Account | None = None,
    before: Callable[[], None] | None = None,
    then: Callable[[Submission], None] | None = None,
    now: datetime,
) -> Submission:
    """Create workunits of one app, all or none.

    `batch` names a batch of the submitter, which is created if it does not exist.  The transitioner
    is due at once and creates the results.  With fair share, priorities follow the submitter's
    share (`work.submission.shares`) unless staff sets others.  `before` and `then` run at the
    beginning and at the end of the transaction: if either raises, nothing is submitted.

    Raises `UnknownApp` for an unknown or deprecated app; `BadWorkunits` for invalid workunits;
    `DuplicateNames` for names that are repeated or taken; `BatchRefused` for a batch that has no
    submitter, is of another app or is closed; `files.UnknownFiles` for unknown input files.
    """
    target = find_target(app)
    judge = Judge(target, submitter, batch=batch, now=now)
    if faults := judge.faults(workunits):
        raise BadWorkunits(faults, len(workunits))
    if repeated := new_workunits.duplicates(workunits):
        raise DuplicateNames(sorted(repeated), where="given more than once")
    names, created = _names(app, workunits), CreatedWorkunits()
    for attempt in range(_MAX_ATTEMPTS):
        try:
            # Staged for each attempt: files published by a rolled-back attempt are not staged.
            with new_inputs.staged(workunits) as contents, transaction.atomic():
                if before is not None:
                    before()
                context = _context(batch, submitter, target, now)
                inputs = new_inputs.keep(workunits, contents, on_largest=judge.add_inputs, now=now)
                rows = _rows(workunits, names, inputs, submitter)
                write(rows, context, submitter=submitter, on_created=created.start(), now=now)
                submission = Submission(
                    context.batch_id, tuple(created.ids), names, judge.warnings()
                )
                if then is not None:
                    then(submission)
                return submission
        except births.NameTaken:
            births.raise_for_taken_names(names)
            if attempt + 1 == _MAX_ATTEMPTS:
                raise
    raise AssertionError


def write(
    rows: Iterable[WorkunitRow],
    context: SubmissionContext,
    *,
    submitter: Account | None,
    on_created: OnCreated | None = None,
    now: datetime,
) -> int:
    """Write rows in the caller's transaction, with fair-share priorities; returns their number.

    Adds them to the counter of their batch.  `on_created` is called after each chunk.
    """
    clock = shares.ShareClock(submitter, now=now) if settings.PROJECT.fair_share else None
    assign = clock.assign if clock else None
    count = 0
    for ids, names in births.write(rows, context, assign_priorities=assign, now=now):
        count += len(ids)
        if on_created is not None:
            on_created(ids, names)
    if clock:
        clock.save()
    if context.batch_id is not None and count:
        total = F("workunits_submitted") + count
        Batch.objects.filter(pk=context.batch_id).update(workunits_submitted=total)
    return count


def _names(app: str, workunits: Sequence[NewWorkunit]) -> tuple[str, ...]:
    stem = usable(f"{app}_{secrets.token_hex(4)}")
    return tuple(w.name or f"{stem}_{index}" for index, w in enumerate(workunits))


def _context(
    batch: NewBatch | str | None, submitter: Account | None, target: Target, now: datetime
) -> SubmissionContext:
    if batch is None:
        return SubmissionContext(app_id=target.id)
    wanted = NewBatch(name=batch) if isinstance(batch, str) else batch
    if submitter is None:
        msg = f"Batch {wanted.name!r} has no submitter. Hint: name the account that owns it."
        raise BatchRefused(msg)
    return new_batches.open_batch(
        wanted, app_id=target.id, app=target.name, submitter=submitter, now=now
    ).context


def _rows(
    workunits: Sequence[NewWorkunit],
    names: Sequence[str],
    inputs: Mapping[int, list[tuple[int, NewFile]]],
    submitter: Account | None,
) -> Iterator[WorkunitRow]:
    writer = births.WorkunitWriter(honors_priorities=may_set_priority(submitter))
    for index, (workunit, name) in enumerate(zip(workunits, names, strict=True)):
        yield writer.prepare(workunit, name, inputs.get(index, ()))
