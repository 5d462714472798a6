"""Graphs of workunits for tests: submission, reports, passes of daemons."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from daemons import assimilator, transitioner, validator
from scheduler.health.invariants import invariants
from scheduler.models import Account, App, Dependency, Host, Result, Workunit, WorkunitWakeup
from scheduler.work.submission.submit import NewBatch, NewOutput, NewWorkunit, Submission, submit
from tests import rows
from tests.conftest import NOON

#: Invariants that hold for test rows, whose results have no ledger.
ABOUT_GRAPHS = frozenset(
    {
        "answer_or_reason",
        "canonical_is_valid",
        "waiting_workunits_have_a_dependency",
        "dependency_counts_are_current",
        "children_of_failed_workunits_fail",
        "dependencies_join_workunits",
        "dependencies_have_no_cycle",
        "dependencies_were_met",
        "groups_have_no_results",
        "nobody_is_forgotten",
    }
)


def an_app(**fields: Any) -> App:
    """Create an app whose workunits need no second opinion."""
    return rows.an_app(one_result_per="nothing", **fields)


def a_graph(
    after: Mapping[str, Collection[str | int]],
    *,
    app: App,
    submitter: Account | None = None,
    batch: str = "graph",
    now: datetime = NOON,
    **fields: Any,
) -> Submission:
    """Submit workunits by name, each with the workunits for which it waits."""
    fields = {"outputs": (NewOutput(open_name="out", max_nbytes=1000),)} | fields
    return submit(
        app=app.name,
        workunits=[
            NewWorkunit(name=name, after=tuple(parents), max_error_results=0, **fields)
            for name, parents in after.items()
        ],
        batch=None if submitter is None else NewBatch(name=batch),
        submitter=submitter,
        now=now,
    )


def named(name: str) -> Workunit:
    return Workunit.objects.get(name=name)


def edges() -> set[tuple[str, str]]:
    """Return all edges, as names of parent and child."""
    return set(Dependency.objects.values_list("parent__name", "child__name"))


def sent() -> set[str]:
    """Return the names of workunits with results that may be sent."""
    return set(Result.objects.filter(server_state=2).values_list("workunit__name", flat=True))


def report(
    names: Iterable[str], *, word: str = "success", host: Host | None = None, now: datetime = NOON
) -> None:
    """Report the unsent or sent results of these workunits, as successes or as errors."""
    host = host or rows.a_host()
    for workunit_id in Workunit.objects.filter(name__in=list(names)).values_list("pk", flat=True):
        with transaction.atomic():
            # As in a report: the workunit's lock comes first.
            Workunit.objects.select_for_update(no_key=True).get(pk=workunit_id)
            for result in Result.objects.filter(workunit=workunit_id, server_state__in=(2, 4)):
                _report_one(result, host, word=word, now=now)
            WorkunitWakeup.objects.create(workunit_id=workunit_id, inserted_at=now)


def _report_one(result: Result, host: Host, *, word: str, now: datetime) -> None:
    is_success = word == "success"
    rows.walk(
        result,
        server_state=5,
        outcome=1 if is_success else 3,
        host=host,
        account=host.account,
        sent_at=now,
        report_deadline=now + timedelta(days=1),
        credit_deadline=now + timedelta(days=2),
        received_at=now,
        elapsed_time=10.0,
    )
    if is_success:
        rows.an_output(result, b"42", uploaded=True)
    else:
        rows.update(result, validate_state=2)


def run_daemons(*, now: datetime = NOON) -> None:
    """Run the transitioner, the validator and the assimilator until nothing is due."""
    for _ in range(1000):
        tallies = [
            daemon.run_pass(now=now, limit=1000)
            for daemon in (transitioner, validator, assimilator)
        ]
        if not any(tally.seen for tally in tallies):
            return
    raise AssertionError("The daemons do not come to rest.")


def finish(*names: str, now: datetime = NOON) -> None:
    """Let hosts compute these released workunits, and run the daemons."""
    report(names, now=now)
    run_daemons(now=now)


def fail(*names: str, now: datetime = NOON) -> None:
    """Let hosts report errors for these released workunits, and run the daemons."""
    report(names, word="error", now=now)
    run_daemons(now=now)


def violations(*, now: datetime = NOON) -> list[str]:
    """Return the violations of invariants about graphs."""
    return [
        f"{one.name}: {found}"
        for one in invariants()
        if one.name in ABOUT_GRAPHS
        for found in one.find(now)
    ]


def ended() -> dict[str, set[str]]:
    """Return the names of workunits that are done, failed by a dependency, failed, and open."""
    ends: dict[str, set[str]] = {"done": set(), "dependency failed": set(), "failed": set()}
    ends["open"] = set()
    for name, canonical, error in Workunit.objects.values_list(
        "name", "canonical_result_id", "error_mask"
    ):
        word = "dependency failed" if error & 256 else "failed" if error else "open"
        ends["done" if canonical is not None else word].add(name)
    return ends
