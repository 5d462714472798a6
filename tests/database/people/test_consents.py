"""Consents are current in the account, and their history is in the audit log."""

from __future__ import annotations

from decimal import Decimal

import pytest

from scheduler.models import AuditEntry, CreditEntry, StatisticsDeletion
from scheduler.people import accounts
from scheduler.people.personal_data import consents
from tests import rows
from tests.conftest import NOON

pytestmark = pytest.mark.django_db

GAINS = {"total_credit": Decimal(5)}


def listed() -> list[tuple[int, int, str]]:
    deletions = StatisticsDeletion.objects.order_by("kind", "number")
    return list(deletions.values_list("kind", "number", "cpid"))


def share(account, *, given: bool) -> bool:
    """Change the consent; return whether the audit log has a new entry."""
    before = AuditEntry.objects.count()
    consents.change(account, share_statistics=given, source="web", now=NOON)
    return AuditEntry.objects.count() > before


def test_withdrawn_consent_lists_the_account_and_its_computers_as_deleted():
    ada = rows.an_account("ada", **GAINS)
    host = rows.a_host(ada, host_cpid="f" * 32, **GAINS)
    rows.a_host(ada)
    rows.a_host(**GAINS)
    assert share(ada, given=False)
    assert listed() == [(1, ada.pk, consents.public_cpid(ada)), (2, host.pk, "f" * 32)]
    assert not share(ada, given=False)
    assert share(ada, given=True)
    ada.refresh_from_db()
    assert (ada.share_statistics, listed()) == (True, [])
    history = AuditEntry.objects.filter(event="consent_changed").order_by("pk")
    assert [entry.details["given"] for entry in history] == [False, True]
    assert history[0].details == {"consent": "STATSEXPORT", "given": False, "source": "web"}


def test_new_consent_of_one_account_does_not_unlist_others():
    ada, eve = rows.an_account("ada", **GAINS), rows.an_account("eve", **GAINS)
    share(ada, given=False)
    share(eve, given=False)
    share(ada, given=True)
    assert [number for _kind, number, _cpid in listed()] == [eve.pk]


def test_account_that_was_never_exported_is_not_listed():
    ada = rows.an_account("ada")
    rows.a_host(ada)
    assert share(ada, given=False)
    assert listed() == []


def test_account_whose_credit_was_revoked_is_listed():
    """Statistics sites have copies from the time when it had credit."""
    ada = rows.an_account("ada")
    host = rows.a_host(ada, host_cpid="f" * 32)
    for amount in (5, -5):
        CreditEntry.objects.create(
            rule="by hand", account=ada, host=host, amount=amount, granted_at=NOON
        )
    consents.list_deletions(ada, now=NOON)
    account, computer = (1, ada.pk, consents.public_cpid(ada)), (2, host.pk, "f" * 32)
    assert listed() == [account, computer]
    StatisticsDeletion.objects.all().delete()
    consents.list_deleted_host(host, now=NOON)
    assert listed() == [computer]


def test_deletions_can_be_listed_again():
    ada = rows.an_account("ada", **GAINS)
    consents.list_deletions(ada, now=NOON)
    consents.list_deletions(ada, now=NOON)
    assert len(listed()) == 1


def test_computers_of_a_new_account_are_hidden():
    digest = accounts.password_digest(email="new@example.org", password="secret of new")
    new = accounts.create_account(
        email="new@example.org", passwd_hash=digest, name="New", now=NOON
    ).account
    new.refresh_from_db()
    assert not new.show_hosts


def test_hidden_computers_are_recorded_and_leave_other_consents_unchanged():
    ada = rows.an_account("ada", show_hosts=True)
    stored = consents.change(ada, show_hosts=False, source="web", now=NOON)
    assert (stored.show_hosts, stored.share_statistics) == (False, True)
    entry = AuditEntry.objects.get(event="account_changed")
    assert entry.details == {"show_hosts": False, "source": "web"}
