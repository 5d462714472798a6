"""A mail session encrypts, logs in, and never waits longer than its limit."""

from __future__ import annotations

import time

import pytest

from scheduler.config import MailSecurity
from scheduler.messages import smtp
from scheduler.messages.outbox import DeliveryFailed, Message
from tests.conftest import NOON
from tests.machine import needs
from tests.mail_server import Answers, mail_server, self_signed

SENDER = {"sender": "noreply@example.org", "sender_name": "Manyhands"}


def a_message():
    return Message(7, 1, "ada@example.org", "Welcome", "Hello.\n", NOON, 1)


def session(config, **options):
    return smtp.Session(config, **SENDER, **options)


@pytest.fixture
def certificate(tmp_path, monkeypatch):
    """A certificate of this machine that the session trusts."""
    needs("openssl")
    path = self_signed(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
    return path


@pytest.mark.parametrize("security", [MailSecurity.STARTTLS, MailSecurity.IMPLICIT])
def test_a_session_encrypts_before_it_logs_in(certificate, security):
    answers = Answers(features=("8BITMIME", "STARTTLS", "AUTH PLAIN"))
    tls = "implicit" if security == MailSecurity.IMPLICIT else ""
    with mail_server(answers, tls=tls, certificate=certificate) as server:
        config = server.config(security=security, user="mail", password="geheim")
        with session(config) as mail:
            assert mail.check() == f"127.0.0.1:{server.port}, TLSv1.3, logged in as mail"
            mail.send(a_message())
    verbs = [command.partition(" ")[0].upper() for command in server.commands]
    greeting = ["EHLO", "STARTTLS", "EHLO"] if security == MailSecurity.STARTTLS else ["EHLO"]
    assert verbs == [*greeting, "AUTH", "MAIL", "RCPT", "DATA", "QUIT"]
    assert len(server.mails) == 1


def test_a_certificate_of_another_name_is_refused_before_the_log_in(tmp_path, monkeypatch):
    needs("openssl")
    path = self_signed(tmp_path, names="DNS:elsewhere.example.org")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
    with (
        mail_server(certificate=path) as server,
        session(
            server.config(security=MailSecurity.STARTTLS, user="mail", password="geheim")
        ) as mail,
        pytest.raises(DeliveryFailed, match="certificate verify failed"),
    ):
        mail.send(a_message())
    assert not any("AUTH" in command for command in server.commands)


def test_a_server_without_starttls_gets_no_password():
    answers = Answers(replies={"STARTTLS": "502 not implemented"})
    with (
        mail_server(answers) as server,
        session(
            server.config(security=MailSecurity.STARTTLS, user="mail", password="geheim")
        ) as mail,
        pytest.raises(DeliveryFailed, match="STARTTLS is refused: not implemented"),
    ):
        mail.send(a_message())
    assert [command.partition(" ")[0].upper() for command in server.commands] == [
        "EHLO",
        "STARTTLS",
    ]


def test_a_refused_log_in_is_reported_without_the_password():
    answers = Answers(features=("AUTH PLAIN LOGIN",), replies={"AUTH": "535 wrong password"})
    with (
        mail_server(answers) as server,
        session(server.config(user="mail", password="geheim")) as mail,
        pytest.raises(DeliveryFailed) as failure,
    ):
        mail.send(a_message())
    assert "535 wrong password" in str(failure.value)
    assert "geheim" not in str(failure.value)
    assert not failure.value.is_final


def test_a_server_that_cannot_be_used_is_connected_to_once_per_session():
    with mail_server(Answers(greeting="554 go away")) as server, session(server.config()) as mail:
        for _ in range(3):
            with pytest.raises(DeliveryFailed, match="554 go away"):
                mail.send(a_message())
    assert server.connections == 1


@pytest.mark.parametrize("verb", ["EHLO", "MAIL", "DATA"])
def test_a_server_that_hangs_is_left_after_the_time_limit(verb):
    with mail_server(Answers(hangs_after=verb)) as server:
        began = time.monotonic()
        with (
            session(server.config(), seconds=0.3) as mail,
            pytest.raises(DeliveryFailed, match=r"no answer within 0\.3 s"),
        ):
            mail.send(a_message())
        assert time.monotonic() - began < 5


def test_a_server_that_drips_its_answer_is_left_after_the_time_limit():
    with mail_server(Answers(drip_seconds=0.05)) as server:
        began = time.monotonic()
        with (
            session(server.config(), seconds=0.3) as mail,
            pytest.raises(DeliveryFailed, match="no answer within"),
        ):
            mail.send(a_message())
        assert time.monotonic() - began < 5


def test_a_lost_connection_fails_one_message_and_the_next_one_reconnects():
    with mail_server() as server, session(server.config()) as mail:
        mail.send(a_message())
        server.answers.replies["MAIL"] = "421 closing"
        with pytest.raises(DeliveryFailed, match="421"):
            mail.send(a_message())
        server.answers.replies.clear()
        mail.send(a_message())
    assert server.connections == 2
    assert len(server.mails) == 2
