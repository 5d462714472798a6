"""Checks letters, and adds the lines with which a recipient ends them [pure]."""

from __future__ import annotations

from typing import Final

from scheduler.messages.rules import mail_rules

#: The limit of a letter's own text; the outbox stores a copy for each recipient that waits.
MAX_TEXT: Final = 20_000
MAX_CREDIT_DAYS: Final = 365


class LetterRefused(ValueError):
    """A letter cannot be stored, sent or stopped. Hint: see the message."""


def check(subject: str, text: str) -> tuple[str, str]:
    r"""Return subject and text in their stored form; raises `LetterRefused` for a bad one.

    >>> check(" News ", "Dear all,\r\nthanks.\r\n")
    ('News', 'Dear all,\nthanks.')
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n").strip()
    try:
        subject = mail_rules.check_subject(subject.strip())
        mail_rules.check_text(text)
    except mail_rules.BadMail as refusal:
        raise LetterRefused(str(refusal)) from refusal
    if not 0 < len(text) <= MAX_TEXT:
        raise LetterRefused(f"The text has {len(text)} characters. Hint: give 1 to {MAX_TEXT}.")
    return subject, text


def check_credit_days(days: int | None) -> int:
    """Return the number of days; raises `LetterRefused` unless it is from 1 to 365."""
    if days is None or not 1 <= days <= MAX_CREDIT_DAYS:
        raise LetterRefused(
            f"{days} is not a number of days. Hint: give 1 to {MAX_CREDIT_DAYS} credit days."
        )
    return days


def rendered(text: str, *, project: str, account_url: str, unsubscribe_url: str) -> str:
    """Return the text of one copy: the letter, and why the recipient gets it."""
    return (
        f"{text}\n\n-- \n"
        f"You get this letter because your account at {project} receives letters by mail.\n"
        f"End this without a log-in: {unsubscribe_url}\n"
        f"Your account: {account_url}\n"
    )
