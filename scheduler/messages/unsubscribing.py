"""Makes and uses the signed links that end an account's consent to letters.

A link does not expire and works without a log-in.  It permits nothing but the withdrawal, so
its disclosure does no other harm.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final
from urllib.parse import urljoin

from django.conf import settings
from django.core import signing

from scheduler.models import Account
from scheduler.people.personal_data import consents

#: The path of the page; `web.urls` routes it.
PATH: Final = "letters/unsubscribe/"
_SALT: Final = "scheduler.messages.unsubscribing"
_NUMBERS: Final = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")


class BadLink(LookupError):
    """The link was not made by this project. Hint: use the account page."""


def link(letter_id: int, account_id: int) -> str:
    """Return the address of the page that ends letters to an account; a POST request ends them."""
    token = _signer().sign(f"{letter_id}-{account_id}")
    return urljoin(settings.PROJECT.master_url, f"/{PATH}{token}/")


def check(token: str) -> tuple[int, int]:
    """Return the ids of the letter and of the account in a link; raises `BadLink`."""
    try:
        numbers = _NUMBERS.fullmatch(_signer().unsign(token))
    except signing.BadSignature as error:
        raise BadLink("The link is damaged. Hint: copy all of it.") from error
    if numbers is None:
        raise BadLink("The link is damaged. Hint: copy all of it.")
    return int(numbers[1]), int(numbers[2])


def unsubscribe(token: str, *, now: datetime) -> None:
    """Withdraw the consent of the account in a link; raises `BadLink`.

    A second call changes nothing.
    """
    letter_id, account_id = check(token)
    account = Account.objects.filter(pk=account_id).first()
    if account is not None:
        consents.change(account, receive_letters=False, source=f"letter {letter_id}", now=now)


def _signer() -> signing.Signer:
    return signing.Signer(salt=_SALT, sep=".")
