"""Which results a host is given: facts in, choice out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.config import ProjectConfig
from scheduler.facts.hosts import (
    Candidate,
    HeldResult,
    HostDescription,
    HostFacts,
    Preferences,
    Report,
    VersionFacts,
    Wish,
)
from scheduler.lifecycle import Outcome, ResultState
from scheduler.policy import estimates, limits, lost, reports, selection
from scheduler.policy.selection import Choice, Refusal

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def a_candidate(**facts: Any) -> Candidate:
    known: dict[str, Any] = {
        "result_id": 1,
        "workunit_id": 1,
        "app_id": 1,
        "priority": 0,
        "rsc_fpops_est": 3600e9,
        "rsc_memory_bound": 1e8,
        "rsc_disk_bound": 1e8,
        "delay_bound": timedelta(days=1),
    }
    return Candidate(**(known | facts))


def a_host(**facts: Any) -> HostFacts:
    known: dict[str, Any] = {"id": 1, "account_id": 1, "memory_bytes": 1e9, "disk_bytes": 1e10}
    return HostFacts(**(known | facts))


def a_version(**facts: Any) -> VersionFacts:
    known: dict[str, Any] = {"id": 1, "app_id": 1, "version_num": 100, "platform": "linux"}
    return VersionFacts(**(known | facts))


def look(*candidates: Candidate, host: HostFacts | None = None, **facts: Any) -> Choice:
    wish = facts.pop("wish", Wish(seconds=1))
    versions = facts.pop("versions", {1: [a_version()]})
    return selection.choose(
        candidates, host=host or a_host(), wish=wish, versions=versions, names={1: "Prime search"}
    )


@pytest.mark.parametrize(
    ("facts", "refusal"),
    [
        ({}, None),
        ({"rsc_memory_bound": 1e9}, None),
        ({"rsc_memory_bound": 1e9 + 1}, Refusal.MEMORY),
        ({"rsc_disk_bound": 1e10}, None),
        ({"rsc_disk_bound": 1e10 + 1}, Refusal.DISK),
        ({"app_id": 2}, Refusal.NO_VERSION),
        ({"app_version_num": 99}, Refusal.NO_VERSION),
        ({"app_version_num": 100}, None),
        ({"app_version_id": 7}, Refusal.NO_VERSION),
        ({"hr_class": 256}, Refusal.NO_VERSION),
        ({"delay_bound": timedelta(seconds=1)}, None),
    ],
)
def test_a_candidate_fits_or_is_refused_for_one_reason(
    facts: dict[str, Any], refusal: Refusal | None
) -> None:
    choice = look(a_candidate(**facts))
    assert list(choice.refused) == ([refusal] if refusal else [])
    assert len(choice.feasible) == (refusal is None)


@pytest.mark.parametrize(
    ("queued", "active", "fits"),
    [
        (0, 1.0, True),
        (3600, 1.0, True),
        (86400 - 3600, 1.0, True),
        (86400 - 3599, 1.0, False),
        (80000, 0.5, False),
    ],
)
def test_a_queue_must_leave_time_before_the_deadline(
    queued: float, active: float, fits: bool
) -> None:
    choice = look(
        a_candidate(),
        host=a_host(active_fraction=active),
        wish=Wish(seconds=1, queued_seconds=queued),
    )
    assert bool(choice.feasible) is fits


def test_disk_is_used_up_by_what_is_chosen() -> None:
    candidates = [a_candidate(workunit_id=n, rsc_disk_bound=4e9) for n in range(3)]
    choice = look(*candidates)
    assert len(choice.feasible) == 2
    assert choice.refused == {Refusal.DISK: 1}


def test_one_result_of_a_workunit_is_taken() -> None:
    twins = [a_candidate(result_id=n) for n in range(2)]
    assert [a.candidate.result_id for a in look(*twins).feasible] == [0]


def test_a_deprecated_version_runs_only_what_is_pinned_to_it() -> None:
    versions = {1: [a_version(id=2, version_num=90, deprecated=True), a_version(version_num=89)]}
    pinned, free = a_candidate(app_version_num=90), a_candidate(workunit_id=2)
    choice = look(pinned, free, versions=versions)
    assert [a.version.version_num for a in choice.feasible] == [90, 89]


@pytest.mark.parametrize(
    ("wish", "room", "count"),
    [
        (Wish(seconds=1), 10, 1),
        (Wish(instances=1), 10, 1),
        (Wish(seconds=3600), 10, 1),
        (Wish(seconds=3601), 10, 2),
        (Wish(seconds=1, instances=3), 10, 3),
        (Wish(seconds=1e9), 4, 4),
        (Wish(seconds=1e9), 0, 0),
        (Wish(), 10, 0),
    ],
)
def test_results_are_given_until_the_wish_is_met(wish: Wish, room: int, count: int) -> None:
    feasible = look(*[a_candidate(workunit_id=n) for n in range(8)]).feasible
    assert selection.needed(feasible, wish, room=room) == count


@given(st.floats(0, 1e7), st.floats(0, 64), st.integers(0, 50))
def test_never_more_is_needed_than_there_is_room_for(
    seconds: float, instances: float, room: int
) -> None:
    feasible = look(*[a_candidate(workunit_id=n) for n in range(20)]).feasible
    wish = Wish(seconds=seconds, instances=instances)
    assert 0 <= selection.needed(feasible, wish, room=room) <= min(room, 20)


@pytest.mark.parametrize(
    ("facts", "room"),
    [
        ({}, 2),
        ({"held": {1: 2, 2: 1}}, 1),
        ({"held": {1: 4}}, 0),
        ({"held": {1: 9}}, 0),
        ({"max_in_progress": 1}, 1),
        ({"max_in_progress": 0}, 0),
        ({"ncpus": 3}, 6),
    ],
)
def test_a_host_holds_and_is_given_so_many_at_most(facts: dict[str, Any], room: int) -> None:
    config = ProjectConfig(max_results_per_rpc=2, max_in_progress_per_cpu=4)
    assert limits.room_for(a_host(**facts), config) == room


# Estimates


@pytest.mark.parametrize(
    ("version", "flops"),
    [
        (a_version(), 1e9),
        (a_version(avg_ncpus=4.0), 4e9),
        (a_version(et_n=11, et_avg=1 / 5e9), 5e9),
        (a_version(et_n=10, et_avg=1 / 5e9), 1e9),
        (a_version(et_n=99, et_avg=1e-15), 250e9),
    ],
)
def test_a_version_is_as_fast_as_measured_or_as_the_benchmark(
    version: VersionFacts, flops: float
) -> None:
    assert estimates.flops(version, 1e9) == pytest.approx(flops)


@pytest.mark.parametrize(
    ("prefs", "expected"),
    [
        ({}, 99e9),
        ({"disk_min_free_gb": 50}, 50e9),
        ({"disk_max_used_gb": 10, "boinc_disk_used_bytes": 4e9}, 6e9),
        ({"disk_max_used_pct": 10, "boinc_disk_used_bytes": 4e9}, 16e9),
        ({"disk_max_used_gb": 1, "boinc_disk_used_bytes": 4e9}, 0),
    ],
)
def test_the_strictest_limit_of_the_disk_counts(prefs: dict[str, float], expected: float) -> None:
    host = HostDescription(d_free=100e9, d_total=200e9)
    assert estimates.usable_disk(host, Preferences(**prefs)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("nbytes", "busy", "idle", "expected"),
    [(8e9, 50, 90, 7.2e9), (8e9, 0, 0, 8e9), (0, 50, 90, 64e6)],
)
def test_memory_is_what_the_volunteer_lends(
    nbytes: float, busy: float, idle: float, expected: float
) -> None:
    prefs = Preferences(ram_max_used_busy_pct=busy, ram_max_used_idle_pct=idle)
    host = HostDescription(m_nbytes=nbytes)
    assert estimates.usable_memory(host, prefs) == pytest.approx(expected)


# Reports


@pytest.mark.parametrize(
    ("state", "exit_status", "outcome"),
    [
        (5, 0, Outcome.SUCCESS),
        (5, 1, Outcome.CLIENT_ERROR),
        (3, 0, Outcome.CLIENT_ERROR),
        (6, 203, Outcome.CLIENT_ERROR),
        (7, -187, Outcome.CLIENT_ERROR),
    ],
)
def test_a_report_is_a_success_or_an_error(state: int, exit_status: int, outcome: Outcome) -> None:
    report = Report(name="x", client_state=state, exit_status=exit_status)
    assert reports.outcome(report) is outcome


@pytest.mark.parametrize("state", list(ResultState))
def test_a_report_is_taken_in_progress_and_after_a_time_out_only(state: ResultState) -> None:
    taken = reports.is_taken(state=state, owner=1, reporter=1)
    assert taken is (state in (ResultState.IN_PROGRESS, ResultState.NO_REPLY))
    assert not reports.is_taken(state=state, owner=1, reporter=2)


@pytest.mark.parametrize(
    ("cpu", "elapsed", "ncpus", "expected"),
    [
        (5, 10, 1, (5, 10)),
        (5, 0, 1, (5, 5)),
        (0, 0, 1, (0, 0)),
        (-5, -5, 1, (0, 0)),
        (10, 5, 1, (10, 10)),
        (10, 5, 4, (10, 5)),
        (30, 5, 4, (20, 5)),
        (5, 1e9, 1, (5, 60)),
        (1e9, 1e9, 1, (60, 60)),
    ],
)
def test_times_are_made_possible(
    cpu: float, elapsed: float, ncpus: int, expected: tuple[float, float]
) -> None:
    report = Report(name="x", client_state=5, exit_status=0, cpu_time=cpu, elapsed_time=elapsed)
    sent_at = NOON - timedelta(minutes=1)
    assert reports.sane_times(report, ncpus=ncpus, sent_at=sent_at, now=NOON) == expected


# Held and lost results


def a_held(name: str = "w_0", **facts: Any) -> HeldResult:
    known: dict[str, Any] = {
        "id": 1,
        "name": name,
        "workunit_id": 1,
        "app_id": 1,
        "host_id": 1,
        "app_version_id": 1,
        "state": int(ResultState.IN_PROGRESS),
        "attempt": 0,
        "resent_count": 0,
        "sent_at": NOON,
        "report_deadline": NOON + timedelta(days=1),
        "delay_bound": timedelta(days=1),
        "seconds": 60.0,
        "error_mask": 0,
        "cancelled": False,
        "has_canonical": False,
        "assimilated": False,
    }
    return HeldResult(**(known | facts))


@pytest.mark.parametrize(
    ("facts", "listed", "said"),
    [
        ({}, True, ""),
        ({"cancelled": True}, True, "abort"),
        ({"error_mask": 2}, True, "abort"),
        ({"assimilated": True, "has_canonical": True}, True, "abort_if_not_started"),
        ({"state": int(ResultState.NO_REPLY)}, True, "abort_if_not_started"),
        ({"state": int(ResultState.CLIENT_DETACHED)}, True, "abort"),
        ({}, False, "resend"),
        ({"has_canonical": True}, False, "give_up"),
        ({"cancelled": True}, False, "give_up"),
        ({"resent_count": lost.MOST_RESENDS}, False, "give_up"),
        ({"state": int(ResultState.NO_REPLY)}, False, ""),
        ({"host_id": 2}, False, ""),
    ],
)
def test_what_to_say_of_a_result(facts: dict[str, Any], listed: bool, said: str) -> None:
    names = ["w_0"] if listed else []
    holdings = lost.review([a_held(**facts)], host_id=1, listed=names, reported=[])
    found = {
        kind: len(getattr(holdings, kind))
        for kind in ("abort", "abort_if_not_started", "resend", "give_up")
    }
    assert {kind for kind, count in found.items() if count} == ({said} if said else set())


def test_a_result_reported_in_the_same_request_is_not_lost() -> None:
    holdings = lost.review([a_held()], host_id=1, listed=[], reported=["w_0"])
    assert holdings.resend == []


def test_a_lost_result_keeps_its_deadline_while_it_can_be_met() -> None:
    held = a_held()
    assert lost.new_deadline(held, now=NOON) == held.report_deadline
    late = NOON + timedelta(hours=23, minutes=59, seconds=30)
    assert lost.new_deadline(held, now=late) == late + held.delay_bound
