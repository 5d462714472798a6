"""Encrypts the positions at which the next pages of public lists begin.

Theory of operation.  A page begins after a position: the sort key and the id of a row.  The row may
be hidden from the reader, and a reader who could choose a row would learn its sort key from the
page after it.  Therefore links contain a position only as a Fernet token, which is encrypted,
authenticated and different each time.  Positions are padded, since the length of a token is
visible.  Each list has a key of its own, derived from `SECRET_KEY` and the name of the list, so
that a position is accepted only in the list and the order for which it was made.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from decimal import Decimal
from typing import Final

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings

#: Maximum length of a token; a name of 254 characters with four bytes each makes one of 1,548.
MAX_TOKEN: Final = 2_000
#: The length is a multiple of this.  Every position in a list by credit has this length.
_PADDED_NBYTES: Final = 64
_PADDING: Final = b"\0"


class BadPosition(ValueError):
    """The text is not a position in this list. Hint: use the link to the next page unchanged."""


def seal(list_name: str, key: Decimal | float | str, row_id: int) -> str:
    """Return the token of the position of a row in the list, for URLs.

    `list_name` includes everything that selects the order of the rows.
    """
    text = f"{row_id} {key}".encode()
    nbytes = -(-len(text) // _PADDED_NBYTES) * _PADDED_NBYTES
    return _cipher(list_name).encrypt(text.ljust(nbytes, _PADDING)).decode()


def unseal(list_name: str, token: str) -> tuple[str, int]:
    """Return the text of the sort key, and the id; raises BadPosition."""
    try:
        text = _cipher(list_name).decrypt(token.encode("utf-8", "replace"))
    except InvalidToken:
        raise BadPosition(
            "This is not a position in this list. Hint: use the link to the next page unchanged, "
            "or omit the position to read the first page."
        ) from None
    row_id, _, key = text.rstrip(_PADDING).decode().partition(" ")
    return key, int(row_id)


def _cipher(list_name: str) -> Fernet:
    secret = f"list positions {settings.SECRET_KEY}".encode()
    return Fernet(urlsafe_b64encode(hmac.digest(secret, list_name.encode(), "sha256")))
