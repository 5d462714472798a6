"""Every door writes the audit log, with actor and address, and never a secret."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from scheduler.models import AuditEntry
from scheduler.operations import accounts

pytestmark = pytest.mark.django_db

EMAIL, PASSWORD = "chief@example.org", "a long secret 8"


@pytest.fixture
def chief():
    return accounts.create_staff(email=EMAIL, password=PASSWORD, now=timezone.now())


def log_in(password: str) -> None:
    Client(REMOTE_ADDR="192.0.2.9").post(
        reverse("admin:login"), {"username": EMAIL, "password": password}
    )


def test_admin_log_ins_are_recorded_with_their_address(chief):
    log_in("wrong password")
    log_in(PASSWORD)
    entries = AuditEntry.objects.filter(event__startswith="login").order_by("pk")
    assert [(e.event, e.actor, e.address) for e in entries] == [
        ("login_failed", EMAIL, "192.0.2.9"),
        ("login_succeeded", EMAIL, "192.0.2.9"),
    ]
    assert entries[1].account_id == chief.pk


def test_token_made_in_the_shell_is_recorded(chief):
    call_command("token", "create", EMAIL)
    entry = AuditEntry.objects.get(event="token_created")
    assert entry.actor.startswith("shell:")
    assert entry.details["scopes"] == ["read", "submit"]
