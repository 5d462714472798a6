"""The rules of choosing work, tested by requests of clients."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone

from scheduler import storage
from scheduler.boinc.wire import messages
from scheduler.health import maintenance
from scheduler.lifecycle import ServerState
from scheduler.models import (
    Account,
    App,
    AppVersion,
    Host,
    HostAppVersion,
    PlanClass,
    Platform,
    Refusal,
    Result,
    Team,
    Workunit,
    WorkunitFile,
)
from scheduler.models import File as FileRow
from tests import rows
from tests.scripted_client import LINUX, ScriptedClient, a_client
from tests.work import an_app, workunits

pytestmark = pytest.mark.django_db

INTEL = {"p_vendor": "GenuineIntel", "p_model": "Intel(R) Core(TM) i7", "os_name": "Linux"}
ARM = {"p_vendor": "ARM", "p_model": "ARMv8", "os_name": "Linux"}
NVIDIA = messages.Coproc(
    type="NVIDIA",
    count=1,
    name="RTX",
    have_cuda=True,
    cuda_version=12040,
    driver_version=53518,
    compute_capability_major=8,
    compute_capability_minor=6,
    total_memory=8e9,
    available_ram=8e9,
    peak_flops=1e13,
    req_secs=1.0,
    req_instances=1.0,
)


def attached(email: str = "ada@example.org", **facts: Any) -> ScriptedClient:
    client = a_client(email=email, name=email)
    client.ask(**facts)
    return client


def on(hardware: dict[str, str]) -> dict[str, Any]:
    return {
        "host_info": messages.HostInfo(
            p_ncpus=4, m_nbytes=8e9, d_free=1e11, d_total=2e11, p_fpops=1e9, **hardware
        )
    }


def texts(reply: messages.SchedulerReply) -> list[str]:
    return [message.text for message in reply.messages]


def record_of(client: ScriptedClient) -> HostAppVersion:
    return HostAppVersion.objects.get(host_id=client.hostid)


def prefer(email: str, xml: str) -> None:
    Account.objects.filter(email=email).update(project_prefs=xml)


# Homogeneous redundancy


def test_second_result_is_sent_only_to_a_host_of_the_same_hr_class() -> None:
    workunits(an_app(hr_type=2), 1, results=2)
    first, other, like = (attached(f"{n}@example.org") for n in "abc")
    assert first.ask(cpu_req_secs=1, **on(INTEL)).results
    refused = other.ask(cpu_req_secs=1, **on(ARM))
    assert refused.results == ()
    assert "Tasks are committed to other platforms" in texts(refused)
    assert like.ask(cpu_req_secs=1, **on(INTEL)).results


def test_host_of_unknown_hr_class_gets_no_work_of_an_app_with_hr() -> None:
    workunits(an_app(hr_type=2), 1)
    reply = attached().ask(
        cpu_req_secs=1, **on({"p_vendor": "", "p_model": "", "os_name": "Plan 9"})
    )
    assert reply.results == ()
    assert "Your computer type is not supported by this project" in texts(reply)


def test_all_results_use_the_same_version_with_homogeneous_app_version() -> None:
    app = an_app(homogeneous_app_version=True)
    (workunit,) = workunits(app, 1, results=2)
    first, second = attached("a@example.org"), attached("b@example.org")
    assert first.ask_for_work()
    old = app.versions.get()
    an_app(version_num=200)
    reply = second.ask(cpu_req_secs=1)
    assert [result.version_num for result in reply.results] == [old.version_num]
    workunit.refresh_from_db()
    assert workunit.app_version_id == old.pk


# Adaptive replication


def test_workunit_sent_to_an_untrusted_host_is_replicated() -> None:
    (workunit,) = workunits(an_app(target_nresults=2), 1)
    assert attached().ask_for_work()
    workunit.refresh_from_db()
    assert (workunit.target_nresults, workunit.min_quorum) == (2, 2)
    assert rows.due_at(workunit) is not None


def test_workunit_sent_to_a_trusted_host_gets_a_quorum_of_one() -> None:
    app = an_app(target_nresults=2, trusted_after=10)
    client = attached()
    HostAppVersion.objects.create(
        host_id=client.hostid, app_version=app.versions.get(), consecutive_valid=10**9
    )
    (workunit,) = workunits(app, 1)
    assert client.ask_for_work()
    workunit.refresh_from_db()
    assert (workunit.target_nresults, workunit.min_quorum) == (1, 1)


# Quotas


def test_errors_reduce_the_daily_quota_and_reset_consecutive_valid() -> None:
    app = an_app(daily_quota=8)
    workunits(app, 40)
    client = attached()
    names = client.ask_for_work(seconds=1e9)
    record = record_of(client)
    assert (record.results_today, record.max_results_per_day) == (len(names), 0)
    HostAppVersion.objects.update(consecutive_valid=7)
    client.report(*names[:3], upload=None, state=3, exit_status=1)
    record = record_of(client)
    assert (record.max_results_per_day, record.consecutive_valid) == (1, 0)
    reply = client.ask(cpu_req_secs=1e9)
    assert reply.results == ()
    assert any("finished a daily quota of" in text for text in texts(reply))


def test_result_aborted_by_the_project_does_not_reduce_the_quota() -> None:
    workunits(an_app(daily_quota=8), 1)
    client = attached()
    client.report(*client.ask_for_work(), upload=None, state=6, exit_status=202)
    assert record_of(client).max_results_per_day == 0


def test_daily_quota_of_the_project_applies_if_the_app_has_none(settings: Any) -> None:
    from dataclasses import replace

    settings.PROJECT = replace(settings.PROJECT, daily_quota=1)
    workunits(an_app(), 9)
    client = attached()
    assert len(client.ask_for_work(seconds=1e9)) == 1
    assert client.ask_for_work(seconds=1e9) == []


# In-progress limits


def test_unacknowledged_assignments_count_in_limits() -> None:
    workunits(an_app(max_in_progress_per_host=2), 5)
    client = attached()
    assert len(client.ask_for_work(seconds=1e9)) == 2
    Result.objects.filter(server_state=4).update(resent_count=0)
    client.held = []
    reply = client.ask(cpu_req_secs=1e9)
    assert len(reply.results) == 2
    assert Result.objects.filter(server_state=ServerState.IN_PROGRESS).count() == 2


def test_a_result_is_acknowledged_when_the_client_lists_it() -> None:
    workunits(an_app(), 1)
    client = attached()
    client.ask_for_work()
    assert Result.objects.get().acknowledged_at is None
    client.ask()
    assert Result.objects.get().acknowledged_at is not None


# Devices and plan classes


def a_cuda_version(app: App, **spec: Any) -> AppVersion:
    PlanClass.objects.create(
        name="cuda", spec={"cuda": True, "gpu_type": "nvidia", **spec}, created_at=timezone.now()
    )
    version = app.versions.get()
    files = list(version.files.all())
    made = AppVersion.objects.create(
        app=app,
        platform=Platform.objects.get(name=LINUX),
        version_num=100,
        plan_class="cuda",
        created_at=timezone.now(),
    )
    for file in files:
        file.pk = None
        file.app_version = made
        file.save()
    return made


def test_gpu_version_is_sent_first_with_its_gpu_usage() -> None:
    app = an_app()
    a_cuda_version(app)
    workunits(app, 3)
    reply = attached().ask(cpu_req_secs=1, coprocs=(NVIDIA,))
    plans = [result.plan_class for result in reply.results]
    assert plans == ["cuda", ""], (texts(reply), list(Refusal.objects.values()))
    (version,) = [v for v in reply.app_versions if v.plan_class == "cuda"]
    assert [(one.type, one.count) for one in version.coprocs] == [("NVIDIA", 1.0)]


def test_workunit_that_requests_gpus_is_sent_with_their_number() -> None:
    app = an_app()
    a_cuda_version(app)
    workunits(app, 1, requested_gpus=2, requested_cpus=0.5)
    client = attached()
    assert client.ask(cpu_req_secs=1, coprocs=(NVIDIA,)).results == ()
    two = replace(NVIDIA, count=2)
    reply = client.ask(cpu_req_secs=1, coprocs=(two,))
    assert [result.plan_class for result in reply.results] == ["cuda"]
    (sent,) = reply.workunits
    assert sent.avg_ncpus == 0.5
    assert [(one.type, one.count) for one in sent.coprocs] == [("NVIDIA", 2.0)]
    assert sent.flops == reply.app_versions[0].flops
    assert [refusal.reason for refusal in Refusal.objects.all()] == ["gpus"]


def test_host_without_a_gpu_gets_a_message_if_only_gpu_versions_exist() -> None:
    app = an_app()
    version = a_cuda_version(app)
    app.versions.exclude(pk=version.pk).update(deprecated=True)
    workunits(app, 1)
    reply = attached().ask(cpu_req_secs=1)
    assert reply.results == ()
    (refusal,) = Refusal.objects.all()
    assert refusal.reason == "plan_class"
    assert refusal.sentence in texts(reply)


def test_gpu_disabled_in_the_preferences_gets_no_work() -> None:
    app = an_app()
    a_cuda_version(app)
    workunits(app, 3)
    client = attached()
    prefer("ada@example.org", "<no_cuda>1</no_cuda>")
    reply = client.ask(cpu_req_secs=1, coprocs=(NVIDIA,))
    assert [result.plan_class for result in reply.results] == [""]


# Requested CPUs


def test_workunit_is_sent_only_to_a_host_with_the_requested_cpus() -> None:
    workunits(an_app(), 1, requested_cpus=8)
    small, large = attached("a@example.org"), attached("b@example.org")
    refused = small.ask(cpu_req_secs=1)
    assert refused.results == ()
    assert "upper needs 8 CPUs but only 4 are available for use." in texts(refused)
    assert [refusal.reason for refusal in Refusal.objects.all()] == ["cpus"]
    large.ncpus = 8
    reply = large.ask(cpu_req_secs=1)
    assert [workunit.avg_ncpus for workunit in reply.workunits] == [8.0]
    # A lost result is sent again with the same request.
    large.held = []
    again = large.ask(cpu_req_secs=1)
    assert [workunit.avg_ncpus for workunit in again.workunits] == [8.0]


def test_workunit_without_a_request_is_sent_without_resource_usage() -> None:
    workunits(an_app(), 1)
    (workunit,) = attached().ask(cpu_req_secs=1).workunits
    assert (workunit.avg_ncpus, workunit.flops, workunit.coprocs) == (None, None, ())


def test_requested_cpus_count_for_the_processors_that_a_client_requests() -> None:
    workunits(an_app(), 4, requested_cpus=2)
    assert len(attached().ask(cpu_req_secs=0, cpu_req_instances=4).results) == 2


# Targeted work


def aim(workunit: Workunit, kind: int, target: int, **columns: Any) -> None:
    Workunit.objects.filter(pk=workunit.pk).update(**columns)
    Result.objects.filter(workunit=workunit).update(target_kind=kind, target_id=target)


def test_targeted_workunits_are_sent_only_to_the_target_and_first() -> None:
    app = an_app()
    mine, other = attached("a@example.org"), attached("b@example.org")
    team = Team.objects.create(name="T", created_at=timezone.now())
    Account.objects.filter(email="a@example.org").update(team=team)
    account = Account.objects.get(email="a@example.org")
    for_all, for_host, for_account, for_team = workunits(app, 4)
    aim(for_host, 1, mine.hostid, target_host_id=mine.hostid)
    aim(for_account, 2, account.pk, target_account=account)
    aim(for_team, 3, team.pk, target_team=team)
    got = other.ask_for_work(seconds=1e9)
    assert got == [f"{for_all.name}_0"]
    names = {f"{one.name}_0" for one in (for_host, for_account, for_team)}
    assert set(mine.ask_for_work(seconds=1e9)) == names


def test_broadcast_workunit_is_sent_to_every_host_once() -> None:
    app = an_app(validator="trivial")
    end = timezone.now() + timedelta(days=1)
    (workunit,) = workunits(app, 1, results=1, broadcast=True, end_before=end)
    Result.objects.all().delete()
    first, second = attached("a@example.org"), attached("b@example.org")
    assert first.ask_for_work() == [f"{workunit.name}_0"]
    assert second.ask_for_work() == [f"{workunit.name}_1"]
    assert first.ask_for_work() == []
    assert Result.objects.count() == 2


def test_non_cpu_intensive_result_is_sent_without_a_work_request() -> None:
    workunits(an_app(non_cpu_intensive=True), 3)
    client = a_client()
    assert len(client.ask().results) == 1
    assert client.ask(cpu_req_secs=1e6).results == ()


# Volunteers' preferences


@pytest.mark.parametrize(
    ("prefs", "given"),
    [
        ("", ["one"]),
        ("<app_id>{one}</app_id>", ["one"]),
        ("<app_id>{two}</app_id>", ["two"]),
        ("<app_id>{two}</app_id><allow_non_preferred_apps>1</allow_non_preferred_apps>", ["two"]),
    ],
)
def test_work_of_the_apps_selected_in_the_preferences_is_sent(prefs: str, given: list[str]) -> None:
    one, two = an_app("one"), an_app("two")
    workunits(one, 1)
    if "allow" in prefs or not prefs or "{one}" in prefs:
        workunits(two, 1)
        Result.objects.filter(app=two).update(priority=0)
    else:
        workunits(two, 1)
    client = attached()
    prefer("ada@example.org", prefs.format(one=one.pk, two=two.pk))
    if not prefs:
        App.objects.filter(pk=two.pk).update(weight=0)
    names = client.ask_for_work()
    assert [name.split("_")[0] for name in names] == given


def test_urgent_results_are_sent_before_a_long_queue() -> None:
    app = an_app()
    workunits(app, 200)
    (urgent,) = workunits(app, 1, priority=7)
    assert attached().ask_for_work() == [f"{urgent.name}_0"]


def test_a_volunteer_who_selected_other_apps_gets_a_message() -> None:
    workunits(an_app("one"), 1)
    client = attached()
    prefer("ada@example.org", "<app_id>999</app_id>")
    reply = client.ask(cpu_req_secs=1)
    assert reply.results == ()
    assert any("applications you have selected" in text for text in texts(reply))


def test_beta_app_work_is_sent_only_if_the_volunteer_allows_it() -> None:
    workunits(an_app(beta=True), 1)
    client = attached()
    assert client.ask_for_work() == []
    prefer("ada@example.org", "<allow_beta_work>1</allow_beta_work>")
    assert len(client.ask_for_work()) == 1


def test_max_jobs_preference_limits_results_in_progress() -> None:
    workunits(an_app(), 9)
    client = attached()
    prefer("ada@example.org", "<max_jobs>2</max_jobs>")
    assert len(client.ask_for_work(seconds=1e9)) == 2
    assert client.ask_for_work(seconds=1e9) == []


def test_work_with_a_rejected_keyword_is_not_sent() -> None:
    workunits(an_app(), 1, keywords="12")
    client = attached()
    no = messages.UserKeywords(no=(12,))
    assert client.ask(cpu_req_secs=1, user_keywords=no).results == ()
    assert client.ask(cpu_req_secs=1).results


# Suitable work first


def test_work_with_sticky_files_that_the_host_has_is_sent_first() -> None:
    app = an_app(locality=True)
    made = workunits(app, 200)
    staged = storage.stage_bytes(b"a large map")
    file = FileRow.objects.create(
        name="map_1",
        sha256=staged.digest.sha256,
        md5=staged.digest.md5,
        nbytes=11,
        created_at=timezone.now(),
    )
    storage.publish(staged, "map_1")
    WorkunitFile.objects.create(
        workunit=made[-1], file=file, position=0, open_name="map", sticky=True
    )
    client = attached()
    sticky = (messages.StickyFile(name="map_1", nbytes=11, status=1),)
    reply = client.ask(cpu_req_secs=1, sticky_files=sticky)
    assert [result.wu_name for result in reply.results] == [made[-1].name]


def test_sticky_file_of_the_host_stays_sticky_when_a_workunit_uses_it() -> None:
    (workunit,) = workunits(an_app(), 1)
    file = FileRow.objects.create(
        name="map_1", sha256="a" * 64, md5="b" * 32, nbytes=11, created_at=timezone.now()
    )
    WorkunitFile.objects.create(workunit=workunit, file=file, position=0, open_name="map")
    sticky = (messages.StickyFile(name="map_1", nbytes=11, status=1),)
    reply = attached().ask(cpu_req_secs=1, sticky_files=sticky)
    assert [one.sticky for one in reply.files if one.name == "map_1"] == [True]


def test_retry_is_sent_only_to_a_reliable_host_with_half_the_delay_bound() -> None:
    app = an_app(reliable_max_turnaround=timedelta(hours=1))
    workunits(app, 1)
    Result.objects.update(reliable_until=timezone.now() + timedelta(hours=1))
    client = attached()
    assert client.ask_for_work() == []
    HostAppVersion.objects.update_or_create(
        host_id=client.hostid,
        app_version=app.versions.get(),
        defaults={"consecutive_valid": 20, "turnaround_n": 20, "turnaround_avg": 60},
    )
    assert len(client.ask_for_work()) == 1
    result = Result.objects.get()
    assert result.report_deadline is not None
    assert result.sent_at is not None
    assert result.report_deadline - result.sent_at == timedelta(days=3.5)


def test_retry_is_sent_to_any_host_after_reliable_until() -> None:
    workunits(an_app(reliable_max_turnaround=timedelta(hours=1)), 1)
    Result.objects.update(reliable_until=timezone.now() - timedelta(seconds=1))
    assert len(attached().ask_for_work()) == 1


# Stored refusals


def test_repeated_refusal_of_a_workunit_is_stored_once_per_host() -> None:
    workunits(an_app(), 2, rsc_memory_bound=16e9)
    client = attached()
    for _ in range(3):
        client.ask(cpu_req_secs=1)
    assert Refusal.objects.count() == 2
    (first, *_rest) = Host.objects.get().last_decisions
    assert first["refused"] == {"memory": 2}
    assert first["given"] == 0
    assert "MB RAM but only" in first["sentences"]["memory"]


def test_last_five_scheduling_decisions_are_stored_newest_first() -> None:
    workunits(an_app(), 3)
    client = attached()
    for _ in range(7):
        client.ask_for_work()
    decisions = Host.objects.get().last_decisions
    assert len(decisions) == 5
    assert [one["given"] for one in decisions] == [0, 0, 0, 0, 1]


def test_app_without_a_version_for_the_platform_stores_a_refusal() -> None:
    workunits(an_app(), 1)
    client = a_client(platform="windows_x86_64")
    client.ask()
    client.ask(cpu_req_secs=1)
    (refusal,) = Refusal.objects.all()
    assert refusal.reason == "no_version"


def test_results_sent_today_are_counted_and_reset_the_next_day() -> None:
    workunits(an_app(), 9)
    client = attached()
    client.ask_for_work()
    client.ask_for_work()
    assert record_of(client).results_today == 2
    HostAppVersion.objects.update(quota_day=timezone.now().date() - timedelta(days=1))
    client.ask_for_work()
    assert record_of(client).results_today == 1


def test_repeated_refusal_keeps_the_time_of_the_first_refusal() -> None:
    app = an_app()
    workunits(app, 1, rsc_memory_bound=1e15)
    client = attached()
    assert client.ask(cpu_req_secs=1).results == ()
    (first,) = Refusal.objects.all()
    assert (first.at, first.counts_at_once) == (first.first_at, False)
    earlier = first.at - timedelta(hours=25)
    Refusal.objects.update(first_at=earlier, at=earlier)
    assert client.ask(cpu_req_secs=1).results == ()
    (again,) = Refusal.objects.all()
    assert again.first_at == earlier
    assert again.at > first.at


def test_no_version_refusal_counts_at_once_only_if_other_platforms_have_a_version() -> None:
    AppVersion.objects.all().delete()
    app = App.objects.create(name="elsewhere", created_at=timezone.now())
    workunits(app, 1)
    client = attached()
    assert client.ask(cpu_req_secs=1).results == ()
    assert not Refusal.objects.get().counts_at_once
    windows = Platform.objects.create(name="windows_x86_64")
    AppVersion.objects.create(app=app, platform=windows, version_num=100, created_at=timezone.now())
    before = Refusal.objects.get()
    assert client.ask(cpu_req_secs=1).results == ()
    again = Refusal.objects.get()
    assert again.counts_at_once
    assert again.first_at == before.first_at


@pytest.mark.parametrize(
    ("spec", "at_once"), [({"os_regex": "Plan 9"}, True), ({"docker": True}, False), (None, False)]
)
def test_plan_class_refusal_counts_at_once_only_if_the_host_can_never_fit(
    spec: dict[str, Any] | None, at_once: bool
) -> None:
    app = an_app()
    app.versions.update(plan_class="special")
    if spec is not None:
        PlanClass.objects.create(name="special", spec=spec, created_at=timezone.now())
    workunits(app, 1)
    assert attached().ask(cpu_req_secs=1).results == ()
    refusal = Refusal.objects.get()
    assert (refusal.reason, refusal.counts_at_once) == ("plan_class", at_once)


def test_host_gets_no_more_work_than_it_can_report_before_the_deadline() -> None:
    workunits(an_app(), 15, delay_bound=timedelta(hours=1), rsc_fpops_est=3600e9)
    client = attached()
    computer = messages.HostInfo(p_ncpus=1, m_nbytes=8e9, d_free=1e11, d_total=2e11, p_fpops=1e9)
    reply = client.ask(cpu_req_secs=0.6 * 86400, cpu_req_instances=1, host_info=computer)
    assert len(reply.results) == 1


def test_host_with_low_availability_is_refused_work_it_would_report_late() -> None:
    workunits(an_app(), 1, delay_bound=timedelta(hours=2), rsc_fpops_est=3600e9)
    client = attached()
    busy = messages.TimeStats(on_frac=0.5, active_frac=0.5)
    queued = {"cpu_req_secs": 1, "estimated_delay": 600.0}
    assert client.ask(time_stats=busy, **queued).results == ()
    assert client.ask(**queued).results


def test_ended_project_accepts_reports_and_sends_no_work() -> None:
    workunits(an_app(), 2)
    client = attached()
    (name,) = client.ask_for_work()
    maintenance.end_project(now=timezone.now())
    try:
        reply = client.report(name, upload=b"the answer")
        assert reply.result_acks == (name,)
        assert reply.ended
        reply = client.ask(cpu_req_secs=1e6)
        assert (reply.results, reply.ended) == ((), True)
        assert any("This project has ended" in text for text in texts(reply))
    finally:
        maintenance.end()
    assert client.ask_for_work()


def test_default_daily_quota_is_500() -> None:
    assert settings.PROJECT.daily_quota == 500
