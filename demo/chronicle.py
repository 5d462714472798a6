"""What happened, as it happens: the ledger of moves, told in lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from scheduler.lifecycle import (
    AssimilateState,
    Axis,
    Because,
    FileDeleteState,
    ResultState,
    ValidateState,
    WorkunitState,
    state_label,
)
from scheduler.models import LedgerEntry, Result, Workunit

#: How much a line matters: bad news, good news, and what is only said.
BAD, GOOD, PLAIN = "bold red", "green", ""

_Row = tuple[int, datetime, int, int | None, int, int, int, int]


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that happened: seconds since the beginning, to whom, what."""

    seconds: float
    subject: str
    text: str
    style: str = PLAIN

    def __str__(self) -> str:
        """Write the line in columns."""
        return f"{self.seconds:04.1f}  {self.subject:<24} {self.text}"


@dataclass(slots=True)
class Chronicle:
    """Reads the ledger again and again; tells each move once."""

    began_at: datetime
    min_quorum: int
    told: set[int] = field(default_factory=set)
    workunits: dict[int, str] = field(default_factory=dict)
    #: Of each result: name, attempt, the account that has it.
    results: dict[int, tuple[str, int, str]] = field(default_factory=dict)

    def news(self) -> Iterator[Line]:
        """Tell what has been written since the last call.

        All of the ledger is read, not what lies beyond the last id: an entry may be committed
        after one with a higher number.
        """
        columns = ("id", "at", "workunit_id", "result_id", "axis", "source", "target", "because")
        rows = list(LedgerEntry.objects.order_by("at", "id").values_list(*columns))
        new = [row for row in rows if row[0] not in self.told]
        if new:
            self._look_up_names()
        for row in new:
            self.told.add(row[0])
            if line := self._line(row):
                yield line

    def _look_up_names(self) -> None:
        self.workunits |= dict(Workunit.objects.values_list("id", "name"))
        found = Result.objects.values_list("id", "name", "attempt", "account__name")
        self.results |= {id_: (name, attempt, who or "") for id_, name, attempt, who in found}

    def _line(self, row: _Row) -> Line | None:
        _, at, workunit_id, result_id, axis, source, target, because = row
        seconds = max(0.0, (at - self.began_at).total_seconds())
        if result_id is None:
            told = _of_workunit(Axis(axis), target, Because(because))
            subject = self.workunits.get(workunit_id, f"workunit {workunit_id}")
        else:
            subject, attempt, who = self.results.get(result_id, (f"result {result_id}", 0, ""))
            is_extra = attempt >= self.min_quorum
            told = _of_result(
                Axis(axis), (source, target), Because(because), who, is_extra=is_extra
            )
        return Line(seconds, subject, *told) if told else None


def _of_workunit(axis: Axis, target: int, because: Because) -> tuple[str, str] | None:
    match axis, target:
        case Axis.WORKUNIT, WorkunitState.OPEN:
            return "submitted", PLAIN
        case Axis.WORKUNIT, WorkunitState.CANONICAL:
            return "validated, has its canonical result", GOOD
        case Axis.WORKUNIT, WorkunitState.FAILED:
            return f"FAILED: {because.label}", BAD
        case Axis.ASSIMILATION, AssimilateState.DONE:
            return "assimilated", PLAIN
        case Axis.WORKUNIT_FILES, FileDeleteState.DONE:
            return "files deleted", PLAIN
    return None


def _of_result(
    axis: Axis, move: tuple[int, int], because: Because, who: str, *, is_extra: bool
) -> tuple[str, str] | None:
    source, target = move
    match axis, target:
        case Axis.RESULT, ResultState.UNSENT:
            return ("one more result is created", BAD) if is_extra else None
        case Axis.RESULT, ResultState.IN_PROGRESS:
            again = "again " if source == ResultState.IN_PROGRESS else ""
            return f"sent {again}→ {who}", PLAIN
        case Axis.RESULT, ResultState.SUCCESS:
            return f"success ← {who}", PLAIN
        case Axis.RESULT, _:
            return f"{state_label(axis, target)}: {because.label} ({who})", BAD
        case Axis.VALIDATION, ValidateState.VALID:
            return (f"VALID: {because.label} ({who})", GOOD) if is_extra else None
        case Axis.VALIDATION, _:
            return f"{state_label(axis, target)}: {because.label} ({who})", BAD
    return None
