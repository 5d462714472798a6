"""Write new workunits, their inputs and their births by COPY.

Theory of operation.  What is written is prepared as text before the transaction opens, so that it
is short: of a `Birth` only the id, the priority and what its batch says are missing.  Ids are drawn
beforehand, so that inputs and ledger need no join.  A name that is taken ends the transaction; who
prepared the births can ask which names those are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from django.conf import settings
from django.db import IntegrityError
from psycopg.errors import UniqueViolation

from scheduler import wakeups
from scheduler.lifecycle import NOTHING, Actor, Axis, Because, ReleaseState, WorkunitState
from scheduler.sql import copy_rows, escaped, fetch, fetch_one
from scheduler.work.submission.facts import NewFile, NewWorkunit
from scheduler.work.submission.rules import new_workunits
from scheduler.work.submission.submission_checks import SubmissionRefused

#: So many workunits are written at once.
AT_ONCE = 5000
#: As many names are shown in an error.
_SHOWN = 10
#: As many kinds of workunits are remembered.
_KINDS = 1000
_NULL = r"\N"
_HELD = ReleaseState.HELD.value
_INACTIVE = ReleaseState.INACTIVE.value
_RELEASED = ReleaseState.RELEASED.value

#: Gives so many operations each their priorities.
TakeTurns = Callable[[Sequence[float]], Sequence[int]]


class DuplicateNames(SubmissionRefused):
    """Names are given twice, or are taken; `names` has them all. Hint: choose others, or none."""

    def __init__(self, names: Sequence[str], *, where: str, count: int = 0) -> None:
        """Keep the names and say where they occur; `count` if there are more of them."""
        self.names, self.count = tuple(names), count or len(names)
        shown = ", ".join(names[:_SHOWN]) + ", ..." * (self.count > len(names[:_SHOWN]))
        super().__init__(
            f"{self.count} workunit name{'s' * (self.count > 1)} {where}: {shown}. "
            "Hint: a name is never used twice; choose others, or leave them out to have them made."
        )


class NameTaken(Exception):
    """A name is taken; PostgreSQL names the first alone. Hint: `raise_for_taken_names`."""


class Birth(NamedTuple):
    """A workunit as it is written: `words`, `kind` and what follows a file's id are COPY's text.

    `wish` is the priority that it asked for; None asks for its share, or its batch's.
    """

    name: str
    is_held: bool
    pending: int
    wish: int | None
    operations: float
    words: str
    kind: str
    inputs: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """What all workunits of a submission have in common: app, batch, and what that one says."""

    app_id: int
    batch_id: int | None = None
    priority: int | None = None
    waits: bool = False
    outputs_kept: bool = False


class Midwife:
    """Prepares births; remembers the text of kinds of workunits that it saw."""

    def __init__(self, *, follows_wishes: bool) -> None:
        """Nothing was seen yet; explicit priorities are followed, or are not."""
        self._follows_wishes = follows_wishes
        self._kinds: dict[tuple[object, ...], str] = {}

    def prepare(
        self, workunit: NewWorkunit, name: str, inputs: Sequence[tuple[int, NewFile]]
    ) -> Birth:
        """Put a workunit, found good, into text; `inputs` are its files with their rows' ids."""
        key = new_workunits.shape(workunit)
        kind = self._kinds.get(key)
        if kind is None:
            if len(self._kinds) >= _KINDS:
                self._kinds.clear()
            kind = self._kinds[key] = _kind(workunit)
        meta = escaped(json.dumps(dict(workunit.meta))) if workunit.meta else "{}"
        return Birth(
            name,
            workunit.held,
            workunit.pending_dependency_count,
            workunit.priority if self._follows_wishes else None,
            workunit.operations,
            f"{escaped(workunit.command_line)}\t{meta}",
            kind,
            tuple([(file_id, _reference(file)) for file_id, file in inputs]) if inputs else (),
        )


def write(
    births: Iterable[Birth], home: Home, *, turns: TakeTurns | None, now: datetime
) -> Iterator[tuple[tuple[int, ...], tuple[str, ...]]]:
    """Write births in the caller's transaction; yields ids and names, chunk by chunk.

    `turns` gives priorities to those without a wish, where the project shares fairly.  Raises
    `NameTaken`, which leaves the transaction to be rolled back.  The transitioner is woken once.
    """
    wakeups.after_commit("transitioner")
    endings = _Endings(home, now)
    remaining = iter(births)
    while chunk := list(islice(remaining, AT_ONCE)):
        drawn = fetch_one("work/submission/draw_workunit_ids", {"count": len(chunk)}) or {}
        ids: tuple[int, ...] = tuple(drawn["ids"])
        try:
            copy_rows(
                "work/submission/copy_workunits", _rows(chunk, ids, home, turns, endings.workunit)
            )
        except IntegrityError as error:
            if isinstance(error.__cause__, UniqueViolation):
                raise NameTaken from error
            raise
        if settings.PROJECT.ledger:
            ending = endings.birth
            copy_rows("work/submission/copy_births", "".join([f"{id_}{ending}" for id_ in ids]))
        if inputs := _inputs(chunk, ids):
            copy_rows("work/submission/copy_inputs", inputs)
        yield ids, tuple([birth.name for birth in chunk])


def raise_for_taken_names(names: Iterable[str]) -> None:
    """Raise `DuplicateNames` for those of the names that are taken; outside the transaction."""
    remaining = iter(names)
    taken: list[str] = []
    while chunk := list(islice(remaining, AT_ONCE)):
        taken += [
            row["name"] for row in fetch("work/submission/read_taken_names", {"names": chunk})
        ]
    if taken:
        raise DuplicateNames(taken, where="already taken")


class _Endings:
    """What every row ends with."""

    def __init__(self, home: Home, now: datetime) -> None:
        moment = now.isoformat()
        batch = _NULL if home.batch_id is None else home.batch_id
        kept = "t" if home.outputs_kept else "f"
        self.workunit = f"\t{home.app_id}\t{batch}\t{kept}\t{moment}\t{moment}\n"
        move = (
            Axis.WORKUNIT.value,
            NOTHING,
            WorkunitState.OPEN.value,
            Because.SUBMITTED.value,
            Actor.SUBMITTER.value,
        )
        self.birth = "\t".join(["", moment, *map(str, move)]) + "\n"


def _rows(
    chunk: Sequence[Birth],
    ids: Sequence[int],
    home: Home,
    turns: TakeTurns | None,
    ending: str,
) -> str:
    """The workunits' rows; every one in the order of `copy_workunits.sql`."""
    wishes = _priorities(chunk, home, turns)
    return "".join(
        [
            f"{id_}\t{birth.name}\t{wish}\t{_released(birth, home)}"
            f"\t{birth.words}\t{birth.kind}{ending}"
            for id_, birth, wish in zip(ids, chunk, wishes, strict=True)
        ]
    )


def _released(birth: Birth, home: Home) -> str:
    pending = birth.pending + home.waits
    if not (pending or birth.is_held):
        return _FREE
    return f"{_INACTIVE if pending else _HELD}\t{pending}"


_FREE = f"{_RELEASED}\t0"


def _priorities(chunk: Sequence[Birth], home: Home, turns: TakeTurns | None) -> Sequence[int]:
    wishes = [home.priority if birth.wish is None else birth.wish for birth in chunk]
    if turns is None:
        return [wish or 0 for wish in wishes]
    pairs = list(zip(chunk, wishes, strict=True))
    shares = iter(turns([birth.operations for birth, wish in pairs if wish is None]))
    return [next(shares) if wish is None else wish for wish in wishes]


def _inputs(chunk: Sequence[Birth], ids: Sequence[int]) -> str:
    return "".join(
        [
            f"{id_}\t{position}\t{file_id}\t{reference}\n"
            for id_, birth in zip(ids, chunk, strict=True)
            for position, (file_id, reference) in enumerate(birth.inputs)
        ]
    )


def _reference(file: NewFile) -> str:
    return f"{file.open_name}\t{'t' if file.copy_file else 'f'}\t{'t' if file.sticky else 'f'}"


def _kind(workunit: NewWorkunit) -> str:
    """What workunits of one kind have in common, in the order of `copy_workunits.sql`."""
    values = (
        escaped(json.dumps([output.as_json() for output in workunit.outputs])),
        int(sum(output.max_nbytes for output in workunit.outputs)),
        workunit.keywords,
        workunit.rsc_fpops_est,
        workunit.rsc_fpops_bound,
        workunit.rsc_memory_bound,
        workunit.rsc_disk_bound,
        workunit.rsc_bandwidth_bound,
        f"{workunit.delay_bound.total_seconds():f} seconds",
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
        workunit.broadcast,
        workunit.start_after,
        workunit.start_before,
        workunit.end_before,
    )
    return "\t".join([_NULL if value is None else str(value) for value in values])
