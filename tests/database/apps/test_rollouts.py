"""Staged roll-outs of app versions, and their automatic roll-back."""

from __future__ import annotations

from datetime import timedelta

import pytest

from daemons import housekeeper
from scheduler.apps import rollouts
from scheduler.apps.rollouts import BadRollout, Rollout
from scheduler.health import alerts
from scheduler.hosts.rules.rollout_shares import is_in_share
from scheduler.models import AppVersion, AuditEntry, HostAppVersion, Platform, VersionOutcomes
from scheduler.people import audit
from scheduler.work.explain import explanation_of
from tests import rows
from tests.conftest import NOON

pytestmark = pytest.mark.django_db

LINUX = "x86_64-pc-linux-gnu"
WATCHED = Rollout(rollout_percent=20, max_error_percent=10, min_rollback_results=50)


@pytest.fixture
def version() -> AppVersion:
    return rows.an_app_version(rows.an_app("wave"), version_num=200)


def counted(version: AppVersion, reported: int, errors: int, invalid: int = 0, hours: float = 0):
    VersionOutcomes.objects.create(
        hour=rows.hours(hours),
        app_version=version,
        reported=reported,
        errors=errors,
        invalid=invalid,
    )


def percent_of(version: AppVersion) -> int:
    version.refresh_from_db()
    return version.rollout_percent


def rolled_back() -> list[str]:
    current = alerts.current(now=NOON)
    return [alert.sentence for alert in current if alert.kind == "version_rolled_back"]


def test_preview_counts_the_active_hosts_of_the_platform_in_the_share(version):
    hosts = [rows.a_host(platform_name=LINUX) for _ in range(40)]
    rows.a_host(platform_name="windows_x86_64")
    rows.a_host(platform_name=LINUX, denied=True)
    rows.a_host(platform_name=LINUX, rpc_at=NOON - timedelta(days=400))
    rows.update(version, rollout_percent=10)
    preview = rollouts.preview(version, Rollout(rollout_percent=60), now=NOON)
    assert preview.hosts == 40
    for percent, shown in ((10, preview.before), (60, preview.after)):
        assert shown == sum(is_in_share(host.pk, version.pk, percent) for host in hosts)
    assert percent_of(version) == 10


def test_change_is_in_the_audit_log_with_the_person(version):
    with audit.acting(account_id=7, name="chief@example.org"):
        rollouts.change(version.pk, WATCHED, now=NOON)
    assert percent_of(version) == 20
    entry = AuditEntry.objects.get(event="version_changed")
    assert (entry.account_id, entry.actor) == (7, "chief@example.org")
    assert "wave 2.00" in entry.subject
    assert entry.details["rollout_percent"] == 20
    assert entry.details["before"]["rollout_percent"] == 100


@pytest.mark.parametrize(
    "fields",
    [
        {"rollout_percent": -1},
        {"rollout_percent": 101},
        {"max_error_percent": 100},
        {"max_error_percent": -1},
        {"min_rollback_results": 0},
        {"min_rollback_results": 2**40},
    ],
)
def test_numbers_out_of_range_are_refused(version, fields):
    with pytest.raises(BadRollout, match="Hint: "):
        rollouts.change(version.pk, Rollout(**fields), now=NOON)
    assert not AuditEntry.objects.exists()


def test_programs_of_volunteers_have_no_roll_out(version):
    anonymous = Platform.objects.create(name="anonymous")
    rows.update(version, platform=anonymous)
    with pytest.raises(BadRollout):
        rollouts.change(version.pk, WATCHED, now=NOON)


def test_a_version_above_its_limit_is_rolled_back_once_with_the_reason(version):
    rollouts.change(version.pk, WATCHED, now=NOON)
    counted(version, 50, 4, 2)
    assert rollouts.roll_back(now=NOON) == 1
    assert percent_of(version) == 0
    reason = "6 of 50 results failed since 2026-01-01 12:00 UTC (12.0 %); the limit is 10 %"
    assert version.rollback_reason == reason
    assert rollouts.roll_back(now=NOON) == 0
    entry = AuditEntry.objects.order_by("id").last()
    assert (entry.account_id, entry.details["reason"]) == (None, reason)
    assert AuditEntry.objects.count() == 2
    assert rolled_back() == [f"App version {version} was rolled back: {reason}."]


@pytest.mark.parametrize(
    ("reported", "errors"), [(49, 49), (50, 5), (1000, 100)], ids=["few", "equal", "many"]
)
def test_a_version_with_few_results_or_within_its_limit_is_not_rolled_back(
    version, reported, errors
):
    rollouts.change(version.pk, WATCHED, now=NOON)
    counted(version, reported, errors)
    assert rollouts.roll_back(now=NOON) == 0
    assert percent_of(version) == 20
    assert rolled_back() == []


@pytest.mark.parametrize("hours", [-1, -30])
def test_results_before_the_roll_out_do_not_count(version, hours):
    rollouts.change(version.pk, WATCHED, now=NOON)
    counted(version, 100, 100, hours=hours)
    assert rollouts.roll_back(now=NOON + timedelta(minutes=30)) == 0


def test_results_before_the_window_do_not_count(version):
    rollouts.change(version.pk, WATCHED, now=NOON)
    counted(version, 100, 100)
    assert rollouts.roll_back(now=NOON + rollouts.WINDOW + timedelta(hours=1)) == 0
    assert rollouts.roll_back(now=NOON + rollouts.WINDOW) == 1


@pytest.mark.parametrize(
    "fields", [{"max_error_percent": None}, {"deprecated": True}, {"rollout_percent": 0}]
)
def test_versions_without_a_limit_or_a_share_are_not_rolled_back(version, fields):
    rollouts.change(version.pk, WATCHED, now=NOON)
    rows.update(version, **fields)
    counted(version, 100, 100)
    assert rollouts.roll_back(now=NOON) == 0


def test_alert_ends_when_the_version_is_deprecated_or_its_roll_out_is_changed(version):
    rows.update(version, rolled_back_at=NOON, rollback_reason="it failed", plan_class="mt")
    assert rolled_back() == [f"App version {version} was rolled back: it failed."]
    rows.update(version, deprecated=True)
    assert rolled_back() == []
    rows.update(version, deprecated=False)
    rollouts.change(version.pk, WATCHED, now=NOON)
    assert rolled_back() == []


def test_housekeeper_rolls_back_in_the_run_that_counts_the_results(version):
    rollouts.change(version.pk, WATCHED, now=NOON)
    HostAppVersion.objects.create(
        host=rows.a_host(), app_version=version, uncounted_reports=60, uncounted_errors=30
    )
    tally = housekeeper.run_pass(now=NOON, limit=100)
    assert tally.counts["versions rolled back"] == 1
    assert percent_of(version) == 0


def test_explain_names_versions_in_a_roll_out(version):
    workunit = rows.a_workunit(version.app, transition_at=NOON)
    result = rows.a_result(workunit, "unsent")
    assert not any("roll-out" in line for line in explanation_of(result.name, now=NOON).reasons)
    rollouts.change(version.pk, WATCHED, now=NOON)
    line = f"may use version {version} on 20 % of the hosts only, because of its roll-out"
    assert line in explanation_of(result.name, now=NOON).reasons
    assert line in explanation_of(workunit.name, now=NOON).reasons
