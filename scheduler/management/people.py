"""Whom a command is about: an account by its e-mail address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.core.management.base import CommandError

from scheduler.people.account_lookup import find_account_by_email

if TYPE_CHECKING:
    from scheduler.models import Account


def account_of(email: str) -> Account:
    """Whose e-mail address it is; raises `CommandError`."""
    account = find_account_by_email(email)
    if account is None:
        msg = (
            f"No account has the e-mail address {email!r}. "
            "Hint: check its spelling; `manage.py create_account` makes one."
        )
        raise CommandError(msg)
    return account
