"""The doctor measures real services, runs every check, and ends in time."""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from daemons.registry import DAEMONS
from project import doctor
from project.doctor import Check
from scheduler import signing
from scheduler.config import AlertConfig
from scheduler.health import database_state, maintenance
from scheduler.health.rules.checkups import Finding, Level
from scheduler.messages import outbox
from scheduler.models import Heartbeat
from scheduler.results import outages
from tests.conftest import NOON
from tests.mail_server import Answers, closed_port, mail_server, self_signed


def found(findings):
    return {finding.check: finding for finding in findings}


def well(name="a", value="fine"):
    return Check(name, lambda: (Finding(name, Level.OK, value),), 5.0, "")


# The runner


def test_findings_are_in_the_order_of_the_checks():
    findings = list(doctor.run([well("a"), well("b"), well("c")]))
    assert [finding.check for finding in findings] == ["a", "b", "c"]


def test_a_check_that_hangs_or_fails_becomes_a_failure_and_the_others_run():
    released = threading.Event()

    def hang():
        released.wait(30)
        return ()

    def fail():
        raise RuntimeError("no\nsuch thing")

    began = time.monotonic()
    checks = [Check("a", hang, 0.2, "look at a."), Check("b", fail, 5.0, "look at b."), well("c")]
    try:
        a, b, c = doctor.run(checks)
    finally:
        released.set()
    assert time.monotonic() - began < 5
    assert (a.level, a.value, a.hint) == (Level.FAILURE, "no result within 0.2 s", "look at a.")
    assert (b.level, b.value) == (Level.FAILURE, "RuntimeError: no such thing")
    assert c.level is Level.OK


def test_the_checks_of_several_services_run_at_the_same_time():
    meeting = threading.Barrier(3)

    def meet():
        meeting.wait(5)
        return (Finding("met", Level.OK, ""),)

    findings = list(doctor.run([Check(str(n), meet, 10.0, "") for n in range(3)]))
    assert {finding.check for finding in findings} == {"met"}


# The database


@pytest.mark.django_db
def test_the_database_is_measured_with_few_statements_and_little_doubt():
    outages.beat(now=timezone.now())
    with CaptureQueriesContext(connection) as statements:
        facts = database_state.read(timezone.now)
    assert len(statements) < 25
    assert facts.version >= 15
    assert facts.unapplied == ()
    assert facts.owns_tables
    assert abs(facts.clock_difference) <= facts.clock_uncertainty + timedelta(seconds=1)
    findings = found(doctor.check_database())
    assert {finding.level for finding in findings.values()} == {Level.OK}


@pytest.mark.django_db
def test_a_clock_that_differs_from_the_database_is_measured():
    behind = database_state.read(lambda: timezone.now() - timedelta(minutes=5))
    assert timedelta(minutes=4) < behind.clock_difference < timedelta(minutes=6)


@pytest.mark.django_db
def test_messages_and_the_web_server_are_read_from_the_database(settings):
    with mail_server() as server:
        settings.MAIL = server.config()
    outbox.add(["ada@example.org"], "Hi", "x", now=NOON)
    Heartbeat.objects.create(name="web", seen_at=NOON)
    facts = database_state.read(timezone.now)
    assert (facts.waiting_messages, facts.parked_messages) == (1, 0)
    assert (facts.oldest_message_at, facts.web_seen_at) == (NOON, NOON)


@pytest.mark.django_db
def test_an_unreachable_database_is_one_failure_with_a_hint(monkeypatch):
    monkeypatch.setitem(connection.settings_dict, "HOST", "127.0.0.1")
    monkeypatch.setitem(connection.settings_dict, "PORT", str(closed_port()))
    monkeypatch.setitem(connection.settings_dict, "PASSWORD", "geheim")
    monkeypatch.setitem(connection.settings_dict, "EMBEDDED", None)
    # A thread has its own connection, so the test's transaction is not affected.
    [finding] = doctor.run([Check("database", _with_settings(connection), 20.0, "")])
    assert (finding.check, finding.level) == ("database", Level.FAILURE)
    assert "Connection refused" in finding.value
    assert "geheim" not in finding.value + finding.hint


def test_a_database_without_free_connections_gets_a_hint_of_its_own(monkeypatch):
    def fail(_clock):
        raise OperationalError("FATAL:  sorry, too many clients already")

    monkeypatch.setattr(database_state, "read", fail)
    [finding] = doctor.check_database()
    assert finding.level is Level.FAILURE
    assert "DATABASE_POOL" in finding.hint
    assert "start PostgreSQL" not in finding.hint


def _with_settings(original):
    changed = dict(original.settings_dict)

    def check():
        from django.db import connections

        connections["default"].settings_dict = changed
        return doctor.check_database()

    return check


# Files and keys


def test_a_folder_that_does_not_exist_is_a_failure(settings, tmp_path):
    settings.VAR_DIR = tmp_path / "missing"
    [finding] = doctor.check_files()
    assert finding.level is Level.FAILURE
    assert "does not exist" in finding.value


def test_free_space_and_modes_are_measured(settings):
    settings.VAR_DIR.mkdir(mode=0o750, parents=True)
    settings.MIN_FREE_BYTES = 1
    storage, permissions = doctor.check_files()
    assert "free, 0 MB of them reserved" in storage.value
    assert permissions.level is Level.OK
    settings.MIN_FREE_BYTES = 10**18
    settings.VAR_DIR.chmod(0o755)
    storage, permissions = doctor.check_files()
    assert storage.level is Level.FAILURE
    assert (permissions.level, str(settings.VAR_DIR) in permissions.value) == (Level.FAILURE, True)


def test_missing_damaged_and_foreign_keys_are_found(settings, tmp_path):
    settings.KEYS_DIR = tmp_path / "keys"
    assert len(signing.key_faults()) == 4
    signing.ensure_keys()
    assert signing.key_faults() == []
    (finding,) = doctor.check_keys()
    assert finding.value == "all present and valid; the project signs here"
    (settings.KEYS_DIR / "upload_grant_keys").write_text("nonsense\n")
    other, settings.KEYS_DIR = settings.KEYS_DIR, tmp_path / "other"
    signing.ensure_keys()
    (other / "code_sign_public").write_text((settings.KEYS_DIR / "code_sign_public").read_text())
    settings.KEYS_DIR = other
    pair, grants = signing.key_faults()
    assert "does not belong to the public one" in pair
    assert "upload_grant_keys is damaged" in grants


# The public address


@contextmanager
def web_server(body="", status=200, certificate=None, location=""):
    """Run a web server that answers every request with one page; yield its URL."""
    import ssl

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            if location:
                self.send_header("Location", location)
            self.end_headers()
            self.wfile.write(self.server.body.encode())

        def log_message(self, *_):
            pass

    class Server(HTTPServer):
        def handle_error(self, request, client_address):
            pass

    with Server(("127.0.0.1", 0), Handler) as server:
        server.body = body
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        scheme = "https" if certificate else "http"
        url = f"{scheme}://127.0.0.1:{server.server_address[1]}/"
        if not body:
            server.body = f'<link rel="boinc_scheduler" href="{url}cgi/scheduler">'
        try:
            yield url
        finally:
            server.shutdown()
            thread.join()


def at(settings, url):
    settings.PROJECT = replace(settings.PROJECT, master_url=url)
    return found(doctor.check_page())


def test_the_page_at_the_public_address_is_recognized_by_its_scheduler_link(settings):
    with web_server() as url:
        assert "answered in" in at(settings, url)["public address"].value
    with web_server(body="Welcome to nginx!") as url:
        finding = at(settings, url)["public address"]
    assert finding.level is Level.FAILURE
    assert "does not name this project's scheduler" in finding.value


def test_a_redirect_of_the_public_address_is_reported_and_not_followed(settings):
    with web_server(status=301, location=f"http://127.0.0.1:{closed_port()}/new/") as url:
        finding = at(settings, url)["public address"]
    assert finding.level is Level.FAILURE
    assert "redirects to http://127.0.0.1" in finding.value


def test_a_closed_port_is_reported(settings):
    finding = at(settings, f"http://127.0.0.1:{closed_port()}/")["public address"]
    assert finding.level is Level.FAILURE
    assert "Connection refused" in finding.value


@pytest.mark.needs("openssl")
def test_the_days_of_the_certificate_are_measured(settings, tmp_path, monkeypatch):
    path = self_signed(tmp_path, days=12)
    with web_server(certificate=path) as url:
        refused = at(settings, url)["https"]
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
        valid = at(settings, url)["https"]
    assert (refused.level, refused.value) == (Level.FAILURE, "the certificate is not valid")
    assert valid.level is Level.WARNING
    assert valid.value in {
        "the certificate is valid for 11 more days",
        "the certificate is valid for 12 more days",
    }


# Mail, broker and daemons


def test_the_mail_server_is_asked_and_gets_no_mail(settings):
    with mail_server() as server:
        settings.MAIL = server.config()
        finding = found(doctor.check_mail())["mail"]
    assert finding.level is Level.OK
    assert finding.value.startswith(f"127.0.0.1:{server.port}, not encrypted, no log-in, from ")
    assert server.mails == []


def test_a_mail_server_that_refuses_is_a_failure_without_the_password(settings):
    answers = Answers(features=("AUTH PLAIN",), replies={"AUTH": "535 wrong"})
    with mail_server(answers) as server:
        settings.MAIL = server.config(user="mail", password="geheim")
        finding = found(doctor.check_mail())["mail"]
    assert finding.level is Level.FAILURE
    assert "535 wrong" in finding.value
    assert "geheim" not in str(finding)


def test_the_webhook_of_alerts_is_shown_without_its_path(settings):
    settings.ALERTS = AlertConfig(webhook="https://hooks.example.org/geheim")
    finding = found(doctor.check_mail())["alerts"]
    assert finding.value == "are sent by webhook to hooks.example.org"


def test_an_unreachable_broker_is_a_failure_without_its_password(settings, monkeypatch):
    url = f"redis://:geheim@127.0.0.1:{closed_port()}/0"
    settings.CELERY_BROKER_URL = url
    assert "broker" not in {check.name for check in doctor.all_checks()}
    monkeypatch.setenv("CELERY_BROKER_URL", url)
    assert "broker" in {check.name for check in doctor.all_checks()}
    [finding] = doctor.check_broker()
    assert finding.level is Level.FAILURE
    assert "geheim" not in str(finding)


def test_each_daemon_has_a_line(settings):
    run = settings.VAR_DIR / "run"
    run.mkdir(parents=True)
    (run / "purger.alive").touch()
    findings = found(doctor.check_daemons())
    assert list(findings) == [daemon.name for daemon in DAEMONS]
    assert findings["purger"].level is Level.OK
    assert findings["validator"].level is Level.FAILURE
    maintenance.begin(now=NOON)
    assert {finding.level for finding in doctor.check_daemons()} == {Level.WARNING}


# The command


def run_command(*arguments, checks, monkeypatch):
    out = StringIO()
    monkeypatch.setattr(doctor, "all_checks", lambda **_: checks)
    try:
        call_command("doctor", *arguments, stdout=out, no_color=True)
    except SystemExit as exit_:
        return exit_.code, out.getvalue()
    return 0, out.getvalue()


def a_check(level, hint=""):
    finding = Finding("a check", level, "a measured value", hint)
    return Check("a check", lambda: (finding,), 5.0, "")


def test_the_command_prints_a_line_for_each_check_with_its_hint(monkeypatch):
    checks = [well("one"), a_check(Level.WARNING, "do something.")]
    status, out = run_command(checks=checks, monkeypatch=monkeypatch)
    assert status == 0
    assert out.splitlines() == [
        "ok       one               fine",
        "warning  a check           a measured value",
        "                           Hint: do something.",
        "",
        "2 checks, 0 failures, 1 warning",
    ]


@pytest.mark.parametrize(
    ("level", "arguments", "status"),
    [
        (Level.OK, ["--strict"], 0),
        (Level.WARNING, [], 0),
        (Level.WARNING, ["--strict"], 1),
        (Level.FAILURE, [], 1),
        (Level.FAILURE, ["--json"], 1),
    ],
)
def test_the_exit_status_follows_the_findings(monkeypatch, level, arguments, status):
    got, _ = run_command(*arguments, checks=[a_check(level)], monkeypatch=monkeypatch)
    assert got == status


def test_json_has_every_finding(monkeypatch):
    _, out = run_command("--json", checks=[a_check(Level.FAILURE, "x.")], monkeypatch=monkeypatch)
    assert json.loads(out) == {
        "findings": [
            {"check": "a check", "level": "failure", "value": "a measured value", "hint": "x."}
        ]
    }


def test_a_test_message_is_sent_to_the_address_of_the_option(settings):
    with mail_server() as server:
        settings.MAIL = server.config()
        with pytest.raises(SystemExit):  # no web server and no daemon runs
            call_command("doctor", "--send-mail", "ada@example.org", stdout=(out := StringIO()))
    assert "a test message to ada@example.org was accepted by" in " ".join(out.getvalue().split())
    [(_, recipient, text)] = server.mails
    assert recipient == "<ada@example.org>"
    assert "Subject: Test message of Manyhands" in text


@pytest.mark.parametrize("address", ["ada", "ada@example.org\r\nBcc: eve@example.org"])
def test_a_test_message_to_an_invalid_address_is_refused(settings, address):
    with mail_server() as server:
        settings.MAIL = server.config()
        with pytest.raises(CommandError, match="Hint:"):
            call_command("doctor", "--send-mail", address)
    assert server.connections == 0


def test_a_test_message_without_a_mail_server_is_refused(settings):
    settings.MAIL = None
    with pytest.raises(CommandError, match="Hint: set EMAIL_URL"):
        call_command("doctor", "--send-mail", "ada@example.org")
