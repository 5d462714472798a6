"""Records the consents of accounts: terms of use, exported statistics, letters.

Theory of operation.  The current consents are columns of the account; the audit log has their
history.  The names are those of BOINC's consent types, and `LETTERS`.  If an account withdraws its
consent to statistics, the export no longer contains it and its computers.  It lists their ids as
deleted, so that statistics sites delete what they have.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from django.db import transaction

from scheduler import sql
from scheduler.models import Account, CreditEntry, Host, OutboxMessage, StatisticsDeletion
from scheduler.people import audit
from scheduler.people.account_keys import AccountRefused, lock

_MAX_SOURCE = 100


class Consent(StrEnum):
    """BOINC's consent types, to the terms of use and to the export of statistics; and letters."""

    ENROLL = "ENROLL"
    STATSEXPORT = "STATSEXPORT"
    LETTERS = "LETTERS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The choices of an owner on the page of the account, as in `change`."""

    share_statistics: bool
    show_hosts: bool
    receive_letters: bool


class ConsentNeeded(AccountRefused):
    """The terms of use were not accepted. Hint: accept them in the program that attaches."""

    error_num = -242


def public_cpid(account: Account) -> str:
    """Return the id by which statistics sites know an account across projects (PROTOCOL 8)."""
    secret = account.cross_project_id + account.email
    return hashlib.md5(secret.encode(), usedforsecurity=False).hexdigest()


def accept_terms(account: Account, *, source: str, now: datetime) -> None:
    """Record that a new account accepted the terms of use in the program `source`.

    Call this in the transaction that creates the account.
    """
    Account.objects.filter(pk=account.pk).update(terms_accepted_at=now)
    _record(account, Consent.ENROLL, is_given=True, now=now, source=source[:_MAX_SOURCE])


def change(
    account: Account,
    *,
    share_statistics: bool | None = None,
    show_hosts: bool | None = None,
    receive_letters: bool | None = None,
    source: str,
    now: datetime,
) -> Account:
    """Change the consents that are not None, and return the account as stored.

    `share_statistics` is the consent to the export of statistics.  Its withdrawal lists the account
    and its computers in the export's files of deletions, from which a new consent removes them.
    `show_hosts` permits to name the account as the owner of its computers.  `receive_letters` is
    the consent to letters of the project.  `source` is the program or page that was used.
    """
    with transaction.atomic():
        locked = lock(account)
        if share_statistics is not None and share_statistics != locked.share_statistics:
            locked.share_statistics = share_statistics
            if share_statistics:
                sql.execute("people/unlist_deletions", _listed(locked, now))
            else:
                list_deletions(locked, now=now)
            _record(
                locked,
                Consent.STATSEXPORT,
                is_given=share_statistics,
                now=now,
                source=source[:_MAX_SOURCE],
            )
        if show_hosts is not None and show_hosts != locked.show_hosts:
            locked.show_hosts = show_hosts
            audit.record(
                audit.Event.ACCOUNT_CHANGED,
                now=now,
                subject=locked.email,
                details={"show_hosts": show_hosts, "source": source[:_MAX_SOURCE]},
            )
        if receive_letters is not None and receive_letters != locked.receive_letters:
            _change_letters(locked, is_given=receive_letters, source=source, now=now)
        locked.save(update_fields=["share_statistics", "show_hosts", "receive_letters"])
    return locked


def _change_letters(locked: Account, *, is_given: bool, source: str, now: datetime) -> None:
    locked.receive_letters = is_given
    if not is_given:
        drop_letters(locked)
    _record(locked, Consent.LETTERS, is_given=is_given, now=now, source=source[:_MAX_SOURCE])


def drop_letters(account: Account) -> None:
    """Delete the copies of letters to an account that were not delivered yet."""
    copies = OutboxMessage.objects.filter(
        letter__isnull=False, sent_at=None, recipient=account.email
    )
    # In the order in which `messages/settle_messages` locks them.
    ids = list(copies.order_by("pk").select_for_update().values_list("pk", flat=True))
    OutboxMessage.objects.filter(pk__in=ids).delete()


def list_deletions(account: Account, *, now: datetime) -> None:
    """List an account and its computers in the export's files of deletions.

    Call this also before an account is erased, while its e-mail address and computers are stored.
    Accounts and computers that never had credit were not exported, and are not listed.
    """
    sql.execute("people/list_deletions", _listed(account, now))


def list_deleted_host(host: Host, *, now: datetime) -> None:
    """List a host in the export's file of deletions, if the export has contained it."""
    # Credit that was exported may have been revoked since.
    if host.total_credit > 0 or CreditEntry.objects.filter(host=host).exists():
        StatisticsDeletion.objects.update_or_create(
            kind=StatisticsDeletion.Kind.HOST,
            number=host.pk,
            defaults={"cpid": host.host_cpid, "deleted_at": now},
        )


def _listed(account: Account, now: datetime) -> dict[str, Any]:
    return {
        "account_id": account.pk,
        "cpid": public_cpid(account),
        "account_kind": StatisticsDeletion.Kind.ACCOUNT.value,
        "host_kind": StatisticsDeletion.Kind.HOST.value,
        "now": now,
    }


def _record(
    account: Account, consent: Consent, *, is_given: bool, now: datetime, source: str
) -> None:
    audit.record(
        audit.Event.CONSENT_CHANGED,
        now=now,
        subject=account.email,
        details={"consent": consent.value, "given": is_given, "source": source},
    )
