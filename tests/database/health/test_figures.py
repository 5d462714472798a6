"""The figures for Prometheus: read with a constant number of statements."""

from __future__ import annotations

import ast
import inspect
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.health import daemon_activity, figures
from scheduler.health.facts import PassCounts
from scheduler.health.rules import alert_texts
from scheduler.models import Heartbeat, ScienceFailure
from tests.conftest import NOON
from tests.rows import a_host, a_result, a_workunit, an_app

pytestmark = pytest.mark.django_db


def test_figures_of_an_empty_project_are_zero():
    read = figures.read(now=NOON)
    assert read.counts.results["unsent"] == 0
    assert set(read.parked.values()) == {0}
    assert {lag.total_seconds() for lag in read.lags.values()} == {0}
    assert read.passes == {}


def test_figures_show_results_lag_parked_subjects_and_alerts():
    app = an_app()
    workunit = a_workunit(app, transition_at=NOON - timedelta(minutes=11))
    a_result(workunit)
    ScienceFailure.objects.create(
        stage=1,
        subject_id=workunit.pk,
        app=app,
        failures=9,
        error="x",
        failed_at=NOON,
        parked_at=NOON,
    )
    read = figures.read(now=NOON)
    assert read.counts.results["unsent"] == 1
    assert read.parked == {"validate": 1, "assimilate": 0, "trickle": 0, "generate": 0}
    assert read.lags["transitioner"] == timedelta(minutes=11)
    assert read.alerts["science_parked"] == read.alerts["daemon_behind"] == 1
    assert read.alerts["disk_full"] == 0


def test_the_number_of_statements_does_not_depend_on_the_number_of_rows():
    def statements():
        with CaptureQueriesContext(connection) as queries:
            figures.read(now=NOON)
        return len(queries)

    before = statements()
    for _ in range(3):
        workunit = a_workunit(an_app())
        a_result(workunit, "sent", host=a_host())
        daemon_activity.add_passes(f"d{workunit.pk}", PassCounts(passes=1), now=NOON)
    assert statements() == before <= 9


def test_passes_of_several_processes_are_added():
    for rows in (3, 4):
        counts = PassCounts(passes=1, failed_passes=1, examined_rows=rows, busy_seconds=0.5)
        daemon_activity.add_passes("validator", counts, now=NOON)
    assert daemon_activity.passes() == {"validator": PassCounts(2, 2, 7, 1.0)}
    assert Heartbeat.objects.get(name="daemon validator").seen_at == NOON


def test_every_kind_of_alert_is_listed():
    tree = ast.parse(inspect.getsource(alert_texts))
    made = {
        call.args[0].value
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Alert"
    }
    assert made == set(alert_texts.KINDS)
    assert len(made) == len(alert_texts.KINDS)
