"""Each account that consented gets a letter once; other accounts get none."""

from __future__ import annotations

import json
from datetime import timedelta
from email import message_from_string, policy

import pytest
from allauth.account.models import EmailAddress
from django.db import connection
from django.test.utils import CaptureQueriesContext

from daemons import housekeeper
from scheduler.messages import letters, outbox, unsubscribing
from scheduler.messages.rules.letter_texts import LetterRefused
from scheduler.models import (
    Account,
    AuditEntry,
    CreditEntry,
    Letter,
    LetterRecipient,
    OutboxMessage,
    Team,
)
from scheduler.people import accounts
from scheduler.people.personal_data import consents, erasure, own_data
from tests import rows
from tests.conftest import NOON
from tests.mail_server import mail_server

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
ALL = Letter.Recipients.ALL.value


@pytest.fixture(autouse=True)
def server(settings):
    with mail_server() as running:
        settings.MAIL = running.config()
        settings.MAIL_FROM = "noreply@example.org"
        yield running


def a_reader(name: str = "", *, confirmed: bool = True, **fields) -> Account:
    """Create an account that receives letters."""
    account = rows.an_account(name, **{"receive_letters": True} | fields)
    EmailAddress.objects.filter(user=account).update(verified=confirmed)
    return account


def a_draft(recipients: int = ALL, **fields) -> Letter:
    draft = letters.Draft("News of the project", "Dear all,\nthank you.", recipients, **fields)
    return letters.write(draft, author=None, now=NOON)


def start(letter: Letter, now=NOON) -> Letter:
    return letters.start(letter.pk, seen=letters.fingerprint(letter), now=now)


def recipients() -> list[str]:
    return sorted(OutboxMessage.objects.values_list("recipient", flat=True))


def emails_of(letter: Letter, now=NOON) -> list[str]:
    return sorted(letters.recipients(letter, now=now).values_list("email", flat=True))


# Recipients


def test_only_active_accounts_with_consent_and_a_confirmed_address_get_letters():
    reader = a_reader("ada")
    a_reader("closed", is_active=False)
    a_reader("unconfirmed", confirmed=False)
    a_reader("refused", receive_letters=False)
    EmailAddress.objects.filter(user=a_reader("renamed")).update(email="former@example.org")
    start(a_draft())
    assert letters.send_due(now=NOON) == 1
    assert recipients() == [reader.email]


def test_a_new_account_receives_no_letters():
    digest = accounts.password_digest(email="new@example.org", password="secret of new")
    new = accounts.create_account(
        email="new@example.org", passwd_hash=digest, name="New", now=NOON
    ).account
    EmailAddress.objects.update(verified=True)
    assert not Account.objects.get(pk=new.pk).receive_letters
    assert emails_of(a_draft()) == []


def test_filters_select_a_team_staff_or_accounts_with_recent_credit():
    team = Team.objects.create(name="Team", created_at=NOON)
    member, chief = a_reader("member", team=team), a_reader("chief", is_staff=True)
    busy, former, punished = a_reader("busy"), a_reader("former"), a_reader("punished")
    for account, amount, age in ((busy, 5, 2), (former, 5, 9), (punished, -5, 2)):
        CreditEntry.objects.create(
            rule="by hand", account=account, amount=amount, granted_at=NOON - age * DAY
        )
    kinds = Letter.Recipients
    assert emails_of(a_draft(kinds.TEAM, team_id=team.pk)) == [member.email]
    assert emails_of(a_draft(kinds.STAFF)) == [chief.email]
    assert emails_of(a_draft(kinds.CREDIT, credit_days=7)) == [busy.email]
    assert len(emails_of(a_draft())) == 5


def test_letter_to_a_deleted_team_has_no_recipient():
    team = Team.objects.create(name="Team", created_at=NOON)
    a_reader("member", team=team)
    a_reader("alone")
    letter = a_draft(Letter.Recipients.TEAM, team_id=team.pk)
    team.delete()
    letter.refresh_from_db()
    assert emails_of(letter) == []


# Sending


def test_a_letter_arrives_with_the_headers_of_one_click_unsubscription(server, settings):
    reader = a_reader("ada")
    letter = start(a_draft())
    assert letters.send_due(now=NOON) == 1
    assert housekeeper.deliver_messages(NOON, 1000) == 1
    [(_sender, recipient, raw)] = server.mails
    mail = message_from_string(raw, policy=policy.default)
    url = unsubscribing.link(letter.pk, reader.pk)
    assert recipient == f"<{reader.email}>"
    assert url.startswith(settings.PROJECT.master_url)
    assert mail["List-Unsubscribe"] == f"<{url}>"
    assert mail["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert f"List-Unsubscribe: <{url}>" in raw.splitlines()
    text = mail.get_content().replace("\r\n", "\n")
    assert text.startswith("Dear all,\nthank you.")
    assert url in text
    sent = OutboxMessage.objects.get()
    assert (sent.text, sent.unsubscribe_url) == ("", "")


def test_other_mail_has_no_header_of_unsubscription_and_is_delivered_first(server, monkeypatch):
    monkeypatch.setattr(outbox.deliver_due, "__kwdefaults__", {"limit": 1})
    a_reader("ada")
    start(a_draft())
    letters.send_due(now=NOON)
    outbox.add(["eve@example.org"], "Reset", "https://x/reset", now=NOON + DAY)
    assert housekeeper.deliver_messages(NOON + DAY, 1000) == 1
    [(_, recipient, raw)] = server.mails
    assert recipient == "<eve@example.org>"
    assert "List-Unsubscribe" not in raw


def test_other_mail_comes_before_copies_that_one_pass_delivers(server):
    a_reader("ada")
    start(a_draft())
    letters.send_due(now=NOON)
    outbox.add(["eve@example.org"], "Reset", "https://x/reset", now=NOON)
    assert housekeeper.deliver_messages(NOON, 1000) == 2
    assert next(recipient for _, recipient, _ in server.mails) == "<eve@example.org>"


def test_each_account_gets_one_copy_in_chunks_whatever_their_number():
    readers = [a_reader() for _ in range(5)]
    letter = start(a_draft())
    counts = []
    for _ in range(4):
        counts.append(letters.send_due(now=NOON, limit=2))
        OutboxMessage.objects.update(sent_at=NOON, next_attempt_at=None, text="")
    letter.refresh_from_db()
    assert (counts, letter.ended_at, letter.copies) == ([2, 2, 1, 0], NOON, 5)
    assert recipients() == sorted(reader.email for reader in readers)
    assert letters.send_due(now=NOON) == 0


def test_no_more_copies_than_the_limit_wait_in_the_outbox():
    for _ in range(5):
        a_reader()
    start(a_draft())
    assert [letters.send_due(now=NOON, limit=3) for _ in range(3)] == [3, 0, 0]
    OutboxMessage.objects.first().delete()
    assert letters.send_due(now=NOON, limit=3) == 1


def test_a_chunk_that_was_interrupted_is_repeated_without_a_second_copy(monkeypatch):
    """A kill rolls the transaction back; a lost cursor cannot write a second copy either."""
    for _ in range(3):
        a_reader()
    letter = start(a_draft())

    def killed(*_args: object, **_options: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(outbox, "add_copies", killed)
        with pytest.raises(KeyboardInterrupt):
            letters.send_due(now=NOON)
    letter.refresh_from_db()
    assert (letter.account_cursor, LetterRecipient.objects.count()) == (0, 0)
    assert letters.send_due(now=NOON) == 3
    Letter.objects.update(account_cursor=0)
    assert letters.send_due(now=NOON) == 0
    assert len(recipients()) == 3


def test_number_of_statements_does_not_depend_on_the_number_of_recipients():
    def statements(readers: int) -> int:
        for _ in range(readers):
            a_reader()
        start(a_draft())
        with CaptureQueriesContext(connection) as captured:
            assert letters.send_due(now=NOON) > 0
        Letter.objects.update(ended_at=NOON)
        OutboxMessage.objects.all().delete()
        return len(captured)

    assert statements(1) == statements(60)


def test_an_address_to_which_mail_cannot_be_sent_is_left_out(caplog):
    a_reader("odd", email="a b@example.org")
    good = a_reader("good")
    start(a_draft())
    assert letters.send_due(now=NOON) == 1
    assert recipients() == [good.email]
    assert "letter_address_refused" in caplog.text


def test_housekeeper_sends_letters(server):
    a_reader("ada")
    start(a_draft())
    tally = housekeeper.run_pass(now=NOON, limit=1000)
    assert tally.counts["copies of letters stored"] == 1
    housekeeper.run_pass(now=NOON + timedelta(minutes=1), limit=1000)
    assert len(server.mails) == 1


def test_letters_wait_while_mail_is_off(settings):
    a_reader()
    start(a_draft())
    settings.MAIL = None
    assert letters.send_due(now=NOON) == 0
    with pytest.raises(LetterRefused, match="EMAIL_URL"):
        start(a_draft())


# Drafts, stops and withdrawals


@pytest.mark.parametrize(
    ("subject", "text", "kind", "fields"),
    [
        ("", "x", ALL, {}),
        ("a\nBcc: eve@example.org", "x", ALL, {}),
        ("a", "", ALL, {}),
        ("a", "x" * 20_001, ALL, {}),
        ("a", "x\0", ALL, {}),
        ("a", "x", Letter.Recipients.TEAM, {}),
        ("a", "x", Letter.Recipients.CREDIT, {}),
        ("a", "x", Letter.Recipients.CREDIT, {"credit_days": 0}),
        ("a", "x", Letter.Recipients.CREDIT, {"credit_days": 366}),
    ],
)
def test_bad_letters_are_refused(subject, text, kind, fields):
    with pytest.raises(LetterRefused, match="Hint: "):
        letters.write(letters.Draft(subject, text, kind, **fields), author=None, now=NOON)
    assert not Letter.objects.exists()


def test_a_started_letter_cannot_be_changed_or_started_again():
    letter = start(a_draft())
    with pytest.raises(LetterRefused, match="started already"):
        letters.rewrite(letter.pk, letters.Draft("b", "y", ALL), now=NOON)
    with pytest.raises(LetterRefused, match="started already"):
        start(letter)


def test_a_letter_that_was_changed_after_its_preview_is_not_started():
    letter = a_draft()
    seen = letters.fingerprint(letter)
    letters.rewrite(letter.pk, letters.Draft("b", "y", ALL), now=NOON)
    with pytest.raises(LetterRefused, match="preview"):
        letters.start(letter.pk, seen=seen, now=NOON)
    assert Letter.objects.get().started_at is None


def test_a_stopped_letter_drops_waiting_copies_and_sends_no_more():
    for _ in range(4):
        a_reader()
    letter = start(a_draft())
    letters.send_due(now=NOON, limit=2)
    assert letters.stop(letter.pk, now=NOON) == 2
    assert letters.send_due(now=NOON) == 0
    assert recipients() == []
    with pytest.raises(LetterRefused, match="not being sent"):
        letters.stop(letter.pk, now=NOON)
    changes = AuditEntry.objects.filter(event="letter_changed").order_by("pk")
    assert [entry.details["change"] for entry in changes] == ["written", "started", "stopped"]
    assert changes.last().details["dropped"] == 2


def test_a_draft_cannot_be_stopped():
    with pytest.raises(LetterRefused, match="not being sent"):
        letters.stop(a_draft().pk, now=NOON)


@pytest.mark.parametrize("end", ["withdrawal", "erasure"])
def test_withdrawn_consent_drops_the_copy_that_waits(end):
    ada, other = a_reader("ada"), a_reader("other")
    start(a_draft())
    letters.send_due(now=NOON)
    outbox.add([ada.email], "Your password", "x", now=NOON)
    if end == "erasure":
        erasure.erase(ada, now=NOON)
        assert not LetterRecipient.objects.filter(account=ada).exists()
    else:
        consents.change(ada, receive_letters=False, source="web", now=NOON)
        entry = AuditEntry.objects.get(event="consent_changed")
        assert entry.details == {"consent": "LETTERS", "given": False, "source": "web"}
    copies = OutboxMessage.objects.filter(letter__isnull=False)
    assert [copy.recipient for copy in copies] == [other.email]
    assert OutboxMessage.objects.filter(subject="Your password").exists()
    ada.refresh_from_db()
    assert not ada.receive_letters


def test_progress_counts_waiting_and_parked_copies():
    for _ in range(3):
        a_reader()
    letter = start(a_draft())
    letters.send_due(now=NOON)
    first, second, _third = OutboxMessage.objects.order_by("id")
    OutboxMessage.objects.filter(pk=first.pk).update(parked_at=NOON, next_attempt_at=None)
    OutboxMessage.objects.filter(pk=second.pk).update(
        sent_at=NOON, next_attempt_at=None, text="", unsubscribe_url=""
    )
    letter.refresh_from_db()
    assert letters.progress(letter) == letters.Progress(copies=3, waiting=1, parked=1)


def test_export_of_an_account_names_the_letters_that_it_got():
    ada = a_reader("ada")
    a_reader("other")
    start(a_draft())
    letters.send_due(now=NOON)
    data = json.loads("".join(own_data.export(ada, now=NOON)))
    assert data["account"]["receive_letters"]
    assert [row["letter__subject"] for row in data["letters"]] == ["News of the project"]
    assert data["written_letters"] == []


# Links


def test_a_link_withdraws_the_consent_of_its_account_only():
    ada, other = a_reader("ada"), a_reader("other")
    token = unsubscribing.link(7, ada.pk).rstrip("/").rpartition("/")[2]
    unsubscribing.unsubscribe(token, now=NOON)
    unsubscribing.unsubscribe(token, now=NOON)
    assert list(Account.objects.filter(receive_letters=True)) == [other]
    entry = AuditEntry.objects.get(event="consent_changed")
    assert entry.details == {"consent": "LETTERS", "given": False, "source": "letter 7"}


def test_a_link_that_was_changed_is_refused():
    ada, other = a_reader("ada"), a_reader("other")
    token = unsubscribing.link(7, ada.pk).rstrip("/").rpartition("/")[2]
    numbers, _, signature = token.partition(".")
    forged = f"7-{other.pk}.{signature}"
    for bad in (forged, numbers, f"{numbers}.", "", "x" * 500, f"{token}x"):
        with pytest.raises(unsubscribing.BadLink):
            unsubscribing.unsubscribe(bad, now=NOON)
    assert Account.objects.filter(receive_letters=True).count() == 2
