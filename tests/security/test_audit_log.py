"""The audit log: entries are committed with their change and name the actor."""

from __future__ import annotations

from decimal import Decimal

import pytest
from django.db import transaction
from django.db.models.functions import Now

from scheduler.models import AuditEntry
from scheduler.people import audit
from scheduler.people.audit import Event

pytestmark = pytest.mark.django_db


def test_entry_names_the_actor_and_the_address(noon):
    with audit.acting(account_id=7, name="ada@example.org", address="192.0.2.1"):
        audit.record(Event.TOKEN_CREATED, now=noon, subject="token 3", details={"scopes": ["read"]})
    entry = AuditEntry.objects.get()
    assert (entry.account_id, entry.actor, entry.address) == (7, "ada@example.org", "192.0.2.1")
    assert (entry.event, entry.at, entry.subject) == ("token_created", noon, "token 3")
    assert entry.details == {"scopes": ["read"]}


def test_actor_is_reset_after_the_acting_block(noon):
    with audit.acting(name="ada@example.org"):
        pass
    audit.record(Event.LOGIN_FAILED, now=noon)
    assert AuditEntry.objects.get().actor == ""


def test_entry_is_rolled_back_with_its_change(noon):
    with transaction.atomic():
        audit.record(Event.RIGHTS_CHANGED, now=noon)
        transaction.set_rollback(True)
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize("subject", ["x" * 1000, "a\0b", "\ud800"])
def test_subject_with_invalid_characters_or_excess_length_is_recorded(subject, noon):
    audit.record(Event.LOGIN_FAILED, now=noon, subject=subject)
    assert len(AuditEntry.objects.get().subject) <= 254


def test_values_that_json_cannot_represent_are_recorded_as_text(noon):
    audit.record(Event.APP_CHANGED, now=noon, details={"weight": Decimal("1.5"), "at": noon})
    assert AuditEntry.objects.get().details == {"weight": "1.5", "at": str(noon)}


@pytest.mark.django_db(transaction=True)
def test_entry_with_database_time_is_logged_with_the_stored_time(caplog):
    with caplog.at_level("INFO", logger="manyhands.audit"):
        audit.record(Event.ACCOUNT_CREATED, now=Now(), subject="ada@example.org")
    [record] = [each for each in caplog.records if each.name == "manyhands.audit"]
    assert record.happened_at == AuditEntry.objects.get().at.isoformat()
