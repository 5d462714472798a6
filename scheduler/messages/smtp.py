"""Sends mail to the mail server of `EMAIL_URL`, with limits on its waits.

Theory of operation.  A session opens one connection when it is first used.  If the server cannot be
reached or refuses the log-in, all messages of the session fail with the same reason, and no second
connection is tried.  A socket timeout limits each read, and a timer that shuts the connection down
limits the whole delivery, so that a server that sends a byte now and then cannot hold the daemon.
The look-up of the server's name is limited only by the resolver, and each of its addresses has
`SILENCE_SECONDS`.  The certificate of the server is verified.
"""

from __future__ import annotations

import re
import smtplib
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from email.header import Header
from email.message import EmailMessage
from email.policy import SMTP, Policy
from email.utils import format_datetime
from typing import Final, Self

from scheduler.config import MailConfig, MailSecurity
from scheduler.messages.outbox import MAX_DELIVERY_SECONDS, DeliveryFailed, Message
from scheduler.messages.rules import mail_rules

#: The timeout of connecting to one address, and of each read.
SILENCE_SECONDS: Final = 10.0
_READY: Final = 220
_PERMANENT: Final = 500
#: Only ASCII lines of at most 78 characters, which every mail server accepts.
_POLICY = SMTP.clone(cte_type="7bit")
_MAX_LINE: Final = 76
_LINE_END: Final = "\r\n"
#: A display name that needs neither quotes nor encoding: one line of atoms.
_PHRASE: Final = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~ -]{1,50}")


class _Deadline:
    """Shuts a client's connection down after some seconds, which ends every wait for it."""

    def __init__(self, seconds: float) -> None:
        self._ends_at = time.monotonic() + seconds
        self._seconds = seconds

    @property
    def is_over(self) -> bool:
        """Whether the time is over, so that the connection may have been shut down."""
        return time.monotonic() >= self._ends_at

    @property
    def sentence(self) -> str:
        """The reason of a failure after the time is over."""
        return f"no answer within {self._seconds:g} s"

    @contextmanager
    def on(self, client: smtplib.SMTP) -> Iterator[None]:
        """Shut the client's connection down if the block takes too long.

        TLS replaces the client's socket, so the timer reads it when the time is over.
        """
        left = max(0.0, self._ends_at - time.monotonic())
        timer = threading.Timer(left, _shut_down, (client,))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


def _shut_down(client: smtplib.SMTP) -> None:
    connected = client.sock
    with suppress(OSError):
        if connected is not None:
            # SSLSocket.shutdown would drop the TLS object that another thread reads from.
            socket.socket.shutdown(connected, socket.SHUT_RDWR)


class Session:
    """A connection to the mail server, opened by the first `send`; a context manager."""

    def __init__(
        self,
        config: MailConfig,
        *,
        sender: str,
        sender_name: str,
        seconds: float = MAX_DELIVERY_SECONDS,
    ) -> None:
        self._config = config
        self._sender = sender
        self._sender_name = sender_name
        self._seconds = seconds
        self._client: smtplib.SMTP | None = None
        self._refusal: DeliveryFailed | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._client is not None:
            with _Deadline(SILENCE_SECONDS).on(self._client), suppress(Exception):
                self._client.quit()
        self._close()

    def send(self, message: Message) -> None:
        """Send one mail.  Raises `DeliveryFailed`, which is final if the answer is 5xx."""
        deadline = _Deadline(self._seconds)
        client = self._opened(deadline)
        data = composed(message, sender=self._sender, sender_name=self._sender_name)
        try:
            with deadline.on(client):
                client.sendmail(self._sender, [message.recipient], data)
        except smtplib.SMTPRecipientsRefused as error:
            [(code, text)] = error.recipients.values()
            raise self._failure(f"{code} {_text(text)}", is_final=code >= _PERMANENT) from error
        except smtplib.SMTPDataError as error:
            is_final = error.smtp_code >= _PERMANENT
            raise self._failure(_reason(error), is_final=is_final) from error
        except (OSError, smtplib.SMTPException) as error:
            self._close()
            reason = deadline.sentence if deadline.is_over else _reason(error)
            raise self._failure(reason) from error

    def check(self) -> str:
        """Connect and log in; return how the connection is encrypted, or raise `DeliveryFailed`."""
        client = self._opened(_Deadline(self._seconds))
        version = client.sock.version() if isinstance(client.sock, ssl.SSLSocket) else None
        login = f"logged in as {self._config.user}" if self._config.user else "no log-in"
        return f"{self._config.authority}, {version or 'not encrypted'}, {login}"

    def _opened(self, deadline: _Deadline) -> smtplib.SMTP:
        if self._refusal is not None:
            raise self._refusal
        if self._client is None:
            try:
                self._client = _connected(self._config, self._sender, deadline)
            except (OSError, smtplib.SMTPException, UnicodeError) as error:
                reason = deadline.sentence if deadline.is_over else _reason(error)
                self._refusal = self._failure(reason)
                raise self._refusal from error
        return self._client

    def _failure(self, reason: str, *, is_final: bool = False) -> DeliveryFailed:
        return DeliveryFailed(f"{self._config.authority}: {reason}", is_final=is_final)

    def _close(self) -> None:
        if self._client is not None:
            self._client.close()
        self._client = None


def _connected(config: MailConfig, sender: str, deadline: _Deadline) -> smtplib.SMTP:
    """Return a client that is connected, encrypted and logged in as configured."""
    plain = socket.create_connection((config.host, config.port), timeout=SILENCE_SECONDS)
    # The name is given, because smtplib would look up the name of this machine, which can hang.
    client = smtplib.SMTP(local_hostname=sender.rpartition("@")[2], timeout=SILENCE_SECONDS)
    client.sock = plain
    try:
        with deadline.on(client):
            if config.security == MailSecurity.IMPLICIT:
                _encrypt(client, config.host)
            _greet(client)
            if config.security == MailSecurity.STARTTLS:
                _start_tls(client, config.host)
            if config.user:
                client.login(config.user, config.password)
    except BaseException:
        client.close()
        raise
    return client


def _greet(client: smtplib.SMTP) -> None:
    code, text = client.getreply()
    if code != _READY:
        raise smtplib.SMTPConnectError(code, text)
    client.ehlo_or_helo_if_needed()


def _start_tls(client: smtplib.SMTP, host: str) -> None:
    """Encrypt the connection; raises an error if the server does not offer it."""
    code, text = client.docmd("STARTTLS")
    if code != _READY:
        raise smtplib.SMTPResponseException(code, b"STARTTLS is refused: " + text)
    _encrypt(client, host)
    # Everything that was received before the encryption is forgotten (RFC 3207).
    client.file = None
    client.helo_resp = client.ehlo_resp = None
    client.esmtp_features = {}
    client.does_esmtp = False
    client.ehlo_or_helo_if_needed()


def _encrypt(client: smtplib.SMTP, host: str) -> None:
    assert client.sock is not None
    encrypted = ssl.create_default_context().wrap_socket(
        client.sock, server_hostname=host, do_handshake_on_connect=False
    )
    client.sock = encrypted
    encrypted.do_handshake()


class _Written(str):
    """The final text of a header, in lines.

    The email package must not parse it: it decodes words of RFC 2047 in a plain string, and writes
    the line breaks in them as they are, so that a subject could add headers.
    """

    __slots__ = ("name",)
    name: str

    def __new__(cls, name: str, text: str) -> Self:
        header = super().__new__(cls, text)
        header.name = name
        return header

    def fold(self, *, policy: Policy) -> str:
        """Return the lines of the header; the email package calls this."""
        return f"{self.name}: {self}{policy.linesep}"


def _encoded(name: str, text: str) -> str:
    """Return the value of a header that every reader shows as exactly this text."""
    line = mail_rules.one_line(text)
    charset = "us-ascii" if _is_plain(line) else "utf-8"
    return Header(line, charset, maxlinelen=_MAX_LINE, header_name=name).encode(linesep=_LINE_END)


def _is_plain(text: str) -> bool:
    """Return whether a text can be written without encoding, and folded at its blanks."""
    words = text.split()
    is_short = max(map(len, words), default=0) < _MAX_LINE // 2
    return text.isascii() and text == " ".join(words) and "=?" not in text and is_short


def _mailbox(display_name: str, address: str) -> str:
    if _PHRASE.fullmatch(display_name) and _is_plain(display_name):
        return f"{display_name} <{address}>"
    encoded = Header(display_name, "utf-8", maxlinelen=_MAX_LINE, header_name="From")
    return f"{encoded.encode(linesep=_LINE_END)}{_LINE_END} <{address}>"


def composed(message: Message, *, sender: str, sender_name: str) -> bytes:
    """Return a mail as bytes.  Its Message-ID is the same in every attempt."""
    created_at = message.created_at.astimezone(UTC)
    domain = sender.rpartition("@")[2]
    mail = EmailMessage(policy=_POLICY)
    mail["From"] = _Written("From", _mailbox(mail_rules.one_line(sender_name), sender))
    mail["To"] = _Written("To", mail_rules.one_line(message.recipient))
    mail["Subject"] = _Written("Subject", _encoded("Subject", message.subject))
    mail["Date"] = format_datetime(created_at)
    mail["Message-ID"] = f"<{message.id}.{_stamp(created_at)}.outbox@{domain}>"
    mail["Auto-Submitted"] = "auto-generated"
    if message.unsubscribe_url:
        # RFC 8058: mail programs show a button that sends a POST request to the address.
        url = mail_rules.one_line(message.unsubscribe_url)
        mail["List-Unsubscribe"] = _Written("List-Unsubscribe", f"<{url}>")
        mail["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    mail.set_content(message.text)
    return mail.as_bytes()


def _stamp(at: datetime) -> str:
    return f"{at:%Y%m%d%H%M%S%f}"


def _reason(error: Exception) -> str:
    """Return the reason of a failure in one line; it never contains the password."""
    if isinstance(error, smtplib.SMTPResponseException):
        return f"{error.smtp_code} {_text(error.smtp_error)}"
    return mail_rules.one_line(str(error)) or type(error).__name__


def _text(answer: bytes | str) -> str:
    text = answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer
    return mail_rules.one_line(text)
