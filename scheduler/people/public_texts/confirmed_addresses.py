"""Requires a confirmed e-mail address for texts that everybody can read.

Accounts compute, join teams and have a name before their address is confirmed (decision 37).
Without this rule, a program could sign up with invented addresses and publish links at once.
"""

from __future__ import annotations

from urllib.parse import urljoin

from allauth.account.models import EmailAddress
from django.conf import settings

from scheduler.models import Account
from scheduler.people.account_keys import AccountRefused


class UnconfirmedAddress(AccountRefused):
    """The account has not confirmed its e-mail address. Hint: see the message."""


def is_confirmed(account: Account) -> bool:
    return bool(EmailAddress.objects.filter(user=account, verified=True).exists())


def require(account: Account) -> None:
    """Raise `UnconfirmedAddress` unless the account may publish texts and links.

    Without a mail server no address can be confirmed, so every account may.  Runs one statement,
    or none without a mail server.
    """
    if settings.MAIL is None or is_confirmed(account):
        return
    page = urljoin(settings.PROJECT.master_url, "/account/")
    raise UnconfirmedAddress(
        "Texts of teams and home pages are public, so they need a confirmed e-mail address. "
        f"Hint: follow the link in our mail; the page {page} sends it again."
    )
