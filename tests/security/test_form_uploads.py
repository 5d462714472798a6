"""Files in forms are stored only for a view that expects them, after its checks."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils import timezone

from scheduler import storage
from scheduler.apps import apps
from scheduler.models import AppVersion, File
from scheduler.people import roles
from tests.rows import an_account

pytestmark = pytest.mark.django_db

#: More than Django keeps in memory, so that its own handlers would create a file on the disk.
NBYTES = 3 << 20
ADD = "/admin/scheduler/appversion/add/"


@pytest.fixture(autouse=True)
def no_folder(settings: Any, tmp_path: Any) -> None:
    """A folder of temporary files that does not exist, so that creating a file fails."""
    settings.FILE_UPLOAD_TEMP_DIR = str(tmp_path / "none")


def a_file() -> SimpleUploadedFile:
    return SimpleUploadedFile("sieve", b"\x7fELF" + bytes(NBYTES))


@pytest.mark.parametrize("enforces", [True, False], ids=["without token", "with token"])
@pytest.mark.parametrize("path", ["/account/login/", "/account/signup/", "/admin/login/", ADD])
def test_file_in_a_form_of_an_anonymous_visitor_is_not_stored(path: str, enforces: bool) -> None:
    client = Client(enforce_csrf_checks=enforces)
    answer = client.post(path, {"login": "ada@example.org", "password": "x", "file": a_file()})
    assert answer.status_code in {200, 302, 403}


def test_file_of_staff_without_the_right_to_publish_is_not_stored() -> None:
    account = an_account()
    roles.give(account, "operator", now=timezone.now())
    client = Client()
    client.force_login(account)
    assert client.post(ADD, {"program": a_file()}).status_code == 403


def test_publishing_in_the_admin_needs_the_token_of_its_form(settings: Any) -> None:
    settings.FILE_UPLOAD_TEMP_DIR = None
    app = apps.create(name="sieve", kind="native", now=timezone.now())
    client = Client(enforce_csrf_checks=True)
    client.force_login(an_account(is_superuser=True, is_staff=True))
    sent = {"app": app.pk, "version": "1.00", "platforms": ["x86_64-pc-linux-gnu"]}
    assert client.post(ADD, sent | {"program": a_file()}).status_code == 403
    assert not AppVersion.objects.exists()
    token = client.get(ADD).context["csrf_token"]
    fields = sent | {"csrfmiddlewaretoken": str(token)}
    shown = client.post(ADD, fields | {"program": a_file()})
    assert shown.status_code == 200
    confirmed = {"kept_program": shown.context["kept"]["kept_program"], "confirmed": "yes"}
    assert client.post(ADD, sent | confirmed).status_code == 403
    assert not AppVersion.objects.exists()
    assert client.post(ADD, fields | confirmed).status_code == 302
    assert AppVersion.objects.count() == 1


def test_kept_files_of_another_publisher_cannot_be_published(settings: Any) -> None:
    settings.FILE_UPLOAD_TEMP_DIR = None
    app = apps.create(name="sieve", kind="native", now=timezone.now())
    sent = {"app": app.pk, "version": "1.00", "platforms": ["x86_64-pc-linux-gnu"]}
    clients = []
    for name in ("paula", "quentin"):
        account = an_account(name)
        roles.give(account, "publisher", now=timezone.now())
        clients.append(Client())
        clients[-1].force_login(account)
    program = SimpleUploadedFile("sieve", b"\x7fELF program")
    shown = clients[0].post(ADD, sent | {"program": program})
    kept = {"kept_program": shown.context["kept"]["kept_program"], "confirmed": "yes"}
    refused = clients[1].post(ADD, sent | kept)
    assert refused.status_code == 422
    assert "does not keep" in refused.content.decode()
    assert not AppVersion.objects.exists()
    assert clients[0].post(ADD, sent | kept).status_code == 302


@pytest.mark.parametrize(
    ("content", "fault"),
    [(b"\x7fELF another program", "has another content"), (None, "does not have it any more")],
    ids=["changed", "missing"],
)
def test_kept_file_that_is_not_the_previewed_one_is_not_published(
    settings: Any, content: bytes | None, fault: str
) -> None:
    settings.FILE_UPLOAD_TEMP_DIR = None
    app = apps.create(name="sieve", kind="native", now=timezone.now())
    account = an_account("paula")
    roles.give(account, "publisher", now=timezone.now())
    client = Client()
    client.force_login(account)
    sent = {"app": app.pk, "version": "1.00", "platforms": ["x86_64-pc-linux-gnu"]}
    program = SimpleUploadedFile("sieve", b"\x7fELF program")
    shown = client.post(ADD, sent | {"program": program})
    kept = {"kept_program": shown.context["kept"]["kept_program"], "confirmed": "yes"}
    path = storage.download_path(File.objects.get().name)
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    refused = client.post(ADD, sent | kept)
    assert refused.status_code == 422
    assert fault in refused.content.decode()
    assert not AppVersion.objects.exists()


def test_form_longer_than_a_package_is_refused_before_it_is_read() -> None:
    client = Client()
    client.force_login(an_account(is_superuser=True, is_staff=True))
    answer = client.post(ADD, {"program": a_file()}, headers={"Content-Length": str(1 << 50)})
    assert answer.status_code == 302
    shown = client.get(answer["Location"]).content.decode()
    assert "Hint: leave out files that the app does not need." in shown
