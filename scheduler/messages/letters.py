"""Writes letters, and sends them to the accounts that consented.

Theory of operation.  Staff write a draft, see a preview, and start it.  From then on the letter
does not change.  The housekeeper calls `send_due`, which takes the oldest started letter, reads the
next recipients in ascending ids of accounts, and writes their copies to the outbox, all in one
transaction with the letter's cursor: a kill repeats or loses no copy, and `LetterRecipient` is
unique by letter and account.  At most `MAX_WAITING` copies wait in the outbox, so that a stopped
letter ends at once, and accounts that withdraw their consent meanwhile get no copy.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import urljoin

from allauth.account.models import EmailAddress
from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, OuterRef, QuerySet

from scheduler import sql, wakeups
from scheduler.messages import outbox, unsubscribing
from scheduler.messages.rules import letter_texts, mail_rules
from scheduler.messages.rules.letter_texts import LetterRefused
from scheduler.models import Account, CreditEntry, Letter
from scheduler.people import audit
from scheduler.people.public_texts import confirmed_addresses

log = logging.getLogger(__name__)

#: The maximum number of copies that wait in the outbox, and the size of a chunk.
MAX_WAITING: Final = 200
_TEST: Final = "[Test] "


@dataclass(frozen=True, slots=True)
class Draft:
    """The content of a letter; `recipients` is a member of `Letter.Recipients`."""

    subject: str
    text: str
    recipients: int
    team_id: int | None = None
    credit_days: int | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """The numbers of a letter's copies: written to the outbox, waiting there, and parked there."""

    copies: int
    waiting: int
    parked: int


def checked(draft: Draft) -> Draft:
    """Return a draft in its stored form; raises `LetterRefused`.

    The team and the number of days are None unless `recipients` needs them.
    """
    subject, text = letter_texts.check(draft.subject, draft.text)
    kind = Letter.Recipients(draft.recipients)
    days = None
    if kind == Letter.Recipients.CREDIT:
        days = letter_texts.check_credit_days(draft.credit_days)
    if kind == Letter.Recipients.TEAM and draft.team_id is None:
        raise LetterRefused("The letter has no team. Hint: choose the team of the recipients.")
    team_id = draft.team_id if kind == Letter.Recipients.TEAM else None
    return Draft(subject, text, kind.value, team_id, days)


def write(draft: Draft, *, author: Account | None, now: datetime) -> Letter:
    """Store a new draft and an audit entry; raises `LetterRefused`."""
    values = asdict(checked(draft))
    with transaction.atomic():
        letter = Letter.objects.create(**values, author=author, created_at=now)
        _record(letter, "written", now=now)
    return letter


def rewrite(letter_id: int, draft: Draft, *, now: datetime) -> Letter:
    """Change a draft; raises `LetterRefused` if the letter was started."""
    values = asdict(checked(draft))
    with transaction.atomic():
        letter = _lock(letter_id)
        _require_draft(letter)
        Letter.objects.filter(pk=letter.pk).update(**values)
        letter.refresh_from_db()
        _record(letter, "changed", now=now)
    return letter


def fingerprint(letter: Letter) -> str:
    """Return a digest of the content and the recipients of a letter, to send what was previewed."""
    values = (letter.subject, letter.text, letter.recipients, letter.team_id, letter.credit_days)
    return hashlib.sha256(repr(values).encode()).hexdigest()


def rendered(letter: Letter, account_id: int) -> str:
    """Return the text of the copy for an account."""
    return letter_texts.rendered(
        letter.text,
        project=settings.PROJECT.name,
        account_url=urljoin(settings.PROJECT.master_url, "/account/"),
        unsubscribe_url=unsubscribing.link(letter.pk, account_id),
    )


def recipients(letter: Letter, *, now: datetime) -> QuerySet[Account]:
    """Return the accounts that may get a letter and that its filter selects.

    They are active, have a confirmed address, and consented.  `now` is the end of the days of
    credit, if the letter was not started.
    """
    confirmed = EmailAddress.objects.filter(
        user=OuterRef("pk"), email=OuterRef("email"), verified=True
    )
    consenting = Account.objects.filter(Exists(confirmed), is_active=True, receive_letters=True)
    return _FILTERS[Letter.Recipients(letter.recipients)](letter, consenting, now)


def _with_credit(letter: Letter, accounts: QuerySet[Account], now: datetime) -> QuerySet[Account]:
    since = (letter.started_at or now) - timedelta(days=letter.credit_days or 0)
    entries = CreditEntry.objects.filter(
        account=OuterRef("pk"), amount__gt=0, granted_at__gte=since
    )
    return accounts.filter(Exists(entries))


_FILTERS: Final[
    dict[Letter.Recipients, Callable[[Letter, QuerySet[Account], datetime], QuerySet[Account]]]
] = {
    Letter.Recipients.ALL: lambda _letter, accounts, _now: accounts,
    # The team was deleted if it is NULL, which equals no team.
    Letter.Recipients.TEAM: lambda letter, accounts, _now: accounts.filter(
        team__isnull=False, team_id=letter.team_id or 0
    ),
    Letter.Recipients.CREDIT: _with_credit,
    Letter.Recipients.STAFF: lambda _letter, accounts, _now: accounts.filter(is_staff=True),
}


# Staff


def send_test(letter: Letter, account: Account, *, now: datetime) -> None:
    """Put a copy of a draft into the outbox for its writer.

    Raises `LetterRefused` if the project sends no mail or the account's address is not confirmed.
    """
    _require_mail()
    if not confirmed_addresses.is_confirmed(account):
        raise LetterRefused(
            f"The address {account.email} is not confirmed. Hint: confirm it on the account page."
        )
    subject = mail_rules.one_line(f"{_TEST}{letter.subject}", mail_rules.MAX_SUBJECT)
    with transaction.atomic():
        outbox.add([account.email], subject, rendered(letter, account.pk), now=now)
        _record(letter, "tested", now=now)


def start(letter_id: int, *, seen: str, now: datetime) -> Letter:
    """Start a letter, which the housekeeper then sends; raises `LetterRefused`.

    `seen` is the `fingerprint` of the letter that was previewed.
    """
    _require_mail()
    with transaction.atomic():
        letter = _lock(letter_id)
        _require_draft(letter)
        if fingerprint(letter) != seen:
            raise LetterRefused(
                "The letter was changed after its preview. Hint: look at the preview again."
            )
        letter.started_at = now
        letter.save(update_fields=["started_at"])
        _record(letter, "started", now=now)
    wakeups.after_commit("housekeeper")
    return letter


def stop(letter_id: int, *, now: datetime) -> int:
    """Stop a letter for good, and drop its copies that wait; return the number of dropped copies.

    Raises `LetterRefused` if the letter was not started or has ended and no copy waits.
    """
    with transaction.atomic():
        letter = _lock(letter_id)
        dropped = 0 if letter.started_at is None else outbox.drop_copies(letter)
        if letter.started_at is None or (letter.ended_at is not None and not dropped):
            raise LetterRefused("The letter is not being sent. Hint: reload its page.")
        letter.stopped_at = now
        letter.ended_at = letter.ended_at or now
        letter.save(update_fields=["stopped_at", "ended_at"])
        _record(letter, "stopped", now=now, dropped=dropped)
    return dropped


def progress(letter: Letter) -> Progress:
    """Return the numbers of a letter's copies, by one statement."""
    waiting, parked = outbox.unsent_copies(letter)
    return Progress(letter.copies, waiting, parked)


# The housekeeper


def send_due(*, now: datetime, limit: int = MAX_WAITING) -> int:
    """Write the next copies of the oldest started letter to the outbox; return their number.

    At most `limit` copies wait in the outbox afterwards.  The number of statements does not depend
    on the number of copies.
    """
    if not outbox.sends_mail() or not _started().exists():
        return 0
    room = limit - outbox.waiting_copies()
    if room <= 0:
        return 0
    with transaction.atomic():
        oldest = _started().order_by("started_at", "pk")
        letter = oldest.select_for_update(no_key=True, skip_locked=True).first()
        return 0 if letter is None else _send_chunk(letter, room, now)


def _started() -> QuerySet[Letter]:
    return Letter.objects.filter(started_at__isnull=False, ended_at=None)


def _send_chunk(letter: Letter, size: int, now: datetime) -> int:
    # A withdrawal of the consent waits for the lock, and then drops the copy; one that was first is
    # noticed, because PostgreSQL checks a row again after it waited for its lock.
    chunk = list(
        recipients(letter, now=now)
        .filter(pk__gt=letter.account_cursor)
        .order_by("pk")
        .select_for_update(no_key=True, of=("self",))
        .values_list("pk", "email")[:size]
    )
    if not chunk:
        Letter.objects.filter(pk=letter.pk).update(ended_at=now)
        _record(letter, "sent", now=now, copies=letter.copies)
        return 0
    deliverable = [(pk, email) for pk, email in chunk if _is_deliverable(pk, email)]
    new = _insert_recipients(letter, [pk for pk, _email in deliverable], now)
    copies = [
        outbox.Copy(email, rendered(letter, pk), unsubscribing.link(letter.pk, pk))
        for pk, email in deliverable
        if pk in new
    ]
    outbox.add_copies(letter, copies, now=now)
    Letter.objects.filter(pk=letter.pk).update(
        account_cursor=chunk[-1][0], copies=F("copies") + len(copies)
    )
    return len(copies)


def _insert_recipients(letter: Letter, account_ids: Sequence[int], now: datetime) -> set[int]:
    rows = sql.fetch_rows(
        "messages/insert_letter_recipients",
        {"letter_id": letter.pk, "account_ids": list(account_ids), "now": now},
    )
    return {int(row[0]) for row in rows}


def _is_deliverable(account_id: int, email: str) -> bool:
    """Return whether mail can be sent to an address; old accounts may have one of another form."""
    try:
        mail_rules.check_address(email)
    except mail_rules.BadMail:
        log.warning("letter_address_refused", extra={"account_id": account_id})
        return False
    return True


def _lock(letter_id: int) -> Letter:
    letter = Letter.objects.select_for_update(no_key=True).filter(pk=letter_id).first()
    if letter is None:
        raise LetterRefused(f"There is no letter {letter_id}. Hint: see the list of letters.")
    return letter


def _require_draft(letter: Letter) -> None:
    if letter.started_at is not None:
        raise LetterRefused("The letter was started already. Hint: write a new one.")


def _require_mail() -> None:
    if not outbox.sends_mail():
        raise LetterRefused("This project sends no mail. Hint: an operator can set EMAIL_URL.")


def _record(letter: Letter, change: str, *, now: datetime, **numbers: int) -> None:
    audit.record(
        audit.Event.LETTER_CHANGED,
        now=now,
        subject=f"letter {letter.pk}",
        details={
            "change": change,
            "subject": letter.subject,
            "recipients": Letter.Recipients(letter.recipients).name.lower(),
            **numbers,
        },
    )
