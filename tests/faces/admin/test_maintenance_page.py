"""Operators switch maintenance on and off in the administration."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone

from scheduler.health import maintenance
from scheduler.models import AuditEntry
from tests.faces.admin.test_credit_grants import staff_with

pytestmark = pytest.mark.django_db

PAGE = "/admin/maintenance/"


def shown(client: Client, status: int = 200, **form: str) -> str:
    reply = client.post(PAGE, form) if form else client.get(PAGE)
    assert reply.status_code == status
    return reply.content.decode()


def confirmed(client: Client, **form: str) -> str:
    reply = client.post(PAGE, {**form, "confirmed": "yes"}, follow=True)
    assert reply.redirect_chain == [(PAGE, 302)]
    return reply.content.decode()


def soon() -> datetime:
    return timezone.now().replace(second=0, microsecond=0) + timedelta(hours=2)


def test_maintenance_is_switched_on_after_a_preview_and_off_again():
    operator, client = staff_with("operator")
    assert "Maintenance is off" in shown(client)
    form = {"kind": "all", "message": "New <disks>.", "until": f"{soon():%Y-%m-%dT%H:%M}"}
    text = shown(client, **form)
    assert "Really switch maintenance on?" in text
    assert "New &lt;disks&gt;" in text
    assert re.search(r"Clients ask again after (2 h|1 h 59 min);", text)
    assert not re.search(r"<style|style=|onclick", text)
    assert maintenance.current() is None

    assert "volunteers are turned away, and the daemons wait" in confirmed(client, **form)
    current = maintenance.current()
    assert (current.until, current.scheduler, current.daemons) == (soon(), True, True)
    assert 'href="/admin/maintenance/"' in client.get("/admin/").content.decode()

    assert "Really switch maintenance off?" in shown(client, off="yes")
    assert maintenance.current() is not None
    assert "Maintenance is off" in confirmed(client, off="yes")
    assert maintenance.current() is None
    entries = AuditEntry.objects.filter(subject="maintenance").order_by("id")
    assert [(each.account_id, each.details["action"]) for each in entries] == [
        (operator.pk, "on"),
        (operator.pk, "off"),
    ]


@pytest.mark.parametrize(
    ("kind", "scheduler", "daemons", "ended"),
    [("scheduler", True, False, False), ("daemons", False, True, False), ("end", False, False, 1)],
)
def test_each_kind_of_maintenance_has_its_effect(kind, scheduler, daemons, ended):
    _, client = staff_with("operator")
    confirmed(client, kind=kind)
    current = maintenance.current()
    assert (current.scheduler, current.daemons, current.ended) == (scheduler, daemons, bool(ended))
    assert "Replace it" in shown(client)
    assert "This replaces the maintenance" in shown(client, kind="all")


@pytest.mark.parametrize(
    ("form", "sentence"),
    [
        ({"kind": "all", "until": "2020-01-01T00:00"}, "This time is past."),
        ({"kind": "end", "until": "2099-01-01T00:00"}, "has no expected end"),
        ({"kind": "all", "until": "tomorrow"}, "Enter a valid date/time."),
        ({"kind": "some"}, "Select a valid choice."),
        ({"kind": "all", "message": "x" * 201}, "at most 200 characters"),
    ],
)
def test_bad_input_changes_nothing(form, sentence):
    _, client = staff_with("operator")
    assert sentence in shown(client, 422, **form, confirmed="yes")
    assert maintenance.current() is None


def test_a_switch_that_cannot_be_written_is_reported(monkeypatch):
    def refuse(*_arguments: object) -> None:
        raise PermissionError(13, "Permission denied")

    _, client = staff_with("operator")
    monkeypatch.setattr("scheduler.storage.put_notice", refuse)
    text = shown(client, 422, kind="all", confirmed="yes")
    assert "The switch cannot be written: Permission denied." in text
    text = shown(client, 422, off="yes", confirmed="yes")
    assert "The switch cannot be written: Permission denied." in text
    assert not AuditEntry.objects.filter(subject="maintenance").exists()


@pytest.mark.parametrize("role", ["publisher", "moderator"])
def test_staff_without_the_right_cannot_switch(role):
    _, client = staff_with(role)
    assert client.get(PAGE).status_code == 403
    assert client.post(PAGE, {"kind": "all", "confirmed": "yes"}).status_code == 403
    assert maintenance.current() is None
    assert PAGE not in client.get("/admin/").content.decode()
