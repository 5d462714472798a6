"""Caching the checks of candidates of one kind does not change verdicts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from scheduler.dispatch.facts import AppFacts, Candidate, HostFacts, Record, VersionFacts
from scheduler.dispatch.rules.fit import SENSOR, Judge, Rules
from scheduler.dispatch.rules.host_limits import Headroom

TODAY = datetime(2026, 1, 1, tzinfo=UTC).date()

apps = st.builds(
    AppFacts,
    id=st.just(1),
    name=st.just("primes"),
    one_result_per=st.just("account"),
    retry_same_account_after=st.just(timedelta(0)),
    hr_type=st.sampled_from([0, 1]),
    daily_quota=st.sampled_from([None, 0, 3]),
    target_nresults=st.sampled_from([1, 2]),
    trusted_after=st.sampled_from([1, 10]),
    reliable_max_turnaround=st.sampled_from([None, timedelta(hours=1)]),
    non_cpu_intensive=st.booleans(),
)
records = st.builds(
    Record,
    consecutive_valid=st.sampled_from([0, 10, 50]),
    turnaround_n=st.sampled_from([0.0, 20.0]),
    turnaround_avg=st.sampled_from([60.0, 9e9]),
)
versions = st.builds(
    VersionFacts,
    id=st.sampled_from([1, 2, 3]),
    app_id=st.just(1),
    version_num=st.sampled_from([100, 101]),
    platform=st.just("linux"),
    plan_class=st.sampled_from(["", "cuda"]),
    device=st.sampled_from(["", "nvidia"]),
    unfit=st.sampled_from(["", "Get a driver."]),
    record=records,
)
candidates = st.builds(
    Candidate,
    result_id=st.integers(1, 10**6),
    workunit_id=st.integers(1, 10**6),
    priority=st.integers(0, 3),
    app_id=st.just(1),
    rsc_fpops_est=st.sampled_from([1e9, 3600e9]),
    rsc_memory_bound=st.sampled_from([1e8, 9e9]),
    rsc_disk_bound=st.sampled_from([1e8, 4e9, 2e10]),
    delay_bound=st.sampled_from([timedelta(minutes=5), timedelta(days=1)]),
    rsc_bandwidth_bound=st.sampled_from([0.0, 1e9]),
    hr_class=st.sampled_from([0, 256, 384]),
    app_version_id=st.sampled_from([None, None, 2]),
    app_version_num=st.sampled_from([0, 0, 101]),
    target_nresults=st.sampled_from([1, 2]),
    requested_cpus=st.sampled_from([0.0, 0.0, 2.0, 8.0]),
    requested_gpus=st.sampled_from([0.0, 0.0, 1.0]),
    reserved=st.booleans(),
)
hosts = st.builds(
    HostFacts,
    id=st.just(7),
    account_id=st.just(1),
    memory_bytes=st.just(1e9),
    disk_bytes=st.just(1e10),
    bandwidth=st.sampled_from([0.0, 1e6]),
    hr_classes=st.sampled_from([{1: 256}, {1: 0}]),
)


class Forgetful(Judge):
    """A judge that clears its cache before each candidate."""

    def judge(self, candidate, device, queued):
        self._kinds.clear()
        return super().judge(candidate, device, queued)


@given(
    host=hosts,
    app=apps,
    of_app=st.lists(versions, max_size=3, unique_by=lambda version: version.id),
    page=st.lists(candidates, min_size=1, max_size=12),
    device=st.sampled_from(["", "nvidia", SENSOR]),
    queued=st.sampled_from([0.0, 80_000.0]),
    room=st.sampled_from([3, 1000]),
)
def test_cache_of_equal_candidates_changes_no_verdict(
    host, app, of_app, page, device, queued, room
) -> None:
    def verdicts(judge_class):
        rules = Rules(
            apps={1: app},
            versions={1: of_app},
            headroom=Headroom(1000, by_app={1: room}),
            today=TODAY,
            daily_quota=4,
            chance_key="chance",
        )
        judge = judge_class(host, rules)
        return [judge.judge(each, device, queued) for each in page]

    assert verdicts(Judge) == verdicts(Forgetful)
