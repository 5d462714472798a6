"""The pages of error rates and of the roll-out of an app version."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from scheduler.health import outcome_counts, status
from scheduler.models import (
    Account,
    AppVersion,
    AuditEntry,
    HostOutcomes,
    Platform,
    VersionOutcomes,
)
from scheduler.people import accounts, roles
from tests import rows
from tests.faces.pages import comparable

pytestmark = pytest.mark.django_db

RATES = "/admin/error-rates/"


def staff_with(role: str) -> tuple[Account, Client]:
    account = accounts.create_staff(
        email=f"{role}@example.org",
        password="a long one 6",
        name=role,
        now=timezone.now(),
        is_superuser=False,
    )
    roles.give(account, role, now=timezone.now())
    client = Client()
    client.force_login(account)
    return account, client


@pytest.fixture
def version() -> AppVersion:
    return rows.an_app_version(rows.an_app("wave"), version_num=200)


def count(model: Any, reported: int, errors: int, invalid: int = 0, days: int = 0, **of: Any):
    hour = outcome_counts.hour_of(timezone.now()) - timedelta(days=days)
    model.objects.create(hour=hour, reported=reported, errors=errors, invalid=invalid, **of)


def cells(page: str, name: str) -> list[str]:
    """Return the numbers in the row of a page whose head contains `name`."""
    [row] = [row for row in re.findall(r"<tr>.*?</tr>", page, re.DOTALL) if name in row]
    return re.findall(r'<td class="number">(.*?)</td>', row)


def read(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200
    return answer.content.decode()


def path_of(version: AppVersion) -> str:
    return f"/admin/scheduler/appversion/{version.pk}/rollout/"


# Error rates


def test_rates_of_versions_apps_platforms_and_hosts_are_shown_for_a_day_and_a_week(version):
    _, client = staff_with("operator")
    host = rows.a_host(domain_name="mill")
    other = rows.an_app_version(version.app, platform=Platform.objects.create(name="beos"))
    for days, reported in ((0, 100), (3, 300)):
        count(VersionOutcomes, reported, 10, 5, days, app_version=version)
        count(HostOutcomes, reported, 20, 0, days, host_id=host.pk)
    count(VersionOutcomes, 1000, 0, app_version=other)
    day, week = read(client, RATES), read(client, f"{RATES}?period=week")
    change = f"/admin/scheduler/appversion/{version.pk}/change/"
    assert cells(day, change) == ["100", "10", "5", "15.0 %"]
    assert cells(week, change) == ["400", "20", "10", "7.5 %"]
    linux = f"platform__id__exact={version.platform_id}"
    assert cells(day, linux) == ["100", "10", "5", "15.0 %"]
    assert cells(day, f"app__id__exact={version.app_id}") == ["1,100", "10", "5", "1.4 %"]
    assert cells(day, ">beos<") == ["1,000", "0", "0", "0.0 %"]
    page_of_host = f"/admin/scheduler/host/{host.pk}/change/"
    assert cells(week, page_of_host) == ["400", "40", "0", "10.0 %"]
    assert f"mill #{host.pk}" in week
    by_app = f"/admin/scheduler/appversion/?app__id__exact={version.app_id}"
    for url in (change, page_of_host, by_app, f"/admin/scheduler/appversion/?{linux}"):
        assert client.get(url).status_code == 200


def test_unknown_period_and_an_empty_project_show_a_page():
    _, client = staff_with("operator")
    assert comparable(client.get(f"{RATES}?period=x")) == comparable(client.get(RATES))
    assert read(client, RATES).count('<p class="calm">None.</p>') == 4


def test_desk_lists_the_five_versions_with_the_highest_rates(version):
    _, client = staff_with("operator")
    for number in range(1, 8):
        each = rows.an_app_version(version.app, version_num=number, rollout_percent=number)
        count(VersionOutcomes, 100, number, app_version=each)
    count(VersionOutcomes, 100, 0, app_version=version)
    page = read(client, "/admin/")
    section = page[page.index('id="rates"') : page.index('id="refusals"')]
    assert re.findall(r"wave 0\.0(\d)", section) == ["7", "6", "5", "4", "3"]
    assert "sent to 7 % of the hosts" in section
    assert RATES in section


def test_pages_take_the_same_statements_for_any_number_of_rows(version):
    _, client = staff_with("operator")
    paths = ("/admin/", RATES, f"{RATES}?period=week")
    counts = []
    for added in (1, 12):
        for _ in range(added):
            platform = Platform.objects.create(name=f"p{Platform.objects.count()}")
            each = rows.an_app_version(version.app, platform=platform)
            count(VersionOutcomes, 50, 5, app_version=each)
            count(HostOutcomes, 50, 5, host_id=rows.a_host().pk)
        for path in paths:
            client.get(path)
        # Otherwise the number depends on the time since the status was cached.
        status.forget()
        with CaptureQueriesContext(connection) as statements:
            pages = [read(client, path) for path in paths]
        counts.append(len(statements))
    assert counts[0] == counts[1]
    assert not any(re.search(r"<style|style=|onclick", page) for page in pages)


def test_hosts_are_shown_only_to_users_who_may_view_hosts(version):
    host = rows.a_host(domain_name="secret-name")
    count(HostOutcomes, 9, 9, host_id=host.pk)
    _, publisher = staff_with("publisher")
    assert "secret-name" not in read(publisher, RATES)
    _, reader = staff_with("read-only")
    assert "secret-name" in read(reader, RATES)
    _, moderator = staff_with("moderator")
    assert moderator.get(RATES).status_code == 403
    assert RATES not in read(moderator, "/admin/")
    assert Client().get(RATES).status_code == 302


def test_name_of_a_host_is_escaped():
    _, client = staff_with("operator")
    host = rows.a_host(domain_name="<script>alert(1)</script>")
    count(HostOutcomes, 9, 9, host_id=host.pk)
    assert "<script>alert" not in read(client, RATES)


# Roll-outs


def preview(client: Client, version: AppVersion, **fields: object) -> str:
    sent = {"rollout_percent": 25, "max_error_percent": 10, "min_rollback_results": 50} | fields
    answer = client.post(path_of(version), sent)
    assert answer.status_code == 200
    return answer.content.decode()


def hidden(text: str) -> dict[str, str]:
    inputs = re.findall(r'<input type="hidden"[^>]*>', text)
    pairs = [(re.search(r'name="([^"]*)"', i), re.search(r'value="([^"]*)"', i)) for i in inputs]
    return {name[1]: value[1] if value else "" for name, value in pairs if name}


def test_operator_rolls_out_a_version_after_a_preview(version):
    chief, client = staff_with("operator")
    for _ in range(30):
        rows.a_host(platform_name=version.platform.name, rpc_at=timezone.now())
    assert path_of(version) in read(client, path_of(version).replace("rollout", "change"))
    text = preview(client, version)
    assert "<td>100 %</td><td>25 %</td>" in text
    assert re.search(r"<td>30</td><td>\d+ of 30</td>", text)
    assert "<td>never</td><td>10 % of at least 50 results</td>" in text
    version.refresh_from_db()
    assert version.rollout_percent == 100
    answer = client.post(path_of(version), {**hidden(text), "confirmed": "yes"}, follow=True)
    assert "is sent to 25 % of the hosts" in answer.content.decode()
    version.refresh_from_db()
    assert (version.rollout_percent, version.max_error_percent) == (25, 10)
    entry = AuditEntry.objects.get(event="version_changed")
    assert (entry.actor, entry.account_id) == (chief.email, chief.pk)
    page = read(client, path_of(version).replace("rollout", "change"))
    assert re.search(r"Rollout percent:.*?25", page, re.DOTALL)


def test_preview_warns_of_a_roll_back_at_once(version):
    _, client = staff_with("operator")
    count(VersionOutcomes, 60, 30, app_version=version)
    assert "would be rolled back within ten minutes" in preview(client, version)
    assert "rolled back within" not in preview(client, version, max_error_percent="")


def test_page_shows_why_a_version_was_rolled_back(version):
    _, client = staff_with("operator")
    rows.update(version, rolled_back_at=timezone.now(), rollback_reason="9 of 9 <b> failed")
    assert "9 of 9 &lt;b&gt; failed." in read(client, path_of(version))


@pytest.mark.parametrize(
    "fields",
    [
        {"rollout_percent": "101"},
        {"rollout_percent": "-1"},
        {"rollout_percent": ""},
        {"rollout_percent": "9" * 40},
        {"max_error_percent": "100"},
        {"max_error_percent": "NaN"},
        {"min_rollback_results": "0"},
    ],
)
def test_invalid_values_are_errors_of_the_form(version, fields):
    _, client = staff_with("operator")
    sent = {"rollout_percent": "5", "min_rollback_results": "5", "confirmed": "yes"} | fields
    assert client.post(path_of(version), sent).status_code == 422
    version.refresh_from_db()
    assert version.rollout_percent == 100


@pytest.mark.parametrize("role", ["moderator", "read-only", "submitter"])
def test_other_roles_cannot_change_a_roll_out(version, role):
    _, client = staff_with(role)
    sent = {"rollout_percent": "5", "min_rollback_results": "5", "confirmed": "yes"}
    assert client.get(path_of(version)).status_code in {302, 403}
    assert client.post(path_of(version), sent).status_code in {302, 403}
    version.refresh_from_db()
    assert version.rollout_percent == 100


def test_a_form_without_a_csrf_token_changes_nothing(version):
    account, _ = staff_with("operator")
    client = Client(enforce_csrf_checks=True)
    client.force_login(account)
    sent = {"rollout_percent": "5", "min_rollback_results": "5", "confirmed": "yes"}
    assert client.post(path_of(version), sent).status_code == 403


def test_unknown_version_is_not_found():
    _, client = staff_with("operator")
    for number in ("0", "9" * 30):
        assert client.get(f"/admin/scheduler/appversion/{number}/rollout/").status_code == 404
