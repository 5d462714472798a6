"""The newest runs of an app, found by grants of credit or by computers."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.apps import newest_runs
from scheduler.models import CreditEntry
from tests.conftest import NOON
from tests.rows import a_host, a_result, a_workunit, an_app, an_app_version, update

pytestmark = pytest.mark.django_db


def a_run(version, word="valid", *, is_paid=True, host=None, seconds=100.0, **fields):
    """Create a result of a version with its grant of credit."""
    workunit = a_workunit(version.app, rsc_fpops_est=5e11, rsc_fpops_bound=5e12)
    host = host or a_host()
    measured = {"elapsed_time": seconds, "cpu_time": 90.0, "flops_estimate": 2e9}
    result = a_result(workunit, word, host=host, app_version=version, **(measured | fields))
    if is_paid:
        CreditEntry.objects.create(
            result_id=result.pk,
            rule="validated",
            account=host.account,
            host=host,
            app=version.app,
            amount=1,
            granted_at=NOON,
        )
    return result


def seconds(app):
    return sorted(run.elapsed_time for run in newest_runs.read(app).runs)


@pytest.fixture
def version():
    return an_app_version(an_app())


def test_paid_runs_have_times_speed_and_estimates(version):
    result = a_run(version)
    a_run(an_app_version(an_app()))
    newest = newest_runs.read(version.app)
    assert newest.are_paid
    [run] = newest.runs
    assert run == (version.pk, result.received_at, 100.0, 90.0, 2e9, 5e11, 5e12)
    assert run.operations == 2e11


def test_only_the_newest_grants_are_read(version, monkeypatch):
    for length in (1.0, 2.0, 3.0, 4.0):
        a_run(version, seconds=length)
    a_run(an_app_version(an_app()), seconds=5.0)
    monkeypatch.setitem(newest_runs._LIMITS, "grants", 4)
    assert seconds(version.app) == [2.0, 3.0, 4.0]
    monkeypatch.setitem(newest_runs._LIMITS, "results", 2)
    assert seconds(version.app) == [3.0, 4.0]


def test_purged_results_outliers_and_grants_by_hand_are_left_out(version):
    a_run(version, seconds=1.0)
    outlier, purged = a_run(version, seconds=2.0), a_run(version, seconds=3.0)
    update(outlier, runtime_outlier=True)
    purged.delete()
    host = a_host()
    CreditEntry.objects.create(
        rule="manual", account=host.account, app=version.app, amount=1, granted_at=NOON
    )
    assert seconds(version.app) == [1.0]


def test_app_without_grants_is_read_by_computers(version):
    for word in ("success", "valid", "invalid", "error"):
        a_run(version, word, is_paid=False, seconds=float(len(word)))
    update(a_run(version, is_paid=False, seconds=99.0), runtime_outlier=True)
    a_run(an_app_version(an_app()), is_paid=False)
    newest = newest_runs.read(version.app)
    assert not newest.are_paid
    assert sorted(run.elapsed_time for run in newest.runs) == [5.0, 7.0]
    assert newest.runs[0].rsc_fpops_bound == 5e12


def test_every_computer_is_read_if_there_are_few(version):
    hosts = [a_host() for _ in range(5)]
    for number, host in enumerate(hosts):
        a_run(version, is_paid=False, host=host, seconds=float(number + 1))
    assert seconds(version.app) == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_newest_results_of_each_computer_are_read_up_to_the_limit(version, monkeypatch):
    for host in (a_host(), a_host()):
        for length in (1.0, 2.0, 3.0):
            a_run(version, is_paid=False, host=host, seconds=length)
    monkeypatch.setitem(newest_runs._LIMITS, "results", 4)
    assert seconds(version.app) == [2.0, 2.0, 3.0, 3.0]
    monkeypatch.setitem(newest_runs._LIMITS, "hosts", 1)
    assert seconds(version.app) == [1.0, 2.0, 3.0]


def test_number_of_statements_does_not_depend_on_the_number_of_results(version):
    counts = []
    for count in (1, 10):
        for _ in range(count):
            a_run(version)
        with CaptureQueriesContext(connection) as captured:
            newest_runs.read(version.app)
        counts.append(len(captured))
    assert counts == [1, 1]
    other = an_app()
    with CaptureQueriesContext(connection) as captured:
        assert newest_runs.read(other).runs == []
    assert len(captured) == 2
