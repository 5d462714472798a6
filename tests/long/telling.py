"""Describes a failed walk: rows, moves, and the last events."""

from __future__ import annotations

import re

from django.db import DatabaseError

from scheduler.models import LedgerEntry, Result, Workunit
from scheduler.work.timeline import describe_move, moves_of
from tests.long.ground import APPS

#: Maximum numbers of events and of workunits in a description.
LAST, MOST = 40, 4
_WORKUNIT = re.compile(rf"\b(?:{'|'.join(APPS)})_\d+")
#: Columns that no rule reads.
_DULL = re.compile(
    r"rsc_|flops|peak_|stderr|cpu_time|elapsed_time|outputs|keywords|meta|cancel_reason"
)


def tell(error, story):
    """Return the error, rows and moves of the workunits named in it, and the last events."""
    said = f"{type(error).__name__}: {error}"
    names = list(dict.fromkeys(_WORKUNIT.findall(said)))[:MOST]
    try:
        known = [line for name in names for line in _known(name)]
    except DatabaseError as trouble:
        known = [f"The database cannot be read: {trouble}"]
    last = ["Last events:", *(f"  {line}" for line in story[-LAST:])]
    return "\n".join([said, *known, *(last if story else ())])


def trace(world):
    """Return the events of a walk and all moves in the ledger, as lines."""
    return world.story + sorted(_move(entry) for entry in LedgerEntry.objects.all())


def _known(name):
    rows = list(Workunit.objects.filter(name=name).values())
    if not rows:
        return [f"{name} has no row any more."]
    (workunit,) = rows
    lines = [f"{name}: {_listed(workunit)}"]
    results = Result.objects.filter(workunit__name=name).order_by("pk").values()
    lines += [f"  result {row['id']}: {_listed(row)}" for row in results]
    return lines + [f"  {_move(entry)}" for entry in moves_of(workunit["id"])]


def _listed(row):
    """Return the columns with a value as text, without `_DULL` columns."""
    told = {name: value for name, value in row.items() if value not in (None, "", [], {})}
    return ", ".join(f"{name} {value}" for name, value in told.items() if not _DULL.search(name))


def _move(entry):
    words = describe_move(entry)
    of = f"result {entry.result_id}" if entry.result_id else f"workunit {entry.workunit_id}"
    return (
        f"{entry.at:%d. %H:%M:%S} {of}, {words.axis}: {words.source} to {words.target},"
        f" because {words.because} (by {words.by})"
    )
