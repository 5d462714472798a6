"""History, rounds and statistics over the API."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.cache import cache

from daemons import transitioner
from scheduler.lifecycle import ErrorMask
from scheduler.models import UsageSample
from scheduler.work import control
from tests.conftest import NOON
from tests.database.passes import a_pass
from tests.rows import a_host, a_result, an_account, update
from tests.scientists import Scientist, a_batch, done_in, failed_in, in_batch

pytestmark = pytest.mark.django_db


@pytest.fixture
def eve() -> Scientist:
    return Scientist()


@pytest.fixture
def batch(eve):
    return a_batch(submitter=eve.account)


def test_rounds_are_keyed_by_round_and_state(eve, batch):
    workunit = in_batch(batch, min_quorum=1, target_nresults=1)
    for number in range(3):
        a_result(workunit, "noreply", created_at=NOON - timedelta(hours=9 - number))
    a_result(workunit, "sent", created_at=NOON - timedelta(hours=3))
    shown = eve.get(f"workunits/{workunit.pk}/rounds").json()
    assert shown["timeline"]["3:running"] == (NOON - timedelta(hours=2)).timestamp()
    assert (shown["state"], shown["round"]) == ("running", 3)
    assert (shown["fails"], shown["timeouts"], shown["other_replicas"]) == (0, 3, [])


def test_history_lists_attempts_with_usage_and_states_of_the_older_systems(eve, batch):
    workunit = in_batch(batch, min_quorum=1, target_nresults=1)
    host = a_host()
    a_result(workunit, "error", exit_status=7, received_at=NOON - timedelta(days=1))
    result = a_result(workunit, "sent", host=host)
    values = {"cpu_time": 30.0, "elapsed_time": 60.0, "memory_bytes": 5e6, "gpu_usage": 0.5}
    UsageSample.objects.create(result_id=result.pk, at=NOON, fraction_done=0.25, **values)
    shown = eve.get(f"workunits/{workunit.pk}/history").json()
    assert (shown["name"], shown["retry_count"]) == (workunit.name, 2)
    assert shown["states"] == {
        "tdf": "running",
        "tdf2": "running",
        "eve": "running",
        "disbatch_status": -1,
    }
    failed, running = shown["history"]
    assert (failed["exit_status"], failed["tdf2_state"], failed["state"]) == (
        *(7, "failed_archive", "OVER/CLIENT_ERROR"),
    )
    assert failed["time_terminated"] == (NOON - timedelta(days=1)).isoformat().replace(
        "+00:00", "Z"
    )
    assert running["time_started"] == result.sent_at.isoformat().replace("+00:00", "Z")
    assert running["worker"] == host.pk
    assert (running["exit_status"], running["time_terminated"]) == (None, None)
    assert (running["memory_usage"], running["cpu_utilization"]) == ([5e6], [0.5])
    assert running["gpu_usage"] == [0.5]
    [sample] = running["samples"]
    assert (sample["fraction_done"], sample["cpu_seconds"]) == (0.25, 30.0)
    current = eve.get(f"workunits/{workunit.pk}/current_history").json()
    assert current == running
    for name in ("execution_info", "execution_data"):
        assert eve.get(f"workunits/{workunit.pk}/{name}").json() == running
    assert eve.get(f"workunits/{workunit.pk}/execution_history").json() == shown


def test_workunit_shows_the_time_of_its_last_state_change(eve, batch):
    workunit = in_batch(batch, min_quorum=1, target_nresults=1, transition_at=NOON)

    def modified_at():
        return eve.get(f"workunits/{workunit.pk}").json()["modified_at"]

    assert modified_at() is None
    a_pass(transitioner)
    assert modified_at() == "2026-01-01T12:00:00Z"
    control.cancel(ids=[workunit.pk], now=NOON)
    a_pass(transitioner, now=NOON + timedelta(hours=2))
    assert modified_at() == "2026-01-01T14:00:00Z"
    timeline = eve.get(f"workunits/{workunit.pk}/timeline").json()["timeline"]
    assert timeline[-1]["at"] == modified_at()


def test_current_history_of_a_workunit_that_was_never_sent_returns_404(eve, batch):
    workunit = in_batch(batch)
    assert eve.get(f"workunits/{workunit.pk}/current_history").status_code == 404
    assert eve.get(f"workunits/{workunit.pk}/history").json()["history"] == []


def test_memory_without_samples_is_the_peak_of_the_report(eve, batch):
    workunit = in_batch(batch)
    a_result(workunit, "success", peak_working_set_bytes=9e6)
    a_result(workunit, "noreply")
    first, second = eve.get(f"workunits/{workunit.pk}/history").json()["history"]
    assert (first["memory_usage"], second["memory_usage"]) == ([9e6], [])


def test_statistics_of_a_workunit_and_of_its_batch(eve, batch):
    workunit = done_in(batch)
    a_result(in_batch(batch), "error")
    of_workunit = eve.get(f"workunits/{workunit.pk}/statistics").json()
    of_batch = eve.get(f"batches/{batch.pk}/statistics").json()
    assert (of_workunit["results"], of_workunit["successes"]) == (1, 1)
    assert (of_batch["results"], of_batch["errors"]) == (2, 1)
    assert of_batch["mean_elapsed_seconds"] == 3000


def test_statistics_of_an_app_and_of_the_project(eve, batch):
    cache.clear()
    done_in(batch)
    failed_in(batch, error_mask=ErrorMask.EXPIRED)
    in_batch(batch)
    update(batch.app, total_credit=7)
    shown = eve.get(f"apps/{batch.app.name}/statistics").json()
    assert (shown["name"], shown["total_credit"]) == (batch.app.name, 7.0)
    assert (shown["in_progress"], shown["done"], shown["failed"]) == (1, 1, 1)
    of_project = eve.get("statistics").json()
    assert of_project["workunits"]["value"] == 3
    assert eve.get("apps/unknown/statistics").status_code == 404


def test_times_and_memory_of_an_app_and_of_the_project_are_those_of_its_batches(eve, batch):
    cache.clear()
    first = {"cpu_time": 50.0, "elapsed_time": 60.0, "peak_working_set_bytes": 7e6}
    second = {"cpu_time": 5.0, "elapsed_time": 20.0, "peak_working_set_bytes": 9e6}
    failed = {"cpu_time": 3.0, "elapsed_time": 400.0, "peak_working_set_bytes": 8e6}
    a_result(in_batch(batch), "success", **first)
    a_result(in_batch(batch), "success", **second)
    a_result(in_batch(batch), "error", **failed)
    expected = {
        "cpu_seconds": 58.0,
        "elapsed_seconds": 480.0,
        "mean_elapsed_seconds": 40.0,
        "max_elapsed_seconds": 60.0,
        "peak_memory_bytes": 9e6,
    }
    other = a_batch(submitter=eve.account, name="other")
    a_result(in_batch(other), "success", **failed)
    in_batch(other)
    of_batch = eve.get(f"batches/{batch.pk}/statistics").json()
    assert expected.items() <= of_batch.items()
    of_app = eve.get(f"apps/{batch.app.name}/statistics").json()
    assert expected.items() <= of_app.items()
    of_project = eve.get("statistics").json()
    apps = {app["name"]: app for app in of_project["apps"]}
    assert expected.items() <= apps[batch.app.name].items()
    totals = {
        "cpu_seconds": 61.0,
        "elapsed_seconds": 880.0,
        "mean_elapsed_seconds": 160.0,
        "max_elapsed_seconds": 400.0,
        "peak_memory_bytes": 9e6,
    }
    assert totals.items() <= of_project.items()


def test_app_without_results_has_no_means_and_maxima(eve, batch):
    cache.clear()
    shown = eve.get(f"apps/{batch.app.name}/statistics").json()
    assert (shown["cpu_seconds"], shown["elapsed_seconds"]) == (0.0, 0.0)
    nothing = ("mean_elapsed_seconds", "max_elapsed_seconds", "peak_memory_bytes")
    assert [shown[name] for name in nothing] == [None, None, None]
    of_project = eve.get("statistics").json()
    assert [of_project[name] for name in nothing] == [None, None, None]


@pytest.mark.parametrize("part", ["rounds", "history", "current_history", "statistics"])
def test_history_of_a_stranger_s_workunit_returns_404(eve, part):
    workunit = in_batch(a_batch(submitter=an_account()))
    a_result(workunit, "sent")
    assert eve.get(f"workunits/{workunit.pk}/{part}").status_code == 404
    staff = Scientist(is_superuser=True)
    assert staff.get(f"workunits/{workunit.pk}/{part}").status_code == 200


def test_statistics_of_a_stranger_s_batch_return_404(eve):
    batch = a_batch(submitter=an_account())
    assert eve.get(f"batches/{batch.pk}/statistics").status_code == 404
    assert Scientist(is_superuser=True).get(f"batches/{batch.pk}/statistics").status_code == 200


def test_reading_a_history_takes_a_constant_number_of_statements(
    eve, batch, django_assert_max_num_queries
):
    workunit = in_batch(batch)
    for _ in range(8):
        result = a_result(workunit, "error")
        UsageSample.objects.create(result_id=result.pk, at=NOON, cpu_time=1)
    with django_assert_max_num_queries(7):  # token, its use, workunit, and those of the history
        assert len(eve.get(f"workunits/{workunit.pk}/history").json()["history"]) == 8
