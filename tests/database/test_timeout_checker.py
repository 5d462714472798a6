"""The timeout checker gives up on results, and wakes their workunits."""

from __future__ import annotations

from datetime import timedelta

import pytest

from daemons import timeout_checker, transitioner
from scheduler.models import HostAppVersion, Result
from tests import rows
from tests.database.passes import a_pass, moves, statements_of

pytestmark = pytest.mark.django_db


def an_overdue(workunit=None, **fields):
    workunit = workunit or rows.a_workunit(transition_at=None)
    return rows.a_result(workunit, "sent", report_deadline=rows.hours(-1), **fields)


def test_a_result_past_its_deadline_is_given_up_and_replaced():
    result = an_overdue()
    tally = a_pass(timeout_checker)
    result.refresh_from_db()
    assert (result.server_state, result.outcome) == (5, 4)
    assert tally.sentence() == "1 result: 1 timed out"
    assert moves(result) == ["result: IN_PROGRESS→OVER/NO_REPLY"]
    result.workunit.refresh_from_db()
    assert result.workunit.transition_at == rows.hours(0)
    a_pass(transitioner)
    assert result.workunit.results.count() == 3


def test_a_result_before_its_deadline_is_left_alone():
    result = rows.a_result(rows.a_workunit(), "sent")
    assert a_pass(timeout_checker).sentence() == "nothing to do"
    result.refresh_from_db()
    assert result.server_state == 4


def test_the_apps_grace_is_waited_for():
    app = rows.an_app(grace=timedelta(hours=2))
    result = an_overdue(rows.a_workunit(app))
    assert a_pass(timeout_checker).seen == 0
    assert a_pass(timeout_checker, now=rows.hours(1)).seen == 1
    result.refresh_from_db()
    assert result.outcome == 4


def test_a_host_that_did_not_reply_starts_anew_to_be_trusted():
    workunit = rows.a_workunit()
    version = rows.an_app_version(workunit.app)
    result = an_overdue(workunit, app_version=version)
    trusted = HostAppVersion.objects.create(
        host=result.host, app_version=version, consecutive_valid=12, max_results_per_day=1
    )
    a_pass(timeout_checker)
    trusted.refresh_from_db()
    assert (trusted.consecutive_valid, trusted.max_results_per_day) == (0, 1)


def test_a_workunit_past_its_end_is_woken_and_expires():
    workunit = rows.a_workunit(end_before=rows.hours(-1), transition_at=None)
    rows.a_result(workunit, "sent")
    a_pass(timeout_checker)
    a_pass(transitioner)
    workunit.refresh_from_db()
    assert workunit.error_mask == 64
    assert a_pass(timeout_checker).seen == 0


@pytest.mark.parametrize("count", [1, 500])
def test_a_pass_costs_the_same_statements_for_any_number_of_rows(count):
    app = rows.an_app()
    version = rows.an_app_version(app)
    host = rows.a_host()
    for _ in range(count):
        workunit = rows.a_workunit(app, transition_at=None)
        an_overdue(workunit, host=host, app_version=version)
    assert statements_of(lambda: a_pass(timeout_checker)) == 5
    assert not Result.objects.filter(server_state=4).exists()
