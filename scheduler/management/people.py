"""Finds the account that a command concerns by its e-mail address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.core.management.base import CommandError

from scheduler.people.accounts import find_account_by_email

if TYPE_CHECKING:
    from scheduler.models import Account


def account_of(email: str) -> Account:
    """Return the account with this e-mail address; raises `CommandError`."""
    account = find_account_by_email(email)
    if account is None:
        msg = (
            f"No account has the e-mail address {email!r}. "
            "Hint: check the spelling, or create it with `manage.py create_account`."
        )
        raise CommandError(msg)
    return account
