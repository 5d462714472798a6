"""Mail has no injected headers, and its secrets are not shown."""

from __future__ import annotations

from dataclasses import replace
from email import message_from_string
from email.header import decode_header, make_header
from email.utils import parseaddr

import pytest
from django.db import IntegrityError, transaction
from django.test import Client
from django.urls import reverse

from project import env
from project.env import BadSetting
from scheduler.config import AlertConfig, MailConfig
from scheduler.health import alert_reports
from scheduler.messages import outbox, smtp
from scheduler.messages.outbox import DeliveryFailed, Message
from scheduler.messages.rules.mail_rules import BadMail
from scheduler.models import OutboxMessage
from tests import rows
from tests.conftest import NOON
from tests.mail_server import closed_port, mail_server

BREAKS = ["\n", "\r", "\r\n", "\0", "\x0b", "\x1c", "\x85", "\u2028"]


@pytest.fixture
def mail_is_on(settings):
    settings.MAIL = MailConfig(host="127.0.0.1", port=closed_port(), password="geheim")


# Injection of headers and SMTP commands


@pytest.mark.parametrize("line_break", BREAKS)
@pytest.mark.django_db
def test_a_line_break_in_a_recipient_or_subject_is_refused(mail_is_on, line_break):
    with pytest.raises(BadMail):
        outbox.add([f"ada@example.org{line_break}Bcc: eve@example.org"], "Hi", "x", now=NOON)
    with pytest.raises(BadMail):
        outbox.add(["ada@example.org"], f"Hi{line_break}Bcc: eve@example.org", "x", now=NOON)
    assert not OutboxMessage.objects.exists()


@pytest.mark.parametrize(
    "address",
    [
        "ada@example.org>,<eve@example.org",
        "ada@example.org> SIZE=1",
        "<ada@example.org>",
        "ada,eve@example.org",
        '"ada\\" eve"@example.org',
    ],
)
@pytest.mark.django_db
def test_a_recipient_cannot_contain_another_recipient(mail_is_on, address):
    with pytest.raises(BadMail):
        outbox.add([address], "Hi", "x", now=NOON)


@pytest.mark.parametrize("column", ["recipient", "subject"])
@pytest.mark.django_db
def test_the_database_refuses_a_line_break_in_a_header(mail_is_on, column):
    outbox.add(["ada@example.org"], "Hi", "x", now=NOON)
    with pytest.raises(IntegrityError, match="headers_are_lines"), transaction.atomic():
        OutboxMessage.objects.update(**{column: "a\r\nBcc: eve@example.org"})


def test_a_text_that_looks_like_headers_or_an_end_stays_in_the_body():
    text = "Bcc: eve@example.org\r\n.\r\nMAIL FROM:<eve@example.org>\r\n"
    message = Message(1, 1, "ada@example.org", "Hi", text, NOON, 1)
    data = smtp.composed(message, sender="a@example.org", sender_name="P")
    headers, _, body = data.partition(b"\r\n\r\n")
    assert b"Bcc" not in headers
    assert body.decode() == text


def test_a_project_name_with_a_line_break_does_not_add_a_header():
    message = Message(1, 1, "ada@example.org", "Hi", "x", NOON, 1)
    data = smtp.composed(message, sender="a@example.org", sender_name="P\r\nBcc: eve@example.org")
    assert b"\r\nBcc" not in data


ENCODED_WORDS = [
    "=?utf-8?q?x=0ABcc:_eve@evil.org=0AX:_y?=",
    "=?utf-8?q?x=0D=0ABcc:_eve@evil.org=0D=0AX:_y?=",
    "=?utf-8?b?eApCY2M6IGV2ZUBldmlsLm9yZwpYOiB5?=",
    "Batch =?iso-8859-1?q?caf=E9?= is finished",
    "ü =?utf-8?q?x=0ABcc:_eve@evil.org=0AX:_y?= and more",
    "=?utf-8?q?x=0ABcc:_eve@evil.org=0AX:_y?= " * 4,
    "a " * 99 + "b",
    "ü" * 200,
    "x" * 200,
    " blank, at both ends ",
]


def sent(message, *, sender_name="Manyhands"):
    """Send a message to a real server; return the header lines and the parsed mail."""
    with mail_server() as server:
        config = server.config()
        with smtp.Session(config, sender="noreply@example.org", sender_name=sender_name) as session:
            session.send(message)
        [(_, _, data)] = server.mails
    lines = data.partition("\r\n\r\n")[0].split("\r\n")
    return lines, message_from_string(data)


def names_of(lines):
    return [line.partition(":")[0] for line in lines if not line.startswith(" ")]


def literal(header):
    """Return the text that a reader shows for a header."""
    return str(make_header(decode_header("".join(header.splitlines()))))


HEADERS = [
    *("From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted"),
    *("Content-Type", "Content-Transfer-Encoding", "MIME-Version"),
]


@pytest.mark.parametrize("subject", ENCODED_WORDS)
def test_an_encoded_word_in_a_subject_arrives_as_literal_text_on_one_header(subject):
    lines, mail = sent(Message(1, 1, "ada@example.org", subject, "x", NOON, 1))
    assert names_of(lines) == HEADERS
    assert literal(mail["Subject"]) == subject
    assert all(len(line) <= 78 for line in lines if " " in line.strip())


@pytest.mark.parametrize("name", [*ENCODED_WORDS[:5], 'Müller, "X" <eve@evil.org>', "a, b"])
def test_a_project_name_arrives_as_literal_text_on_one_header(name):
    lines, mail = sent(Message(1, 1, "ada@example.org", "Hi", "x", NOON, 1), sender_name=name)
    assert names_of(lines) == HEADERS
    display_name, address = parseaddr("".join(mail["From"].splitlines()))
    assert address == "noreply@example.org"
    assert literal(display_name) == name


def test_an_encoded_word_in_a_recipient_adds_no_header():
    recipient = "=?utf-8?q?x=0ABcc=3Aeve=40evil.org=0AX?=@example.org"
    lines, _ = sent(Message(1, 1, recipient, "Hi", "x", NOON, 1))
    assert names_of(lines) == HEADERS
    assert f"To: {recipient}" in lines


@pytest.mark.parametrize(
    "local", ["a..b", ".a", "a.", "..", ".", "=?utf-8?q?x=0ABcc=3Aeve=40evil.org=0AX?="]
)
@pytest.mark.django_db
def test_an_address_that_a_mail_library_reads_differently_is_refused(mail_is_on, local):
    with pytest.raises(BadMail):
        outbox.add([f"{local}@example.org"], "Hi", "x", now=NOON)


# Secrets


@pytest.mark.parametrize(
    "value",
    [
        "smtp://mail:geheim@mail.example.org:99999",
        "smtp://mail:geh/geheim@mail.example.org",
        "http://mail:geheim@mail.example.org",
        "smtp://mail:geheim@mail.example.org/?tls=never",
        "smtp://mail:geheim@mail.example.org/?tls=none",
        "smtp://mail:geheim@[::1",
    ],
)
def test_the_error_of_an_invalid_mail_address_has_no_password(monkeypatch, value):
    monkeypatch.setenv("EMAIL_URL", value)
    with pytest.raises(BadSetting) as error:
        env.mail_url("EMAIL_URL")
    assert "geheim" not in str(error.value)


def test_an_invalid_webhook_is_refused_without_its_secret_path(monkeypatch):
    for value in ("http://hooks.example.org/geheim", "ftp://hooks.example.org/geheim", "geheim"):
        monkeypatch.setenv("ALERT_WEBHOOK", value)
        with pytest.raises(BadSetting) as error:
            env.webhook_url("ALERT_WEBHOOK", private_hosts=())
        assert "geheim" not in str(error.value)


def test_the_settings_of_mail_and_alerts_show_no_secret():
    mail = MailConfig(host="h", port=25, user="u", password="geheim")
    alerts = AlertConfig(webhook="https://hooks.example.org/geheim")
    assert "geheim" not in repr(mail) + str(mail) + repr(alerts) + str(alerts)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_failed_webhook_names_neither_its_address_nor_a_private_network(settings, host):
    port = closed_port()
    settings.ALERTS = AlertConfig(webhook=f"http://{host}:{port}/geheim")
    message = Message(1, 2, host, "Hi", "{}", NOON, 1)
    with pytest.raises(DeliveryFailed, match="own network") as refusal:
        alert_reports.post(message)
    settings.PROJECT = replace(settings.PROJECT, webhook_hosts=(host,))
    with pytest.raises(DeliveryFailed, match="cannot be reached") as failure:
        alert_reports.post(message)
    assert "geheim" not in str(refusal.value) + str(failure.value)


# The text of a message in the admin


@pytest.fixture
def staff(mail_is_on):
    outbox.add(["ada@example.org"], "Your new password", "https://x/reset/geheim", now=NOON)
    client = Client()
    client.force_login(rows.an_account(is_staff=True, is_superuser=True))
    return client


@pytest.mark.django_db
def test_the_admin_does_not_show_the_text_of_a_message(staff):
    row = OutboxMessage.objects.get()
    OutboxMessage.objects.update(unsubscribe_url="https://x/letters/geheim")
    pages = [
        reverse("admin:scheduler_outboxmessage_changelist"),
        reverse("admin:scheduler_outboxmessage_change", args=[row.pk]),
    ]
    for page in pages:
        response = staff.get(page)
        assert response.status_code == 200
        assert b"Your new password" in response.content
        assert b"geheim" not in response.content


@pytest.mark.parametrize(
    "lookup",
    ["text", "text__startswith", "text__contains", "text__regex", "unsubscribe_url__startswith"],
)
@pytest.mark.django_db
def test_the_admin_does_not_filter_messages_by_their_text(staff, lookup):
    page = reverse("admin:scheduler_outboxmessage_changelist")
    assert staff.get(page, {lookup: "https://x/reset/g"}).status_code == 400


@pytest.mark.django_db
def test_the_admin_does_not_search_the_text_of_messages(staff):
    page = reverse("admin:scheduler_outboxmessage_changelist")
    assert b"Your new password" in staff.get(page, {"q": "ada@example.org"}).content
    assert b"Your new password" not in staff.get(page, {"q": "geheim"}).content
