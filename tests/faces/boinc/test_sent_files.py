"""Files that BOINC's submission tools upload before they submit workunits."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.conf import settings
from django.utils import timezone

from daemons import file_deleter
from scheduler import storage
from scheduler.models import (
    File,
    FileHold,
    JobFile,
    Workunit,
)
from tests.conftest import NOON
from tests.database.passes import a_pass
from tests.faces.submitters import (
    World,
    a_job_file,
    asked,
    inputs,
    plain_post,
    post,
    refusal,
    submitted,
)
from tests.rows import update

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(timezone, "now", lambda: NOON)
    return World()


def upload(names: list[str], contents: list[bytes], batch: str = "", order: str = "") -> str:
    said = "".join(f"<phys_name>{name}</phys_name>" for name in names)
    body = b'--b\r\nContent-Disposition: form-data; name="request"\r\n\r\n'
    body += asked("upload_files", batch + said).encode() + b"\r\n"
    for number, content in enumerate(contents):
        body += (
            f'--b\r\nContent-Disposition: form-data; name="file_{number}"; filename="x"\r\n'
            "Content-Type: application/octet-stream\r\n\r\n"
        ).encode()
        body += content + b"\r\n"
    return plain_post(body + b"--b--\r\n", "multipart/form-data; boundary=b", "job_file.php")


def test_uploaded_job_files_are_stored_under_the_submitters_file_names(world: World) -> None:
    big = bytes(range(256)) * 8000
    assert "<success/>" in upload(["a.bin", "b.bin", "same"], [big, b"", big])
    files = {one.name: one.file for one in JobFile.objects.filter(account=world.ada)}
    assert files["a.bin"] == files["same"]
    assert (files["a.bin"].nbytes, files["b.bin"].nbytes) == (2_048_000, 0)
    assert files["a.bin"].md5 == md5_of(big)
    content, _ = storage.open_download(files["a.bin"].name)
    with content:
        assert content.read() == big
    assert upload(["a.bin"], [big]) == "<upload_files>\n<success/>\n</upload_files>\n"
    assert not list((settings.VAR_DIR / "download").glob("*/.*.staged"))


def md5_of(data: bytes) -> str:
    import hashlib

    return hashlib.md5(data).hexdigest()


def test_two_submitters_can_use_the_same_file_name_for_different_content(world: World) -> None:
    a_job_file(world.bob, "in.txt", b"bobs")
    assert "<success/>" in upload(["in.txt"], [b"adas"])
    submitted(
        "<job><name>mine</name><input_file><mode>local_staged</mode><source>in.txt</source>"
        "</input_file></job>"
    )
    assert inputs(Workunit.objects.get(name="mine")) == [("in", b"adas")]


@pytest.mark.parametrize(
    ("names", "contents", "why"),
    [
        (["a"], [], "# of uploaded files (0) doesn't agree with request (1). Hint"),
        (["a"], [b"1", b"2"], "# of uploaded files (more than 1) doesn't agree with request (1)"),
        (
            ["a", "a"],
            [b"1", b"2"],
            "file immutability violation for a: the name is in use for other",
        ),
        (
            ["jf_5d41402abc4b2a76b9719d911017c592"],
            [b"other"],
            "file immutability violation for jf_5d41402abc4b2a76b9719d911017c592: ",
        ),
        (["../../etc/cron.d/x"], [b"x"], "File name '../../etc/cron.d/x' has a control character"),
        (["..x"], [b"x"], "File name '..x' begins with a dot or contains '..'."),
        (["x" * 256], [b"x"], "is longer than 255 bytes."),
        ([""], [b"x"], "File name is empty."),
    ],
)
def test_upload_with_a_wrong_count_changed_content_or_bad_name_is_refused(
    names, contents, why
) -> None:
    before = (JobFile.objects.count(), File.objects.count())
    assert why in upload(names, contents)
    assert (JobFile.objects.count(), File.objects.count()) == before
    assert not list((settings.VAR_DIR / "download").glob("*/.*.staged"))


def test_job_file_upload_is_refused_when_the_disk_becomes_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, asked = (JobFile.objects.count(), File.objects.count()), []
    monkeypatch.setattr(storage, "has_room_for", lambda n: asked.append(n) or len(asked) < 4)
    said = upload(["a", "b"], [b"x", bytes(5_000_000)])
    assert "the server's disk is full. Hint: try again later." in said
    assert len(asked) == 4
    assert (JobFile.objects.count(), File.objects.count()) == before
    assert not list((settings.VAR_DIR / "download").glob("*/.*.staged"))


def test_job_files_without_a_valid_authenticator_are_refused() -> None:
    body = b'--b\r\nContent-Disposition: form-data; name="request"\r\n\r\n'
    body += b"<upload_files><authenticator>x</authenticator></upload_files>\r\n--b--\r\n"
    reply = plain_post(body, "multipart/form-data; boundary=b", "job_file.php")
    assert reply.startswith(refusal("upload_files", "bad authenticator"))
    assert "no such action. Hint" in post(asked("delete_files"), "job_file.php")


@pytest.mark.parametrize(
    ("said", "until"),
    [
        ("", timedelta(days=1)),
        ("<delete_time>1767441600</delete_time>", timedelta(days=2)),
        ("<delete_time>1767268801</delete_time>", timedelta(days=1)),
        ("<batch_id>54</batch_id>", timedelta(days=2)),
        ("<batch_id>55</batch_id>", timedelta(days=30)),
        ("<batch_id>55</batch_id><delete_time>1767441600</delete_time>", timedelta(days=2)),
    ],
)
def test_file_hold_lasts_until_the_given_delete_time_or_the_batch_expiry(
    world, said, until
) -> None:
    FileHold.objects.all().delete()
    assert "<success/>" in upload(["new"], [b"new"], batch=said)
    assert FileHold.objects.get(account=world.ada).until == NOON + until


def test_file_query_extends_the_hold_but_never_shortens_it(world: World) -> None:
    name = "<phys_name>jf_5d41402abc4b2a76b9719d911017c592</phys_name>"
    for said, until in (("<batch_id>55</batch_id>", 30), ("", 30)):
        post(asked("query_files", said + name), "job_file.php")
        assert FileHold.objects.get(account=world.ada).until == NOON + timedelta(days=until)


def test_file_for_a_batch_of_another_account_is_refused() -> None:
    assert "no such batch" in upload(["a"], [b"a"], batch="<batch_id>60</batch_id>")


def test_file_marked_for_deletion_is_absent_and_can_be_uploaded_again(world: World) -> None:
    name = "jf_5d41402abc4b2a76b9719d911017c592"
    file = JobFile.objects.get(account=world.ada, name=name).file
    update(file, doomed_at=NOON)
    xml = asked("query_files", f"<phys_name>{name}</phys_name>")
    assert "<file>0</file>" in post(xml, "job_file.php")
    assert "<success/>" in upload([name], [b"hello"])
    assert JobFile.objects.get(account=world.ada, name=name).file != file
    FileHold.objects.filter(file=file).delete()
    a_pass(file_deleter)
    assert not File.objects.filter(pk=file.pk).exists()
    assert "<file>" not in post(xml, "job_file.php")


def test_job_file_names_are_deleted_with_their_file(world: World) -> None:
    file = JobFile.objects.get(account=world.bob).file
    FileHold.objects.filter(file=file).delete()
    update(file, doomed_at=NOON - timedelta(hours=1))
    a_pass(file_deleter)
    assert not JobFile.objects.filter(account=world.bob).exists()


def test_file_of_another_account_is_absent(world: World) -> None:
    name = "jf_7d793037a0760186574b0282f2f435e7"
    assert "<file>0</file>" in post(
        asked("query_files", f"<phys_name>{name}</phys_name>"), "job_file.php"
    )
