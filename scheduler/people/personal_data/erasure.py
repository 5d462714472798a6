"""Erases the personal data of an account at the request of its owner.

The row of the account stays, without any personal data, because results, hosts and credit refer to
it: the work that was done remains valid.  Entries of the audit log stay until the housekeeper drops
them (`AUDIT_KEPT_DAYS`).
"""

from __future__ import annotations

import secrets
from datetime import datetime
from typing import Final

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.hashers import make_password
from django.db import transaction

from scheduler.models import (
    Account,
    AccountBadge,
    AccountKey,
    ApiToken,
    EmailChange,
    Host,
    HostToken,
    LetterRecipient,
    LoginNetwork,
    ManualGrant,
    TeamAdministrator,
)
from scheduler.people import audit, teams
from scheduler.people.account_keys import AccountRefused
from scheduler.people.audit import Event
from scheduler.people.personal_data import consents, sampled_credit

#: The columns of an account and of a host that can identify a person, with their erased values.
_ACCOUNT = {
    "name": "",
    "country": "",
    "url": "",
    "team": None,
    "venue": "",
    "global_prefs": "",
    "global_prefs_mod_time": 0,
    "project_prefs": "",
    "share_statistics": False,
    "show_hosts": False,
    "receive_letters": False,
    "is_active": False,
    "last_login": None,
}
HOST_COLUMNS = {"domain_name": "", "last_ip_addr": "", "host_cpid": "", "timezone": 0, "venue": ""}
#: The rows that are deleted with the account's personal data.
_DELETED = (
    AccountBadge,
    AccountKey,
    ApiToken,
    EmailChange,
    LetterRecipient,
    LoginNetwork,
    TeamAdministrator,
)
#: Each failed attempt needs another transaction that changes the members at the same moment.
_MAX_ATTEMPTS: Final = 10


class StaffAccount(AccountRefused):
    """The account has rights. Hint: have the rights taken first."""


def is_erased(account: Account) -> bool:
    """Return whether the personal data of the account were erased."""
    return account.email == _erased_address(account)


def _erased_address(account: Account) -> str:
    return f"erased-{account.pk}@erased.invalid"


def erase(account: Account, *, now: datetime) -> None:
    """Erase the account's personal data, log-ins, keys, tokens and sessions.

    Its computers can no longer contact the project.  Another account can use the e-mail address.
    Its team gets another founder (`people.teams`).
    The statistics export lists the account and its computers as deleted.
    Raises `StaffAccount` for a member of staff, so that a project does not lose its last one, and
    `SuccessorChanged` if the members of its team changed during each of `_MAX_ATTEMPTS` attempts.
    """
    for _ in range(_MAX_ATTEMPTS - 1):
        try:
            return _erase(account, now=now)
        except teams.SuccessorChanged:
            continue
    return _erase(account, now=now)


def _erase(account: Account, *, now: datetime) -> None:
    with transaction.atomic():
        _lock_hosts(account)
        successors = teams.successors(account)
        accounts = teams.lock_accounts([account.pk, *successors.values()])
        locked = accounts[account.pk]
        if locked.is_staff or locked.is_superuser:
            raise StaffAccount(
                f"{locked.email} is a member of the project's staff. "
                "Hint: have the rights taken by another member first."
            )
        teams.hand_over(locked, successors, accounts, now=now)
        if locked.share_statistics:
            consents.list_deletions(locked, now=now)
        consents.drop_letters(locked)
        erased = {
            "email": _erased_address(locked),
            "cross_project_id": secrets.token_hex(16),
            "password": make_password(None),
        }
        Account.objects.filter(pk=locked.pk).update(**_ACCOUNT, **erased)
        locked.groups.clear()
        locked.user_permissions.clear()
        for table in _DELETED:
            table._default_manager.filter(account=locked).delete()
        sampled_credit.of_account(locked).delete()
        # A reason can name the person.
        ManualGrant.objects.filter(account=locked).update(reason="")
        Authenticator.objects.filter(user=locked).delete()
        SocialAccount.objects.filter(user=locked).delete()
        EmailAddress.objects.filter(user=locked).delete()
        EmailAddress.objects.create(user=locked, email=erased["email"], primary=True)
        HostToken.objects.filter(host__account=locked).delete()
        Host.objects.filter(account=locked).update(**HOST_COLUMNS)
        audit.record(Event.ACCOUNT_ERASED, now=now, subject=f"account {locked.pk}")


def _lock_hosts(account: Account) -> None:
    """Lock the account's hosts in ascending id: every transaction locks hosts before accounts."""
    hosts = Host.objects.select_for_update(no_key=True).filter(account=account).order_by("pk")
    list(hosts.values_list("pk"))
