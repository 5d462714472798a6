"""Staff let hosts ask for work at once, which clears their daily quotas."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from scheduler.admin import hosts as host_pages
from scheduler.hosts import waits
from scheduler.models import AuditEntry, Host, HostAppVersion
from tests.faces.admin.test_credit_grants import staff_with
from tests.faces.admin.test_revalidation_pages import numbers
from tests.rows import a_host, an_app_version
from tests.rows import an_app as bare_app
from tests.scripted_client import a_client
from tests.work import an_app, workunits

pytestmark = pytest.mark.django_db

LIST = reverse("admin:scheduler_host_changelist")


def act(client: Client, *hosts: int, **more: str) -> str:
    chosen = {"action": "clear_waits", "_selected_action": list(hosts)}
    return client.post(LIST, chosen | more, follow=True).content.decode()


def record(host: Host, *, sent: int = 0, quota: int = 0, days_ago: int = 0, **app: object):
    day = timezone.now().date() - timedelta(days=days_ago)
    return HostAppVersion.objects.create(
        host=host,
        app_version=an_app_version(bare_app(**app)),
        results_today=sent,
        max_results_per_day=quota,
        quota_day=day,
        consecutive_valid=7,
    )


def test_host_that_was_refused_by_its_quota_gets_work_after_the_action():
    workunits(an_app(daily_quota=8), 40)
    volunteer = a_client(email="ada@example.org", name="mill")
    volunteer.ask()
    names = volunteer.ask_for_work(seconds=1e9)
    volunteer.report(*names[:3], upload=None, state=3, exit_status=1)
    refused = volunteer.ask(cpu_req_secs=1e9)
    assert refused.results == ()
    assert any("finished a daily quota of" in message.text for message in refused.messages)

    chief, client = staff_with("operator")
    text = act(client, volunteer.hostid)
    assert "Really clear the daily quotas of these hosts?" in text
    assert "The server refuses no request because it comes too soon" in text
    assert "mill #" in text
    assert numbers(text) == {
        "hosts": "1",
        "of them with a used quota": "1",
        "results sent today": str(len(names)),
        "reduced quotas": "1",
    }
    assert volunteer.ask_for_work(seconds=1e9) == []

    text = act(client, volunteer.hostid, confirmed="yes")
    assert "Hosts with cleared quotas: 1." in text
    assert volunteer.ask_for_work(seconds=1e9)
    entry = AuditEntry.objects.get(event="host_changed")
    assert (entry.account_id, entry.actor) == (chief.pk, chief.email)
    assert entry.subject == f"host {volunteer.hostid}"
    assert entry.details == {"waits": "cleared", "hosts": [volunteer.hostid]}


def test_only_used_and_reduced_quotas_change():
    host = a_host()
    used, reduced = record(host, sent=3), record(host, quota=1, daily_quota=8)
    raised, old = record(host, sent=2, quota=900), record(host, sent=9, days_ago=1)
    unlimited = record(host, quota=4, daily_quota=0)
    other = record(a_host(), sent=5)
    before = waits.read([host.pk], now=timezone.now())
    assert (before.hosts, before.results_today, before.reduced_quotas) == (1, 5, 1)
    assert waits.clear([host.pk], now=timezone.now()) == [host.pk]
    after = {
        row.pk: (row.results_today, row.max_results_per_day) for row in HostAppVersion.objects.all()
    }
    assert after == {
        used.pk: (0, 0),
        reduced.pk: (0, 0),
        raised.pk: (0, 900),
        old.pk: (9, 0),
        unlimited.pk: (0, 4),
        other.pk: (5, 0),
    }
    assert set(HostAppVersion.objects.values_list("consecutive_valid", flat=True)) == {7}
    assert waits.clear([host.pk], now=timezone.now()) == []
    assert AuditEntry.objects.filter(event="host_changed").count() == 1


def test_denied_hosts_are_named_and_stay_denied():
    _, client = staff_with("operator")
    host = a_host(denied=True)
    record(host, sent=3)
    assert "1 of the hosts are denied" in act(client, host.pk)
    act(client, host.pk, confirmed="yes")
    host.refresh_from_db()
    assert host.denied


def test_statements_do_not_grow_with_the_number_of_hosts():
    _, client = staff_with("operator")

    def statements(count: int) -> int:
        hosts = [a_host() for _ in range(count)]
        for host in hosts:
            record(host, sent=1)
        with CaptureQueriesContext(connection) as captured:
            act(client, *(host.pk for host in hosts), confirmed="yes")
        return len(captured)

    assert statements(1) == statements(20)


def test_too_many_hosts_are_refused(monkeypatch):
    monkeypatch.setattr(host_pages, "MAX_HOSTS", 1)
    _, client = staff_with("operator")
    first, second = record(a_host(), sent=1), record(a_host(), sent=1)
    text = act(client, first.host_id, second.host_id, confirmed="yes")
    assert "More than 1 hosts are selected" in text
    assert HostAppVersion.objects.filter(results_today=1).count() == 2


@pytest.mark.parametrize("role", ["read-only", "publisher"])
def test_staff_without_the_right_cannot_clear_quotas(role):
    _, client = staff_with(role)
    row = record(a_host(), sent=1)
    act(client, row.host_id, confirmed="yes")
    row.refresh_from_db()
    assert row.results_today == 1
