"""Every interface writes the audit log, with actor and address but no secrets."""

from __future__ import annotations

import json
import logging
import logging.handlers
from datetime import datetime, timedelta

import pytest
from django.contrib.auth.models import Group
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from daemons import housekeeper
from project.logging import JsonLines, configuration
from scheduler.models import Account, ApiToken, AuditEntry
from scheduler.people import accounts, audit
from scheduler.rights import Right
from tests.conftest import NOON
from tests.faces.apis import Program, a_token
from tests.rows import a_host, an_account

pytestmark = pytest.mark.django_db

EMAIL, PASSWORD = "chief@example.org", "a long secret 8"


@pytest.fixture
def chief():
    made = accounts.create_staff(email=EMAIL, password=PASSWORD, now=timezone.now())
    AuditEntry.objects.all().delete()
    return made


def log_in(password: str) -> None:
    Client(REMOTE_ADDR="192.0.2.9").post(
        reverse("account_login"), {"login": EMAIL, "password": password}
    )


def test_admin_log_ins_are_recorded_with_the_client_address(chief):
    log_in("wrong password")
    log_in(PASSWORD)
    entries = AuditEntry.objects.filter(event__startswith="login").order_by("pk")
    assert [(e.event, e.actor, e.address) for e in entries] == [
        ("login_failed", EMAIL, "192.0.2.9"),
        ("login_succeeded", EMAIL, "192.0.2.9"),
    ]
    assert entries[1].account_id == chief.pk


def test_token_created_by_a_command_is_recorded(chief):
    call_command("token", "create", EMAIL)
    entry = AuditEntry.objects.get(event="token_created")
    assert entry.actor.startswith("shell:")
    assert entry.details["scopes"] == ["read", "submit"]


def entries(event: str) -> list[AuditEntry]:
    return list(AuditEntry.objects.filter(event=event).order_by("pk"))


def test_password_typed_into_the_email_field_is_not_recorded(chief):
    Client().post(reverse("account_login"), {"login": PASSWORD, "password": "x"})
    Client().post("/account/login/", {"login": f"{PASSWORD} @x", "password": "x"})
    body = {"email": PASSWORD, "password": "x", "name": "x", "scopes": ["read"]}
    Client().post("/api/v1/tokens", body, "application/json")
    [entry] = entries("login_failed")
    assert (entry.actor, entry.subject) == ("", "")


def test_token_use_is_recorded_once_per_day_and_address(chief):
    text = a_token(chief)  # recorded as used from 127.0.0.1 on an earlier day
    AuditEntry.objects.filter(event="token_used").delete()
    for address in ("192.0.2.1", "192.0.2.1", "2001:db8::1", "192.0.2.1"):
        Program(text, REMOTE_ADDR=address).send("get", "/me")
    assert [entry.address for entry in entries("token_used")] == ["192.0.2.1", "2001:db8::1"]
    assert {entry.account_id for entry in entries("token_used")} == {chief.pk}


def test_another_process_does_not_record_the_same_token_use_again(chief):
    text = a_token(chief)
    audit._recorded_uses.clear()
    Program(text).send("get", "/me")
    assert len(entries("token_used")) == 1


def test_request_with_already_recorded_token_use_runs_no_extra_queries(
    chief, django_assert_num_queries
):
    program = Program(a_token(chief))
    with django_assert_num_queries(2):  # one for the token, one for the apps
        program.send("get", "/apps")


def test_api_audit_entries_name_the_account_and_address(chief):
    program = Program(a_token(chief, "manage", "publish"), REMOTE_ADDR="192.0.2.7")
    assert program.send("post", "/apps", {"name": "shout", "kind": "script"}).status_code == 201
    assert program.send("patch", "/apps/shout", {"beta": True}).status_code == 200
    form = {"version": "1.00", "file": SimpleUploadedFile("run.sh", b"#!/bin/sh\n")}
    made = program.post("/api/v1/apps/shout/versions", form)
    assert made.status_code == 201
    path = f"/app-versions/{made.json()[0]['id']}"
    assert program.send("patch", path, {"deprecated": True}).status_code == 200
    for event in ("app_created", "app_changed", "version_changed"):
        [entry] = entries(event)
        assert (entry.account_id, entry.actor) == (chief.pk, EMAIL), event
        assert entry.address == "192.0.2.7"
    assert entries("app_changed")[0].details == {"changed": ["beta"]}
    assert entries("version_changed")[0].details == {"deprecated": True}


def test_audit_actor_is_reset_after_a_request(chief):
    Program(a_token(chief), REMOTE_ADDR="192.0.2.7").send("get", "/me")
    assert audit.current_actor() == audit.Actor()


def test_rights_changed_in_the_admin_are_recorded(chief):
    web = Client(REMOTE_ADDR="192.0.2.8")
    web.force_login(chief)
    vera = accounts.create_staff(
        email="vera@example.org", password="a long one 7", is_staff=False, is_superuser=False
    )
    operator = Group.objects.get(name="operator")
    url = reverse("admin:scheduler_account_change", args=[vera.pk])
    form = {"name": "vera", "is_active": "on", "is_staff": "on", "groups": [operator.pk]}
    assert web.post(url, form).status_code == 302
    [entry] = entries("rights_changed")
    assert (entry.actor, entry.address) == (EMAIL, "192.0.2.8")
    assert entry.subject == "vera@example.org"
    assert entry.details == {"is_staff": {"from": False, "to": True}, "given": ["operator"]}
    assert [each.subject for each in entries("account_changed")] == ["vera@example.org"]


def test_role_changes_by_a_command_are_recorded_once(chief):
    vera = an_account("vera")
    call_command("role", "give", "vera@example.org", "publisher")
    call_command("role", "give", "vera@example.org", "publisher")
    call_command("role", "take", "vera@example.org", "publisher")
    found = [(e.actor[:6], e.subject, e.details) for e in entries("rights_changed")]
    assert found == [
        ("shell:", "vera@example.org", {"given": "publisher"}),
        ("shell:", "vera@example.org", {"taken": "publisher"}),
    ]
    vera.refresh_from_db()
    assert not vera.is_staff
    with pytest.raises(CommandError, match="There is no role 'boss'"):
        call_command("role", "give", "vera@example.org", "boss")


def test_giving_a_role_sets_is_staff_and_grants_the_rights_of_the_role(capsys):
    vera = an_account("vera")
    call_command("role", "give", "vera@example.org", "moderator", "--json")
    vera.refresh_from_db()
    assert vera.is_staff
    assert vera.has_right(Right.MODERATE_PEOPLE)
    call_command("role", "list", "vera@example.org")
    assert "moderator. Rights: administer_hosts, moderate_people." in capsys.readouterr().out
    call_command("role", "list")
    assert "vera@example.org" in capsys.readouterr().out


def test_host_denied_by_a_command_is_recorded():
    host = a_host(an_account("vera"))
    call_command("host", "deny", str(host.pk), "--reason", "cheats")
    [entry] = entries("host_changed")
    assert (entry.actor[:6], entry.subject) == ("shell:", f"host {host.pk}")
    assert entry.details == {"denied": True, "reason": "cheats"}


def test_superuser_created_by_a_command_is_recorded(monkeypatch):
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", PASSWORD)
    call_command("createsuperuser", "--noinput", "--email", EMAIL)
    [entry] = entries("rights_changed")
    assert entry.actor.startswith("shell:")
    assert (entry.subject, entry.details["is_superuser"]) == (EMAIL, True)


def test_audit_entries_and_logs_contain_no_secrets(chief, caplog):
    """Use every interface that accepts a secret, then search audit entries and logs for it."""
    log_in("a wrong secret")
    log_in(PASSWORD)
    web = Client()
    web.force_login(chief)
    key = accounts.look_up(
        email=EMAIL, passwd_hash=accounts.password_digest(email=EMAIL, password=PASSWORD), now=NOON
    ).key
    new = "an even longer secret 9"
    texts = []
    with caplog.at_level("INFO", logger="manyhands.audit"):
        for scopes in (["read", "submit"], ["administer", "publish", "manage"]):
            asked = {"email": EMAIL, "password": PASSWORD, "name": "t", "scopes": scopes}
            made = Program().send("post", "/tokens", asked)
            assert made.status_code == 201, made.content
            texts.append(made.json()["token"])
        wrong = {"email": EMAIL, "password": "a wrong secret", "name": "t"}
        assert Program().send("post", "/tokens", wrong).status_code == 401
        program = Program(texts[1])
        program.send("post", "/apps", {"name": "shout", "assimilator": "copy_files"})
        program.send("patch", "/apps/shout", {"workunit_defaults": {"meta": {"key": "hidden"}}})
        program.send("delete", f"/tokens/{made.json()['id']}")
        digest = accounts.password_digest(email="new@example.org", password=PASSWORD)
        Client().get(
            "/create_account.php",
            {"email_addr": "new@example.org", "passwd_hash": digest, "user_name": "new"},
        )
        Client().get("/lookup_account.php", {"email_addr": EMAIL, "passwd_hash": "0" * 32})
        vera = Account.objects.get(email="new@example.org")
        url = reverse("admin:auth_user_password_change", args=[vera.pk])
        web.post(url, {"password1": new, "password2": new, "set-password": "1"})
        call_command("changepassword", EMAIL, "--password", new)
        call_command("token", "create", EMAIL)
    hashes = [
        accounts.password_digest(email=email, password=password)
        for email in (EMAIL, "new@example.org")
        for password in (PASSWORD, new)
    ]
    assert (len(entries("token_created")), len(entries("login_failed"))) == (3, 3)
    written = str(list(AuditEntry.objects.values())) + caplog.text
    written += str([vars(record) for record in caplog.records])
    secrets = [PASSWORD, new, "a wrong secret", key, *texts, "mh_", *hashes, "hidden"]
    secrets += list(ApiToken.objects.values_list("token_hash", flat=True))
    secrets += [chief.password.split("$")[-1]]
    assert [secret for secret in secrets if secret in written] == []


@pytest.mark.django_db(transaction=True)
def test_audit_entries_are_logged_as_json_lines_after_commit(tmp_path, noon):
    path = tmp_path / "audit.log"
    configured = configuration("text", level="ERROR", audit_log=str(path))
    handler = logging.handlers.WatchedFileHandler(path)
    handler.setFormatter(JsonLines())
    log = logging.getLogger("manyhands.audit")
    assert configured["handlers"]["audit"]["filename"] == str(path)
    log.addHandler(handler)
    try:
        with audit.acting(name="shell:ada", address="192.0.2.1"):
            audit.record(audit.Event.RIGHTS_CHANGED, now=noon, subject="x", details={"a": 1})
        with transaction.atomic():
            audit.record(audit.Event.LOGIN_FAILED, now=noon)
            transaction.set_rollback(True)
    finally:
        log.removeHandler(handler)
        handler.close()
    [line] = path.read_text().splitlines()
    said = json.loads(line)
    assert said["event"] == "audit_entry"
    assert (said["what"], said["actor"], said["address"], said["details"]) == (
        "rights_changed", "shell:ada", "192.0.2.1", {"a": 1},
    )  # fmt: skip


def test_housekeeper_deletes_old_audit_entries(settings, noon):
    settings.AUDIT_KEPT_DAYS = 30
    for days in (10, 29, 31, 400):
        audit.record(audit.Event.LOGIN_FAILED, now=noon - timedelta(days=days))
    assert housekeeper.drop_audit_entries(noon, 1) == 2
    assert AuditEntry.objects.filter(at__gte=noon - timedelta(days=30)).count() == 2
    assert AuditEntry.objects.count() == 2


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("event=login_failed", 2),
        ("actor=ada@example.org", 2),
        ("address=192.0.2.1", 1),
        ("q=token 3", 1),
        ("q=198.51.100", 1),
        ("at__gte=2026-01-02T00:00:00%2B00:00", 1),
    ],
)
def test_audit_log_can_be_filtered_by_event_actor_address_and_date(chief, query, found):
    AuditEntry.objects.all().delete()
    rows = (
        ("login_failed", "ada@example.org", "192.0.2.1", "", "2026-01-01"),
        ("login_failed", "bob@example.org", "198.51.100.4", "", "2026-01-01"),
        ("token_created", "ada@example.org", None, "token 3", "2026-01-02"),
    )
    for event, actor, address, subject, day in rows:
        AuditEntry.objects.create(
            event=event, actor=actor, address=address, subject=subject,
            at=datetime.fromisoformat(f"{day}T12:00:00+00:00"),
        )  # fmt: skip
    web = Client()
    web.force_login(chief)
    AuditEntry.objects.filter(event="login_succeeded").delete()
    answer = web.get(f"{reverse('admin:scheduler_auditentry_changelist')}?{query}")
    assert answer.status_code == 200
    assert len(answer.context["cl"].result_list) == found
