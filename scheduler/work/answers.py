"""Reads what a batch has brought so far, page by page, and holds nothing between."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import connection

from scheduler import sql
from scheduler.work.rules.statuses import Status, error_words

#: How many workunits one statement reads.
PAGE: Final = 1000


@dataclass(frozen=True, slots=True)
class Brought:
    """One output of a canonical result: `name` is that of the upload, `nbytes` and digest its."""

    position: int
    open_name: str
    name: str
    nbytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Answer:
    """A workunit that is over, with what it brought; `finished_at` None: not handed on yet."""

    id: int
    name: str
    status: Status
    errors: list[str]
    meta: dict[str, Any]
    finished_at: datetime | None
    outputs: tuple[Brought, ...]


def answers_of(
    batch_id: int, *, since: datetime | None = None, workunit_id: int | None = None
) -> Iterator[Answer]:
    """Each workunit that is over, by id; `since` leaves those out that were handed on before.

    One statement a page of `PAGE`, and between pages neither a transaction nor a connection: who
    takes the answers may take his time.
    """
    after = 0
    while True:
        params = {
            "batch_id": batch_id,
            "after_id": after,
            "since": since,
            "only_id": workunit_id,
            "limit": PAGE,
        }
        rows = sql.fetch("work/read_answered", params)
        if not connection.in_atomic_block:
            connection.close()  # back into the pool
        yield from map(_answer, rows)
        if len(rows) < PAGE:
            return
        after = rows[-1]["id"]


def _answer(row: dict[str, Any]) -> Answer:
    is_done = row["canonical_result_id"] is not None
    return Answer(
        id=row["id"],
        name=row["name"],
        status=Status.DONE if is_done else Status.FAILED,
        errors=error_words(row["error_mask"]),
        meta=row["meta"],
        finished_at=row["finished_at"],
        outputs=tuple(
            Brought(position, open_name(row["outputs"], position), name, nbytes, sha256)
            for position, name, nbytes, sha256 in row["files"] or ()
        ),
    )


def open_name(asked: list[dict[str, Any]], position: int) -> str:
    """What the program called its output number `position`."""
    said = asked[position].get("open_name", "") if position < len(asked) else ""
    return said or f"output_{position}"
