"""The beginning and the end of an alert are reported once, by mail and webhook."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from daemons import housekeeper
from scheduler.config import AlertConfig, MailConfig
from scheduler.health import alert_reports, alerts
from scheduler.health.rules.alert_texts import Alert
from scheduler.messages import outbox
from scheduler.messages.outbox import DeliveryFailed
from scheduler.models import AlertState, OutboxMessage
from tests.conftest import NOON

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)
PURGER = Alert("daemon_silent", "The purger is silent for 4 min.", "read its log.", "purger")
FULL = Alert("disk_full", "The disk of var is full.", "free disk space.")


@pytest.fixture(autouse=True)
def mail_to_the_operator(settings):
    settings.MAIL = MailConfig(host="127.0.0.1", port=9)
    settings.ALERTS = AlertConfig(mail=("op@example.org",))


class Project:
    """Reports changes of a list of alerts, minute by minute."""

    def __init__(self, monkeypatch):
        self.minute, self.alerts = 0, []
        monkeypatch.setattr(alerts, "current", lambda *, now: tuple(self.alerts))

    def look(self, *current, times=1):
        """Report with these alerts; return the subjects of the new messages."""
        self.alerts = current
        before = OutboxMessage.objects.count()
        for _ in range(times):
            alert_reports.report(now=NOON + self.minute * MINUTE)
            self.minute += 1
        return [row.subject for row in OutboxMessage.objects.order_by("id")[before:]]


@pytest.fixture
def project(monkeypatch):
    return Project(monkeypatch)


def test_an_alert_is_reported_once_when_it_has_lasted_two_minutes(project):
    assert project.look(PURGER, times=2) == []
    assert project.look(PURGER) == ["[Manyhands] The purger is silent for 4 min."]
    assert project.look(PURGER, times=20) == []
    row = OutboxMessage.objects.get()
    assert row.recipient == "op@example.org"
    assert "Hint: read its log." in row.text


def test_an_alert_whose_sentence_changes_with_the_time_is_reported_once(project):
    project.look(PURGER, times=3)
    assert project.look(replace(PURGER, sentence="The purger is silent for 5 min.")) == []
    assert project.look() == ["[Manyhands] Ended: The purger is silent for 5 min."]


def test_the_end_of_a_reported_alert_is_reported_once(project):
    project.look(PURGER, times=3)
    assert project.look() == ["[Manyhands] Ended: The purger is silent for 4 min."]
    assert project.look(times=20) == []
    assert not AlertState.objects.exists()


def test_a_short_alert_is_not_reported(project):
    assert project.look(PURGER, times=2) == []
    assert project.look(times=20) == []


def test_an_alert_that_comes_back_is_reported_again(project):
    project.look(PURGER, times=3)
    project.look()
    assert project.look(PURGER, times=3) == ["[Manyhands] The purger is silent for 4 min."]


def test_alerts_of_one_kind_are_distinguished_by_their_subjects(project):
    other = replace(PURGER, subject="validator", sentence="The validator is silent for 4 min.")
    project.look(PURGER, times=3)
    assert project.look(PURGER, other, times=3) == [
        "[Manyhands] The validator is silent for 4 min."
    ]


def test_all_changes_of_one_look_are_in_one_message_for_each_recipient(project, settings):
    settings.ALERTS = AlertConfig(mail=("op@example.org", "eve@example.org"))
    project.look(FULL, times=3)
    project.look(PURGER, FULL, times=2)
    OutboxMessage.objects.all().delete()
    assert project.look(PURGER) == ["[Manyhands] 1 alert began, 1 alert ended"] * 2


def test_the_same_number_of_statements_reports_one_alert_and_a_hundred(project):
    many = [replace(PURGER, subject=f"daemon {number}") for number in range(100)]
    counts = []
    for current in ([PURGER], many):
        project.look(*current, times=2)
        with CaptureQueriesContext(connection) as statements:
            assert len(project.look(*current)) == 1
        counts.append(len(statements))
        project.look()
    assert counts[0] == counts[1]


def test_a_message_about_very_many_alerts_is_not_too_long(project, settings):
    settings.ALERTS = AlertConfig(mail=("op@example.org",), webhook="https://hooks.example.org/x")
    many = [
        replace(PURGER, subject=f"app {number}", sentence="ä" * 5000, hint='"' * 5000)
        for number in range(500)
    ]
    assert project.look(*many, times=3) == ["[Manyhands] 500 alerts began"] * 2
    mail, webhook = OutboxMessage.objects.order_by("kind")
    assert "- and 480 more" in mail.text
    assert len(json.loads(webhook.text)["began"]) == 20


def test_two_housekeepers_report_a_change_once(project):
    project.look(PURGER, times=2)
    now = NOON + 10 * MINUTE
    assert [alert_reports.report(now=now), alert_reports.report(now=now)] == [1, 0]


def test_a_real_alert_is_reported_by_the_housekeeper(settings):
    for minute in range(4):
        housekeeper.run_pass(now=NOON + minute * MINUTE, limit=1000)
    [subject] = OutboxMessage.objects.values_list("subject", flat=True)
    assert subject == "[Manyhands] No daemon has ever run here."


def test_without_recipients_nothing_is_read_or_stored(settings, monkeypatch):
    settings.ALERTS = AlertConfig()
    monkeypatch.setattr(alerts, "current", lambda *, now: pytest.fail("alerts were read"))
    with CaptureQueriesContext(connection) as statements:
        assert alert_reports.report(now=NOON) == 0
    assert len(statements) == 0


def test_alerts_of_the_time_before_reports_were_switched_off_are_forgotten(project, settings):
    project.look(PURGER, times=3)
    assert AlertState.objects.count() == 1
    housekeeper.drop_old_messages(NOON, 1000)
    assert AlertState.objects.count() == 1
    reported, settings.ALERTS = settings.ALERTS, AlertConfig()
    housekeeper.drop_old_messages(NOON, 1000)
    assert AlertState.objects.count() == 0
    settings.ALERTS = reported
    assert project.look() == [], "the end of an alert of long ago is not reported"


# The webhook


@contextmanager
def receiver(status=200):
    """Run a web server that keeps the bodies of POST requests and answers with `status`."""
    taken = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            length = int(self.headers["Content-Length"])
            taken.append((self.path, dict(self.headers), json.loads(self.rfile.read(length))))
            self.send_response(status)
            self.send_header("Location", "http://127.0.0.1:9/elsewhere")
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/hooks/secret-path", taken
        server.shutdown()
        thread.join()


@pytest.fixture
def local_webhooks(settings):
    settings.PROJECT = replace(settings.PROJECT, webhook_hosts=("127.0.0.1",))


def test_the_webhook_gets_each_change_as_json(project, settings, local_webhooks):
    settings.MAIL = None
    with receiver() as (url, taken):
        settings.ALERTS = AlertConfig(webhook=url)
        assert len(project.look(PURGER, times=3)) == 1
        assert housekeeper.deliver_messages(NOON + 5 * MINUTE, 1000) == 1
    [(path, headers, content)] = taken
    assert path == "/hooks/secret-path"
    assert headers["Content-Type"] == "application/json"
    assert [alert["subject"] for alert in content["began"]] == ["purger"]
    assert OutboxMessage.objects.get().sent_at == NOON + 5 * MINUTE


@pytest.mark.parametrize(
    ("status", "is_final"), [(404, True), (403, True), (302, False), (429, False), (503, False)]
)
def test_a_webhook_that_refuses_parks_the_message_and_a_busy_one_gets_it_later(
    project, settings, local_webhooks, status, is_final
):
    with receiver(status) as (url, _):
        settings.ALERTS = AlertConfig(webhook=url)
        project.look(PURGER, times=3)
        message = a_message()
        with pytest.raises(DeliveryFailed, match=str(status)) as failure:
            alert_reports.post(message)
    assert failure.value.is_final is is_final


def a_message():
    row = OutboxMessage.objects.get()
    return outbox.Message(row.pk, row.kind, row.recipient, row.subject, row.text, row.created_at, 1)
