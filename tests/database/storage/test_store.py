"""Files in an S3 store: submission, deletion, moves and outages of the store."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from daemons import file_deleter, housekeeper
from scheduler import storage
from scheduler.apps import app_versions
from scheduler.files import file_requests
from scheduler.files.antiques import delete_antique_files
from scheduler.health.invariants import invariants
from scheduler.models import Batch, File, Workunit
from scheduler.storage import remote
from scheduler.work.submission import submit
from scheduler.work.submission.facts import NewFile, NewWorkunit
from tests import rows, store
from tests.conftest import NOON
from tests.database.passes import a_pass

pytestmark = [pytest.mark.django_db, pytest.mark.lengthy]

AWAY = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def endpoint():
    with store.a_server() as address:
        yield address


@pytest.fixture
def bucket(endpoint, settings, monkeypatch):
    for name, value in store.KEYS.items():
        monkeypatch.setenv(name, value)
    settings.STORAGE = store.a_bucket(endpoint)
    return settings.STORAGE


def submitted(*contents, app=None, batch=None):
    new = [NewWorkunit(input_files=(NewFile(open_name="in", content=one),)) for one in contents]
    return submit.submit(app=(app or rows.an_app()).name, workunits=new, batch=batch, now=NOON)


def key_of(file):
    return f"ours/download/{storage.fan_out(file.name)}/{file.name}"


def on_disk(settings):
    return [path.name for path in (settings.VAR_DIR / "download").rglob("*") if path.is_file()]


def broken():
    return {one.name for one in invariants() if one.find(NOON)}


def test_submitted_published_and_put_files_are_in_the_store_and_not_on_disk(
    bucket, settings, tmp_path
):
    app = rows.an_app()
    submitted(b"one", b"two", app=app)
    app_versions.publish(
        app=app.name,
        version_num=1,
        platform="x86_64-pc-linux-gnu",
        files={"main": b"program"},
        now=NOON,
    )
    path = tmp_path / "sticky"
    path.write_bytes(b"sticky")
    file_requests.put_file(rows.a_host().pk, str(path), now=NOON)
    files = list(File.objects.all())
    assert store.keys_in(bucket) == sorted(map(key_of, files))
    assert on_disk(settings) == []
    assert {file.sha256 for file in files} == {
        storage.download_digest(file.name).sha256 for file in files
    }
    assert "inputs_exist" not in broken()


def test_a_deleted_file_is_deleted_from_the_store(bucket):
    submitted(b"one")
    workunit = Workunit.objects.get()
    rows.update(workunit, transition_at=None)
    rows.settled(workunit, assimilate_state=2, file_delete_state=1)
    a_pass(file_deleter)
    assert not File.objects.exists()
    assert store.keys_in(bucket) == []


def test_many_files_are_deleted_in_batches_of_the_request_limit(bucket, monkeypatch):
    monkeypatch.setattr(remote, "MAX_DELETED_PER_REQUEST", 4)
    names = [f"in_{number}" for number in range(10)]
    storage.publish_all({name: storage.stage_bytes(name.encode()) for name in names})
    assert len(store.keys_in(bucket)) == 10
    assert storage.delete_downloads(names) == {}
    assert store.keys_in(bucket) == []


def test_a_submission_is_refused_and_leaves_nothing_while_the_store_is_unreachable(
    bucket, settings, tmp_path
):
    settings.STORAGE = replace(bucket, endpoint=AWAY)
    path = tmp_path / "in.dat"
    path.write_bytes(b"of a path")
    by_path = NewWorkunit(input_files=(NewFile(open_name="in", path=str(path)),))
    with pytest.raises(storage.StoreAway, match=r"does not answer .* Hint: nothing was lost"):
        submit.submit(app=rows.an_app().name, workunits=[by_path], now=NOON)
    assert not Workunit.objects.exists()
    assert not File.objects.exists()
    assert not Batch.objects.exists()
    assert on_disk(settings) == []

    settings.STORAGE = bucket
    submitted(b"again")
    assert len(store.keys_in(bucket)) == 1


def test_deletion_is_postponed_while_the_store_is_unreachable(bucket, settings, caplog):
    submitted(b"one", b"two", b"three")
    for workunit in Workunit.objects.all():
        rows.update(workunit, transition_at=None)
        rows.settled(workunit, assimilate_state=2, file_delete_state=1)
    settings.STORAGE = replace(bucket, endpoint=AWAY)
    a_pass(file_deleter)
    assert {file.doomed_at for file in File.objects.all()} == {rows.hours(1)}
    [said] = [one for one in caplog.records if one.message == "file_deletion_failed"]
    assert said.others == 2
    assert "does not answer" in said.reason
    settings.STORAGE = bucket
    a_pass(file_deleter, now=rows.hours(1))
    assert store.keys_in(bucket) == []


def test_a_failed_upload_to_the_store_removes_the_other_files_of_the_call(bucket, monkeypatch):
    contents = {f"in_{n}": storage.stage_bytes(b"%d" % n) for n in range(3)}
    put = remote.Store.put

    def fail_once(self, name, *words):
        if name == "in_2":
            msg = "The store is full."
            raise storage.StoreError(msg)
        put(self, name, *words)

    monkeypatch.setattr(remote.Store, "put", fail_once)
    with pytest.raises(storage.StoreError, match="full"):
        storage.publish_all(contents)
    assert store.keys_in(bucket) == []


def test_corrupted_upload_to_the_store_is_detected_and_deleted(bucket):
    away = storage.store()
    digest = storage.stage_bytes(b"as it was hashed").digest
    with pytest.raises(storage.StoreDamaged, match=r"did not store in_1 .* Hint"):
        away.put("in_1", digest, storage.stage_bytes(b"as it is read now").open)
    assert store.keys_in(bucket) == []


def test_a_file_is_read_back_if_the_store_returns_no_checksum(bucket, monkeypatch):
    away = storage.store()
    monkeypatch.setattr(away, "_client", Mute(away._client, forget=("ChecksumSHA256", "ETag")))
    right = storage.stage_bytes(b"right").digest
    away.put("in_1", right, storage.stage_bytes(b"right").open)
    with pytest.raises(storage.StoreDamaged):
        away.put("in_2", right, storage.stage_bytes(b"wrong").open)


class Mute:
    """An S3 client that drops the fields `forget` from responses to `put_object`."""

    def __init__(self, client, forget):
        self._client, self._forget = client, forget

    def put_object(self, **words):
        said = self._client.put_object(**words)
        return {key: value for key, value in said.items() if key not in self._forget}

    def __getattr__(self, name):
        return getattr(self._client, name)


def test_a_large_file_is_uploaded_in_parts(bucket, monkeypatch, tmp_path):
    monkeypatch.setattr(remote, "MULTIPART_MIN_BYTES", 1 << 20)
    data = bytes(range(256)) * (9 << 12)
    storage.publish_all({"in_1": storage.stage_bytes(data)})
    assert storage.download_digest("in_1") == storage.stage_bytes(data).digest


def test_orphaned_files_in_the_store_are_deleted_after_a_day(bucket):
    """The file was stored before the commit, which did not happen."""
    submitted(b"known")
    storage.publish_all({"in_orphan_1": storage.stage_bytes(b"orphan")})
    client = store.client(bucket)
    client.put_object(Bucket=bucket.bucket, Key="ours/download/0/.of_others", Body=b"x")
    client.put_object(Bucket=bucket.bucket, Key="others/in_orphan_1", Body=b"x")
    now = timezone.now()
    assert delete_antique_files(now).downloads.files == 0
    later = now + timedelta(days=1, minutes=1)
    assert delete_antique_files(later, dry_run=True).downloads.names == ["in_orphan_1"]
    assert delete_antique_files(later).downloads.files == 1
    assert store.keys_in(bucket) == sorted(
        [key_of(File.objects.get()), "ours/download/0/.of_others", "others/in_orphan_1"]
    )


def test_the_antique_files_chore_fails_while_the_store_is_unreachable(bucket, settings, caplog):
    settings.STORAGE = replace(bucket, endpoint=AWAY)
    a_pass(housekeeper)
    assert [r.chore for r in caplog.records if r.message == "chore_failed"] == ["antique files"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"bucket": "no-such-bucket"}, r"NoSuchBucket.* Hint: create the bucket"),
        ({"endpoint": AWAY}, "does not answer"),
    ],
)
def test_store_errors_are_reported_with_a_hint(bucket, settings, change, said):
    settings.STORAGE = replace(bucket, **change)
    with pytest.raises(storage.StoreError, match=said):
        submitted(b"one")


def test_files_missing_in_the_store_are_found_by_fsck(bucket):
    submitted(b"one")
    storage.delete_downloads([File.objects.get().name])
    assert "inputs_exist" in broken()


def test_a_published_file_can_be_read_by_path_from_disk_and_from_the_store(bucket, settings):
    storage.publish_all({"in_1": storage.stage_bytes(b"there")})
    storage.publish(storage.stage_bytes(b"here"), "in_2")
    for name, content in (("in_1", b"there"), ("in_2", b"here")):
        with storage.published(name) as path:
            assert (path.name, path.read_bytes()) == (name, content)
    assert on_disk(settings) == ["in_2"]
    assert list((settings.VAR_DIR / "workshop").iterdir()) == []


# Moving


def move(*words):
    page = StringIO()
    call_command("move_files", *words, stdout=page)
    return page.getvalue()


def test_move_files_moves_files_to_the_store_and_back(bucket, settings):
    settings.STORAGE = replace(bucket, writes=False)
    submitted(b"one", b"three")
    assert len(on_disk(settings)) == 2
    assert move("--to", "s3", "--dry-run") == "Would move 2 files (8 bytes); 0 already there.\n"
    assert len(on_disk(settings)) == 2
    assert move("--to", "s3") == "Moved 2 files (8 bytes); 0 already there.\n"
    assert on_disk(settings) == []
    assert move("--to", "s3") == "Moved 0 files (0 bytes); 2 already there.\n"
    assert "inputs_exist" not in broken()

    assert move("--to", "disk", "--dry-run").startswith(
        "Would move 2 files (8 bytes); 0 already there."
    )
    output = move("--to", "disk")
    assert output.startswith(
        "Moved 2 files (8 bytes); 0 already there.\n2 superfluous files in the store"
    )
    assert len(on_disk(settings)) == len(store.keys_in(bucket)) == 2


def test_superfluous_copies_in_the_store_are_deleted_after_signed_urls_expire(
    bucket, settings, monkeypatch
):
    from scheduler.management.commands import move_files as command

    submitted(b"one")
    settings.STORAGE = replace(bucket, writes=False)
    move("--to", "disk")
    later = timezone.now() + timedelta(hours=1, minutes=6)
    monkeypatch.setattr(command.timezone, "now", lambda: later)
    assert "1 superfluous file in the store would be deleted" in move("--to", "disk", "--dry-run")
    assert "1 superfluous file in the store deleted" in move("--to", "disk")
    assert store.keys_in(bucket) == []
    assert storage.download_sizes([File.objects.get().name])


def test_move_files_reports_and_skips_damaged_and_missing_files(bucket, settings):
    settings.STORAGE = replace(bucket, writes=False)
    submitted(b"good", b"damaged", b"missing")
    damaged, missing = (
        File.objects.get(sha256=storage.stage_bytes(content).digest.sha256)
        for content in (b"damaged", b"missing")
    )
    storage.download_path(damaged.name).write_bytes(b"DAMAGED")
    storage.download_path(missing.name).unlink()
    page = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("move_files", "--to", "s3", "--json", stdout=page)
    assert ended.value.code == 1
    report = json.loads(page.getvalue())
    assert (report["moved"], report["damaged"], report["missing"]) == (1, 1, 1)
    assert report["names"] == {"damaged": [damaged.name], "missing": [missing.name]}
    assert storage.download_path(damaged.name).read_bytes() == b"DAMAGED"
    assert len(store.keys_in(bucket)) == 1


def test_interrupted_move_can_be_continued(bucket, settings, monkeypatch):
    settings.STORAGE = replace(bucket, writes=False)
    submitted(b"one", b"two")
    monkeypatch.setattr("scheduler.files.move_files._BATCH", 1)
    put, times = remote.Store.put, []

    def break_off(self, name, *words):
        times.append(name)
        if len(times) == 2:
            msg = "The store does not answer."
            raise storage.StoreAway(msg)
        put(self, name, *words)

    monkeypatch.setattr(remote.Store, "put", break_off)
    with pytest.raises(CommandError, match="does not answer"):
        move("--to", "s3")
    assert len(on_disk(settings)) == 1
    assert move("--to", "s3").startswith("Moved 1 file (")
    assert on_disk(settings) == []


def test_move_files_is_refused_without_a_store_or_while_new_files_go_to_it(settings, bucket):
    with pytest.raises(CommandError, match="add new=disk to STORAGE_URL"):
        move("--to", "disk")
    settings.STORAGE = None
    with pytest.raises(CommandError, match="set STORAGE_URL"):
        move("--to", "s3")
