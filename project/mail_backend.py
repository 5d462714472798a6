"""Puts mail of Django and of its packages into the outbox."""

from __future__ import annotations

from collections.abc import Sequence

from django.core.mail import EmailMessage
from django.core.mail.backends.base import BaseEmailBackend
from django.utils import timezone

from scheduler.messages import outbox
from scheduler.messages.rules.mail_rules import BadMail


class OutboxBackend(BaseEmailBackend):
    """Stores mail in the current transaction; the housekeeper sends it.

    The outbox has plain text only: HTML alternatives are left out, and the sender is always
    `MAIL_FROM`.  Attachments are refused.
    """

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        """Store messages; return their number.  Raises `MailDisabled` and `BadMail`."""
        stored = 0
        for message in email_messages:
            try:
                _store(message)
            except (outbox.MailDisabled, BadMail):
                if not self.fail_silently:
                    raise
            else:
                stored += 1
        return stored


def _store(message: EmailMessage) -> None:
    if message.attachments:
        raise BadMail("A mail has attachments. Hint: send a link instead.")
    outbox.add(
        message.recipients(),
        str(message.subject),
        str(message.body),
        now=timezone.now(),  # noqa: TID251 - the clock is read here
    )
