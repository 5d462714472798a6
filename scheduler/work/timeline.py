"""Reads the moves of a workunit from the ledger, and labels their codes."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.lifecycle import Actor, Axis, Because, state_label
from scheduler.models import LedgerEntry


class Words(NamedTuple):
    """The labels of a move."""

    axis: str
    source: str
    target: str
    because: str
    by: str


def moves_of(
    workunit_id: int,
    *,
    result_id: int | None = None,
    at_most: int | None = None,
    newest: int | None = None,
) -> list[LedgerEntry]:
    """Return the moves of a workunit, or of one of its results, oldest first.

    With `at_most`, only that many of the first moves are returned; with `newest`, only that many of
    the last, and `at_most` has no effect.
    """
    entries = LedgerEntry.objects.filter(workunit_id=workunit_id)
    if result_id is not None:
        entries = entries.filter(result_id=result_id)
    if newest is None:
        rows = list(entries.order_by("workunit_id", "id")[:at_most])
    else:
        rows = list(entries.order_by("-workunit_id", "-id")[:newest])
    # Ids are assigned before the commit, so sort by time first and by id among equal times.
    rows.sort(key=lambda row: (row.at, row.pk))
    return rows


def describe_move(entry: LedgerEntry) -> Words:
    """Return the labels of a move; a code that is not in the law becomes ``code N``."""
    return Words(
        axis=_named(Axis, entry.axis),
        source=_state(entry.axis, entry.source),
        target=_state(entry.axis, entry.target),
        because=_named(Because, entry.because),
        by=_named(Actor, entry.by),
    )


def _named(kind: type[Axis | Because | Actor], code: int) -> str:
    try:
        return kind(code).label
    except ValueError:
        return f"code {code}"


def _state(axis: int, code: int) -> str:
    try:
        return state_label(Axis(axis), code)
    except ValueError:
        return f"code {code}"
