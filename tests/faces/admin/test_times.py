"""The administration shows relative and exact times, the other one on hover."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from django.template import engines
from django.test import Client
from django.urls import reverse
from django.utils import timezone as django_timezone

from scheduler.admin.shown import times
from scheduler.lifecycle import Actor, Axis, Because
from scheduler.models import AuditEntry, LedgerEntry, Outage
from tests.conftest import NOON
from tests.rows import a_host, a_result, a_workunit, an_account

pytestmark = pytest.mark.django_db


@pytest.fixture
def chief() -> Client:
    client = Client()
    client.force_login(an_account("chief", is_staff=True, is_superuser=True))
    return client


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "just now"),
        (59, "just now"),
        (-59, "just now"),
        (60, "1 min ago"),
        (3599, "59 min ago"),
        (3600, "1 h ago"),
        (86_399, "23 h ago"),
        (400 * 86_400, "400 d ago"),
        (-120, "in 2 min"),
        (-7200, "in 2 h"),
        (-86_400, "in 1 d"),
    ],
)
def test_distance_is_in_the_largest_unit(seconds, words):
    assert times.distance(NOON - timedelta(seconds=seconds), now=NOON) == words


def test_both_forms_have_the_exact_time_in_utc():
    at = datetime(2026, 3, 1, 1, 2, 3, 456, tzinfo=timezone(timedelta(hours=1)))
    now = datetime(2026, 3, 1, 3, 2, 3, tzinfo=UTC)
    machine = 'datetime="2026-03-01T01:02:03+01:00"'
    exact = "2026-03-01 00:02:03"
    assert times.relative(at, now=now) == f'<time {machine} title="{exact} UTC">2 h ago</time>'
    assert times.exact(at, now=now) == f'<time {machine} title="2 h ago">{exact}</time>'


def test_filters_show_a_dash_for_no_time():
    template = engines["django"].from_string("{% load desk_times %}{{ at|ago }} {{ at|exact }}")
    assert template.render({"at": None}) == "– –"


def page(client: Client, row: object) -> str:
    name = f"admin:scheduler_{row._meta.model_name}_change"
    return client.get(reverse(name, args=[row.pk])).content.decode()


def test_lists_show_relative_times_and_pages_of_rows_exact_ones(chief):
    at = django_timezone.now() - timedelta(hours=5, minutes=1)
    host = a_host(rpc_at=at)
    exact = f"{at:%Y-%m-%d %H:%M:%S}"
    text = chief.get(reverse("admin:scheduler_host_changelist")).content.decode()
    assert f'title="{exact} UTC">5 h ago</time>' in text
    assert f'title="5 h ago">{exact}</time> UTC' in page(chief, host)


def test_audit_log_ledger_and_timeline_show_exact_times(chief):
    at = django_timezone.now() - timedelta(days=2, minutes=1)
    exact = f'title="2 d ago">{at:%Y-%m-%d %H:%M:%S}</time>'
    AuditEntry.objects.create(at=at, event="host_changed")
    workunit = a_workunit()
    LedgerEntry.objects.create(
        at=at, workunit_id=workunit.pk, axis=Axis.WORKUNIT, source=0, target=1,
        because=Because.SUBMITTED, by=Actor.SUBMITTER,
    )  # fmt: skip
    for model in (AuditEntry, LedgerEntry):
        path = reverse(f"admin:scheduler_{model._meta.model_name}_changelist")
        assert exact in chief.get(path).content.decode()
    assert exact in page(chief, workunit)


def test_results_of_a_workunit_have_relative_times(chief):
    now = django_timezone.now()
    result = a_result(
        a_workunit(), "sent", sent_at=now - timedelta(minutes=61),
        report_deadline=now + timedelta(days=3, minutes=1),
    )  # fmt: skip
    text = re.sub(r"<time[^>]*>", "", page(chief, result.workunit))
    assert ">1 h ago</time>" in text
    assert "due in 3 d</time>" in text


def test_times_that_are_not_set_are_a_dash(chief):
    outage = Outage.objects.create(began_at=NOON, ended_at=NOON + timedelta(hours=1))
    text = page(chief, outage)
    assert re.search(r"Applied at:</label>\s*<div class=\"readonly\">–</div>", text)
