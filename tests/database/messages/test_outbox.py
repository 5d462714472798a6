"""Messages are delivered once, retried, and parked after a day of failures."""

from __future__ import annotations

from datetime import timedelta
from email import message_from_string, policy

import pytest
from django.core.mail import EmailMessage as DjangoMail
from django.core.mail import EmailMultiAlternatives
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from daemons import housekeeper
from scheduler import wakeups
from scheduler.messages import outbox, smtp
from scheduler.messages.outbox import DeliveryFailed, MailDisabled, NotWaiting
from scheduler.messages.rules import mail_rules
from scheduler.models import OutboxMessage
from tests.conftest import NOON
from tests.mail_server import closed_port, mail_server

pytestmark = pytest.mark.django_db

SECOND = timedelta(seconds=1)
ADA = "ada@example.org"


@pytest.fixture
def server(settings):
    with mail_server() as running:
        settings.MAIL = running.config()
        settings.MAIL_FROM = "noreply@example.org"
        yield running


@pytest.fixture
def mail_is_on(settings):
    """Mail is configured, but the server refuses connections."""
    from scheduler.config import MailConfig, MailSecurity

    settings.MAIL = MailConfig(host="127.0.0.1", port=closed_port(), security=MailSecurity.NONE)


def add(*recipients, subject="Welcome", text="Hello.\n", now=NOON):
    outbox.add(recipients or (ADA,), subject, text, now=now)


def deliver(now=NOON):
    return housekeeper.deliver_messages(now, 1000)


def only() -> OutboxMessage:
    return OutboxMessage.objects.get()


class Recorder:
    """A channel that keeps messages, and fails as often as it is told."""

    def __init__(self, *failures):
        self.failures, self.taken = list(failures), []

    def __call__(self, message):
        if self.failures:
            raise self.failures.pop(0)
        self.taken.append(message)

    def deliver(self, now=NOON, **options):
        return outbox.deliver_due({outbox.Kind.MAIL: self}, now=now, **options)


# Delivery


def test_a_mail_has_its_headers_and_arrives_unchanged(server):
    add(subject="Grüße: 3 × 5", text="Zeile eins\n.\nähnlich" + " lang" * 300 + "\n")
    assert deliver() == 1
    [(sender, recipient, raw)] = server.mails
    assert (sender, recipient) == ("<noreply@example.org>", f"<{ADA}>")
    mail = message_from_string(raw, policy=policy.default)
    assert mail["From"] == "Manyhands <noreply@example.org>"
    assert mail["To"] == ADA
    assert mail["Subject"] == "Grüße: 3 × 5"
    assert mail["Date"].datetime == NOON
    assert mail["Auto-Submitted"] == "auto-generated"
    assert (
        mail.get_content().replace("\r\n", "\n") == "Zeile eins\n.\nähnlich" + " lang" * 300 + "\n"
    )
    assert raw.isascii()
    assert max(map(len, raw.splitlines())) <= 78


def test_a_delivered_message_forgets_its_text_and_is_not_sent_again(server):
    add(text="https://example.org/reset/secret")
    assert deliver() == 1
    row = only()
    assert (row.sent_at, row.text, row.attempts) == (NOON, "", 1)
    assert deliver(NOON + timedelta(days=1)) == 0
    assert len(server.mails) == 1


def test_messages_of_one_pass_share_a_connection(server):
    add(ADA, "bob@example.org", "eve@example.org")
    assert deliver() == 3
    assert server.connections == 1
    assert {recipient for _, recipient, _ in server.mails} == {
        "<ada@example.org>",
        "<bob@example.org>",
        "<eve@example.org>",
    }
    assert server.commands[-1].upper() == "QUIT"


def test_a_mail_is_sent_by_the_next_pass_of_the_housekeeper(server):
    housekeeper.run_pass(now=NOON, limit=1000)
    add(now=NOON + SECOND)
    tally = housekeeper.run_pass(now=NOON + SECOND, limit=1000)
    assert tally.done == {"messages delivered": 1}


def test_a_new_message_rings_the_housekeeper_after_the_commit(
    mail_is_on, monkeypatch, django_capture_on_commit_callbacks
):
    rung = []
    monkeypatch.setattr(wakeups, "ring", rung.append)
    with django_capture_on_commit_callbacks(execute=True):
        add()
        assert rung == []
    assert rung == [("housekeeper",)]


def test_a_message_of_a_transaction_that_is_rolled_back_does_not_exist(mail_is_on):
    def change():
        with transaction.atomic():
            add()
            raise RuntimeError("the change failed")

    with pytest.raises(RuntimeError):
        change()
    assert not OutboxMessage.objects.exists()


def test_a_pass_takes_two_statements_whatever_the_number_of_messages(mail_is_on):
    add(*(f"user{number}@example.org" for number in range(outbox.BATCH + 5)))
    with CaptureQueriesContext(
        connection,
    ) as statements:
        assert Recorder().deliver() == outbox.BATCH
    assert len(statements) == 2
    with CaptureQueriesContext(connection) as statements:
        assert Recorder().deliver() == 5
    assert len(statements) == 2


def test_a_leased_message_is_not_delivered_by_another_process(mail_is_on):
    add()
    second = Recorder()

    def first(message):
        assert second.deliver(NOON + SECOND) == 0

    assert outbox.deliver_due({outbox.Kind.MAIL: first}, now=NOON) == 1
    assert second.taken == []


def test_a_message_whose_sender_was_killed_is_sent_again_with_the_same_id(mail_is_on, monkeypatch):
    add()
    ids = []

    class Killed(BaseException):
        pass

    def identity(message):
        return smtp.composed(message, sender="a@example.org", sender_name="x").split(b"Message-ID")[
            1
        ]

    def killed(message):
        ids.append(identity(message))
        OutboxMessage.objects.update(next_attempt_at=NOON + outbox.LEASE)  # as the lease left it
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(outbox, "_settle", lambda *_, **__: None)
        with pytest.raises(Killed):
            outbox.deliver_due({outbox.Kind.MAIL: killed}, now=NOON)
    again = Recorder()
    assert again.deliver(NOON + outbox.LEASE - SECOND) == 0
    assert again.deliver(NOON + outbox.LEASE) == 1
    assert identity(again.taken[0]) == ids[0]


def test_a_message_that_raises_an_unexpected_exception_is_parked_and_the_others_are_sent(
    mail_is_on, caplog
):
    add("eve@example.org", ADA, "bob@example.org")
    channel = Recorder(ZeroDivisionError("a fault"))
    assert channel.deliver() == 2
    assert [message.recipient for message in channel.taken] == [ADA, "bob@example.org"]
    parked = OutboxMessage.objects.get(parked_at=NOON)
    assert (parked.recipient, parked.last_error) == (
        "eve@example.org",
        "ZeroDivisionError: a fault",
    )
    [event] = [record for record in caplog.records if record.message == "message_parked"]
    assert event.reason == "ZeroDivisionError: a fault"


def test_messages_sent_before_an_interruption_are_not_sent_again(mail_is_on):
    add(ADA, "bob@example.org")
    channel = Recorder()

    def breaks_at_bob(message):
        if message.recipient != ADA:
            raise KeyboardInterrupt
        channel(message)

    with pytest.raises(KeyboardInterrupt):
        outbox.deliver_due({outbox.Kind.MAIL: breaks_at_bob}, now=NOON)
    assert channel.deliver(NOON + SECOND) == 1
    assert [message.recipient for message in channel.taken] == [ADA, "bob@example.org"]


def test_a_slow_pass_leaves_the_rest_for_the_next_one_without_counting_an_attempt(
    mail_is_on, monkeypatch
):
    add(ADA, "bob@example.org")
    monkeypatch.setattr(outbox, "MAX_PASS_SECONDS", -1.0)
    assert Recorder().deliver() == 0
    assert set(OutboxMessage.objects.values_list("attempts", "next_attempt_at")) == {(0, NOON)}


# Failures


def test_an_unreachable_server_puts_every_message_off(mail_is_on, caplog):
    add(ADA, "bob@example.org")
    assert deliver() == 0
    for row in OutboxMessage.objects.all():
        assert row.next_attempt_at == NOON + mail_rules.FIRST_DELAY
        assert row.attempts == 1
        assert "Connection refused" in row.last_error
    events = [record for record in caplog.records if record.message == "message_put_off"]
    assert len(events) == 2
    assert ADA not in caplog.text


def test_delays_grow_and_a_message_is_parked_after_a_day(mail_is_on, caplog):
    add()
    now, attempts = NOON, 0
    while only().parked_at is None:
        Recorder(DeliveryFailed("down")).deliver(now)
        attempts += 1
        now = only().next_attempt_at or now
    assert attempts == mail_rules.MAX_ATTEMPTS
    assert timedelta(hours=20) < now - NOON < timedelta(hours=30)
    assert only().text
    assert [r.message for r in caplog.records][-1] == "message_parked"
    assert Recorder().deliver(now + timedelta(days=9)) == 0


@pytest.mark.parametrize("verb", ["RCPT", "."])
def test_a_permanent_refusal_parks_a_message_at_once(server, verb):
    server.answers.replies[verb] = "550 no such user here"
    add()
    assert deliver() == 0
    assert only().parked_at == NOON
    assert "550 no such user here" in only().last_error


@pytest.mark.parametrize("verb", ["RCPT", ".", "MAIL"])
def test_a_temporary_refusal_puts_a_message_off(server, verb):
    server.answers.replies[verb] = "451 try later"
    add()
    assert deliver() == 0
    assert only().next_attempt_at == NOON + mail_rules.FIRST_DELAY
    assert "451 try later" in only().last_error


def test_a_refused_recipient_does_not_affect_the_other_messages(server):
    add(ADA)
    server.answers.replies["RCPT"] = "550 no"
    assert deliver() == 0
    del server.answers.replies["RCPT"]
    add("bob@example.org")
    assert deliver() == 1


def test_a_retried_message_is_due_at_once_with_all_attempts(mail_is_on):
    add()
    Recorder(DeliveryFailed("never", is_final=True)).deliver()
    assert outbox.retry([only().pk], now=NOON + SECOND) == 1
    assert only().attempts == 0
    assert Recorder().deliver(NOON + SECOND) == 1


def test_a_message_that_is_being_delivered_is_not_retried(mail_is_on):
    add()
    second = Recorder()

    def first(message):
        with pytest.raises(NotWaiting, match=r"being delivered.*Hint: "):
            outbox.retry([message.id], now=NOON + SECOND)
        assert second.deliver(NOON + SECOND) == 0

    assert outbox.deliver_due({outbox.Kind.MAIL: first}, now=NOON) == 1
    assert second.taken == []


def test_a_message_that_waits_for_long_is_retried_at_once(mail_is_on):
    add()
    OutboxMessage.objects.update(next_attempt_at=NOON + 2 * outbox.LEASE, attempts=9)
    assert outbox.retry([only().pk], now=NOON) == 1
    assert (only().next_attempt_at, only().attempts) == (NOON, 0)


def test_a_dropped_message_is_never_sent(mail_is_on):
    add()
    assert outbox.drop([only().pk]) == 1
    assert Recorder().deliver() == 0


def test_a_sent_message_can_be_neither_retried_nor_dropped(mail_is_on):
    add()
    Recorder().deliver()
    with pytest.raises(NotWaiting, match="Hint:"):
        outbox.retry([only().pk], now=NOON)
    with pytest.raises(NotWaiting, match="Hint:"):
        outbox.drop([only().pk])
    assert only().sent_at == NOON


def test_old_sent_and_parked_messages_are_dropped_and_waiting_ones_are_kept(mail_is_on):
    add("sent@example.org")
    Recorder().deliver()
    add("parked@example.org")
    Recorder(DeliveryFailed("never", is_final=True)).deliver()
    add("waiting@example.org")
    assert housekeeper.drop_old_messages(NOON + timedelta(days=6), 1000) == 0
    assert housekeeper.drop_old_messages(NOON + timedelta(days=8), 1000) == 1
    assert housekeeper.drop_old_messages(NOON + timedelta(days=31), 1000) == 1
    assert only().recipient == "waiting@example.org"


# Without mail, and Django's mail


def test_a_project_without_mail_refuses_messages_with_a_hint(settings):
    settings.MAIL = None
    assert not outbox.sends_mail()
    with pytest.raises(MailDisabled, match="Hint: an operator can set EMAIL_URL"):
        add()
    with CaptureQueriesContext(connection) as statements:
        assert deliver() == 0
    assert len(statements) == 0


def test_mail_of_django_goes_through_the_outbox(mail_is_on):
    from project.mail_backend import OutboxBackend

    mail = EmailMultiAlternatives("Reset", "a link", "x@example.org", [ADA])
    mail.attach_alternative("<p>a link</p>", "text/html")
    assert OutboxBackend().send_messages([mail]) == 1
    row = only()
    assert (row.recipient, row.subject, row.text) == (ADA, "Reset", "a link")


def test_mail_of_django_without_a_mail_server_fails_unless_silent(settings):
    from project.mail_backend import OutboxBackend

    settings.MAIL = None
    mail = DjangoMail("Reset", "a link", "x@example.org", [ADA])
    with pytest.raises(MailDisabled):
        OutboxBackend().send_messages([mail])
    assert OutboxBackend(fail_silently=True).send_messages([mail]) == 0


def test_mail_of_django_with_an_attachment_is_refused(mail_is_on):
    from project.mail_backend import OutboxBackend

    mail = DjangoMail("Report", "see file", "x@example.org", [ADA])
    mail.attach("a.txt", "text", "text/plain")
    with pytest.raises(mail_rules.BadMail, match="attachments"):
        OutboxBackend().send_messages([mail])


def test_the_database_refuses_a_row_in_two_states(mail_is_on):
    add()
    with pytest.raises(IntegrityError, match="outbox_message_has_one_state"), transaction.atomic():
        OutboxMessage.objects.update(parked_at=NOON)
    with pytest.raises(IntegrityError, match="forgets_sent_text"), transaction.atomic():
        OutboxMessage.objects.update(sent_at=NOON, next_attempt_at=None)
