"""The choice of results for a host, from facts about both."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.config import ProjectConfig
from scheduler.dispatch.facts import (
    AppFacts,
    Assignment,
    Candidate,
    HeldResult,
    HostFacts,
    Record,
    Taste,
    VersionFacts,
    WorkRequest,
)
from scheduler.dispatch.rules import estimates, fit, host_limits, lost_results, selection, trust
from scheduler.dispatch.rules.fit import RefusalReason
from scheduler.dispatch.rules.host_limits import Headroom
from scheduler.dispatch.rules.selection import Choice
from scheduler.hosts.facts import HostDescription, Preferences, Report
from scheduler.hosts.machines import Gpu, Machine
from scheduler.lifecycle import Outcome, ResultState
from scheduler.results.rules import reports

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


def an_app(**facts: Any) -> AppFacts:
    known: dict[str, Any] = {
        "id": 1,
        "name": "primes",
        "user_friendly_name": "Prime search",
        "one_result_per": "account",
        "retry_same_account_after": timedelta(0),
    }
    return AppFacts(**(known | facts))


def look(*candidates: Candidate, host: HostFacts | None = None, **facts: Any) -> Choice:
    wishes = facts.pop("work_requests", None) or [facts.pop("wish", WorkRequest(seconds=1))]
    apps = {app.id: app for app in facts.pop("apps", [an_app(**facts.pop("app", {}))])}
    host = host or a_host()
    return selection.choose(
        candidates, host=host, work_requests=wishes, rules=rules_of(apps=apps, **facts)
    )


def rules_of(**facts: Any) -> fit.Rules:
    rules: dict[str, Any] = {
        "apps": {1: an_app()},
        "versions": {1: [a_version()]},
        "headroom": Headroom(1000),
        "today": NOON.date(),
    }
    return fit.Rules(**(rules | facts))


def feasible_count(choice: Choice) -> int:
    return sum(map(len, choice.feasible.values()))


def chosen(choice: Choice, device: str = "") -> list[Assignment]:
    return choice.feasible.get(device, [])


@pytest.mark.parametrize(
    ("facts", "refusal"),
    [
        ({}, None),
        ({"rsc_memory_bound": 1e9}, None),
        ({"rsc_memory_bound": 1e9 + 1}, RefusalReason.MEMORY),
        ({"rsc_disk_bound": 1e10}, None),
        ({"rsc_disk_bound": 1e10 + 1}, RefusalReason.DISK),
        ({"rsc_bandwidth_bound": 1e6}, None),
        ({"rsc_bandwidth_bound": 1e6 + 1}, RefusalReason.BANDWIDTH),
        ({"app_version_num": 99}, RefusalReason.NO_VERSION),
        ({"app_version_num": 100}, None),
        ({"app_version_id": 7}, RefusalReason.COMMITTED),
        ({"app_version_id": 1}, None),
        ({"delay_bound": timedelta(seconds=1)}, None),
        ({"requested_cpus": 4}, None),
        ({"requested_cpus": 4.5}, RefusalReason.CPUS),
    ],
)
def test_a_candidate_fits_or_is_refused_for_one_reason(
    facts: dict[str, Any], refusal: RefusalReason | None
) -> None:
    choice = look(a_candidate(**facts), host=a_host(bandwidth=1e6, ncpus=4))
    assert list(choice.refused) == ([refusal] if refusal else [])
    assert feasible_count(choice) == (refusal is None)
    assert [reason for _, reason, _ in choice.lasting] == list(choice.refused)


def test_refusal_for_lack_of_cpus_names_both_numbers() -> None:
    choice = look(a_candidate(requested_cpus=8), host=a_host(ncpus=2))
    assert choice.example == {
        RefusalReason.CPUS: "Prime search needs 8 CPUs but only 2 are available for use."
    }


def test_requested_cpus_count_against_the_requested_processors() -> None:
    candidates = [
        a_candidate(result_id=n, workunit_id=n, requested_cpus=2, rsc_fpops_est=1e9)
        for n in range(1, 9)
    ]
    wish = WorkRequest(seconds=0, instances=4)
    assert wish.anything
    found = chosen(look(*candidates, host=a_host(ncpus=4), wish=wish))
    assert selection.needed(found, wish, max_results=9) == 2
    plain = [candidate._replace(requested_cpus=0) for candidate in candidates]
    found = chosen(look(*plain, host=a_host(ncpus=4), wish=wish))
    assert selection.needed(found, wish, max_results=9) == 4


def test_requested_cpus_delay_the_results_behind_them() -> None:
    # Each takes 3600 s on one of four CPUs; the third would start after 7200 s instead of 1800 s.
    candidates = [
        a_candidate(
            result_id=n, workunit_id=n, requested_cpus=4, delay_bound=timedelta(seconds=8000)
        )
        for n in range(1, 5)
    ]
    host, wish = a_host(ncpus=4, fpops=1e9), WorkRequest(seconds=1e6)
    assert len(chosen(look(*candidates, host=host, wish=wish))) == 2
    plain = [candidate._replace(requested_cpus=0) for candidate in candidates]
    assert len(chosen(look(*plain, host=host, wish=wish))) == 4


def with_gpus(count: int, **facts: Any) -> HostFacts:
    gpus = (Gpu(kind="nvidia", count=count),) if count else ()
    return a_host(machine=Machine(gpus=gpus), **facts)


def test_workunit_that_requests_gpus_goes_only_to_hosts_with_as_many() -> None:
    version = a_version(device="nvidia", device_count=1.0, plan_class="cuda")
    wish = WorkRequest(device="nvidia", seconds=1, instances=1)
    candidate = a_candidate(requested_gpus=2)

    def choice(count: int) -> Choice:
        return look(candidate, host=with_gpus(count), wish=wish, versions={1: [version]})

    assert list(choice(1).refused) == [RefusalReason.GPUS]
    [assignment] = chosen(choice(2), "nvidia")
    assert selection.queue_growth(60.0, version, with_gpus(2)) == 30.0
    assert selection.needed([assignment] * 3, wish, max_results=9) == 1


def test_version_without_a_gpu_does_not_run_a_workunit_that_requests_gpus() -> None:
    choice = look(a_candidate(requested_gpus=1), host=with_gpus(1))
    assert feasible_count(choice) == 0
    assert list(look(a_candidate(requested_gpus=1), host=with_gpus(0)).refused) == [
        RefusalReason.GPUS
    ]


def test_host_with_unmeasured_bandwidth_is_not_refused() -> None:
    assert feasible_count(look(a_candidate(rsc_bandwidth_bound=1e9), host=a_host(bandwidth=0))) == 1


def test_refusal_without_a_version_for_the_host_names_the_app() -> None:
    choice = look(a_candidate(), versions={})
    assert choice.example == {
        RefusalReason.NO_VERSION: "Prime search is not available for your type of computer."
    }
    assert len(choice.lasting) == 1


@pytest.mark.parametrize(
    ("app", "of_workunit", "of_host", "refusal"),
    [
        ({}, 256, {}, None),
        ({"hr_type": 2}, 0, {2: 256}, None),
        ({"hr_type": 2}, 256, {2: 256}, None),
        ({"hr_type": 2}, 256, {2: 384}, RefusalReason.COMMITTED),
        ({"hr_type": 1}, 257, {1: 257, 2: 256}, None),
        ({"hr_type": 1}, 257, {1: 258, 2: 256}, RefusalReason.COMMITTED),
        ({"hr_type": 2}, 0, {2: 0}, RefusalReason.UNKNOWN_CLASS),
    ],
)
def test_workunit_stays_in_the_hr_class_of_its_first_host(
    app: dict[str, Any], of_workunit: int, of_host: dict[int, int], refusal: RefusalReason | None
) -> None:
    choice = look(a_candidate(hr_class=of_workunit), host=a_host(hr_classes=of_host), app=app)
    assert list(choice.refused) == ([refusal] if refusal else [])


@pytest.mark.parametrize(
    ("queued", "active", "fits"),
    [
        (0, 1.0, True),
        (3600, 1.0, True),
        (86400 - 3600, 1.0, True),
        (86400 - 3599, 1.0, False),
        (86400 - 7200, 0.5, True),
        (86400 - 7199, 0.5, False),
    ],
)
def test_a_queue_must_leave_time_before_the_deadline(
    queued: float, active: float, fits: bool
) -> None:
    choice = look(
        a_candidate(),
        host=a_host(active_fraction=active),
        wish=WorkRequest(seconds=1, queued_seconds=queued),
    )
    assert feasible_count(choice) == fits
    assert choice.lasting == []


def test_already_chosen_results_count_as_queued_time() -> None:
    candidates = [a_candidate(workunit_id=n, result_id=n) for n in range(30)]
    choice = look(*candidates, wish=WorkRequest(seconds=1e9, queued_seconds=3600))
    assert feasible_count(choice) == 23
    assert choice.refused == {RefusalReason.DEADLINE: 7}


@pytest.mark.parametrize(
    ("host", "version", "delay_hours", "fits"),
    [
        ({}, {}, 1, 1),
        ({}, {}, 3, 3),
        ({"ncpus": 4}, {}, 2, 5),
        ({"ncpus": 8}, {"avg_ncpus": 8.0}, 3, 3),
        ({"ncpus": 8}, {"avg_ncpus": 2.0}, 3, 9),
        ({"active_fraction": 0.25}, {}, 12, 3),
    ],
)
def test_results_chosen_in_one_rpc_count_as_queued_on_an_empty_host(
    host: dict[str, Any], version: dict[str, Any], delay_hours: int, fits: int
) -> None:
    """One result takes 1 h, and adds avg_ncpus / ncpus / active fraction hours to the queue."""
    facts = {
        "rsc_fpops_est": 3600e9 * version.get("avg_ncpus", 1),
        "rsc_disk_bound": 1,
        "delay_bound": timedelta(hours=delay_hours),
    }
    choice = look(
        *(a_candidate(workunit_id=n, result_id=n, **facts) for n in range(99)),
        host=a_host(**host),
        wish=WorkRequest(seconds=1e9),
        versions={1: [a_version(**version)]},
    )
    assert feasible_count(choice) == fits
    assert choice.refused == {RefusalReason.DEADLINE: 99 - fits}
    assert choice.saturated == {""}


@pytest.mark.parametrize(("active", "fits"), [(1.0, 7), (0.5, 2)])
def test_gpu_queue_grows_by_the_share_of_gpus_that_a_result_uses(active: float, fits: int) -> None:
    version = a_version(device="nvidia", device_count=0.5)
    facts = {"rsc_disk_bound": 1, "delay_bound": timedelta(minutes=150)}
    choice = look(
        *(a_candidate(workunit_id=n, result_id=n, **facts) for n in range(30)),
        host=a_host(
            gpu_active_fraction=active, machine=Machine(gpus=(Gpu(kind="nvidia", count=2),))
        ),
        wish=WorkRequest(seconds=1e9, device="nvidia"),
        versions={1: [version]},
    )
    assert feasible_count(choice) == fits
    assert choice.saturated == {"nvidia"}


def test_requested_seconds_are_filled_by_estimates_over_the_active_fraction() -> None:
    wish = WorkRequest(seconds=8 * 3600.0)
    candidates = [a_candidate(workunit_id=n, result_id=n, rsc_disk_bound=1) for n in range(30)]
    choice = look(*candidates, host=a_host(active_fraction=0.25), wish=wish)
    assert [each.seconds for each in chosen(choice)][:1] == [4 * 3600.0]
    assert selection.needed(chosen(choice), wish, max_results=30) == 2


def test_judging_stops_once_enough_candidates_are_feasible() -> None:
    facts: dict[str, Any] = {"rsc_disk_bound": 1, "delay_bound": timedelta(days=9)}
    candidates = [a_candidate(workunit_id=n, result_id=n, **facts) for n in range(99)]
    choice = look(*candidates, wish=WorkRequest(seconds=2 * 3600.0))
    assert feasible_count(choice) == 2 + selection.MAX_SPARE + 2 * selection.RIVALS


def test_disk_used_by_chosen_results_causes_only_a_temporary_refusal() -> None:
    candidates = [a_candidate(workunit_id=n, result_id=n, rsc_disk_bound=4e9) for n in range(3)]
    choice = look(*candidates)
    assert feasible_count(choice) == 2
    assert choice.refused == {RefusalReason.DISK_TAKEN: 1}
    assert choice.lasting == []


def test_only_one_result_per_workunit_is_chosen() -> None:
    twins = [a_candidate(result_id=n) for n in range(2)]
    choice = look(*twins)
    assert [a.candidate.result_id for a in chosen(choice)] == [0]
    assert not choice.refused


def test_deprecated_version_runs_only_workunits_pinned_to_it() -> None:
    versions = {1: [a_version(id=2, version_num=90, deprecated=True), a_version(version_num=89)]}
    pinned, free = a_candidate(app_version_num=90), a_candidate(workunit_id=2)
    choice = look(pinned, free, versions=versions)
    assert [a.version.version_num for a in chosen(choice)] == [90, 89]


# Versions


@pytest.mark.parametrize(
    ("versions", "best"),
    [
        ([{"id": 1}, {"id": 2, "version_num": 90}], 1),
        ([{"id": 1, "version_num": 90}, {"id": 2}], 2),
        ([{"id": 1}, {"id": 2, "plan_class": "mt", "projected_flops": 4e9}], 2),
        ([{"id": 1}, {"id": 2, "plan_class": "mt", "projected_flops": 4e9, "unfit": "no"}], 1),
        ([{"id": 1, "et_n": 11, "et_avg": 1e-10}, {"id": 2, "platform": "other"}], 1),
        ([{"id": 1}, {"id": 2, "version_num": 110, "beta": True}], 1),
    ],
    ids=["newest", "newest-last", "faster-plan", "unfit-plan", "measured", "beta"],
)
def test_fastest_of_the_newest_fitting_versions_is_chosen(
    versions: list[dict[str, Any]], best: int
) -> None:
    choice = look(a_candidate(), versions={1: [a_version(**each) for each in versions]})
    assert [a.version.id for a in chosen(choice)] == [best]


@pytest.mark.parametrize(
    ("versions", "ever_chosen"),
    [
        ([{"id": 1}, {"id": 2, "plan_class": "mt"}], {1, 2}),
        ([{"id": 1}, {"id": 2, "plan_class": "mt", "projected_flops": 0.9e9}], {1, 2}),
        ([{"id": 1}, {"id": 2, "plan_class": "mt", "projected_flops": 0.8e9}], {1}),
        ([{"id": 1, "et_n": 99, "et_avg": 1e-9}, {"id": 2, "plan_class": "mt"}], {1, 2}),
        (
            [
                {"id": 1, "et_n": 99, "et_avg": 1e-9},
                {"id": 2, "plan_class": "mt", "et_n": 99, "et_avg": 1.1e-9},
            ],
            {1},
        ),
        ([{"id": 1}, {"id": 2, "platform": "other"}], {1}),
    ],
    ids=["even", "near", "far", "measured-and-not", "both-measured", "one-class"],
)
def test_unmeasured_version_of_similar_speed_is_tried_on_some_days(
    versions: list[dict[str, Any]], ever_chosen: set[int]
) -> None:
    facts = {1: [a_version(**each) for each in versions]}
    days = [NOON.date() + timedelta(days=day) for day in range(60)]
    picks = [chosen(look(a_candidate(), versions=facts, today=day))[0] for day in days]
    assert {pick.version.id for pick in picks} == ever_chosen


def test_beta_version_is_chosen_for_volunteers_who_allow_beta() -> None:
    versions = {1: [a_version(), a_version(id=2, version_num=110, beta=True)]}
    eager = a_host(taste=Taste(allow_beta=True))
    assert chosen(look(a_candidate(), versions=versions, host=eager))[0].version.id == 2


def test_refusal_by_plan_class_gives_its_reason() -> None:
    choice = look(a_candidate(), versions={1: [a_version(plan_class="vm", unfit="Get a VM.")]})
    assert choice.example == {RefusalReason.PLAN_CLASS: "Get a VM."}
    assert len(choice.lasting) == 1


NVIDIA = {"id": 2, "plan_class": "cuda", "device": "nvidia", "device_count": 1.0}


def test_gpu_requests_are_served_before_cpu_requests() -> None:
    versions = {1: [a_version(), a_version(**NVIDIA, projected_flops=1e12)]}
    candidates = [a_candidate(workunit_id=n, result_id=n) for n in range(4)]
    wishes = [WorkRequest(device="nvidia", instances=2), WorkRequest(instances=2)]
    choice = look(*candidates, work_requests=wishes, versions=versions)
    on_gpu = chosen(choice, "nvidia")
    assert [a.version.id for a in on_gpu] == [2, 2, 2, 2]
    assert selection.needed(on_gpu, wishes[0], max_results=10) == 2
    assert [a.candidate.workunit_id for a in chosen(choice, "")] == [2, 3]


def test_work_for_a_device_that_did_not_request_work_is_refused_temporarily() -> None:
    choice = look(a_candidate(), wish=WorkRequest(device="nvidia", instances=1))
    assert choice.refused == {RefusalReason.DEVICE: 1}
    assert choice.lasting == []


def test_non_cpu_intensive_work_is_sent_once_without_a_request() -> None:
    sensors = [a_candidate(workunit_id=n, result_id=n) for n in range(2)]
    headroom = Headroom(10, by_app={1: 1})
    wishes = [WorkRequest(seconds=1), WorkRequest(device=fit.SENSOR)]
    choice = look(
        *sensors, app={"non_cpu_intensive": True}, work_requests=wishes, headroom=headroom
    )
    assert chosen(choice) == []
    assert len(chosen(choice, fit.SENSOR)) == 1


# Trust


def a_record(**facts: Any) -> dict[int, list[VersionFacts]]:
    return {1: [a_version(record=Record(**facts))]}


@pytest.mark.parametrize(
    ("app", "workunit", "row", "replicate"),
    [
        ({}, {}, 0, False),
        ({"target_nresults": 2}, {}, 0, True),
        ({"target_nresults": 2}, {}, 9, True),
        ({"target_nresults": 2}, {"target_nresults": 2}, 0, False),
        ({"target_nresults": 2, "trusted_after": 3}, {}, 10**9, False),
    ],
)
def test_result_of_an_untrusted_host_is_replicated(
    app: dict[str, Any], workunit: dict[str, Any], row: int, replicate: bool
) -> None:
    choice = look(a_candidate(**workunit), app=app, versions=a_record(consecutive_valid=row))
    assert [a.replicate for a in chosen(choice)] == [replicate]


def test_a_trusted_host_is_spot_checked_now_and_then() -> None:
    facts: dict[str, Any] = {"rsc_disk_bound": 1, "delay_bound": timedelta(days=99)}
    candidates = [a_candidate(workunit_id=n, result_id=n, **facts) for n in range(500)]
    choice = look(
        *candidates,
        app={"target_nresults": 2},
        versions=a_record(consecutive_valid=20),
        wish=WorkRequest(seconds=1e12),
    )
    checked = sum(a.replicate for a in chosen(choice))
    assert 10 <= checked <= 45


@pytest.mark.parametrize(
    ("record", "quota", "given"),
    [
        ({}, 0, 8),
        ({}, 3, 3),
        ({"results_today": 2, "quota_day": NOON.date()}, 3, 1),
        ({"results_today": 2, "quota_day": NOON.date() - timedelta(days=1)}, 3, 3),
        ({"max_results_per_day": 1}, 3, 1),
        ({"max_results_per_day": 1, "results_today": 1, "quota_day": NOON.date()}, 3, 0),
    ],
)
def test_daily_quota_limits_the_results_of_a_day(
    record: dict[str, Any], quota: int, given: int
) -> None:
    candidates = [a_candidate(workunit_id=n, result_id=n) for n in range(8)]
    choice = look(*candidates, versions=a_record(**record), daily_quota=quota)
    assert feasible_count(choice) == given
    assert choice.refused == ({RefusalReason.QUOTA: 8 - given} if given < 8 else {})
    assert choice.lasting == []


RELIABLE = {"consecutive_valid": 10, "turnaround_n": 20.0, "turnaround_avg": 60.0}


@pytest.mark.parametrize(
    ("record", "reserved", "hours"),
    [
        ({}, False, 24),
        (RELIABLE, False, 24),
        (RELIABLE, True, 12),
        (RELIABLE | {"turnaround_avg": 7200.0}, True, None),
        ({}, True, None),
    ],
)
def test_retries_are_reserved_for_reliable_hosts_with_a_reduced_deadline(
    record: dict[str, Any], reserved: bool, hours: int | None
) -> None:
    app = {"reliable_max_turnaround": timedelta(hours=1), "reduced_delay": 0.5}
    choice = look(a_candidate(reserved=reserved), app=app, versions=a_record(**record))
    assert [a.delay for a in chosen(choice)] == ([timedelta(hours=hours)] if hours else [])
    assert list(choice.refused) == ([] if hours else [RefusalReason.RESERVED])
    assert choice.lasting == []


def test_reduced_deadline_is_at_least_twice_the_run_time_if_that_fits() -> None:
    app = {"reliable_max_turnaround": timedelta(hours=1), "reduced_delay": 0.1}
    slow = a_candidate(reserved=True, rsc_fpops_est=5 * 3600e9)
    choice = look(slow, app=app, versions=a_record(**RELIABLE))
    assert [a.delay for a in chosen(choice)] == [timedelta(hours=10)]


# Order


def test_order_is_targeted_results_then_priority_then_age() -> None:
    candidates = [
        a_candidate(result_id=1),
        a_candidate(result_id=2),
        a_candidate(result_id=3, priority=9),
        a_candidate(result_id=4, target_kind=1),
    ]
    ordered, disliked = selection.order(candidates, host=a_host(), rules=rules_of(), draw=0.5)
    assert [c.result_id for c in ordered] == [4, 3, 1, 2]
    assert disliked == []


def test_apps_that_the_volunteer_did_not_select_are_excluded() -> None:
    host = a_host(taste=Taste(selected_apps=frozenset({2}), allow_other_apps=False))
    ordered, disliked = selection.order([a_candidate()], host=host, rules=rules_of(), draw=0.5)
    assert ordered == []
    assert ["applications you have selected" in why for _, why in disliked] == [True]


def test_apps_are_chosen_in_proportion_to_their_weights() -> None:
    apps = {1: an_app(weight=3), 2: an_app(id=2, weight=1)}
    firsts = []
    for n in range(1000):
        lanes = [a_candidate(result_id=i, app_id=1 + i % 2) for i in range(8)]
        draw = trust.draw("chance", 1, n)
        ordered, _ = selection.order(lanes, host=a_host(), rules=rules_of(apps=apps), draw=draw)
        firsts.append(ordered[0].app_id)
    assert firsts.count(1) == pytest.approx(750, abs=50)


@pytest.mark.parametrize(
    ("app", "facts", "first"),
    [
        ({"locality": True}, [{}, {"is_near": True}], 2),
        ({"n_size_classes": 2, "size_bounds": [5e8]}, [{"size_class": 0}, {"size_class": 1}], 2),
        ({"n_size_classes": 2, "size_bounds": [5e9]}, [{"size_class": 1}, {"size_class": 0}], 2),
        ({}, [{"keywords": "3"}, {"keywords": "4,7"}], 2),
    ],
    ids=["near-files", "large-for-fast", "small-for-slow", "liked-keyword"],
)
def test_best_scored_candidate_for_host_and_volunteer_is_first(
    app: dict[str, Any], facts: list[dict[str, Any]], first: int
) -> None:
    host = a_host(taste=Taste(likes=frozenset({7})))
    candidates = [a_candidate(result_id=n, **each) for n, each in enumerate(facts, start=1)]
    ordered, _ = selection.order(
        candidates, host=host, rules=rules_of(apps={1: an_app(**app)}), draw=0.5
    )
    assert ordered[0].result_id == first


# Limits on the number of results


@pytest.mark.parametrize(
    ("wish", "room", "count"),
    [
        (WorkRequest(seconds=1), 10, 1),
        (WorkRequest(instances=1), 10, 1),
        (WorkRequest(seconds=3600), 10, 1),
        (WorkRequest(seconds=3601), 10, 2),
        (WorkRequest(seconds=1, instances=3), 10, 3),
        (WorkRequest(seconds=1e9), 4, 4),
        (WorkRequest(seconds=1e9), 0, 0),
        (WorkRequest(), 10, 0),
    ],
)
def test_results_are_sent_until_the_work_request_is_met(
    wish: WorkRequest, room: int, count: int
) -> None:
    feasible = chosen(look(*[a_candidate(workunit_id=n, result_id=n) for n in range(8)]))
    assert selection.needed(feasible, wish, max_results=room) == count


@given(st.floats(0, 1e7), st.floats(0, 64), st.integers(0, 50))
def test_number_of_needed_results_never_exceeds_the_headroom(
    seconds: float, instances: float, room: int
) -> None:
    feasible = chosen(look(*[a_candidate(workunit_id=n, result_id=n) for n in range(20)]))
    wish = WorkRequest(seconds=seconds, instances=instances)
    assert 0 <= selection.needed(feasible, wish, max_results=room) <= min(room, 20)


@pytest.mark.parametrize(
    ("facts", "room"),
    [
        ({}, 2),
        ({"held_counts": {(1, 1): 2, (2, 2): 1}}, 1),
        ({"held_counts": {(1, 1): 4}}, 0),
        ({"held_counts": {(1, None): 9}}, 0),
        ({"max_in_progress": 1}, 1),
        ({"max_in_progress": 0}, 0),
        ({"taste": Taste(max_held=1)}, 1),
        ({"ncpus": 3}, 6),
        ({"machine": Machine(gpus=(Gpu(kind="nvidia", count=2),))}, 6),
    ],
)
def test_headroom_is_limited_per_rpc_and_by_results_in_progress(
    facts: dict[str, Any], room: int
) -> None:
    config = ProjectConfig(max_results_per_rpc=2, max_in_progress_per_cpu=4)
    assert host_limits.headroom_for(a_host(**facts), config, apps=[], versions={}).total == room


@pytest.mark.parametrize(
    ("app", "held", "cpu", "gpu"),
    [
        ({}, {}, host_limits.UNLIMITED, host_limits.UNLIMITED),
        ({"max_in_progress_per_cpu": 3}, {(1, 1): 1}, 5, host_limits.UNLIMITED),
        ({"max_in_progress_per_gpu": 3}, {(1, 2): 1}, host_limits.UNLIMITED, 5),
        ({"max_in_progress_per_host": 3}, {(1, 1): 1, (1, 2): 1}, 1, 1),
        ({"max_in_progress_per_cpu": 1}, {(2, 1): 9}, 2, host_limits.UNLIMITED),
        ({"non_cpu_intensive": True}, {}, 1, 1),
        ({"non_cpu_intensive": True}, {(1, 1): 1}, 0, 0),
    ],
)
def test_app_limits_results_in_progress_per_cpu_per_gpu_and_per_host(
    app: dict[str, Any], held: dict[tuple[int, int | None], int], cpu: int, gpu: int
) -> None:
    machine = Machine(gpus=(Gpu(kind="nvidia", count=2),))
    host = a_host(ncpus=2, machine=machine, held_counts=held)
    versions = {1: a_version(), 2: a_version(**NVIDIA)}
    headroom = host_limits.headroom_for(
        host, ProjectConfig(), apps=[an_app(**app)], versions=versions
    )
    assert (headroom.left(1, on_gpu=False), headroom.left(1, on_gpu=True)) == (cpu, gpu)


def test_chosen_results_use_up_the_headroom() -> None:
    candidates = [a_candidate(workunit_id=n, result_id=n) for n in range(3)]
    choice = look(*candidates, headroom=Headroom(10, by_device={(1, False): 2}))
    assert feasible_count(choice) == 2
    assert choice.refused == {RefusalReason.IN_PROGRESS_LIMIT: 1}


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
def test_speed_of_a_version_is_its_measurement_or_the_host_benchmark(
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
def test_usable_disk_is_the_strictest_of_the_limits(
    prefs: dict[str, float], expected: float
) -> None:
    host = HostDescription(d_free=100e9, d_total=200e9)
    assert estimates.usable_disk(host, Preferences(**prefs)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("nbytes", "busy", "idle", "expected"),
    [(8e9, 50, 90, 7.2e9), (8e9, 0, 0, 8e9), (0, 50, 90, 64e6)],
)
def test_usable_memory_follows_the_preferences(
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
def test_report_outcome_follows_client_state_and_exit_status(
    state: int, exit_status: int, outcome: Outcome
) -> None:
    report = Report(name="x", client_state=state, exit_status=exit_status)
    assert reports.outcome(report) is outcome


@pytest.mark.parametrize("state", list(ResultState))
def test_report_is_accepted_only_in_progress_or_after_timeout_and_from_the_owner(
    state: ResultState,
) -> None:
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
def test_impossible_cpu_and_elapsed_times_are_corrected(
    cpu: float, elapsed: float, ncpus: int, expected: tuple[float, float]
) -> None:
    report = Report(name="x", client_state=5, exit_status=0, cpu_time=cpu, elapsed_time=elapsed)
    sent_at = NOON - timedelta(minutes=1)
    assert reports.sane_times(report, ncpus=ncpus, sent_at=sent_at, now=NOON) == expected


def test_reported_times_are_kept_if_the_server_clock_was_set_back() -> None:
    report = Report(name="x", client_state=5, exit_status=0, cpu_time=5, elapsed_time=10)
    sent_at = NOON + timedelta(hours=1)
    assert reports.sane_times(report, ncpus=1, sent_at=sent_at, now=NOON) == (5, 10)


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
        "acknowledged": True,
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
        ({"resent_count": lost_results.MAX_RESENDS}, False, "give_up"),
        ({"state": int(ResultState.NO_REPLY)}, False, ""),
        ({"host_id": 2}, False, ""),
    ],
)
def test_answer_for_a_held_result(facts: dict[str, Any], listed: bool, said: str) -> None:
    names = ["w_0"] if listed else []
    holdings = lost_results.review([a_held(**facts)], host_id=1, listed=names, reported=[])
    found = {
        kind: len(getattr(holdings, kind))
        for kind in ("abort", "abort_if_not_started", "resend", "give_up")
    }
    assert {kind for kind, count in found.items() if count} == ({said} if said else set())


def test_unacknowledged_results_count_as_held() -> None:
    known = [
        a_held("listed_0"),
        a_held("new_0", id=2, acknowledged=False),
        a_held("lost_0", id=3, acknowledged=False, app_version_id=2),
        a_held("over_0", id=4, state=int(ResultState.SUCCESS)),
    ]
    holdings = lost_results.review(known, host_id=1, listed=["listed_0", "new_0"], reported=[])
    assert holdings.held_counts == {(1, 1): 2, (1, 2): 1}
    assert holdings.acknowledge == [2]


def test_a_result_reported_in_the_same_request_is_not_lost() -> None:
    holdings = lost_results.review([a_held()], host_id=1, listed=[], reported=["w_0"])
    assert holdings.resend == []


def test_lost_result_keeps_its_deadline_while_it_can_be_met() -> None:
    held = a_held()
    assert lost_results.new_deadline(held, now=NOON) == held.report_deadline
    late = NOON + timedelta(hours=23, minutes=59, seconds=30)
    assert lost_results.new_deadline(held, now=late) == late + held.delay_bound


def test_lost_result_gets_a_new_deadline_if_the_host_is_active_too_rarely() -> None:
    held = a_held(seconds=3600.0)
    now = held.report_deadline - timedelta(hours=3)
    assert lost_results.new_deadline(held, now=now, active_fraction=0.5) == held.report_deadline
    assert lost_results.new_deadline(held, now=now, active_fraction=0.25) == now + held.delay_bound


def test_lost_result_gets_a_new_deadline_if_the_host_queue_is_too_long() -> None:
    held = a_held(seconds=3600.0)
    now = held.report_deadline - timedelta(hours=3)
    assert lost_results.new_deadline(held, now=now, queued_seconds=7200.0) == held.report_deadline
    assert lost_results.new_deadline(held, now=now, queued_seconds=7201.0) == now + held.delay_bound


def test_a_lost_result_that_would_miss_a_new_deadline_too_is_not_sent_again() -> None:
    held = a_held(seconds=3600.0)
    assert lost_results.new_deadline(held, now=NOON, queued_seconds=23 * 3600.0) is not None
    assert lost_results.new_deadline(held, now=NOON, queued_seconds=23 * 3600.0 + 1) is None


def test_lost_result_is_always_resent_to_a_host_with_an_empty_queue() -> None:
    held = a_held(seconds=48 * 3600.0)
    assert lost_results.new_deadline(held, now=NOON) == NOON + held.delay_bound


@pytest.mark.parametrize(
    ("ncpus", "avg_ncpus", "growth"), [(1, 1.0, 60.0), (8, 1.0, 7.5), (8, 4.0, 30.0)]
)
def test_queue_grows_by_the_share_of_cpus_that_a_result_uses(
    ncpus: int, avg_ncpus: float, growth: float
) -> None:
    version = VersionFacts(id=1, app_id=1, version_num=100, platform="linux", avg_ncpus=avg_ncpus)
    host = HostFacts(id=1, account_id=1, ncpus=ncpus)
    assert selection.queue_growth(60.0, version, host) == growth
