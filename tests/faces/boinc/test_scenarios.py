"""BOINC's old test scenarios that a stock client cannot run, by scripted clients."""

from __future__ import annotations

import pytest
from django.utils import timezone

from daemons import transitioner
from scheduler import signing, storage
from scheduler.lifecycle import Outcome
from scheduler.models import App, AppVersion, AppVersionFile, File, Platform, Result
from tests.scripted_client import a_client
from tests.work import an_app, workunits

pytestmark = pytest.mark.django_db

WINDOWS = "windows_x86_64"
#: BOINC's exit code for a program that took longer than its workunit allows.
EXIT_TIME_LIMIT_EXCEEDED = 197


def a_windows_version_of(app: App) -> None:
    """Publish a Windows version of an app."""
    now = timezone.now()
    platform = Platform.objects.create(name=WINDOWS)
    version = AppVersion.objects.create(app=app, platform=platform, version_num=100, created_at=now)
    staged = storage.stage_bytes(b"MZ")
    storage.publish(staged, "upper_100.exe")
    facts = {"sha256": staged.digest.sha256, "md5": staged.digest.md5, "nbytes": 2}
    AppVersionFile.objects.create(
        app_version=version,
        file=File.objects.create(name="upper_100.exe", created_at=now, **facts),
        position=0,
        main_program=True,
        executable=True,
        signature=signing.sign(staged.data),
    )


def test_each_host_gets_the_app_version_for_its_platform():
    app = an_app()
    a_windows_version_of(app)
    workunits(app, 2)

    on_linux = a_client(email="lin@example.org").ask(cpu_req_secs=1)
    on_windows = a_client(email="win@example.org", platform=WINDOWS).ask(cpu_req_secs=1)

    assert [version.platform for version in on_linux.app_versions] == ["x86_64-pc-linux-gnu"]
    assert [version.platform for version in on_windows.app_versions] == [WINDOWS]
    assert "upper_100.exe" in {file.name for file in on_windows.files}
    assert "upper_100.exe" not in {file.name for file in on_linux.files}


def test_result_over_the_time_limit_is_an_error_and_is_retried_on_another_host():
    [workunit] = workunits(an_app(), 1, max_error_results=2)
    slow, other = a_client(email="slow@example.org"), a_client(email="other@example.org")
    [name] = slow.ask_for_work()

    said = "exceeded elapsed time limit 3600.00"
    reply = slow.report(
        name, upload=None, state=3, exit_status=EXIT_TIME_LIMIT_EXCEEDED, stderr_out=said
    )

    assert reply.result_acks == (name,)
    result = Result.objects.get(name=name)
    assert result.outcome == Outcome.CLIENT_ERROR
    assert result.exit_status == EXIT_TIME_LIMIT_EXCEEDED
    assert said in result.stderr
    transitioner.run_pass(now=timezone.now(), limit=10)
    [again] = other.ask_for_work()
    assert again == f"{workunit.name}_1"
