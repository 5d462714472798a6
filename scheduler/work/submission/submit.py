"""Create workunits: thousands in a handful of statements.

Theory of operation.  Everything that can be refused is refused before anything is written, with
all its faults at once.  Contents are hashed (those that come by path, copied) before the
transaction opens, and stand under their names, on the disk for good, before it commits; a crash
between leaves a file that no row names, never a row without its file.  `births` writes.
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
from scheduler.work.submission.births import Birth, DuplicateNames, Home
from scheduler.work.submission.facts import NewBatch, NewFile, NewOutput, NewWorkunit
from scheduler.work.submission.new_batches import BatchRefused
from scheduler.work.submission.rules import new_workunits
from scheduler.work.submission.submission_checks import (
    Judge,
    SubmissionRefused,
    Target,
    UnknownApp,
    find_target,
    may_wish,
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

#: How many faults a message shows; the exception carries them all.
_SHOWN = 10
#: So often is written again what a rival's name stood in the way of, who then gave up.
_ATTEMPTS = 3


class BadWorkunits(SubmissionRefused):
    """Some workunits are impossible; `faults` has them all, by index. Hint: each has its own."""

    def __init__(self, faults: Mapping[int, tuple[new_workunits.Fault, ...]], total: int) -> None:
        """Say how many, and the first of them."""
        self.faults = dict(faults)
        said = [f"  [{index}] {fault}" for index, all_ in faults.items() for fault in all_]
        more = [f"  ... and {len(said) - _SHOWN} more."] if len(said) > _SHOWN else []
        head = f"{len(faults)} of {total} workunits cannot be submitted:"
        super().__init__("\n".join([head, *said[:_SHOWN], *more]))


@dataclass(frozen=True, slots=True)
class Submission:
    """What was submitted; `workunit_ids` and `names` in the order in which they were given."""

    batch_id: int | None
    workunit_ids: tuple[int, ...]
    names: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def count(self) -> int:
        """How many workunits were made."""
        return len(self.workunit_ids)


#: Is called with ids and names.
Tell = Callable[[Sequence[int], Sequence[str]], None]


class Made:
    """Gathers ids and names of what is made, in order."""

    def __init__(self) -> None:
        """Nothing was made yet."""
        self.ids: list[int] = []
        self.names: list[str] = []

    def start(self) -> Tell:
        """Forget what an attempt made that came to nothing."""
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

    `batch` names a batch of the submitter's, made if it does not exist.  The transitioner, due at
    once, makes their results.  Where the project shares fairly, priorities are the submitter's
    share (`work.shares`) unless staff names others.  Refuses: an unknown or deprecated app
    (`UnknownApp`); impossible workunits (`BadWorkunits`); a name given twice or taken
    (`DuplicateNames`); a batch without submitter, of another app or closed (`BatchRefused`); input
    files by an unknown name (`files.UnknownFiles`).  What `before` and `then` do begins and ends
    the transaction: if one raises, nothing is submitted.
    """
    target = find_target(app)
    judge = Judge(target, submitter, batch=batch, now=now)
    if faults := judge.faults(workunits):
        raise BadWorkunits(faults, len(workunits))
    if repeated := new_workunits.duplicates(workunits):
        raise DuplicateNames(sorted(repeated), where="given more than once")
    names, made = _names(app, workunits), Made()
    for attempt in range(_ATTEMPTS):
        try:
            # Anew each time: what was published for a name that was rolled back is staged no more.
            with new_inputs.staged(workunits) as contents, transaction.atomic():
                if before is not None:
                    before()
                home = _home(batch, submitter, target, now)
                inputs = new_inputs.keep(workunits, contents, tell=judge.add_inputs, now=now)
                new = _births(workunits, names, inputs, submitter)
                write(new, home, submitter=submitter, tell=made.start(), now=now)
                done = Submission(home.batch_id, tuple(made.ids), names, judge.warnings())
                if then is not None:
                    then(done)
                return done
        except births.NameTaken:
            births.raise_for_taken_names(names)
            if attempt + 1 == _ATTEMPTS:
                raise
    raise AssertionError


def write(
    new: Iterable[Birth],
    home: Home,
    *,
    submitter: Account | None,
    tell: Tell | None = None,
    now: datetime,
) -> int:
    """Write births in the caller's transaction, with their shares; returns how many.

    Counts them in their batch.  `tell` is called chunk by chunk.
    """
    turns = shares.Turns(submitter, now=now) if settings.PROJECT.fair_share else None
    count = 0
    for ids, names in births.write(new, home, turns=turns.take if turns else None, now=now):
        count += len(ids)
        if tell is not None:
            tell(ids, names)
    if turns:
        turns.keep()
    if home.batch_id is not None and count:
        counted = F("workunits_submitted") + count
        Batch.objects.filter(pk=home.batch_id).update(workunits_submitted=counted)
    return count


def _names(app: str, workunits: Sequence[NewWorkunit]) -> tuple[str, ...]:
    stem = usable(f"{app}_{secrets.token_hex(4)}")
    return tuple(w.name or f"{stem}_{index}" for index, w in enumerate(workunits))


def _home(
    batch: NewBatch | str | None, submitter: Account | None, target: Target, now: datetime
) -> Home:
    if batch is None:
        return Home(app_id=target.id)
    wanted = NewBatch(name=batch) if isinstance(batch, str) else batch
    if submitter is None:
        msg = f"Batch {wanted.name!r} has no submitter. Hint: a batch is a person's; say whose."
        raise BatchRefused(msg)
    return new_batches.open_batch(
        wanted, app_id=target.id, app=target.name, submitter=submitter, now=now
    ).home


def _births(
    workunits: Sequence[NewWorkunit],
    names: Sequence[str],
    inputs: Mapping[int, list[tuple[int, NewFile]]],
    submitter: Account | None,
) -> Iterator[Birth]:
    midwife = births.Midwife(follows_wishes=may_wish(submitter))
    for index, (workunit, name) in enumerate(zip(workunits, names, strict=True)):
        yield midwife.prepare(workunit, name, inputs.get(index, ()))
