"""Submits workunits that are in memory, with the steps that all submissions share.

Theory of operation.  Every submission runs the steps of one `Pipeline`: the workunits are checked,
their inputs are stored, their rows are prepared, their batch is opened and the rows are written.
The callers differ only in their transactions.  `submit` takes workunits that are in memory: all are
checked before anything is written, and the other steps are one transaction.  `bulk.submit_lines`
takes a stream: inputs are stored chunk by chunk, before the transaction that writes the rows.  File
contents are hashed (and copied if given by path) before a transaction opens, and synced to disk
under their final names before it commits.  Therefore a crash may leave a file without a row, but
never a row without its file.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from random import random
from typing import TypeVar

from django.db import OperationalError, connection, transaction

from scheduler.files.rules.refused_names import usable
from scheduler.models import Account
from scheduler.work import dependencies
from scheduler.work.submission import new_batches, new_inputs, workunit_rows
from scheduler.work.submission.facts import NewBatch, NewFile, NewOutput, NewWorkunit
from scheduler.work.submission.new_batches import BatchRefused
from scheduler.work.submission.rules import bundling, new_workunits
from scheduler.work.submission.submission_checks import (
    SubmissionRefused,
    UnknownApp,
    WorkunitChecks,
    find_target,
    may_set_priority,
)
from scheduler.work.submission.workunit_rows import CreatedWorkunits, DuplicateNames, WorkunitRow

__all__ = [
    "BadWorkunits",
    "BatchRefused",
    "CreatedWorkunits",
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

#: Maximum number of faults that a message shows; the exception has all faults.
_MAX_SHOWN_FAULTS = 10
#: Maximum number of attempts at the transaction that writes.
_MAX_ATTEMPTS = 4
_DEADLOCK = "40P01"

T = TypeVar("T")


class BadWorkunits(SubmissionRefused):
    """Some workunits are invalid. Hint: see each fault.

    `faults` has all faults by the indexes of the workunits.
    """

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
        """The number of created workunits."""
        return len(self.workunit_ids)


class Pipeline:
    """The steps of one submission; the caller opens the transactions.

    The constructor raises `UnknownApp` if the app does not exist or accepts no work.
    """

    def __init__(
        self, app: str, batch: NewBatch | int | None, submitter: Account | None, *, now: datetime
    ) -> None:
        self.target = find_target(app)
        self.submitter, self.now = submitter, now
        self.checks = WorkunitChecks(self.target, submitter, batch=batch, now=now)
        self._batch = batch
        self._stem = usable(f"{app}_{secrets.token_hex(4)}")
        self._writer = workunit_rows.WorkunitWriter(
            honors_priorities=may_set_priority(submitter), queues=self.checks.queues
        )
        self._edge_count = 0
        self._continued: set[str] = set()

    def name(self, workunit: NewWorkunit, index: int) -> str:
        """Return the workunit's name; without a name, generate one that contains `index`."""
        return workunit.name or f"{self._stem}_{index}"

    def note_dependencies(self, workunits: Iterable[NewWorkunit]) -> None:
        """Remember which workunits wait for others; call it for all workunits before `write`.

        Raises `TooManyDependencies`.
        """
        for workunit in workunits:
            if workunit.after or workunit.continuations:
                self._edge_count += len(workunit.after) + len(workunit.continuations)
                if self._edge_count > dependencies.MAX_EDGES:
                    raise dependencies.TooManyDependencies(
                        f"The submission has more than {dependencies.MAX_EDGES} dependencies. "
                        "Hint: join workunits by groups, or send several submissions."
                    )
                self._continued.update(
                    child for child in workunit.continuations if isinstance(child, str)
                )

    def keep_inputs(
        self, workunits: Sequence[NewWorkunit], contents: new_inputs.AllStaged
    ) -> new_inputs.Kept:
        """Store staged inputs in the caller's transaction, and return them by workunit index."""
        on_largest = self.checks.survey.add_inputs
        return new_inputs.keep(workunits, contents, on_largest=on_largest, now=self.now)

    def rows(
        self, workunits: Sequence[NewWorkunit], inputs: new_inputs.Kept, *, first: int = 0
    ) -> Iterator[WorkunitRow]:
        """Yield the rows of checked workunits, which are numbered from `first`."""
        for index, workunit in enumerate(workunits):
            name = self.name(workunit, first + index)
            if workunit.start_offset_seconds:
                workunit = new_workunits.with_start_offset(  # noqa: PLW2901
                    workunit,
                    now=self.now,
                    draw=random(),  # noqa: S311  not a secret
                )
            yield self._writer.prepare(workunit, name, inputs.get(index, ()))

    def open_batch(self) -> new_batches.Opened:
        """Open the batch in the caller's transaction (`new_batches.open_batch`).

        If there are dependencies, the submitter's graph is locked first.
        """
        if self._edge_count:
            dependencies.lock_graph(self._owner)
        opened = new_batches.open_batch(
            self._batch,
            app_id=self.target.id,
            app=self.target.name,
            submitter=self.submitter,
            now=self.now,
        )
        if opened.context.in_lists and (fault := bundling.adaptive_fault(self.target.rules)):
            raise new_batches.BatchRefused(str(fault))
        return opened

    def write(
        self,
        rows: Iterable[WorkunitRow],
        opened: new_batches.Opened,
        created: CreatedWorkunits | None,
    ) -> None:
        """Write rows and dependencies in the caller's transaction (`workunit_rows.write`).

        Raises `QueueChanged` if a queue accepts less than when the workunits were checked.
        """
        links = workunit_rows.write(
            rows,
            opened.context,
            draw_ids=self.checks.draw_ids,
            submitter=self.submitter,
            created=created,
            continued=self._continued,
            now=self.now,
        )
        if links:
            edges = [edge for link in links for edge in link.edges()]
            dependencies.connect(edges, self._owner, now=self.now)

    @property
    def _owner(self) -> Account | None:
        """The owner of the workunits: the submitter, or None for workunits without a batch."""
        return None if self._batch is None else self.submitter


def retried(attempt: Callable[[], T], names: Callable[[], Iterable[str]]) -> T:
    """Call `attempt`, which runs one transaction, and repeat it after a temporary conflict.

    Such conflicts are deadlocks, and names whose insertion was rolled back.  A deadlock inside the
    caller's transaction is not retried.  Raises `DuplicateNames` if any of `names` is taken, and
    the last exception if all `_MAX_ATTEMPTS` attempts failed.
    """
    for remaining in reversed(range(_MAX_ATTEMPTS)):
        try:
            return attempt()
        except workunit_rows.NameTaken:
            workunit_rows.raise_for_taken_names(names())
            if not remaining:
                raise
        except OperationalError as error:
            is_deadlock = getattr(error.__cause__, "sqlstate", None) == _DEADLOCK
            if not is_deadlock or not remaining or connection.in_atomic_block:
                raise
    raise AssertionError


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

    `batch` is the name or the description of a batch of the submitter, which is created if it does
    not exist.  The workunits are due at once for the transitioner, which creates their results.
    With fair share, priorities are computed from the submitter's share (`work.submission.shares`),
    except for priorities that staff request.  `before` and `then` are called at the beginning and
    at the end of each attempt's transaction; if either raises an exception, nothing is submitted.

    Raises `UnknownApp` if the app does not exist or accepts no work, `BadWorkunits` for invalid
    workunits, `DuplicateNames` for names that are repeated or taken, `BatchRefused` for a batch
    that cannot be opened (`new_batches.open_batch`), `download_files.UnknownFiles` for input files
    that the server does not have, and `DependencyRefused` for dependencies that are not allowed.
    """
    wanted = NewBatch(name=batch) if isinstance(batch, str) else batch
    pipeline = Pipeline(app, wanted, submitter, now=now)
    if faults := pipeline.checks.faults(workunits):
        raise BadWorkunits(faults, len(workunits))
    if repeated := new_workunits.duplicates(workunits):
        raise DuplicateNames(sorted(repeated), where="given more than once")
    created = CreatedWorkunits()
    pipeline.note_dependencies(workunits)

    def attempt() -> Submission:
        # Staged for each attempt: publishing consumes staged files, even if it is rolled back.
        with new_inputs.staged(workunits) as contents, transaction.atomic():
            if before is not None:
                before()
            opened = pipeline.open_batch()
            inputs = pipeline.keep_inputs(workunits, contents)
            pipeline.write(pipeline.rows(workunits, inputs), opened, created)
            submission = Submission(
                opened.context.batch_id,
                tuple(created.ids),
                tuple(created.names),
                pipeline.checks.warnings(),
            )
            if then is not None:
                then(submission)
            return submission

    return retried(attempt, lambda: map(pipeline.name, workunits, count()))
