"""Checks the headers of messages, and schedules delivery attempts [pure]."""

from __future__ import annotations

import unicodedata
from datetime import timedelta
from typing import Final

from scheduler.people.rules import mail_addresses

MAX_SUBJECT: Final = 200
MAX_TEXT: Final = 100_000
#: A message that was not delivered after this number of attempts is parked.  With the delays below
#: this takes a day, which is longer than most outages of a mail server.
MAX_ATTEMPTS: Final = 28
FIRST_DELAY: Final = timedelta(seconds=30)
MAX_DELAY: Final = timedelta(hours=1)

#: Unicode categories of characters that end or hide a part of a line: controls, line and paragraph
#: separators, surrogates.
_NOT_IN_LINES: Final = frozenset({"Cc", "Zl", "Zp", "Cs"})
#: The check of recipients, which addresses of accounts pass, too, and its exception.
check_address, BadMail = mail_addresses.check_address, mail_addresses.BadMail


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
