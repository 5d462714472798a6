"""Measured values are judged as ok, warning or failure, each problem with a hint."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from scheduler.health.rules import checkups
from scheduler.health.rules.checkups import (
    DatabaseFacts,
    FileFacts,
    Finding,
    Level,
    MailFacts,
    PageFacts,
)
from tests.conftest import NOON

SECOND, MINUTE, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(days=1)
PUBLIC, LOCAL = "https://p.example.org/", "http://127.0.0.1:8000/"

GOOD_DATABASE = DatabaseFacts(
    version=15,
    version_text="15.9",
    is_embedded=False,
    seconds=0.002,
    unapplied=(),
    user="manyhands_web",
    owns_tables=False,
    role="web",
    web_seen_at=NOON - 20 * SECOND,
)
GOOD_FILES = FileFacts(free_nbytes=50 * 10**9, min_free_nbytes=10**8, user="manyhands")
GOOD_PAGE = PageFacts(
    addresses=("93.184.216.34",),
    status=200,
    has_link=True,
    seconds=0.03,
    certificate_ends_at=NOON + 60 * DAY,
)
MAIL = MailFacts(is_on=True, server="mail:587, TLSv1.3, logged in as p", sender="noreply@p.org")


def database(*, public=True, **changes):
    findings = checkups.database(replace(GOOD_DATABASE, **changes), public=public, now=NOON)
    return {finding.check: finding for finding in findings}


def files(**changes):
    return {finding.check: finding for finding in checkups.files(replace(GOOD_FILES, **changes))}


def page(url=PUBLIC, **changes):
    findings = checkups.page(replace(GOOD_PAGE, **changes), url=url, now=NOON)
    return {finding.check: finding for finding in findings}


def mail(*, public=True, facts=MAIL, **changes):
    findings = checkups.mail(replace(facts, **changes), public=public)
    return {finding.check: finding for finding in findings}


def levels(findings):
    return {finding.level for finding in findings.values()}


def test_a_healthy_project_has_no_warning_and_no_hint():
    findings = [
        *database().values(),
        *files().values(),
        *page().values(),
        *mail(alert_mail=("op@p.org",)).values(),
        *checkups.keys([], has_private=False, public=True, online_signing=False),
        *checkups.daemons({"purger": NOON - 3 * SECOND}, paused=False, now=NOON),
    ]
    assert {finding.level for finding in findings} == {Level.OK}
    assert {finding.hint for finding in findings} == {""}


PROBLEMS = [
    (database, {"version": 14}, "database", Level.FAILURE),
    (database, {"unapplied": ("scheduler.0022_mail",)}, "migrations", Level.FAILURE),
    (database, {"owns_tables": True}, "database role", Level.WARNING),
    (database, {"missing": ("SELECT on app",)}, "database role", Level.FAILURE),
    (database, {"excess": ("DELETE on app",)}, "database role", Level.WARNING),
    (database, {"autovacuum": False}, "transactions", Level.FAILURE),
    (database, {"longest_transaction": 61 * MINUTE}, "transactions", Level.WARNING),
    (database, {"clock_difference": 3 * SECOND}, "clock", Level.WARNING),
    (database, {"clock_difference": -61 * SECOND}, "clock", Level.FAILURE),
    (database, {"web_seen_at": None}, "web server", Level.FAILURE),
    (database, {"web_seen_at": NOON - 6 * MINUTE}, "web server", Level.FAILURE),
    (database, {"parked_messages": 2}, "outbox", Level.WARNING),
    (database, {"oldest_message_at": NOON - 11 * MINUTE}, "outbox", Level.WARNING),
    (files, {"unusable": ("/var/p/upload",)}, "storage", Level.FAILURE),
    (files, {"free_nbytes": 10**8 - 1}, "storage", Level.FAILURE),
    (files, {"free_nbytes": 10**9}, "storage", Level.WARNING),
    (files, {"open_paths": ("/var/p/keys",)}, "permissions", Level.FAILURE),
    (files, {"user": "root", "owner": "manyhands"}, "permissions", Level.WARNING),
    (files, {"umask": 0}, "permissions", Level.FAILURE),
    (page, {"status": 301, "location": "https://x/"}, "public address", Level.FAILURE),
    (page, {"status": 502}, "public address", Level.FAILURE),
    (page, {"has_link": False}, "public address", Level.FAILURE),
    (page, {"url": LOCAL}, "public address", Level.WARNING),
    (page, {"url": "http://p.example.org/"}, "https", Level.WARNING),
    (page, {"certificate_ends_at": NOON + 20 * DAY}, "https", Level.WARNING),
    (page, {"certificate_ends_at": NOON + 2 * DAY}, "https", Level.FAILURE),
    (page, {"certificate_ends_at": None}, "https", Level.FAILURE),
    (mail, {"is_on": False}, "mail", Level.WARNING),
    (mail, {"failure": "mail:587: refused"}, "mail", Level.FAILURE),
    (mail, {"is_on": False, "alert_mail": ("op@p.org",)}, "alerts", Level.FAILURE),
    (mail, {}, "alerts", Level.WARNING),
]


@pytest.mark.parametrize(("judge", "changes", "check", "level"), PROBLEMS)
def test_a_problem_is_found_on_its_line_with_a_hint(judge, changes, check, level):
    finding = judge(**changes)[check]
    assert finding.level is level
    assert finding.hint.endswith((".", ")"))


@pytest.mark.parametrize(
    ("judge", "changes"),
    [
        (database, {"public": False, "owns_tables": True}),
        (database, {"clock_difference": 5 * SECOND, "clock_uncertainty": 4 * SECOND}),
        (database, {"longest_transaction": 59 * MINUTE}),
        (database, {"waiting_messages": 4, "oldest_message_at": NOON - MINUTE}),
        (files, {"umask": 0o022}),
        (mail, {"public": False, "is_on": False}),
        (mail, {"webhook_host": "hooks.example.org"}),
    ],
)
def test_what_is_usual_for_a_project_is_not_a_problem(judge, changes):
    assert levels(judge(**changes)) == {Level.OK}


def test_without_its_tables_only_the_server_is_judged():
    checks = database(unapplied=("scheduler.0001_initial",), missing=("SELECT on app",))
    assert list(checks) == ["database", "migrations", "transactions", "clock"]


def test_missing_migrations_are_applied_by_the_upgrade_command():
    checks = database(unapplied=("scheduler.0022_mail",))
    assert "`manage.py project upgrade --backup FOLDER`" in checks["migrations"].hint


def test_a_local_address_can_be_changed_later_by_rename_url():
    hint = page(url=LOCAL)["public address"].hint
    assert "never" not in hint
    assert "`manage.py project rename-url`" in hint


def test_a_test_message_is_reported_with_its_recipient():
    value = mail(sent_to="ada@example.org")["mail"].value
    assert value.startswith("a test message to ada@example.org was accepted by mail:587")


@pytest.mark.parametrize(
    ("arguments", "level"),
    [
        ({"faults": ["Key is missing.\nHint: restore it."]}, Level.FAILURE),
        ({"has_private": True, "public": True}, Level.WARNING),
        ({"has_private": True, "public": False, "online_signing": True}, Level.OK),
        ({"has_private": False, "online_signing": True}, Level.FAILURE),
    ],
)
def test_keys_are_judged_by_where_the_private_key_is(arguments, level):
    facts = {"faults": [], "has_private": False, "public": False, "online_signing": False}
    [finding] = checkups.keys(**(facts | arguments))
    assert finding.level is level
    assert bool(finding.hint) is (level is not Level.OK)


def test_further_faults_of_keys_are_counted():
    faults = ["A key is missing.\nHint: restore it.", "Another is damaged.\nHint: restore it."]
    [finding] = checkups.keys(faults, has_private=True, public=False, online_signing=True)
    assert (finding.value, finding.hint) == ("A key is missing. (and 1 more)", "restore it.")


@pytest.mark.parametrize(
    ("seen_at", "paused", "level"),
    [
        (NOON - MINUTE / 2, False, Level.OK),
        (NOON + MINUTE, False, Level.OK),
        (NOON - 4 * MINUTE, False, Level.FAILURE),
        (None, False, Level.FAILURE),
        (None, True, Level.WARNING),
    ],
)
def test_a_daemon_is_judged_by_its_last_heartbeat(seen_at, paused, level):
    [finding] = checkups.daemons({"purger": seen_at}, paused=paused, now=NOON)
    assert (finding.check, finding.level) == ("purger", level)


@pytest.mark.parametrize(
    ("reason", "value"),
    [
        ("p cannot be reached: certificate has expired. Hint: x", "the certificate is not valid"),
        ("p cannot be reached: refused. Hint: x", "not measured: no connection"),
    ],
)
def test_an_unreachable_address_fails_both_lines(reason, value):
    address, https = checkups.unreachable_page(reason, url=PUBLIC)
    assert address.value == reason.partition(" Hint")[0]
    assert (https.level, https.value) == (Level.FAILURE, value)


@pytest.mark.parametrize(
    ("level", "is_strict", "status"),
    [
        (Level.OK, True, 0),
        (Level.WARNING, False, 0),
        (Level.WARNING, True, 1),
        (Level.FAILURE, False, 1),
    ],
)
def test_the_exit_status_counts_failures_and_with_strict_warnings(level, is_strict, status):
    findings = [Finding("a", Level.OK, ""), Finding("b", level, "")]
    assert checkups.exit_status(findings, is_strict=is_strict) == status


@pytest.mark.parametrize(
    ("url", "is_loopback"),
    [
        ("http://localhost:8000/", True),
        ("http://[::1]:8000/", True),
        ("http://192.168.0.4/", False),
        ("https://p.example.org/", False),
    ],
)
def test_loopback_addresses_are_recognized(url, is_loopback):
    assert checkups.is_loopback(url) is is_loopback
