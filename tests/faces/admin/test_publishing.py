"""App versions published by upload in the admin."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from datetime import timedelta
from html import unescape
from io import BytesIO
from typing import Any
from zipfile import ZipFile

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from scheduler import signing
from scheduler.apps import apps
from scheduler.models import (
    Account,
    App,
    AppVersion,
    AuditEntry,
    File,
    FileHold,
    PlanClass,
    Platform,
)
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


def show(client: Client, app: App, *files: SimpleUploadedFile, **fields: Any) -> Any:
    """Send the form, and return the preview, or the form with its errors."""
    known = {"app": app.pk, "version": "1.00", "platforms": [LINUX], "program": list(files)}
    return client.post(ADD, known | fields)


def confirm(client: Client, shown: Any, **fields: Any) -> Any:
    """Confirm a preview as a browser would, with the hidden fields of its page."""
    values: dict[str, list[str]] = {}
    for tag in re.findall(r'<input type="hidden"[^>]*>', shown.content.decode()):
        name, value = re.search(r'name="([^"]*)"', tag), re.search(r'value="([^"]*)"', tag)
        if name:
            values.setdefault(name[1], []).append(unescape(value[1]) if value else "")
    return client.post(ADD, values | {"confirmed": "yes"} | fields)


def send(client: Client, app: App, *files: SimpleUploadedFile, **fields: Any) -> Any:
    """Publish files with a preview; return the first answer if it is no preview."""
    shown = show(client, app, *files, **fields)
    is_preview = shown.context is not None and "plan" in shown.context
    return confirm(client, shown) if is_preview else shown


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


def test_files_of_a_native_app_get_logical_names_and_roles(admin: Client, app: App) -> None:
    files = [a_file(PROGRAM), a_file(b"MZ helper", "help_2.exe"), a_file(b"a = 1", "settings.ini")]
    fields = {
        "main_program": "sieve",
        "logical_names": "help_2.exe = helper.exe\r\n\r\nsieve = run",
        "executables": "help_2.exe\r\n",
        "copies": "settings.ini",
    }
    assert send(admin, app, *files, **fields).status_code == 302
    rows = AppVersion.objects.get().files.order_by("position")
    columns = ("open_name", "main_program", "executable", "copy_file")
    assert list(rows.values_list(*columns)) == [
        ("run", True, True, False),
        ("helper.exe", False, True, False),
        ("settings.ini", False, False, True),
    ]
    answer = send(admin, app, *map(renewed, files), **fields | {"copies": ""})
    assert "exists with other files" in errors_of(answer)


def renewed(file: SimpleUploadedFile) -> SimpleUploadedFile:
    return a_file(file.file.getvalue(), str(file.name))


def test_platform_that_staff_added_can_be_chosen(admin: Client, app: App) -> None:
    Platform.objects.create(name="vax-dec-vms")
    Platform.objects.create(name="anonymous")
    text = admin.get(ADD).content.decode()
    assert '<option value="vax-dec-vms">' in text
    assert '<option value="anonymous">' not in text
    assert send(admin, app, a_file(PROGRAM), platforms=["vax-dec-vms"]).status_code == 302
    assert AppVersion.objects.get().platform.name == "vax-dec-vms"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"version": "one"}, "* version"),
        ({"platforms": []}, "no platform is given"),
        ({"platforms": ["vax"]}, "vax is not one of the available choices"),
        ({"image": "alpine"}, "runs no image"),
        ({"program": []}, "no file is given"),
        ({"logical_names": "table"}, "Hint: write table_7.dat = table.dat"),
        ({"logical_names": "sieve = a\nsieve = b"}, "'sieve' is listed twice"),
        ({"logical_names": "table = b"}, "'table' is not in the package. Hint: it has sieve"),
        ({"logical_names": "sieve = ../b"}, "'../b' is not a name for a file"),
        ({"logical_names": "sieve = init_data.xml"}, "is not a name that a program can open"),
        ({"executables": "nothing"}, "'nothing' is not in the package"),
        ({"copies": "a\nb"}, "'a' is not in the package"),
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


def test_files_to_sign_are_those_that_are_published_with_their_signatures(
    admin: Client, settings: Any
) -> None:
    settings.PROJECT = replace(settings.PROJECT, online_signing=False)
    script = apps.create(name="sum", kind="script", now=timezone.now())
    content = b"#!/bin/sh\necho 1\n"
    fields = {"platforms": [], "version": "1.02"}
    answer = send(admin, script, a_file(content, "run.sh"), **fields, to_sign="yes")
    assert answer["Content-Disposition"] == 'attachment; filename="sum_102_to-sign.zip"'
    archive = ZipFile(BytesIO(b"".join(answer.streaming_content)))
    manifest = json.loads(archive.read("to-sign/to-sign.json"))
    names = [entry["name"] for entry in manifest["files"]]
    assert (manifest["app"], manifest["version"]) == ("sum", "1.02")
    assert names == ["sum.tar.gz", "sum_launcher"]
    assert not AppVersion.objects.exists()
    assert not AuditEntry.objects.filter(event="version_published").exists()
    signatures = []
    for name in names:
        text = signing.sign(BytesIO(archive.read(f"to-sign/{name}")))
        signatures.append(a_file(text.encode(), f"{name}.sig"))
    send(admin, script, a_file(content, "run.sh"), **fields, signatures=signatures)
    versions = AppVersion.objects.all()
    assert {version.version_num for version in versions} == {102}
    digests = {entry["sha256"] for entry in manifest["files"]}
    assert {file.file.sha256 for file in versions[0].files.all()} == digests


def test_files_to_sign_are_refused_like_a_version(admin: Client, app: App) -> None:
    answer = send(admin, app, a_file(b"1 2\nab\n"), to_sign="yes")
    assert "Hint: " in errors_of(answer)
    assert "no file is given" in errors_of(send(admin, app, program=[], to_sign="yes"))


def test_page_is_for_accounts_that_may_publish_versions(app: App) -> None:
    operator = an_account(email="olga@example.org")
    roles.give(operator, "operator", now=timezone.now())
    client = Client()
    assert client.post(ADD)["Location"].startswith("/admin/login/")
    client.force_login(operator)
    assert client.get(ADD).status_code == 403
    assert send(client, app, a_file(PROGRAM)).status_code == 403
    assert send(client, app, a_file(PROGRAM), to_sign="yes").status_code == 403
    assert not AppVersion.objects.exists()


def test_roles_that_exist_may_publish_after_a_migration(publisher: Account) -> None:
    group = publisher.groups.get()
    group.permissions.filter(codename="add_appversion").delete()
    call_command("migrate", verbosity=0)
    assert group.permissions.filter(codename="add_appversion").exists()


# The preview


def test_preview_shows_the_files_and_what_each_version_replaces(admin: Client, app: App) -> None:
    send(admin, app, a_file(PROGRAM))
    other = a_file(b"\x7fELF other")
    platforms = [LINUX, WINDOWS]
    answer = show(admin, app, other, version="1.01", platforms=platforms, rollout_percent="30")
    text = unescape(answer.content.decode())
    digest = hashlib.sha256(b"\x7fELF other").hexdigest()
    for words in (
        "Really publish sieve 1.01?",
        f"replaces sieve 1.00 {LINUX} as the newest",
        "the first version for this platform and plan class",
        digest,
        "main program",
        "this server",
        "sent to 30 % of the hosts",
    ):
        assert words in text
    assert 'title="10 bytes"' in text
    assert not re.search(r"<style|style=|onclick", text)
    assert AppVersion.objects.count() == 1
    assert confirm(admin, answer).status_code == 302
    published = AppVersion.objects.filter(version_num=101)
    assert published.count() == 2
    assert {version.files.get().file.sha256 for version in published} == {digest}


def test_version_is_published_with_an_automatic_roll_back(admin: Client, app: App) -> None:
    fields = {"rollout_percent": "10", "max_error_percent": "5", "min_rollback_results": "20"}
    answer = show(admin, app, a_file(PROGRAM), **fields)
    text = unescape(answer.content.decode())
    assert "sent to 10 % of the hosts that fit, and rolled back if more than 5 %" in text
    assert "of at least 20 results fail" in text
    assert confirm(admin, answer).status_code == 302
    version = AppVersion.objects.get()
    assert (version.rollout_percent, version.max_error_percent) == (10, 5)
    assert version.min_rollback_results == 20


def test_version_without_a_limit_is_not_rolled_back(admin: Client, app: App) -> None:
    answer = show(admin, app, a_file(PROGRAM), max_error_percent="", min_rollback_results="")
    assert "rolled back" not in answer.content.decode()
    confirm(admin, answer)
    version = AppVersion.objects.get()
    assert (version.max_error_percent, version.min_rollback_results) == (None, 50)


@pytest.mark.parametrize(
    "field",
    [
        {"max_error_percent": "100"},
        {"max_error_percent": "-1"},
        {"min_rollback_results": "0"},
        {"min_rollback_results": "1000001"},
        {"rollout_percent": "101"},
    ],
)
def test_roll_back_out_of_range_is_refused(admin: Client, app: App, field: dict[str, str]) -> None:
    assert "Ensure this value is" in errors_of(show(admin, app, a_file(PROGRAM), **field))
    assert not AppVersion.objects.exists()


def test_older_number_and_repeated_version_are_named_in_the_preview(
    admin: Client, app: App
) -> None:
    send(admin, app, a_file(PROGRAM), version="2.00")
    text = show(admin, app, a_file(b"\x7fELF old"), version="1.00").content.decode()
    assert f"is older than sieve 2.00 {LINUX}, which hosts keep getting" in text
    text = show(admin, app, a_file(PROGRAM), version="2.00").content.decode()
    assert "published before with the same files: nothing changes" in text


def test_files_of_a_preview_are_kept_for_the_publisher_and_a_limited_time(
    admin: Client, app: App, publisher: Account, settings: Any
) -> None:
    before = timezone.now()
    answer = show(admin, app, a_file(PROGRAM))
    hold = FileHold.objects.select_related("file").get()
    assert hold.account == publisher
    assert hold.until >= before + settings.PROJECT.file_hold
    assert hold.file.sha256 == hashlib.sha256(PROGRAM).hexdigest()
    FileHold.objects.update(until=before - timedelta(seconds=1))
    assert "does not keep" in errors_of(confirm(admin, answer))
    assert not AppVersion.objects.exists()


def test_published_file_of_a_preview_has_the_version_in_its_name(admin: Client, app: App) -> None:
    send(admin, app, a_file(PROGRAM))
    assert AppVersion.objects.get().files.get().file.name.startswith("sieve_100_")
    assert File.objects.count() == 1


@pytest.mark.parametrize(
    "value", ["x", "{}", "[1]", '[["a"]]', '[["a", "b"]]', '[["a", 3]]', "[" * 10_000]
)
def test_damaged_list_of_kept_files_is_an_error_of_the_form(
    admin: Client, app: App, value: str
) -> None:
    answer = confirm(admin, show(admin, app, a_file(PROGRAM)), kept_program=value)
    assert "The list of kept files is damaged" in errors_of(answer)
    assert not AppVersion.objects.exists()


def test_refused_version_keeps_no_file(admin: Client, app: App) -> None:
    assert "no platform is given" in errors_of(show(admin, app, a_file(PROGRAM), platforms=[]))
    assert not FileHold.objects.exists()
