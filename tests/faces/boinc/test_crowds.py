"""Many simultaneous requests: a bounded queue, and different delays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler.boinc import scheduler_rpc
from scheduler.boinc.call_batches import Batches
from scheduler.dispatch.candidates import BEFORE_ALL
from scheduler.dispatch.scan_cursors import LowWaterMarks
from tests.conftest import NOON
from tests.scripted_client import a_client
from tests.work import an_app, workunits

pytestmark = pytest.mark.django_db


def test_excess_requests_are_refused_immediately_with_different_delays(settings: Any) -> None:
    settings.PROJECT = replace(settings.PROJECT, max_waiting_rpcs=0)
    replies = [a_client(email=f"v{number}@example.org").ask() for number in range(20)]
    assert all("more requests than it can answer" in reply.messages[0].text for reply in replies)
    delays = {reply.request_delay for reply in replies}
    assert len(delays) > 10
    assert all(150 <= (delay or 0) <= 450 for delay in delays)


def test_under_load_answered_requests_get_longer_delays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workunits(an_app(), 1)
    client = a_client()
    client.ask()
    monkeypatch.setattr(Batches, "is_crowded", property(lambda _self: True))
    reply = client.ask(cpu_req_secs=1)
    assert [result.name for result in reply.results] == ["upper_0_0"]
    assert 150 <= (reply.request_delay or 0) <= 450
    monkeypatch.setattr(Batches, "is_crowded", property(lambda _self: False))
    assert client.ask().request_delay == 7


def test_empty_call_queue_is_not_crowded() -> None:
    assert not scheduler_rpc._batches.is_crowded


# Where scans begin


LANE = (1, 0, 0)


def much_given() -> LowWaterMarks:
    water = LowWaterMarks()
    water.count_sent(LANE, LowWaterMarks.MIN_SENT)
    return water


def test_scan_starts_at_the_first_result_of_the_previous_scan() -> None:
    water = much_given()
    assert water.of(LANE, now=NOON) == BEFORE_ALL
    water.record_scan(LANE, after=BEFORE_ALL, first=(0, 41), seconds=0, now=NOON)
    assert water.of(LANE, now=NOON) == (0, 41)
    water.record_scan(LANE, after=(0, 41), first=(0, 77), seconds=0, now=NOON)
    assert water.of(LANE, now=NOON) == (0, 77)


def test_a_scan_restarts_every_second_and_finds_older_rows() -> None:
    water = much_given()
    water.record_scan(LANE, after=BEFORE_ALL, first=(0, 41), seconds=0, now=NOON)
    assert water.of(LANE, now=NOON + LowWaterMarks.FULL_SCAN_INTERVAL) == BEFORE_ALL
    water.record_scan(
        LANE, after=BEFORE_ALL, first=(7, 3), seconds=0, now=NOON + LowWaterMarks.FULL_SCAN_INTERVAL
    )
    assert water.of(LANE, now=NOON + LowWaterMarks.FULL_SCAN_INTERVAL) == (7, 3)


def test_slow_full_scan_is_repeated_less_often() -> None:
    water = much_given()
    water.record_scan(LANE, after=BEFORE_ALL, first=(0, 41), seconds=0.5, now=NOON)
    assert water.of(LANE, now=NOON + 9 * LowWaterMarks.FULL_SCAN_INTERVAL) == (0, 41)
    assert water.of(LANE, now=NOON + 10 * LowWaterMarks.FULL_SCAN_INTERVAL) == BEFORE_ALL


def test_lane_with_few_sent_results_has_no_low_water_mark() -> None:
    water = LowWaterMarks()
    water.record_scan(LANE, after=BEFORE_ALL, first=(0, 41), seconds=0, now=NOON)
    assert water.of(LANE, now=NOON) == BEFORE_ALL


def test_work_before_the_low_water_mark_is_found_if_none_is_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from scheduler.dispatch import search

    app = an_app()
    workunits(app, 2)
    client = a_client()
    client.ask()
    monkeypatch.setattr(search.low_water_marks, "of", lambda lane, now: (0, 10**9))
    assert client.ask_for_work() == ["upper_0_0"]
