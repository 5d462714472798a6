"""Serializes finished workunits with their complete history, for the archive."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import Any

import orjson

from scheduler import sql
from scheduler.lifecycle import (
    Actor,
    AssimilateState,
    Axis,
    Because,
    ErrorMask,
    FileDeleteState,
    Outcome,
    ReleaseState,
    ServerState,
    ValidateState,
    state_label,
)

PACKAGE = "daemons.sql"
#: Moves may be older than their workunit, or in the future, by this much: the clock was set back.
CLOCK_STEP = timedelta(days=1)
_LABELS = {
    column: {state.value: state.name for state in states}
    for column, states in (
        ("server_state", ServerState),
        ("outcome", Outcome),
        ("validate_state", ValidateState),
        ("file_delete_state", FileDeleteState),
        ("assimilate_state", AssimilateState),
        ("release_state", ReleaseState),
    )
}

#: Archived rows, by the id of the workunit or result that they belong to.
_RowsById = dict[int, list[dict[str, Any]]]


def lines(ids: Sequence[int], *, now: datetime) -> Iterator[bytes]:
    """Yield one line of JSON per workunit, in ascending order of ids.

    Ids without a workunit are skipped.
    """
    workunits = list(_read("read_archivable_workunits", {"ids": ids}))
    if not workunits:
        return
    results = _by("workunit_id", _read("read_archivable_results", {"ids": ids}))
    of_results = {"result_ids": [result["id"] for rows in results.values() for result in rows]}
    outputs = _by(
        "result_id", _read("read_archivable_outputs", of_results), less=("id", "result_id")
    )
    credit = _by("result_id", _read("read_archivable_credit", of_results), less=("id",))
    moves = _moves(ids, oldest=min(row["created_at"] for row in workunits), now=now)
    rare_facts: dict[tuple[str, int], Any] = {
        (row["kind"], row["id"]): row["facts"]
        for row in sql.fetch("read_archivable", {"ids": ids, **of_results}, PACKAGE)
    }
    for workunit in workunits:
        id_ = workunit["id"]
        workunit["errors"] = [bit.name for bit in ErrorMask(workunit["error_mask"])]
        entry: dict[str, Any] = {
            "archived_at": now,
            "workunit": workunit,
            "input_files": workunit.pop("past_inputs", []),
            "results": results.get(id_, []),
            "credit": [],
            "timeline": moves.get(id_, []),
        }
        for result in entry["results"]:
            result["outputs"] = outputs.get(result["id"], [])
            entry["credit"] += credit.get(result["id"], ())
            _add(rare_facts, ("usage", "trickles_up", "trickles_down"), result["id"], result)
        _add(rare_facts, ("refusals", "failures", "after", "continuations"), id_, entry)
        yield orjson.dumps(entry, default=_plain)


def _add(
    rare_facts: dict[tuple[str, int], Any], kinds: Sequence[str], id_: int, to: dict[str, Any]
) -> None:
    if rare_facts:
        to |= {kind: rare_facts[kind, id_] for kind in kinds if (kind, id_) in rare_facts}


def _read(name: str, params: sql.Params) -> Iterator[dict[str, Any]]:
    """Yield a statement's rows as dicts, without NULL values and with the names of states."""
    columns, rows = sql.fetch_binary(name, params, PACKAGE)
    labeled = [(column, _LABELS[column]) for column in columns if column in _LABELS]
    for row in rows:
        facts = {
            column: value for column, value in zip(columns, row, strict=True) if value is not None
        }
        for column, labels in labeled:
            facts[column] = labels[facts[column]]
        yield facts


def _by(column: str, rows: Iterator[dict[str, Any]], *, less: Sequence[str] = ()) -> _RowsById:
    """Group rows by the value of a column; remove the columns in `less` from the rows."""
    groups: _RowsById = defaultdict(list)
    for row in rows:
        groups[row[column]].append(row)
        for name in less:
            del row[name]
    return groups


def _moves(ids: Sequence[int], *, oldest: datetime, now: datetime) -> _RowsById:
    params = {"ids": ids, "since": oldest - CLOCK_STEP, "until": now + CLOCK_STEP}
    _, rows = sql.fetch_binary("read_archivable_moves", params, PACKAGE)
    moves: _RowsById = defaultdict(list)
    for workunit_id, at, result_id, *move in rows:
        subject = {} if result_id is None else {"result_id": result_id}
        moves[workunit_id].append({"at": at, **subject, **_labels_of(*move)})
    return moves


@cache
def _labels_of(axis: int, source: int, target: int, because: int, by: int) -> dict[str, str]:
    return {
        "axis": Axis(axis).label,
        "from": state_label(Axis(axis), source),
        "to": state_label(Axis(axis), target),
        "because": Because(because).label,
        "by": Actor(by).label,
    }


def _plain(value: object) -> float | str:
    """Convert a value for JSON.

    Decimals become numbers, and durations the text HH:MM:SS.  Other values become strings.
    """
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, timedelta):
        minutes, seconds = divmod(value.total_seconds(), 60)
        hours, minutes = divmod(int(minutes), 60)
        return f"{hours:02}:{minutes:02}:{seconds:02g}"
    return str(value)
