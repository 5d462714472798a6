"""The reasons why a batch makes no progress, each with a number of workunits."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler import storage
from scheduler.health import maintenance
from scheduler.health.standstill import waits_of, waits_of_project
from tests.conftest import NOON
from tests.rows import a_host, a_result, an_account, an_app, an_app_version, hours, refuse, update
from tests.scientists import a_batch, in_batch

pytestmark = pytest.mark.django_db


@pytest.fixture
def batch():
    app = an_app("primes", retry_same_account_after=timedelta(hours=1))
    an_app_version(app, created_at=hours(-100))
    return a_batch("mine", app=app)


def causes(batch, now=NOON):
    return {one.cause: one.workunits for one in waits_of(batch, now=now)}


def unsent_in(batch, **fields):
    workunit = in_batch(batch, transition_at=None, **fields)
    a_result(workunit)
    return workunit


def test_unsent_work_waits_for_a_host_if_no_host_was_active_recently(batch):
    unsent_in(batch)
    (wait,) = waits_of(batch, now=NOON)
    assert (wait.cause, wait.workunits) == ("no_host", 1)
    assert wait.sentence == (
        "1 workunit waits for a computer: none has contacted the project in the last 30 days."
    )


def test_unsent_work_waits_if_no_host_contacted_the_project_since(batch):
    a_host(rpc_at=hours(-1))
    unsent_in(batch)
    unsent_in(batch)
    (wait,) = waits_of(batch, now=NOON)
    assert (wait.cause, wait.workunits) == ("no_host_asks", 2)
    assert "none has contacted the project since 2026-01-01 11:00:00 UTC" in wait.sentence
    assert "(1 in the last 30 days)" in wait.sentence


def test_unsent_work_has_no_wait_reason_while_hosts_contact_the_project(batch):
    a_host(rpc_at=NOON)
    unsent_in(batch)
    assert waits_of(batch, now=NOON) == ()


def test_a_quorum_waits_for_another_account(batch):
    ada = an_account("ada")
    host, _other = a_host(ada), a_host(ada)
    a_result(unsent_in(batch), "success", host=host)
    (wait,) = waits_of(batch, now=NOON)
    assert (wait.cause, wait.workunits) == ("account_short", 1)
    assert wait.sentence == (
        "1 workunit waits for another account: a quorum of 2 needs 2 accounts, and each account "
        "with a computer that contacted the project in the last 30 days (1) already had a result."
    )
    a_host(an_account("bob"))
    assert waits_of(batch, now=NOON) == ()


def test_an_account_counts_as_available_again_some_time_after_an_error(batch):
    host = a_host()
    a_result(unsent_in(batch), "error", host=host, received_at=NOON)
    update(host, rpc_at=hours(3))
    assert causes(batch, hours(0.5)) == {"account_short": 1}
    assert causes(batch, hours(3)) == {}


def test_an_app_with_one_result_per_host_waits_for_another_host(batch):
    update(batch.app, one_result_per="host")
    host = a_host()
    a_result(unsent_in(batch), "success", host=host)
    assert causes(batch) == {"host_short": 1}
    a_host(host.account)
    assert causes(batch) == {}


def test_work_refused_to_every_host_reports_the_most_common_reason(batch):
    hosts = [a_host(), a_host()]
    for _ in range(2):
        workunit = unsent_in(batch)
        for host in hosts:
            refuse(workunit, host)
    (wait,) = waits_of(batch, now=NOON)
    assert (wait.cause, wait.workunits) == ("all_refused", 2)
    assert "were refused to each of the 2 computers" in wait.sentence
    assert "memory" in wait.sentence
    a_host()
    assert causes(batch) == {}


def test_refusals_older_than_the_newest_app_version_do_not_count(batch):
    refuse(unsent_in(batch), a_host())
    assert causes(batch) == {"all_refused": 1}
    an_app_version(batch.app, created_at=hours(1))
    assert causes(batch) == {}


def test_work_waits_if_every_host_had_a_result_or_was_refused(batch):
    workunit = unsent_in(batch)
    a_result(workunit, "success", host=a_host())
    refuse(workunit, a_host(), reason="disk")
    (wait,) = waits_of(batch, now=NOON)
    assert (wait.cause, wait.workunits) == ("no_host_left", 1)
    assert "disk" in wait.sentence


def test_work_of_an_app_without_a_version_waits_for_a_version():
    batch = a_batch("mine", app=an_app("bare"))
    a_host()
    unsent_in(batch)
    (wait,) = waits_of(batch, now=NOON)
    assert (wait.cause, wait.workunits) == ("no_version", 1)


def test_held_scheduled_and_dependent_workunits_are_reported_as_wait_causes(batch):
    in_batch(batch, transition_at=None, release_state=2)
    in_batch(batch, transition_at=None, start_after=hours(1))
    assert causes(batch) == {"held": 1, "not_yet": 1}
    first = a_batch("first", batch.submitter, app=batch.app)
    update(batch, after=first)
    waiting = in_batch(
        batch,
        transition_at=None,
        release_state=1,
        pending_dependency_count=1,
        waits_for_batch=True,
    )
    assert causes(batch) == {"held": 1, "follows": 1, "not_yet": 1}
    update(waiting, waits_for_batch=False)
    assert causes(batch) == {"held": 1, "depends": 1, "not_yet": 1}


def test_results_in_progress_are_reported_with_their_deadline(batch):
    a_result(in_batch(batch, transition_at=None), "sent")
    (wait,) = waits_of(batch, now=NOON)
    assert (wait.cause, wait.workunits) == ("computing", 1)
    assert "2026-01-02 12:00:00 UTC" in wait.sentence


def test_maintenance_is_the_first_wait_cause(batch):
    unsent_in(batch)
    storage.put_notice("maintenance", {"since": "2026-01-01T11:00:00+00:00"})
    assert next(iter(causes(batch))) == "maintenance"


def test_an_ended_project_is_reported_as_a_wait_cause(batch):
    unsent_in(batch)
    maintenance.end_project(now=NOON)
    for first, *_ in (waits_of(batch, now=NOON), waits_of_project(now=NOON)):
        assert (first.cause, first.workunits) == ("maintenance", 1)
        assert first.sentence == "The project has ended: no work is sent."


def test_maintenance_of_only_the_daemons_is_not_a_wait_cause(batch):
    unsent_in(batch)
    maintenance.begin(scheduler=False, now=NOON)
    assert causes(batch) == {"no_host": 1}


def test_waits_of_project_reports_why_unsent_work_waits(batch):
    unsent_in(batch)
    (wait,) = waits_of_project(now=NOON)
    assert (wait.cause, wait.workunits) == ("no_host", 1)


def test_wait_causes_use_a_constant_number_of_statements(batch):
    numbers = []
    host = a_host()
    for _ in range(2):
        for _ in range(5):
            workunit = unsent_in(batch)
            refuse(workunit, host)
            a_result(unsent_in(batch), "success", host=host)
        with CaptureQueriesContext(connection) as captured:
            assert waits_of(batch, now=NOON)
        numbers.append(len(captured))
    assert numbers[0] == numbers[1] <= 4
