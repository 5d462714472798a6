"""Requested comparisons of credit read the sums in batches, and change nothing."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from django.db import connection

from daemons import housekeeper
from scheduler.credit import credit_checks, recompute_credit
from scheduler.credit.recompute_credit import Scope
from scheduler.health.checks import check_runs, statement_limit
from scheduler.health.checks.check_runs import Kind
from scheduler.models import Host
from tests import rows
from tests.conftest import NOON
from tests.database.credit.test_recompute_credit import a_grant
from tests.database.daemons.test_interleavings import PATIENCE, Meanwhile

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def short_steps(monkeypatch):
    """Let a step compare one batch of two owners."""
    monkeypatch.setattr(credit_checks, "STEP_SECONDS", 0)
    monkeypatch.setattr(recompute_credit, "BATCH", 2)


def requested():
    return check_runs.request(Kind.CREDIT, account=rows.an_account(), now=NOON)


def step():
    return check_runs.advance(housekeeper.CHECKERS, now=NOON)


def carried_out():
    run = requested()
    while step():
        pass
    run.refresh_from_db()
    return run


def test_sums_are_compared_in_batches_and_not_corrected():
    host, app = rows.a_host(), rows.an_app("mill")
    wrong = [rows.a_host(host.account, total_credit=5) for _ in range(3)]
    a_grant(host, app, 8)
    run = requested()
    step()
    run.refresh_from_db()
    assert (run.remaining[0], run.after_id, run.checked) == ("hosts", wrong[0].pk, 2)
    assert run.to_check == recompute_credit.count_owners(Scope())
    while step():
        pass
    run.refresh_from_db()
    assert run.ended_at is not None
    assert run.checked == run.to_check
    assert run.checked_names == list(recompute_credit.kind_names())
    counts = {finding["name"]: finding["count"] for finding in run.findings}
    assert counts == {"hosts": 4, "accounts": 1, "accounts by app": 1, "apps": 1}
    assert run.violations == run.unresolved == 7
    [first, *_] = run.findings
    assert first["rows"][0] == [f"host {host.pk}", "total 0.000000, entries 8.000000"]
    assert first["hint"] == "Hint: `manage.py recompute_credit --apply` corrects these sums."
    host.refresh_from_db()
    assert host.total_credit == 0


def test_correct_sums_have_no_finding():
    rows.a_host()
    run = carried_out()
    assert (run.violations, run.unresolved, run.findings) == (0, 0, [])


def test_a_comparison_finds_what_the_command_finds():
    host = rows.a_host(total_credit=1)
    a_grant(host, rows.an_app(), 3)
    differences = list(recompute_credit.compare(Scope(), progress=lambda _count: None))
    expected = [finding.as_json() for finding in credit_checks.findings(differences)]
    findings = carried_out().findings
    assert [{**each, "rows": [list(row) for row in each["rows"]]} for each in expected] == findings


def test_a_step_compares_further_batches_until_its_time_is_over(monkeypatch):
    monkeypatch.setattr(credit_checks, "STEP_SECONDS", 60)
    for _ in range(5):
        rows.a_host()
    run = requested()
    step()
    run.refresh_from_db()
    assert (run.checked, run.checked_names) == (5, ["hosts"])


def test_batches_that_take_too_long_are_left_out_and_the_others_are_compared(monkeypatch):
    hosts = [rows.a_host(total_credit=5) for _ in range(6)]
    real = recompute_credit.compare_owners

    def compare(kind, ids):
        if kind == "hosts" and hosts[4].pk not in ids:
            raise statement_limit.NotChecked("It was cancelled.")
        return real(kind, ids)

    monkeypatch.setattr(recompute_credit, "compare_owners", compare)
    run = carried_out()
    [part] = run.not_checked
    assert (part["name"], part["count"]) == ("hosts", 4)
    assert part["reason"] == f"Numbers {hosts[0].pk} to {hosts[1].pk}: It was cancelled."
    assert run.skipped == 4
    assert run.checked + run.skipped == run.to_check
    assert {finding["name"]: finding["count"] for finding in run.findings} == {"hosts": 2}
    assert "hosts" not in run.checked_names
    assert "accounts" in run.checked_names


def test_statements_of_a_comparison_have_the_time_limit(monkeypatch):
    rows.a_host()
    monkeypatch.setattr(statement_limit, "TIME_LIMIT", timedelta(milliseconds=300))

    def sleep(_kind, _ids):
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(20)")

    monkeypatch.setattr(recompute_credit, "compare_owners", sleep)
    run = carried_out()
    assert (run.checked, run.skipped) == (0, run.to_check)
    assert "It was cancelled" in run.not_checked[0]["reason"]


@pytest.mark.django_db(transaction=True)
def test_a_grant_during_a_comparison_is_no_difference(monkeypatch):
    """The sums and their entries are read from one snapshot."""
    host, app = rows.a_host(), rows.an_app()
    arrived, go = threading.Event(), threading.Event()
    real = recompute_credit._entries

    def entries(*arguments):
        arrived.set()
        assert go.wait(PATIENCE)
        return real(*arguments)

    monkeypatch.setattr(recompute_credit, "_entries", entries)
    run = requested()
    comparing = Meanwhile(step)
    assert arrived.wait(PATIENCE)
    a_grant(host, app, 2)
    Host.objects.filter(pk=host.pk).update(total_credit=2)
    go.set()
    assert comparing.wait() == 1
    run.refresh_from_db()
    assert (run.checked, run.violations) == (1, 0)
