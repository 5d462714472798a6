"""App versions published by upload in the admin."""

from __future__ import annotations

from dataclasses import replace
from html import unescape
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from scheduler import signing
from scheduler.apps import apps
from scheduler.models import Account, App, AppVersion, AuditEntry, PlanClass
from scheduler.people import roles
from tests.rows import an_account

pytestmark = pytest.mark.django_db

LINUX, WINDOWS = "x86_64-pc-linux-gnu", "windows_x86_64"
PROGRAM = b"\x7fELF program"
ADD = "/admin/scheduler/appversion/add/"


@pytest.fixture
def publisher() -> Account:
    account = an_account(email="paula@example.org")
    roles.give(account, "publisher", now=timezone.now())
    return account


@pytest.fixture
def admin(publisher: Account) -> Client:
    client = Client()
    client.force_login(publisher)
    return client


@pytest.fixture
def app() -> App:
    return apps.create(name="sieve", kind="native", now=timezone.now())


def a_file(content: bytes, name: str = "sieve") -> SimpleUploadedFile:
    return SimpleUploadedFile(name, content)


def send(client: Client, app: App, *files: SimpleUploadedFile, **fields: Any) -> Any:
    known = {"app": app.pk, "version": "1.00", "platforms": [LINUX], "program": list(files)}
    return client.post(ADD, known | fields)


def errors_of(answer: Any) -> str:
    assert answer.status_code == 422
    return unescape(str(answer.context["form"].errors.as_text()))


def test_uploaded_program_becomes_a_version_and_the_audit_log_names_the_publisher(
    admin: Client, app: App, publisher: Account
) -> None:
    PlanClass.objects.create(name="mt", spec={"max_threads": 4}, created_at=timezone.now())
    fields = {"platforms": [LINUX, WINDOWS], "plan_class": "mt", "cmdline": "--fast", "beta": "on"}
    answer = send(admin, app, a_file(PROGRAM), **fields)
    versions = AppVersion.objects.select_related("platform").order_by("pk")
    assert [
        (v.platform.name, v.version_num, v.plan_class, v.cmdline, v.beta) for v in versions
    ] == [
        (LINUX, 100, "mt", "--fast", True),
        (WINDOWS, 100, "mt", "--fast", True),
    ]
    assert answer["Location"] == reverse("admin:scheduler_appversion_change", args=[versions[0].pk])
    page = admin.get(answer["Location"]).content.decode()
    assert page.count("is published.") == 2
    entries = AuditEntry.objects.filter(event="version_published")
    assert {entry.actor for entry in entries} == {publisher.email}


def test_same_upload_changes_nothing_and_other_files_are_refused_with_a_free_number(
    admin: Client, app: App
) -> None:
    first = send(admin, app, a_file(PROGRAM))
    assert send(admin, app, a_file(PROGRAM))["Location"] == first["Location"]
    assert "published before, with the same files" in admin.get(first["Location"]).content.decode()
    assert "Hint: set version_num to 101" in errors_of(send(admin, app, a_file(b"\x7fELF other")))
    assert AppVersion.objects.count() == 1


def test_archive_with_several_files_needs_the_name_of_the_main_program(
    admin: Client, app: App
) -> None:
    def send_both(**fields: str) -> Any:
        return send(admin, app, a_file(PROGRAM), a_file(b"table", "table.txt"), **fields)

    assert "Hint: " in errors_of(send_both())
    assert send_both(main_program="sieve").status_code == 302
    files = AppVersion.objects.get().files.order_by("position")
    assert [(file.open_name, file.main_program) for file in files] == [
        ("", True),
        ("table.txt", False),
    ]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"version": "one"}, "* version"),
        ({"platforms": []}, "no platform is given"),
        ({"platforms": ["vax"]}, "vax is not one of the available choices"),
        ({"image": "alpine"}, "runs no image"),
        ({"program": []}, "no file is given"),
    ],
)
def test_bad_field_is_refused_and_nothing_is_published(
    admin: Client, app: App, fields: dict[str, Any], expected: str
) -> None:
    assert expected in errors_of(send(admin, app, a_file(PROGRAM), **fields))
    assert not AppVersion.objects.exists()


def test_server_that_does_not_sign_publishes_only_with_valid_signatures(
    admin: Client, app: App, settings: Any
) -> None:
    signature = a_file(signing.sign(a_file(PROGRAM)).encode(), "sieve.sig")
    settings.PROJECT = replace(settings.PROJECT, online_signing=False)
    assert "upload a signature for each file" in admin.get(ADD).content.decode()
    assert "No signature was given for sieve" in errors_of(send(admin, app, a_file(PROGRAM)))
    wrong = a_file(b"00ff\n.\n", "sieve.sig")
    refused = errors_of(send(admin, app, a_file(PROGRAM), signatures=[wrong]))
    assert "sieve.sig is not a signature by the project's key" in refused
    assert not AppVersion.objects.exists()
    assert send(admin, app, a_file(PROGRAM), signatures=[signature]).status_code == 302
    assert AppVersion.objects.get().files.get().signature == signature.file.getvalue().decode()


def test_page_is_for_accounts_that_may_publish_versions(app: App) -> None:
    operator = an_account(email="olga@example.org")
    roles.give(operator, "operator", now=timezone.now())
    client = Client()
    assert client.post(ADD)["Location"].startswith("/admin/login/")
    client.force_login(operator)
    assert client.get(ADD).status_code == 403
    assert send(client, app, a_file(PROGRAM)).status_code == 403
    assert not AppVersion.objects.exists()


def test_roles_that_exist_may_publish_after_a_migration(publisher: Account) -> None:
    group = publisher.groups.get()
    group.permissions.filter(codename="add_appversion").delete()
    call_command("migrate", verbosity=0)
    assert group.permissions.filter(codename="add_appversion").exists()
