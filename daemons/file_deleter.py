"""Deletes files that are no longer needed.

An output belongs to one result.  The daemon unlinks the output, then records this in the result.

Several workunits may share an input.  The daemon drops the references of a finished workunit to its
inputs.  An input without references is marked for deletion, so that submissions no longer use it,
and unlinked.  Then the daemon drops the row of the file, and records the deletion in the workunit.

Every step is idempotent, so no lease is needed.  While a backup is running, nothing is deleted.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from daemons.tally import WHOLE, Shard, Tally
from scheduler import sql, storage
from scheduler.lifecycle import Actor, Axis, Because, FileDeleteState, sources
from scheduler.results.facts import output_name

log = logging.getLogger(__name__)

PACKAGE = "daemons.sql"
#: The delay before a failed deletion is retried.
RETRY_AFTER = timedelta(hours=1)

_OUTPUT_SOURCES = list(sources(Axis.RESULT_FILES, FileDeleteState.DONE))
_INPUT_SOURCES = list(sources(Axis.WORKUNIT_FILES, FileDeleteState.DONE))


def run_pass(*, now: datetime, limit: int, shard: Shard = WHOLE) -> Tally:
    """Delete the outputs and inputs of finished workunits, and files marked for deletion."""
    share = {"now": now, "limit": limit, **shard.params}
    try:
        with storage.deletions_allowed():
            outputs = _delete_outputs(share, now=now)
            inputs = _delete_inputs(share, now=now)
            marked = _delete_marked(share, now=now)
    except storage.DeletionsHeld:
        return Tally(noun="rows")
    return Tally(
        noun="rows",
        seen=outputs.seen + inputs.seen + marked.seen,
        counts=dict(Counter(outputs.counts) + Counter(inputs.counts) + Counter(marked.counts)),
        more=outputs.more or inputs.more or marked.more,
    )


def _delete_outputs(share: dict[str, Any], *, now: datetime) -> Tally:
    limit = share["limit"]
    rows = sql.fetch("read_deletable_outputs", {**share, "sources": _OUTPUT_SOURCES}, PACKAGE)
    if not rows:
        return Tally()
    names = {
        output_name(row["name"], row["id"], position): row["id"]
        for row in rows
        for position in range(row["outputs"])
        if not (row["some_stay"] and row["some_stay"][position].get("no_delete"))
    }
    errors = {names[name]: reason for name, reason in storage.delete_uploads(names).items()}
    for result_id, reason in errors.items():
        log.error("output_deletion_failed", extra={"result_id": result_id, "reason": reason})
    facts = _outcomes(rows, errors, now=now) | {
        "workunit_ids": [row["workunit_id"] for row in rows],
        "received_ats": [row["received_at"] for row in rows],
        "sources": _OUTPUT_SOURCES,
        "axis": Axis.RESULT_FILES.value,
    }
    settled = sql.fetch("settle_deleted_outputs", facts, PACKAGE)
    done = sum(row["target"] == FileDeleteState.DONE for row in settled)
    return Tally(
        seen=len(rows),
        counts={"results rid of outputs": done, "results kept by an error": len(errors)},
        # Rows locked by other processes are read again in the next pass, which follows at once
        # only if some rows were settled.
        more=len(rows) >= limit and bool(settled),
    )


def _outcomes(
    rows: Sequence[Mapping[str, Any]], failed: Container[int], *, now: datetime
) -> dict[str, Any]:
    """Return the parameters of the statements that record deletions.

    Rows whose id is in `failed` become ERROR and get a retry time.  All other rows become DONE.
    """
    return {
        "now": now,
        "ids": [row["id"] for row in rows],
        "sources_read": [row["file_delete_state"] for row in rows],
        "targets": [
            int(FileDeleteState.ERROR if row["id"] in failed else FileDeleteState.DONE)
            for row in rows
        ],
        "again_ats": [now + RETRY_AFTER if row["id"] in failed else None for row in rows],
        "done": int(FileDeleteState.DONE),
        "deleted": Because.DELETED.value,
        "failed": Because.COULD_NOT_DELETE.value,
        "by": Actor.FILE_DELETER.value,
    }


def _delete_inputs(share: dict[str, Any], *, now: datetime) -> Tally:
    """Drop the references of workunits to inputs; delete unreferenced inputs.

    A workunit stays READY until its files are deleted from disk, and is in ERROR while a file
    cannot be deleted.  A file with other references is deleted when its last reference is dropped.
    """
    rows, marked_count = _drop_references(share, now=now)
    if not rows:
        return Tally()
    files = sql.fetch("read_doomed_inputs", {"workunit_ids": [row["id"] for row in rows]}, PACKAGE)
    deleted, errors = _delete_files({file["name"]: file["id"] for file in files}, now=now)
    failed = {file["workunit_id"] for file in files if file["name"] in errors}
    facts = _outcomes(rows, failed, now=now) | {
        "sources": _INPUT_SOURCES,
        "axis": Axis.WORKUNIT_FILES.value,
    }
    settled = sql.fetch("settle_deleted_inputs", facts, PACKAGE)
    done = sum(row["target"] == FileDeleteState.DONE for row in settled)
    return Tally(
        seen=len(rows),
        counts={
            "workunits rid of inputs": done,
            "workunits with inputs kept by an error": len(failed),
            "files marked for deletion": marked_count,
            "files deleted": deleted,
            "files kept by an error": len(errors),
        },
        more=len(rows) >= share["limit"] and bool(settled),
    )


def _drop_references(share: dict[str, Any], *, now: datetime) -> tuple[list[dict[str, Any]], int]:
    """Drop references to inputs; return the workunits' rows and the number of marked files.

    A workunit whose references were dropped in an earlier pass is returned again until it is DONE.
    """
    with transaction.atomic():
        rows = sql.fetch("lock_deletable_inputs", {**share, "sources": _INPUT_SOURCES}, PACKAGE)
        if not rows:
            return [], 0
        workunits = {"workunit_ids": [row["id"] for row in rows]}
        files = sql.fetch("lock_their_files", workunits, PACKAGE)
        sql.execute("drop_input_references", workunits, PACKAGE)
        marked_count = sql.execute(
            "files/mark_unused_files", {"now": now, "ids": [file["id"] for file in files]}
        )
    return rows, marked_count


def _delete_marked(share: dict[str, Any], *, now: datetime) -> Tally:
    """Delete at most `share["limit"]` files that are marked for deletion."""
    rows = sql.fetch("read_doomed_files", share, PACKAGE)
    if not rows:
        return Tally()
    deleted, errors = _delete_files({row["name"]: row["id"] for row in rows}, now=now)
    return Tally(
        seen=len(rows),
        counts={"files deleted": deleted, "files kept by an error": len(errors)},
        more=len(rows) >= share["limit"],
    )


def _delete_files(ids: dict[str, int], *, now: datetime) -> tuple[int, dict[str, str]]:
    """Unlink files and drop their rows.

    `ids` maps file names to file ids.  Returns the number of dropped rows, and a dict of error
    texts by file name.
    """
    if not ids:
        return 0, {}
    errors = storage.delete_downloads(list(ids))
    # An unreachable store gives the same reason for all files: log it once.
    by_reason: dict[str, list[str]] = {}
    for name, reason in errors.items():
        by_reason.setdefault(reason, []).append(name)
    for reason, names in by_reason.items():
        extra = {"file": names[0], "others": len(names) - 1, "reason": reason}
        log.error("file_deletion_failed", extra=extra)
    params = {
        "gone_ids": [file_id for name, file_id in ids.items() if name not in errors],
        "kept_ids": [file_id for name, file_id in ids.items() if name in errors],
        "again_at": now + RETRY_AFTER,
    }
    dropped = sql.fetch("drop_doomed_files", params, PACKAGE)
    return len(dropped), errors
