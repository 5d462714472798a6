"""Decides what each due workunit needs next, and writes it down.

One pass is one transaction: lock a batch of due workunits, read their results, judge each
(`policy.replication`), and write with one statement per kind of change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction

from daemons.tally import WHOLE, Shard, Tally
from scheduler import sql
from scheduler.facts.work import ResultFacts, WorkunitFacts, result_name
from scheduler.lifecycle import (
    Actor,
    AssimilateState,
    Axis,
    ErrorMask,
    FileDeleteState,
    Outcome,
    ReleaseState,
)
from scheduler.policy import replication

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from scheduler.policy.verdicts import Counts, Verdict

PACKAGE = "daemons.sql"


class StaleJudgement(RuntimeError):
    """A row changed although its workunit was locked: somebody moves results without that lock.

    Hint: find the writer in the ledger; the pass was rolled back and will be made again.
    """


def run_pass(*, now: datetime, limit: int, shard: Shard = WHOLE) -> Tally:
    """Decide what each due workunit needs next."""
    with transaction.atomic():
        workunits = lock_due(now=now, limit=limit, shard=shard)
        verdicts = [replication.judge(workunit, now=now) for workunit in workunits]
        if verdicts:
            _write_workunits(verdicts, now=now)
            _move_results(verdicts, now=now)
            _make_replicas(verdicts, now=now)
    return Tally(
        seen=len(verdicts),
        counts=_counts(verdicts),
        more=len(verdicts) >= limit,
    )


def lock_due(*, now: datetime, limit: int, shard: Shard) -> list[WorkunitFacts]:
    """Lock due workunits and read them with their results, in the caller's transaction."""
    locked = sql.fetch(
        "lock_due_workunits",
        {"now": now, "limit": limit, "shard_count": shard.count, "shard_index": shard.index},
        PACKAGE,
    )
    if not locked:
        return []
    results: dict[int, list[ResultFacts]] = {}
    for result in sql.fetch_into(
        ResultFacts,
        "read_results_of_workunits",
        {
            "workunit_ids": [row["id"] for row in locked],
            "delayed_ids": [row["id"] for row in locked if row["delete_delay"] is not None],
            "no_reply": Outcome.NO_REPLY.value,
            "success": Outcome.SUCCESS.value,
        },
        PACKAGE,
    ):
        results.setdefault(result.workunit_id, []).append(result)
    return [WorkunitFacts(**row, results=tuple(results.get(row["id"], ()))) for row in locked]


def _write_workunits(verdicts: Sequence[Verdict], *, now: datetime) -> None:
    moves = [(v.workunit.id, move) for v in verdicts for move in v.workunit_moves]
    sql.fetch(
        "transition_workunits",
        {
            "now": now,
            "by": Actor.TRANSITIONER.value,
            "ids": [v.workunit.id for v in verdicts],
            "look_again_ats": [v.look_again_at for v in verdicts],
            "need_validates": [v.validate for v in verdicts],
            "error_masks": [v.error_mask for v in verdicts],
            "resets": [v.reset_class for v in verdicts],
            "release_states": [
                int(ReleaseState.RELEASED) if v.release else v.workunit.release_state
                for v in verdicts
            ],
            "assimilate_states": [_assimilate_state(v) for v in verdicts],
            "file_delete_states": [
                int(FileDeleteState.READY) if v.delete_inputs else v.workunit.file_delete_state
                for v in verdicts
            ],
            "reopenings": [v.reopen for v in verdicts],
            "couldnt_send": int(ErrorMask.COULDNT_SEND),
            "move_workunit_ids": [workunit_id for workunit_id, _ in moves],
            "move_axes": [move.axis.value for _, move in moves],
            "move_sources": [int(move.source) for _, move in moves],
            "move_targets": [int(move.target) for _, move in moves],
            "move_becauses": [move.because.value for _, move in moves],
        },
        PACKAGE,
    )


def _assimilate_state(verdict: Verdict) -> int:
    if verdict.reopen:
        return int(AssimilateState.INIT)
    is_ready = verdict.assimilate is not None
    return int(AssimilateState.READY) if is_ready else verdict.workunit.assimilate_state


def _move_results(verdicts: Sequence[Verdict], *, now: datetime) -> None:
    moves = [(v.workunit.id, move) for v in verdicts for move in v.result_moves]
    if not moves:
        return
    moved = sql.fetch(
        "move_results",
        {
            "now": now,
            "by": Actor.TRANSITIONER.value,
            "axis_result": Axis.RESULT.value,
            "axis_validation": Axis.VALIDATION.value,
            "axis_files": Axis.RESULT_FILES.value,
            "workunit_ids": [workunit_id for workunit_id, _ in moves],
            "result_ids": [move.result_id for _, move in moves],
            "axes": [move.axis.value for _, move in moves],
            "sources": [int(move.source) for _, move in moves],
            "targets": [int(move.target) for _, move in moves],
            "becauses": [move.because.value for _, move in moves],
            "amounts": [None] * len(moves),
        },
        PACKAGE,
    )
    expected = {move.result_id for _, move in moves}
    if missed := expected - {row["id"] for row in moved}:
        msg = f"Results {sorted(missed)[:10]} are no longer in the states that were judged."
        raise StaleJudgement(msg)


def _make_replicas(verdicts: Sequence[Verdict], *, now: datetime) -> None:
    born = [
        (v.workunit, attempt, is_retry(v.counts))
        for v in verdicts
        if v.replicas
        for attempt in range(_next_attempt(v), _next_attempt(v) + v.replicas)
    ]
    if not born:
        return
    sql.fetch(
        "insert_replicas",
        {
            "now": now,
            "axis": replication.BIRTH.axis.value,
            "nothing": int(replication.BIRTH.source),
            "unsent": int(replication.BIRTH.target),
            "because": replication.BIRTH.because.value,
            "by": replication.BIRTH.by.value,
            "workunit_ids": [workunit.id for workunit, _, _ in born],
            "app_ids": [workunit.app_id for workunit, _, _ in born],
            "names": [result_name(workunit.name, attempt) for workunit, attempt, _ in born],
            "attempts": [attempt for _, attempt, _ in born],
            "priorities": [workunit.priority for workunit, _, _ in born],
            "retries": [retry for _, _, retry in born],
        },
        PACKAGE,
    )


def is_retry(counts: Counts) -> bool:
    """Whether results made now replace or follow one that is over: they are urgent."""
    return counts.total > counts.unsent + counts.in_progress


def _next_attempt(verdict: Verdict) -> int:
    return 1 + max((result.attempt for result in verdict.workunit.results), default=-1)


def _counts(verdicts: Sequence[Verdict]) -> dict[str, int]:
    counts = {
        "replicated": sum(v.replicas > 0 for v in verdicts),
        "ready to validate": sum(v.validate for v in verdicts),
        "failed": sum(bool(v.failures) for v in verdicts),
        "to be validated anew": sum(v.reopen for v in verdicts),
        "ready to assimilate": sum(v.assimilate is not None for v in verdicts),
        "with files to delete": sum(_deletes_files(v) for v in verdicts),
    }
    named = (
        v.replicas or v.validate or v.reopen or v.assimilate is not None or _deletes_files(v)
        for v in verdicts
    )
    changed = sum(v.changes_anything for v in verdicts)
    return {**counts, "changed otherwise": changed - sum(map(bool, named))}


def _deletes_files(verdict: Verdict) -> bool:
    return verdict.delete_inputs or any(
        move.axis is Axis.RESULT_FILES for move in verdict.result_moves
    )
