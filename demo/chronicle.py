"""Formats the moves in the ledger as lines of text."""

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

#: Styles of lines: failures, successes, and neutral events.
BAD, GOOD, PLAIN = "bold red", "green", ""

_Row = tuple[int, datetime, int, int | None, int, int, int, int]


@dataclass(frozen=True, slots=True)
class Line:
    """A printed event: seconds since the start, the name of the row, and a text."""

    seconds: float
    subject: str
    text: str
    style: str = PLAIN

    def __str__(self) -> str:
        return f"{self.seconds:04.1f}  {self.subject:<24} {self.text}"


@dataclass(slots=True)
class Chronicle:
    """Reads the moves in the ledger; `new_lines` yields each move once."""

    began_at: datetime
    min_quorum: int
    reported_ids: set[int] = field(default_factory=set)
    workunits: dict[int, str] = field(default_factory=dict)
    #: The name, attempt and account name of each result.
    results: dict[int, tuple[str, int, str]] = field(default_factory=dict)

    def new_lines(self) -> Iterator[Line]:
        """Yield the moves since the last call.

        The whole ledger is read, not only the entries after the last id, because an entry may be
        committed after one with a higher id.
        """
        columns = ("id", "at", "workunit_id", "result_id", "axis", "source", "target", "because")
        rows = list(LedgerEntry.objects.order_by("at", "id").values_list(*columns))
        new = [row for row in rows if row[0] not in self.reported_ids]
        if new:
            self._look_up_names()
        for row in new:
            self.reported_ids.add(row[0])
            if line := self._line(row):
                yield line

    def _look_up_names(self) -> None:
        self.workunits |= dict(Workunit.objects.values_list("id", "name"))
        results = Result.objects.values_list("id", "name", "attempt", "account__name")
        self.results |= {
            id_: (name, attempt, account or "") for id_, name, attempt, account in results
        }

    def _line(self, row: _Row) -> Line | None:
        _, at, workunit_id, result_id, axis, source, target, because = row
        seconds = max(0.0, (at - self.began_at).total_seconds())
        if result_id is None:
            text_and_style = _of_workunit(Axis(axis), target, Because(because))
            subject = self.workunits.get(workunit_id, f"workunit {workunit_id}")
        else:
            subject, attempt, account = self.results.get(result_id, (f"result {result_id}", 0, ""))
            is_extra = attempt >= self.min_quorum
            text_and_style = _of_result(
                Axis(axis), (source, target), Because(because), account, is_extra=is_extra
            )
        return Line(seconds, subject, *text_and_style) if text_and_style else None


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
    axis: Axis, move: tuple[int, int], because: Because, account: str, *, is_extra: bool
) -> tuple[str, str] | None:
    source, target = move
    match axis, target:
        case Axis.RESULT, ResultState.UNSENT:
            return ("one more result is created", BAD) if is_extra else None
        case Axis.RESULT, ResultState.IN_PROGRESS:
            again = "again " if source == ResultState.IN_PROGRESS else ""
            return f"sent {again}→ {account}", PLAIN
        case Axis.RESULT, ResultState.SUCCESS:
            return f"success ← {account}", PLAIN
        case Axis.RESULT, _:
            return f"{state_label(axis, target)}: {because.label} ({account})", BAD
        case Axis.VALIDATION, ValidateState.VALID:
            return (f"VALID: {because.label} ({account})", GOOD) if is_extra else None
        case Axis.VALIDATION, _:
            return f"{state_label(axis, target)}: {because.label} ({account})", BAD
    return None
