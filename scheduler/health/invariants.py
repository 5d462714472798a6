"""Checks the invariants on the live database and returns violations.

An invariant is checked by one statement, or by a scan of the rows in batches.  Daemons may change
rows during a scan.  Therefore, a batch of workunits is read from one snapshot, and a violation of
a file is checked again before it is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F, Model, QuerySet

from scheduler import sql, storage
from scheduler.files import file_checks as files
from scheduler.files.file_checks import BATCH, Violation
from scheduler.lifecycle import MOVES, FileDeleteState, ReleaseState
from scheduler.models import Dependency, Result, ResultFile, Workunit
from scheduler.results.facts import (
    JOINED,
    RESULT_COLUMNS,
    WORKUNIT_COLUMNS,
    ResultFacts,
    WorkunitFacts,
)
from scheduler.results.rules.replication import judge
from scheduler.work.explain import WOKEN_AT
from scheduler.work.rules.dependency_graphs import find_cycle

PACKAGE = "scheduler.health.invariant_sql"

T = TypeVar("T", bound=Model)

#: Maximum number of workunits of a cycle that are named.
_MAX_SHOWN = 10

#: Invariants that do not need a complete ledger.
STATEMENTS = (
    "answer_or_reason",
    "canonical_is_valid",
    "results_repeat_their_app",
    "inputs_have_a_workunit",
    "followers_wait",
    "waiting_workunits_have_a_dependency",
    "dependency_counts_are_current",
    "children_of_failed_workunits_fail",
    "dependencies_join_workunits",
    "groups_have_no_results",
    "no_more_results_than_allowed",
    "one_live_result_per_host",
    "finished_when_assimilated",
    "outputs_kept_until_assimilated",
    "canonical_outputs_kept_until_judged",
    "kept_outputs_exist",
    "inputs_kept_until_over",
    "host_credit_is_its_sum",
    "account_credit_is_its_sum",
    "account_app_credit_is_its_sum",
    "team_credit_is_its_sum",
    "host_app_credit_is_its_sum",
    "team_app_credit_is_its_sum",
    "app_credit_is_its_sum",
    "granted_credit_is_entered",
    "doomed_files_are_unused",
    "unused_files_are_doomed",
    "moves_are_legal",
    "queue_slots_match_results",
    "queue_slots_within_limit",
    "queues_accept_their_work",
    "bundles_follow_their_members",
    "running_bundles_have_one_host",
    "bundle_members_exist",
    "accounts_have_an_email_address",
    "team_administrators_are_members",
)
#: Invariants that hold only if every move was written to the ledger.
LEDGER_STATEMENTS = (
    "states_are_the_last_moves",
    "moves_are_unbroken",
    "first_moves_are_known",
    "dependencies_were_met",
)


@dataclass(frozen=True, slots=True)
class Invariant:
    """A condition as a sentence, and the function `find`, which returns its violations."""

    name: str
    sentence: str
    find: Callable[[datetime], list[Violation]]
    hint: str = ""


def invariants() -> tuple[Invariant, ...]:
    """Return all invariants, without `LEDGER_STATEMENTS` if the ledger is off."""
    return (
        *map(of_statement, statement_names()),
        Invariant(
            "nobody_is_forgotten",
            "No workunit that is not due needs a state change.",
            _forgotten_workunits,
        ),
        Invariant(
            "dependencies_have_no_cycle",
            "No waiting workunit waits for itself, directly or through others.",
            lambda _now: _cycles(),
            "Hint: remove one of the dependencies (remove_continuations), or cancel a workunit.",
        ),
        Invariant(
            "needed_outputs_exist",
            "Every output that is needed is on disk.",
            lambda _now: _misplaced_outputs(FileDeleteState.INIT),
            "Hint: restore upload/ from a backup; the validator detects outputs that are lost.",
        ),
        Invariant(
            "deleted_outputs_are_gone",
            "No deleted output is on disk.",
            lambda _now: _misplaced_outputs(FileDeleteState.DONE),
        ),
        Invariant(
            "inputs_exist",
            "Every file that clients may still have to download exists.",
            lambda _now: files.wrong_downloads(),
            files.RESTORE,
        ),
        Invariant(
            "downloads_are_known",
            "Every file in the download folder belongs to a row, or was added today.",
            files.unknown_downloads,
            "Hint: `manage.py delete_antique_files` deletes them, as the housekeeper does daily.",
        ),
    )


def statement_names() -> tuple[str, ...]:
    """Return the names of the invariants that are checked by one statement each."""
    return STATEMENTS + (LEDGER_STATEMENTS if settings.PROJECT.ledger else ())


def of_statement(name: str) -> Invariant:
    first_line = sql.load(name, PACKAGE).partition("\n")[0]
    return Invariant(name, first_line.removeprefix("-- "), lambda _now: _run(name))


def first_violations(name: str, limit: int) -> tuple[int, list[Violation]]:
    """Return the number of violations that a statement finds, and the first `limit` of them.

    A daemon needs this instead of `Invariant.find`, which reads all violations into memory.
    """
    source = f"({sql.load(name, PACKAGE)}\n) AS violation"
    text = f"SELECT name, detail, count(*) OVER () FROM {source} LIMIT %(limit)s"  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(text, {**_params(name), "limit": limit})
        rows = cursor.fetchall()
    return (rows[0][2] if rows else 0), [Violation(name, detail) for name, detail, _ in rows]


def _run(name: str) -> list[Violation]:
    rows = sql.fetch(name, _params(name), PACKAGE)
    return [Violation(row["name"], row["detail"]) for row in rows]


def _params(name: str) -> dict[str, list[int]]:
    """Return the parameters of a statement; only that on legal moves has any."""
    if name != "moves_are_legal":
        return {}
    return {
        "axes": [move.axis.value for move in MOVES],
        "sources": [int(move.source) for move in MOVES],
        "targets": [int(move.target) for move in MOVES],
        "becauses": [move.because.value for move in MOVES],
        "bys": [move.by.value for move in MOVES],
    }


def _forgotten_workunits(now: datetime) -> list[Violation]:
    """Return violations for workunits that the transitioner must change, but that are not due."""
    forgotten = []
    for facts in _all_facts():
        is_due = facts.transition_at is not None and facts.transition_at <= now
        if is_due or facts.woken_at is not None:
            continue
        verdict = judge(facts, now=now)
        if verdict.changes_anything:
            forgotten.append(Violation(facts.name, "needs a state change, but is not due"))
        elif verdict.look_again_at is not None and (
            facts.transition_at is None or verdict.look_again_at < facts.transition_at
        ):
            forgotten.append(
                Violation(facts.name, f"must be due by {verdict.look_again_at}, but is not")
            )
    return forgotten


def _cycles() -> list[Violation]:
    """Return a violation for the first cycle that is found among waiting workunits."""
    waiting = Dependency.objects.filter(child__release_state=ReleaseState.INACTIVE)
    cycle = find_cycle(waiting.values_list("parent_id", "child_id"))
    names = dict(Workunit.objects.filter(pk__in=cycle).values_list("pk", "name"))
    path = " -> ".join(names[id_] for id_ in cycle[:_MAX_SHOWN])
    return [Violation(names[cycle[0]], f"waits for itself: {path} ...")] if cycle else []


def _all_facts() -> Iterator[WorkunitFacts]:
    last = 0
    joined = {name: F(path) for name, path in JOINED.items()} | {"woken_at": WOKEN_AT}
    while True:
        with one_snapshot():
            workunits = list(
                Workunit.objects.filter(pk__gt=last)
                .order_by("pk")
                .values(*WORKUNIT_COLUMNS, **joined)[:BATCH]
            )
            if not workunits:
                return
            results: dict[int, list[ResultFacts]] = {}
            ids = [row["id"] for row in workunits]
            rows = Result.objects.filter(workunit_id__in=ids).order_by("id")
            for row in rows.values(*RESULT_COLUMNS):
                results.setdefault(row["workunit_id"], []).append(ResultFacts(**row))
        for row in workunits:
            yield WorkunitFacts(**row, results=tuple(results.get(row["id"], ())))
        last = ids[-1]


@contextmanager
def one_snapshot(*, read_only: bool = True) -> Iterator[None]:
    """Open a transaction with one snapshot, unless a transaction is open."""
    mode = "READ ONLY" if read_only else "READ WRITE"
    is_outermost = not connection.in_atomic_block
    with transaction.atomic():
        if is_outermost:
            with connection.cursor() as cursor:
                cursor.execute(f"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ {mode}")
        yield


def _misplaced_outputs(state: FileDeleteState) -> list[Violation]:
    should_exist = state is FileDeleteState.INIT
    rows = ResultFile.objects.filter(result__file_delete_state=state)
    detail = "is needed but not on disk" if should_exist else "was deleted but is on disk"
    return [
        Violation(file.name, detail)
        for file in _in_batches(rows)
        if storage.upload_path(file.name).exists() is not should_exist and _still(rows, file)
    ]


def _in_batches(rows: QuerySet[T]) -> Iterator[T]:
    last = 0
    while batch := list(rows.filter(pk__gt=last).order_by("pk")[:BATCH]):
        yield from batch
        last = batch[-1].pk


def _still(rows: QuerySet[T], row: T) -> bool:
    """Return whether the row still matches; a daemon may have changed it since it was read."""
    return rows.filter(pk=row.pk).exists()
