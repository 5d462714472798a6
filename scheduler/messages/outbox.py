"""Stores messages to people and other servers, and delivers them later.

Theory of operation.  An operation calls `add` in the transaction that causes a message, so the
message exists if and only if the change does.  The housekeeper calls `deliver_due`, which leases
some messages, delivers them while no transaction is open, and writes the outcomes.  The lease is
longer than the time limit of a delivery, so that no other process delivers the same message.  A
message is delivered again, with the same Message-ID, if its answer is lost or its outcome cannot be
written: at least once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import monotonic
from typing import Final

from django.conf import settings
from django.db.models import Count, Q, QuerySet

from scheduler import sql, wakeups
from scheduler.messages.rules import mail_rules
from scheduler.models import Letter, OutboxMessage

log = logging.getLogger(__name__)

Kind = OutboxMessage.Kind
#: The maximum number of messages of one pass.  A kill can repeat at most these.
BATCH: Final = 20
#: A pass starts no further delivery after this number of seconds, because the housekeeper has other
#: chores.
MAX_PASS_SECONDS: Final = 30.0
#: The time limit of one delivery; the lease is longer than a pass and one delivery.
MAX_DELIVERY_SECONDS: Final = 20.0
LEASE: Final = timedelta(minutes=5)
_MAX_ERROR: Final = 500


class MailDisabled(RuntimeError):
    """The project sends no mail. Hint: set EMAIL_URL."""


class NotWaiting(LookupError):
    """The messages do not exist, were sent, or may be in delivery. Hint: reload the list."""


class DeliveryFailed(Exception):
    """A message was not delivered; `is_final` means that another attempt would fail, too."""

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.is_final = is_final


@dataclass(frozen=True, slots=True)
class Message:
    """A leased message; `attempts` includes the current attempt."""

    id: int
    kind: int
    recipient: str
    subject: str
    text: str
    created_at: datetime
    attempts: int
    unsubscribe_url: str = ""
    is_copy: bool = False
    """Whether it is a copy of a letter."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of a letter; a POST request to `unsubscribe_url` ends the recipient's consent."""

    recipient: str
    text: str
    unsubscribe_url: str


#: A function that delivers one message, or raises `DeliveryFailed`.
Channel = Callable[[Message], None]


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The columns of a message after an attempt; `unused` is 1 if there was no attempt."""

    unused: int = 0
    next_attempt_at: datetime | None = None
    sent_at: datetime | None = None
    parked_at: datetime | None = None
    last_error: str = ""


def sends_mail() -> bool:
    """Return whether the project sends mail.  Pages that need mail show this to their users."""
    return settings.MAIL is not None


def add(
    recipients: Iterable[str],
    subject: str,
    text: str,
    *,
    now: datetime,
    kind: int = Kind.MAIL,
) -> None:
    """Store a message for each recipient, in the caller's transaction.

    Raises `MailDisabled` if the project sends no mail, and `BadMail` for an invalid recipient,
    subject or text.  For a webhook, the recipient is the name of the host, and the text is the body
    of the request.
    """
    if kind == Kind.MAIL and not sends_mail():
        raise MailDisabled("This project sends no mail. Hint: an operator can set EMAIL_URL.")
    rows = [
        OutboxMessage(
            kind=kind,
            recipient=mail_rules.check_address(recipient) if kind == Kind.MAIL else recipient,
            subject=mail_rules.check_subject(subject),
            text=mail_rules.check_text(text),
            created_at=now,
            next_attempt_at=now,
        )
        for recipient in recipients
    ]
    OutboxMessage.objects.bulk_create(rows)
    wakeups.after_commit("housekeeper")


def add_copies(letter: Letter, copies: Iterable[Copy], *, now: datetime) -> None:
    """Store copies of a letter, in the caller's transaction; raises `MailDisabled` and `BadMail`.

    Other messages are delivered before copies of letters.
    """
    if not sends_mail():
        raise MailDisabled("This project sends no mail. Hint: an operator can set EMAIL_URL.")
    subject = mail_rules.check_subject(letter.subject)
    OutboxMessage.objects.bulk_create(
        OutboxMessage(
            recipient=mail_rules.check_address(copy.recipient),
            subject=subject,
            text=mail_rules.check_text(copy.text),
            unsubscribe_url=copy.unsubscribe_url,
            letter=letter,
            created_at=now,
            next_attempt_at=now,
        )
        for copy in copies
    )
    wakeups.after_commit("housekeeper")


def waiting_copies() -> int:
    """Return the number of copies of all letters that wait for their delivery."""
    return _unsent_copies().filter(parked_at=None).count()


def unsent_copies(letter: Letter) -> tuple[int, int]:
    """Return the numbers of a letter's copies that wait, and that are parked."""
    counted = (
        _unsent_copies()
        .filter(letter=letter)
        .aggregate(
            waiting=Count("id", filter=Q(parked_at=None)),
            parked=Count("id", filter=Q(parked_at__isnull=False)),
        )
    )
    return counted["waiting"], counted["parked"]


def drop_copies(letter: Letter) -> int:
    """Delete the copies of a letter that were not delivered; return their number.

    A copy that is being delivered meanwhile can still arrive.
    """
    copies = _unsent_copies().filter(letter=letter)
    # In the order in which `messages/settle_messages` locks them.
    ids = list(copies.order_by("pk").select_for_update().values_list("pk", flat=True))
    return OutboxMessage.objects.filter(pk__in=ids).delete()[0]


def _unsent_copies() -> QuerySet[OutboxMessage]:
    return OutboxMessage.objects.filter(letter__isnull=False, sent_at=None)


def deliver_due(channels: Mapping[int, Channel], *, now: datetime, limit: int = BATCH) -> int:
    """Deliver due messages of the kinds in `channels`; return the number of delivered messages.

    Two statements, whatever the number of messages.  A message that cannot be delivered is retried
    with growing delays, and then parked; one that raises another exception than `DeliveryFailed`
    is parked at once.
    """
    if not channels:
        return 0
    lease_until = now + LEASE
    leased = sql.fetch_into(
        Message,
        "messages/lease_messages",
        {"now": now, "kinds": list(channels), "limit": limit, "lease_until": lease_until},
    )
    outcomes: dict[int, _Outcome] = {}
    try:
        _deliver(
            sorted(leased, key=lambda message: (message.is_copy, message.id)),
            channels,
            outcomes,
            now=now,
        )
    finally:
        # After an interruption, too: delivered messages must not be sent again.
        if leased:
            _settle(leased, outcomes, now=now, lease_until=lease_until)
    return sum(outcome.sent_at is not None for outcome in outcomes.values())


def _deliver(
    leased: Sequence[Message],
    channels: Mapping[int, Channel],
    outcomes: dict[int, _Outcome],
    *,
    now: datetime,
) -> None:
    ends_at = monotonic() + MAX_PASS_SECONDS
    for message in leased:
        if monotonic() > ends_at:
            return
        try:
            channels[message.kind](message)
        except DeliveryFailed as failure:
            outcomes[message.id] = _failed(message, failure, now=now)
        except Exception as error:  # noqa: BLE001 - the other messages are delivered
            fault = DeliveryFailed(f"{type(error).__name__}: {error}", is_final=True)
            outcomes[message.id] = _failed(message, fault, now=now)
        else:
            outcomes[message.id] = _Outcome(sent_at=now)


def _failed(message: Message, failure: DeliveryFailed, *, now: datetime) -> _Outcome:
    reason = mail_rules.one_line(str(failure), _MAX_ERROR)
    delay = None if failure.is_final else mail_rules.next_delay(message.attempts)
    # Neither the recipient nor the text is logged.
    details = {"id": message.id, "attempts": message.attempts, "reason": reason}
    if delay is None:
        log.error("message_parked", extra=details)
        return _Outcome(parked_at=now, last_error=reason)
    log.warning("message_put_off", extra=details)
    return _Outcome(next_attempt_at=now + delay, last_error=reason)


def _settle(
    leased: Sequence[Message],
    outcomes: Mapping[int, _Outcome],
    *,
    now: datetime,
    lease_until: datetime,
) -> None:
    untried = _Outcome(unused=1, next_attempt_at=now)
    settled = [outcomes.get(message.id, untried) for message in leased]
    sql.execute(
        "messages/settle_messages",
        {
            "ids": [message.id for message in leased],
            "unused": [outcome.unused for outcome in settled],
            "next_attempt_at": sql.array(outcome.next_attempt_at for outcome in settled),
            "sent_at": sql.array(outcome.sent_at for outcome in settled),
            "parked_at": sql.array(outcome.parked_at for outcome in settled),
            "last_error": [outcome.last_error for outcome in settled],
            "lease_until": lease_until,
        },
    )


# Staff


def retry(ids: Sequence[int], *, now: datetime) -> int:
    """Make waiting and parked messages due at once, with all attempts; return their number.

    Messages whose next attempt is at most `LEASE` away are not changed, because they may be leased:
    a second process would deliver them, too.  Raises `NotWaiting` if no message was changed.
    """
    may_be_leased = Q(next_attempt_at__gt=now, next_attempt_at__lte=now + LEASE)
    changed = (
        _unsent(ids).exclude(may_be_leased).update(next_attempt_at=now, parked_at=None, attempts=0)
    )
    if not changed and _unsent(ids).exists():
        minutes = LEASE // timedelta(minutes=1)
        raise NotWaiting(
            f"The messages are being delivered, or are tried again within {minutes} minutes. "
            "Hint: reload the list later."
        )
    _require(changed, "No selected message is waiting or parked")
    wakeups.after_commit("housekeeper")
    return changed


def drop(ids: Sequence[int]) -> int:
    """Delete waiting and parked messages, which are then never sent; return their number.

    Raises `NotWaiting` if none of the messages waits or is parked.
    """
    dropped, _ = _unsent(ids).delete()
    _require(dropped, "No selected message is waiting or parked")
    return dropped


def unsent(ids: Sequence[int]) -> list[OutboxMessage]:
    """Return the messages with these ids that were not sent, without their texts."""
    return list(_unsent(ids).defer("text").order_by("id"))


def count_unsent(ids: Sequence[int]) -> int:
    """Return the number of the messages with these ids that were not sent."""
    return _unsent(ids).count()


def _unsent(ids: Sequence[int]) -> QuerySet[OutboxMessage]:
    return OutboxMessage.objects.filter(sent_at=None, pk__in=ids)


def _require(count: int, problem: str) -> None:
    if not count:
        raise NotWaiting(f"{problem}. Hint: reload the list; they may have been sent meanwhile.")
