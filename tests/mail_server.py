"""A mail server for tests: it keeps mails, refuses them, hangs or drips."""

from __future__ import annotations

import socket
import socketserver
import ssl
import subprocess
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field

from scheduler.config import MailConfig, MailSecurity


@dataclass
class Answers:
    """The behavior of the server: its replies by verb, and a pause before each byte of a reply."""

    greeting: str = "220 mail.example.org ready"
    features: tuple[str, ...] = ("8BITMIME",)
    replies: dict = field(default_factory=dict)
    hangs_after: str | None = None
    drip_seconds: float = 0.0


@dataclass
class MailServer:
    """The state of a running server: the mails that it took and the commands that it got."""

    port: int
    answers: Answers
    mails: list = field(default_factory=list)
    commands: list = field(default_factory=list)
    connections: int = 0

    def config(self, **more) -> MailConfig:
        more.setdefault("security", MailSecurity.NONE)
        return MailConfig(host="127.0.0.1", port=self.port, **more)


class _Talk(socketserver.StreamRequestHandler):
    """One connection: reads commands line by line."""

    def handle(self):
        self.state, self.stop = self.server.state, self.server.stop
        self.state.connections += 1
        self.envelope = {}
        if self.server.tls == "implicit":
            self.encrypt()
        self.say(self.state.answers.greeting)
        while line := self.rfile.readline().decode().rstrip("\r\n"):
            self.state.commands.append(line)
            verb = line.partition(" ")[0].upper()
            if self.state.answers.hangs_after == verb:
                self.stop.wait(30)
                return
            self.envelope[verb] = line.partition(":")[2].partition(" ")[0]
            if reply := self.state.answers.replies.get(verb):
                self.say(reply)
            else:
                getattr(self, f"take_{verb.lower()}", self.take_any)()

    def finish(self):
        super().finish()
        self.connection.close()

    def take_any(self):
        self.say("250 fine")

    def take_ehlo(self):
        *features, last = ("mail.example.org", *self.state.answers.features)
        for text in features:
            self.say(f"250-{text}")
        self.say(f"250 {last}")

    def take_starttls(self):
        self.say("220 go ahead")
        self.encrypt()

    def take_auth(self):
        self.say("235 welcome")

    def take_data(self):
        self.say("354 end with .")
        mail = self.read_mail()
        if refusal := self.state.answers.replies.get("."):
            self.say(refusal)
            return
        self.state.mails.append((self.envelope["MAIL"], self.envelope["RCPT"], mail))
        self.say("250 kept")

    def say(self, text):
        for byte in f"{text}\r\n".encode():
            if pause := self.state.answers.drip_seconds:
                self.stop.wait(pause)
            self.wfile.write(bytes([byte]))
        self.wfile.flush()

    def read_mail(self):
        lines = []
        while (line := self.rfile.readline().decode()) not in {".\r\n", ""}:
            lines.append(line.removeprefix("."))
        return "".join(lines)

    def encrypt(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server.certificate)
        self.connection = context.wrap_socket(self.connection, server_side=True)
        self.rfile = self.connection.makefile("rb")
        self.wfile = self.connection.makefile("wb", buffering=0)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def handle_error(self, request, client_address):
        """Print nothing: a client that shuts its connection down is part of these tests."""


@contextmanager
def mail_server(answers: Answers | None = None, *, tls: str = "", certificate=None):
    """Run a server in a thread; yield its `MailServer`."""
    with _Server(("127.0.0.1", 0), _Talk) as server:
        server.state = MailServer(server.server_address[1], answers or Answers())
        server.tls, server.certificate, server.stop = tls, certificate, threading.Event()
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server.state
        finally:
            server.stop.set()
            server.shutdown()
            thread.join()


def closed_port() -> int:
    """Return a port of the loopback interface that refuses connections."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def self_signed(folder, *, names="IP:127.0.0.1", days=30):
    """Return the path of a certificate with its key, and of nothing else."""
    path = folder / "server.pem"
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=test"),
            *("-keyout", key, "-out", certificate, "-days", str(days)),
            *("-addext", f"subjectAltName={names}"),
        ],
        check=True,
        capture_output=True,
    )
    path.write_text(key.read_text() + certificate.read_text())
    return path
