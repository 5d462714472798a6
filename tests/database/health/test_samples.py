"""Samples of the project's figures: one a minute, later one an hour."""

from __future__ import annotations

from datetime import timedelta

import pytest

from daemons import housekeeper
from scheduler.health import daemon_activity, recent, samples
from scheduler.health.facts import PassCounts
from scheduler.health.samples import HOURS_KEPT, MINUTES_KEPT, Period
from scheduler.models import Refusal, ScienceFailure, StatusSample
from tests.conftest import NOON
from tests.rows import a_workunit, an_app

pytestmark = pytest.mark.django_db

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def kept():
    return list(StatusSample.objects.order_by("at").values_list("at", flat=True))


def test_sample_has_the_figures_of_work_people_daemons_and_disk():
    a_workunit(an_app())
    daemon_activity.add_passes("validator", PassCounts(passes=2, examined_rows=17), now=NOON)
    assert samples.take(now=NOON) == 1
    [sample] = samples.read(Period.DAY, now=NOON)
    assert sample.at == NOON
    assert sample.figures["workunits.in_progress"] == 1
    assert sample.figures["people.hosts"] == 0
    assert sample.figures["waiting.validator"] == 0
    assert sample.figures["examined.validator"] == 17
    assert sample.figures["disk.free_nbytes"] > 0
    assert sample.figures["database.nbytes"] > 1_000_000


def test_first_sample_of_an_hour_is_hourly():
    for minutes in (0, 1, 59, 60, 61):
        samples.take(now=NOON + MINUTE * minutes)
    hourly = StatusSample.objects.filter(is_hourly=True).order_by("at")
    assert list(hourly.values_list("at", flat=True)) == [NOON, NOON + HOUR]


def test_second_sample_of_the_same_time_is_not_kept():
    assert (samples.take(now=NOON), samples.take(now=NOON)) == (1, 0)
    assert kept() == [NOON]


@pytest.mark.parametrize("limit", [1, 1000])
def test_minutes_are_dropped_before_hours(limit):
    for minutes in (0, 1, 2):
        samples.take(now=NOON + MINUTE * minutes)
    later = NOON + MINUTES_KEPT + MINUTE + timedelta(seconds=30)
    assert samples.drop_old(later, limit) == 1
    assert kept() == [NOON, NOON + MINUTE * 2]
    assert samples.drop_old(NOON + HOURS_KEPT + MINUTE, limit) == 2
    assert kept() == []


def test_day_shows_the_newest_sample_of_every_five_minutes():
    for minutes in range(8):
        samples.take(now=NOON + MINUTE * minutes)
    shown = samples.read(Period.DAY, now=NOON + HOUR)
    assert [sample.at for sample in shown] == [NOON + MINUTE * 4, NOON + MINUTE * 7]


def test_week_shows_hourly_samples_only():
    for minutes in (0, 1, 60, 61):
        samples.take(now=NOON + MINUTE * minutes)
    shown = samples.read(Period.WEEK, now=NOON + HOUR * 2)
    assert [sample.at for sample in shown] == [NOON, NOON + HOUR]


def test_samples_before_the_period_are_not_read():
    samples.take(now=NOON)
    assert samples.read(Period.DAY, now=NOON + timedelta(days=1, seconds=1)) == ()


def test_newest_sample_before_a_time_stands_for_it_for_three_hours():
    for minutes in (0, 60, 61):
        samples.take(now=NOON + MINUTE * minutes)
    early, exact, late = NOON - MINUTE, NOON + HOUR, NOON + MINUTE * 61 + HOUR * 3
    taken = samples.before([early, exact, late, late + MINUTE])
    assert {at: sample.at for at, sample in taken.items()} == {
        exact: exact,
        late: NOON + MINUTE * 61,
    }
    assert taken[exact].figures["database.nbytes"] > 0


def test_housekeeper_keeps_a_sample_each_minute():
    for seconds in (0, 15, 60):
        housekeeper.run_pass(now=NOON + timedelta(seconds=seconds), limit=100)
    assert kept() == [NOON, NOON + MINUTE]


# Recent troubles


def test_refusals_of_a_day_are_counted_by_reason_and_app(monkeypatch):
    app = an_app()

    def refuse(host_id, reason, at):
        Refusal.objects.create(
            workunit_id=1, host_id=host_id, app_id=app.pk, reason=reason, sentence="", at=at
        )

    refuse(1, "memory", NOON)
    refuse(2, "memory", NOON)
    refuse(3, "disk", NOON)
    refuse(4, "disk", NOON - recent.REFUSALS_WITHIN - MINUTE)
    counted = [(line.reason, line.app, line.refusals) for line in recent.refusals(now=NOON)]
    assert counted == [("memory", app.name, 2), ("disk", app.name, 1)]
    monkeypatch.setattr(recent, "MAX_REFUSALS", 1)
    assert sum(line.refusals for line in recent.refusals(now=NOON)) == 1


def test_only_parked_subjects_are_counted():
    app = an_app()
    for subject_id, parked_at in ((1, NOON), (2, NOON), (3, None)):
        ScienceFailure.objects.create(
            stage=ScienceFailure.Stage.VALIDATE,
            subject_id=subject_id,
            app=app,
            error="",
            failed_at=NOON,
            parked_at=parked_at,
        )
    assert [(line.label, line.subjects) for line in recent.parked()] == [("Validate", 2)]
