"""Makes and checks the secrets in the addresses of accounts' feeds of notices.

Theory of operation.  A scheduler reply names the account's feed, and the client fetches it without
a key.  The secret in the address is an HMAC of the account's id and of a digest of its stored
password, so that it is the same in every reply and ends when the password changes, as BOINC's.  The
next reply names the new address.
"""

from __future__ import annotations

import hmac

from django.conf import settings
from django.db.models import F
from django.db.models.functions import MD5

from scheduler.models import Account
from scheduler.people.account_keys import AccountRefused


class BadFeedKey(AccountRefused):
    """The secret of a feed is wrong. Hint: the next scheduler reply has the current address."""

    error_num = -155


def feed_key(account_id: int, password_digest: str) -> str:
    """Return the secret of an account's feed: its id, `_` and 32 hex digits.

    `password_digest` is the MD5 of the stored password hash.
    """
    key = f"notices {settings.SECRET_KEY}".encode()
    text = f"{account_id} {password_digest}".encode()
    return f"{account_id}_{hmac.digest(key, text, 'sha256').hex()[:32]}"


def check(account_id: int, key: str) -> None:
    """Raise `BadFeedKey` unless `key` is the secret of the active account with this id."""
    accounts = Account.objects.filter(pk=account_id, is_active=True)
    digest = accounts.values_list(MD5(F("password")), flat=True).first()
    if digest is None or not hmac.compare_digest(
        feed_key(account_id, digest).encode(), key.encode("utf-8", "replace")
    ):
        raise BadFeedKey(
            "The secret of this feed is wrong or expired. "
            "Hint: update the project in the BOINC client, which then gets the current address."
        )
