"""Clients with their own programs: the anonymous platform (`app_info.xml`)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from scheduler.apps import app_versions
from scheduler.boinc.wire import messages
from scheduler.dispatch import candidates
from scheduler.health import status
from scheduler.lifecycle import Outcome
from scheduler.models import App, AppVersion, HostAppVersion, Refusal, Result
from tests.conftest import NOON
from tests.faces.apis import a_program
from tests.rows import an_account
from tests.scripted_client import LINUX, ScriptedClient, a_client, rpc_statements
from tests.work import an_app, workunits

pytestmark = pytest.mark.django_db


def own(app_name: str = "upper", **facts: Any) -> messages.ClientAppVersion:
    """Return an app version as clients send it from `app_info.xml`."""
    said = {"version_num": 7, "platform": LINUX, "avg_ncpus": 1.0, "flops": 2e9} | facts
    return messages.ClientAppVersion(app_name=app_name, **said)


def an_anonymous_client(*versions: messages.ClientAppVersion, **fields: Any) -> Anonymous:
    made = a_client(platform="anonymous", **fields)
    return Anonymous(made, versions or (own(),))


class Anonymous:
    """A scripted client that sends its own app versions with every request."""

    def __init__(
        self, client: ScriptedClient, versions: tuple[messages.ClientAppVersion, ...]
    ) -> None:
        self.client, self.versions = client, versions

    def ask(self, **fields: Any) -> messages.SchedulerReply:
        return self.client.ask(app_versions=self.versions, **({"cpu_req_secs": 1} | fields))

    def report(self, *names: str, **fields: Any) -> messages.SchedulerReply:
        return self.client.report(*names, **fields)


def texts(reply: messages.SchedulerReply) -> list[str]:
    return [message.text for message in reply.messages]


def an_app_without_versions(**fields: Any) -> App:
    app = an_app(**fields)
    AppVersion.objects.all().delete()
    return app


def test_result_uses_the_app_info_version_and_no_program_is_sent() -> None:
    workunits(an_app_without_versions(), 1)
    reply = an_anonymous_client(own(plan_class="mine")).ask()
    (result,) = reply.results
    assert (result.platform, result.version_num, result.plan_class) == (LINUX, 7, "mine")
    assert [app.name for app in reply.apps] == ["upper"]
    assert reply.app_versions == ()
    assert reply.files == ()
    assert len(reply.workunits) == 1


def test_published_programs_are_not_sent_to_an_anonymous_client() -> None:
    workunits(an_app(), 1)
    reply = an_anonymous_client().ask()
    assert [result.version_num for result in reply.results] == [7]
    assert reply.app_versions == ()


def test_report_from_an_anonymous_client_succeeds_and_updates_the_host_record() -> None:
    workunits(an_app_without_versions(), 1)
    client = an_anonymous_client()
    (result,) = client.ask().results
    assert client.report(result.name).result_acks == (result.name,)
    assert Result.objects.get().outcome == Outcome.SUCCESS
    record = HostAppVersion.objects.get()
    assert record.results_today == 1
    assert record.app_version.platform.name == "anonymous"


def test_daily_quota_applies_to_anonymous_platform_versions() -> None:
    app = an_app_without_versions(daily_quota=1)
    workunits(app, 9)
    client = an_anonymous_client(ncpus=1)
    assert len(client.ask(cpu_req_secs=1e6).results) == 1
    assert any("daily quota" in text for text in texts(client.ask()))


def test_lost_result_is_resent_with_the_app_info_version() -> None:
    workunits(an_app_without_versions(), 1)
    client = an_anonymous_client()
    (result,) = client.ask().results
    client.client.held.clear()
    (again,) = client.ask().results
    assert (again.name, again.version_num) == (result.name, 7)


def test_app_missing_from_app_info_is_named_in_the_message_of_boinc() -> None:
    workunits(an_app(user_friendly_name="Upper case"), 1)
    reply = an_anonymous_client(own("other")).ask()
    assert reply.results == ()
    assert texts(reply) == [
        "No tasks sent",
        "Your app_info.xml file doesn't have a usable version of Upper case.",
    ]
    # The refusal concerns the host, not the result: other hosts may run it.
    assert not Refusal.objects.exists()


@pytest.mark.parametrize("fields", [{"kind": "script"}, {"homogeneous_app_version": True}])
def test_app_that_excludes_the_anonymous_platform_sends_no_work(fields: dict[str, Any]) -> None:
    workunits(an_app(**fields), 1)
    reply = an_anonymous_client().ask()
    assert reply.results == ()
    assert "Your app_info.xml file doesn't have a usable version of upper." in texts(reply)


def test_faster_of_two_app_info_versions_is_used() -> None:
    workunits(an_app_without_versions(), 1)
    client = an_anonymous_client(own(version_num=8), own(version_num=3, flops=9e9))
    (result,) = client.ask().results
    assert result.version_num == 3


def test_gpu_work_request_uses_the_gpu_version_of_app_info() -> None:
    workunits(an_app_without_versions(), 1)
    nvidia = (messages.CoprocUsage(type="NVIDIA", count=1),)
    client = an_anonymous_client(own(), own(version_num=9, coprocs=nvidia))
    reply = client.ask(
        cpu_req_secs=0,
        coprocs=(messages.Coproc(type="NVIDIA", count=1, req_secs=1.0, req_instances=1.0),),
    )
    assert [result.version_num for result in reply.results] == [9]


def test_app_info_version_with_an_unknown_device_type_creates_no_app_version() -> None:
    workunits(an_app_without_versions(), 1)
    fake = (messages.CoprocUsage(type="fakegpu", count=1),)
    assert an_anonymous_client(own(coprocs=fake)).ask().results == ()
    assert not AppVersion.objects.exists()


def test_flops_estimate_and_bound_are_scaled_by_the_flops_of_app_info() -> None:
    """A client divides the operations by its own `<flops>` for its estimate and its time limit."""
    app = an_app_without_versions()
    workunits(app, 1, rsc_fpops_est=1e12, rsc_fpops_bound=1e14)
    client = an_anonymous_client(own(flops=8e9))
    client.ask(cpu_req_secs=0)
    HostAppVersion.objects.create(
        host_id=client.client.hostid, app_version=AppVersion.objects.get(), et_n=50, et_avg=1 / 2e9
    )
    reply = client.ask()
    (workunit,) = reply.workunits
    assert workunit.rsc_fpops_est == pytest.approx(4e12)
    assert workunit.rsc_fpops_bound == pytest.approx(4e14)


def test_anonymous_versions_are_not_listed_as_published_versions() -> None:
    app = an_app_without_versions()
    workunits(app, 1)
    an_anonymous_client().ask()
    version = AppVersion.objects.get()
    assert candidates.platforms() == []
    status.forget()
    page = Client().get("/status.json").json()
    assert [one["versions"] for one in page["apps"]] == [[]]
    program = a_program(an_account(), "read")
    assert program.get("/api/v1/apps/upper/versions").json()["results"] == []
    with pytest.raises(app_versions.UnknownPlatform, match="volunteers' own programs"):
        app_versions.publish(
            app="upper", version_num=1, platform="anonymous", files={"a": b"#!"}, now=NOON
        )
    assert str(version) == "upper 0.01 anonymous"


def test_anonymous_version_rows_are_created_once_without_later_statements() -> None:
    workunits(an_app_without_versions(), 5)
    client = an_anonymous_client()
    client.ask()
    assert AppVersion.objects.count() == 1
    client.ask(cpu_req_secs=0)
    anonymous = rpc_statements(lambda: client.ask(cpu_req_secs=0))
    plain = a_client(email="bob@example.org")
    plain.ask()
    plain.ask()
    usual = rpc_statements(plain.ask)
    assert len(anonymous) <= len(usual)
    assert AppVersion.objects.count() == 1


# Hosts without a matching version


def test_host_of_an_unsupported_platform_gets_a_delay_of_one_day() -> None:
    workunits(an_app(), 1)
    reply = a_client(platform="riscv-amiga").ask(cpu_req_secs=1)
    assert reply.request_delay == timedelta(days=1).total_seconds()


def test_project_without_versions_sends_a_delay_of_ten_minutes() -> None:
    workunits(an_app_without_versions(), 1)
    reply = a_client().ask(cpu_req_secs=1)
    assert reply.request_delay == timedelta(minutes=10).total_seconds()


def test_a_client_that_requests_no_work_gets_no_longer_delay() -> None:
    an_app()
    usual = a_client().ask().request_delay
    assert a_client("bob@example.org", platform="riscv-amiga").ask().request_delay == usual


def test_anonymous_client_without_a_usable_version_gets_the_usual_delay() -> None:
    workunits(an_app(), 1)
    usual = a_client().ask().request_delay
    assert an_anonymous_client(own("other"), email="bob@example.org").ask().request_delay == usual
