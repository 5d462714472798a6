"""Subjects on which science code fails too often are parked; others are not."""

from __future__ import annotations

from datetime import timedelta

import pytest

from daemons import poison
from daemons.poison import Stage
from scheduler.models import ScienceFailure
from tests import rows
from tests.conftest import NOON
from tests.database.passes import statements_of

pytestmark = pytest.mark.django_db


def fail(app, *ids, stage=Stage.ASSIMILATE, error="boom", now=NOON, **options):
    records = poison.record(
        stage, dict.fromkeys(ids, error), dict.fromkeys(ids, app.pk), now=now, **options
    )
    return {subject_id for subject_id, record in records.items() if record.parked}


def test_a_subject_is_parked_when_its_failures_reach_the_limit_of_the_app():
    app = rows.an_app(max_science_failures=3)
    assert [fail(app, 7), fail(app, 7), fail(app, 7, now=rows.hours(1))] == [set(), set(), {7}]
    row = ScienceFailure.objects.get()
    assert (row.failures, row.parked_at, row.error) == (3, rows.hours(1), "boom")


def test_a_limit_of_one_parks_after_the_first_failure():
    assert fail(rows.an_app(max_science_failures=1), 7) == {7}


def test_parking_time_does_not_change():
    app = rows.an_app(max_science_failures=1)
    fail(app, 7)
    assert fail(app, 7, now=rows.hours(2)) == {7}
    assert ScienceFailure.objects.get().parked_at == NOON


def test_transient_failures_park_only_after_ten_times_as_many():
    app = rows.an_app(max_science_failures=2)
    parked = [fail(app, 7, transient={7}) for _ in range(20)]
    assert parked == [set()] * 19 + [{7}]
    row = ScienceFailure.objects.get()
    assert (row.failures, row.transients) == (0, 20)


def test_transient_failures_do_not_count_as_failures():
    app = rows.an_app(max_science_failures=2)
    for _ in range(5):
        fail(app, 7, transient={7})
    assert fail(app, 7) == set()
    assert fail(app, 7) == {7}


def test_failures_are_counted_separately_per_stage():
    app = rows.an_app(max_science_failures=2)
    fail(app, 7, stage=Stage.VALIDATE)
    assert fail(app, 7, stage=Stage.ASSIMILATE) == set()
    assert ScienceFailure.objects.count() == 2


def test_success_deletes_the_failures_of_the_same_stage_and_subject_only():
    app = rows.an_app(max_science_failures=2)
    fail(app, 7, 8)
    fail(app, 7, stage=Stage.VALIDATE)
    poison.succeeded(Stage.ASSIMILATE, [7])
    left = set(ScienceFailure.objects.values_list("stage", "subject_id"))
    assert left == {(Stage.ASSIMILATE, 8), (Stage.VALIDATE, 7)}
    assert fail(app, 7) == set()


@pytest.mark.parametrize("count", [1, 300])
def test_recording_any_number_of_failures_uses_one_statement(count):
    app = rows.an_app(max_science_failures=1)
    ids = range(1, count + 1)
    assert statements_of(lambda: fail(app, *ids)) == 1
    assert ScienceFailure.objects.filter(parked_at=NOON).count() == count


def test_no_failures_cost_no_statement():
    assert statements_of(lambda: fail(rows.App(pk=1))) == 0


def test_parking_is_logged_once(caplog):
    app = rows.an_app("sums", max_science_failures=1)
    fail(app, 7)
    fail(app, 7)
    said = [record for record in caplog.records if record.message == "science_parked"]
    assert [(one.stage, one.id, one.app) for one in said] == [("assimilate", 7, "sums")]


def test_a_stored_error_is_truncated_and_invalid_characters_are_replaced():
    app = rows.an_app()
    fail(app, 7, error="x" * 100_000 + "\0the end\udc80")
    error = ScienceFailure.objects.get().error
    assert error.endswith("\N{REPLACEMENT CHARACTER}the end?")
    assert len(error) <= poison.MAX_ERROR_LENGTH + 10


@pytest.mark.parametrize(
    ("failures", "seconds"), [(0, 10), (1, 10), (2, 20), (3, 40), (9, 2560), (10, 3600), (99, 3600)]
)
def test_the_retry_delay_doubles_up_to_an_hour(failures, seconds):
    assert poison.wait_after(failures) == timedelta(seconds=seconds)
