"""The daemons' clock detects that it was set, and due times are adjusted."""

from __future__ import annotations

from datetime import timedelta

import pytest

from daemons import timeout_checker
from daemons.clock import WatchedClock, clock_of
from scheduler.models import Outage
from tests import rows
from tests.database.passes import a_pass

pytestmark = pytest.mark.django_db


@pytest.fixture
def read():
    """Return a function that reads a watched clock showing `hours`, at monotonic `seconds`."""
    shown = []
    clock = WatchedClock(lambda: shown[-1][0], lambda: shown[-1][1])

    def read(hours, seconds):
        shown.append((rows.hours(hours), seconds))
        return clock()

    return read


def test_workunits_due_before_the_clock_was_set_back_are_due_immediately(read, caplog):
    due = rows.a_workunit(transition_at=rows.hours(1))
    later = rows.a_workunit(due.app, transition_at=rows.hours(3))
    read(1, 0.0)
    assert read(0, 1.0) == rows.hours(0)
    read(0, 2.0)
    due.refresh_from_db()
    later.refresh_from_db()
    assert (rows.due_at(due), rows.due_at(later)) == (rows.hours(0), rows.hours(3))
    records = [record for record in caplog.records if record.getMessage() == "clock_set_back"]
    assert [record.seconds for record in records] == [3601]


def test_rows_woken_by_an_earlier_pass_are_corrected_too(read):
    read(1, 0.0)
    read(0, 1.0)
    late = rows.a_workunit(transition_at=rows.hours(1))
    read(0, 1.5)
    late.refresh_from_db()
    assert rows.due_at(late) == rows.hours(1), "not at every reading"
    read(0, 3.0)
    late.refresh_from_db()
    assert rows.due_at(late) == rows.hours(0)


def test_setting_the_clock_forward_extends_deadlines_before_results_time_out(read):
    result = rows.a_result(rows.a_workunit(), "sent", report_deadline=rows.hours(0.5))
    read(0, 0.0)
    now = read(1, 2.0)
    for _ in range(3):
        assert "timed out" not in a_pass(timeout_checker, now=now).done
    result.refresh_from_db()
    assert result.server_state == 4
    assert result.report_deadline == rows.hours(1.5) - timedelta(seconds=2)


def test_passing_time_is_not_a_clock_step(read):
    for hours, seconds in ((0, 0.0), (1, 3600.0), (2, 7201.0)):
        read(hours, seconds)
    assert not Outage.objects.exists()


def test_only_the_timeout_checker_has_a_watched_clock():
    assert isinstance(clock_of("timeout_checker"), WatchedClock)
    assert clock_of("timeout_checker") is clock_of("timeout_checker")
    assert not isinstance(clock_of("validator"), WatchedClock)
