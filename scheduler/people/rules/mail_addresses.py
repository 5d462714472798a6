"""Checks e-mail addresses to which mail can be sent [pure]."""

from __future__ import annotations

import re
from typing import Final

#: The limit of SMTP for an address, and of the columns.
MAX_ADDRESS: Final = 254

#: The characters of RFC 5322 without quoted local parts, so no blank, comma, quote or bracket can
#: change the meaning of a header or an SMTP command.  A dot stands between two other characters,
#: and "=?" would begin an encoded word.
_ADDRESS = re.compile(
    r"(?=[^@]{1,64}@)(?![^@]*=\?)"
    r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
    r"@[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*"
)


class BadMail(ValueError):
    """A message has an invalid recipient, subject or text. Hint: see the message."""


def check_address(address: str) -> str:
    """Return an e-mail address; raises `BadMail` if it is not one.

    The address is ASCII and has no display name.

    >>> check_address("ada@example.org")
    'ada@example.org'
    """
    if len(address) > MAX_ADDRESS or not _ADDRESS.fullmatch(address):
        raise BadMail(
            f"{address[:80]!r} is not an e-mail address that mail can be sent to. "
            "Hint: write it as you@example.org, in ASCII."
        )
    return address
