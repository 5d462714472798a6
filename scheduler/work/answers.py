"""Reads the finished workunits of a batch and their outputs, page by page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import connection

from scheduler import sql
from scheduler.work.rules.statuses import Status, error_words

#: Number of workunits that one statement reads.
PAGE: Final = 1000


@dataclass(frozen=True, slots=True)
class AnswerOutput:
    """An output file of a canonical result, with the size and SHA-256 of the uploaded file.

    `name` is the file's physical name on the server.  `open_name` is the name under which the
    program writes the file.
    """

    position: int
    open_name: str
    name: str
    nbytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Answer:
    """A done or failed workunit with its outputs.

    `finished_at` is None until the workunit is assimilated.
    """

    id: int
    name: str
    status: Status
    errors: list[str]
    meta: dict[str, Any]
    finished_at: datetime | None
    outputs: tuple[AnswerOutput, ...]


def answers_of(
    batch_id: int, *, since: datetime | None = None, workunit_id: int | None = None
) -> Iterator[Answer]:
    """Yield the done and failed workunits of a batch by ascending id.

    With `since`, workunits that finished at or before this time are omitted.  With `workunit_id`,
    only this workunit is read.  Each statement reads `PAGE` workunits.  Unless the caller opened a
    transaction, no connection is in use between pages, since the consumer may be slow.
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
            connection.close()  # Return the connection to the pool.
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
            AnswerOutput(position, open_name(row["outputs"], position), name, nbytes, sha256)
            for position, name, nbytes, sha256 in row["files"] or ()
        ),
    )


def open_name(declared: list[dict[str, Any]], position: int) -> str:
    """Return the declared name of the output at `position`, by default ``output_<position>``."""
    name = declared[position].get("open_name", "") if position < len(declared) else ""
    return name or f"output_{position}"
