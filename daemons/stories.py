"""Writes the whole story of finished workunits, for the archive."""

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
_WORDS = {
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

#: Rows as they are told, by the id of what they belong to.
_Told = dict[int, list[dict[str, Any]]]


def lines(ids: Sequence[int], *, now: datetime) -> Iterator[bytes]:
    """One line for each workunit, in the order of their ids; those that are gone are left out."""
    workunits = list(_read("read_archivable_workunits", {"ids": ids}))
    if not workunits:
        return
    results = _by("workunit_id", _read("read_archivable_results", {"ids": ids}))
    whose = {"result_ids": [result["id"] for of in results.values() for result in of]}
    outputs = _by("result_id", _read("read_archivable_outputs", whose), less=("id", "result_id"))
    credit = _by("result_id", _read("read_archivable_credit", whose), less=("id",))
    moves = _moves(ids, oldest=min(one["created_at"] for one in workunits), now=now)
    seldom: dict[tuple[str, int], Any] = {
        (row["kind"], row["id"]): row["facts"]
        for row in sql.fetch("read_archivable", {"ids": ids, **whose}, PACKAGE)
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
            _add(seldom, ("usage", "trickles_up", "trickles_down"), result["id"], result)
        _add(seldom, ("refusals", "failures"), id_, entry)
        yield orjson.dumps(entry, default=_plain)


def _add(
    seldom: dict[tuple[str, int], Any], kinds: Sequence[str], id_: int, to: dict[str, Any]
) -> None:
    if seldom:
        to |= {kind: seldom[kind, id_] for kind in kinds if (kind, id_) in seldom}


def _read(name: str, params: sql.Params) -> Iterator[dict[str, Any]]:
    """Rows without what is NULL, states in words."""
    columns, rows = sql.fetch_binary(name, params, PACKAGE)
    in_words = [(column, _WORDS[column]) for column in columns if column in _WORDS]
    for row in rows:
        told = {
            column: value for column, value in zip(columns, row, strict=True) if value is not None
        }
        for column, words in in_words:
            told[column] = words[told[column]]
        yield told


def _by(column: str, rows: Iterator[dict[str, Any]], *, less: Sequence[str] = ()) -> _Told:
    """Rows by what they belong to, without the columns that say nothing more."""
    found: _Told = defaultdict(list)
    for row in rows:
        found[row[column]].append(row)
        for said in less:
            del row[said]
    return found


def _moves(ids: Sequence[int], *, oldest: datetime, now: datetime) -> _Told:
    params = {"ids": ids, "oldest": oldest, "now": now}
    _, rows = sql.fetch_binary("read_archivable_moves", params, PACKAGE)
    found: _Told = defaultdict(list)
    for workunit_id, at, result_id, *move in rows:
        subject = {} if result_id is None else {"result_id": result_id}
        found[workunit_id].append({"at": at, **subject, **_in_words(*move)})
    return found


@cache
def _in_words(axis: int, source: int, target: int, because: int, by: int) -> dict[str, str]:
    return {
        "axis": Axis(axis).label,
        "from": state_label(Axis(axis), source),
        "to": state_label(Axis(axis), target),
        "because": Because(because).label,
        "by": Actor(by).label,
    }


def _plain(value: object) -> float | str:
    """What JSON has no word for: amounts, and durations as hours, minutes and seconds."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, timedelta):
        minutes, seconds = divmod(value.total_seconds(), 60)
        hours, minutes = divmod(int(minutes), 60)
        return f"{hours:02}:{minutes:02}:{seconds:02g}"
    return str(value)
