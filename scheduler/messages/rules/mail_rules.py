"""Checks the headers of messages, and schedules delivery attempts [pure]."""

from __future__ import annotations

import re
import unicodedata
from datetime import timedelta
from typing import Final

#: The limit of SMTP for an address, and of the column.
MAX_ADDRESS: Final = 254
MAX_SUBJECT: Final = 200
MAX_TEXT: Final = 100_000
#: A message that was not delivered after this number of attempts is parked.  With the delays below
#: this takes a day, which is longer than most outages of a mail server.
MAX_ATTEMPTS: Final = 28
FIRST_DELAY: Final = timedelta(seconds=30)
MAX_DELAY: Final = timedelta(hours=1)

#: The characters of RFC 5322 without quoted local parts, so no blank, comma, quote or bracket can
#: change the meaning of a header or an SMTP command.  A dot stands between two other characters,
#: and "=?" would begin an encoded word.
_ADDRESS = re.compile(
    r"(?=[^@]{1,64}@)(?![^@]*=\?)"
    r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
    r"@[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*"
)
#: Unicode categories of characters that end or hide a part of a line: controls, line and paragraph
#: separators, surrogates.
_NOT_IN_LINES: Final = frozenset({"Cc", "Zl", "Zp", "Cs"})


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


def check_subject(subject: str) -> str:
    """Return a subject; raises `BadMail` if it is empty, too long or has a line break."""
    if not subject.strip() or len(subject) > MAX_SUBJECT or subject != one_line(subject):
        raise BadMail(
            f"{subject[:80]!r} cannot be the subject of a mail. "
            f"Hint: use one line of at most {MAX_SUBJECT} characters."
        )
    return subject


def check_text(text: str) -> str:
    """Return the text of a message; raises `BadMail` if it has a NUL or is too long."""
    if "\0" in text or len(text) > MAX_TEXT:
        raise BadMail(
            f"The text of a mail has a NUL character, or more than {MAX_TEXT} characters. "
            "Hint: shorten it."
        )
    return text


def one_line(text: str, max_length: int | None = None) -> str:
    r"""Return a text in one line: control characters and line breaks become blanks.

    >>> one_line("a\r\nBcc: b", 6)
    'a  Bcc'
    """
    line = "".join(" " if unicodedata.category(char) in _NOT_IN_LINES else char for char in text)
    return line[:max_length]


def next_delay(attempts: int) -> timedelta | None:
    """Return the delay after the failed attempt number `attempts`; None parks the message.

    >>> [str(next_delay(attempts)) for attempts in (1, 3, 20, 28)]
    ['0:00:30', '0:02:00', '1:00:00', 'None']
    """
    if attempts >= MAX_ATTEMPTS:
        return None
    return min(FIRST_DELAY * (1 << min(attempts - 1, 20)), MAX_DELAY)
