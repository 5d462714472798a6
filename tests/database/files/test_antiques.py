"""Old files without a row are deleted; files that may still be requested stay."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from io import BytesIO, StringIO

import pytest
from django.core.management import CommandError, call_command

from scheduler import storage
from scheduler.files.antiques import delete_antique_files
from scheduler.results.facts import output_name, result_of
from tests import rows
from tests.conftest import NOON

pytestmark = pytest.mark.django_db

MONTHS_AGO = NOON - timedelta(days=90)


def an_upload(name, *, at=MONTHS_AGO, partial=False):
    path = storage.upload_path(name)
    if partial:
        path = path.with_name(f".{name}.part")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"1234567")
    os.utime(path, (at.timestamp(), at.timestamp()))
    return path


def test_an_old_upload_without_a_result_is_deleted():
    whole, partial = an_upload("wu_0_r900_0"), an_upload("wu_1_r901_0", partial=True)
    found = delete_antique_files(NOON)
    assert (found.uploads.files, found.uploads.nbytes) == (2, 14)
    assert not whole.exists()
    assert not partial.exists()


def test_a_dry_run_counts_and_deletes_nothing():
    path = an_upload("wu_0_r900_0")
    found = delete_antique_files(NOON, dry_run=True)
    assert (found.uploads.files, found.uploads.names) == (1, ["wu_0_r900_0"])
    assert path.exists()


@pytest.mark.parametrize(
    ("state", "is_kept"),
    [(0, True), (1, True), (2, False), (3, True)],
    ids=["needed", "ready", "done", "error"],
)
def test_an_old_upload_is_deleted_only_if_its_result_has_finished_file_deletion(state, is_kept):
    workunit = rows.settled(rows.a_workunit(), assimilate_state=2)
    result = rows.a_result(workunit, "noreply", file_delete_state=state)
    path = an_upload(output_name(result.name, result.pk, 0))
    delete_antique_files(NOON)
    assert path.exists() is is_kept


def test_uploads_younger_than_the_oldest_unassimilated_workunit_are_kept():
    rows.a_workunit(created_at=NOON - timedelta(days=60))
    rows.settled(rows.a_workunit(created_at=NOON - timedelta(days=200)), assimilate_state=2)
    young = an_upload("wu_0_r900_0", at=NOON - timedelta(days=59))
    old = an_upload("wu_0_r901_0", at=NOON - timedelta(days=61))
    found = delete_antique_files(NOON)
    assert found.before == NOON - timedelta(days=60)
    assert (young.exists(), old.exists()) == (True, False)


def test_minimum_age_is_a_month_by_default():
    path = an_upload("wu_0_r900_0", at=NOON - timedelta(days=29))
    delete_antique_files(NOON)
    assert path.exists()
    delete_antique_files(NOON, min_age=timedelta(days=28))
    assert not path.exists()


def test_an_upload_that_changes_during_the_deletion_is_kept(monkeypatch):
    path = an_upload("wu_0_r900_0", partial=True)
    delete = storage.delete_old_files

    def write_and_delete(files):
        path.write_bytes(b"12345678")
        return delete(files)

    monkeypatch.setattr(storage, "delete_old_files", write_and_delete)
    assert delete_antique_files(NOON).uploads.files == 0
    assert path.exists()


def test_an_upload_being_written_is_kept():
    path = an_upload("wu_0_r900_0", partial=True)
    with storage.begin_upload("wu_0_r900_0", 7):
        delete_antique_files(NOON)
    assert path.exists()


def test_digest_files_are_deleted_with_their_uploads():
    kept = an_upload("wu_0_r900_0", at=NOON)
    gone = an_upload("wu_1_r901_0")
    sidecars = [path.with_name(f".{path.name}.digest") for path in (kept, gone)]
    for sidecar in sidecars:
        sidecar.write_bytes(b"x")
        os.utime(sidecar, (MONTHS_AGO.timestamp(), MONTHS_AGO.timestamp()))
    delete_antique_files(NOON)
    assert [sidecar.exists() for sidecar in sidecars] == [True, False]


def test_published_files_without_a_row_are_deleted_after_a_day():
    file = rows.an_input(rows.a_workunit())
    names = {"known": file.name, "orphan": "orphan_1", "young": "orphan_2"}
    for word in ("orphan", "young"):
        storage.publish(storage.stage_bytes(word.encode()), names[word])
    staged = storage.stage_file(BytesIO(b"never published"))
    at = (NOON - timedelta(days=2)).timestamp()
    for path in (storage.download_path(file.name), storage.download_path("orphan_1"), staged.path):
        os.utime(path, (at, at))
    os.utime(storage.download_path("orphan_2"), (NOON.timestamp(), NOON.timestamp()))
    found = delete_antique_files(NOON)
    assert sorted(found.downloads.names) == sorted(["orphan_1", staged.path.stem.removeprefix(".")])
    assert {word: storage.download_path(name).exists() for word, name in names.items()} == {
        "known": True,
        "orphan": False,
        "young": True,
    }


def test_publishing_an_orphaned_file_again_updates_its_modification_time():
    storage.publish(storage.stage_bytes(b"same"), "again_1")
    os.utime(storage.download_path("again_1"), (0, 0))
    storage.publish(storage.stage_bytes(b"same"), "again_1")
    assert storage.download_path("again_1").stat().st_mtime > 0


def test_old_uploads_are_listed_in_batches():
    for number in range(5):
        an_upload(f"wu_{number}_r90{number}_0")
    lists = list(storage.old_uploads(before=NOON, at_once=2))
    assert [len(files) for files in lists] == [2, 2, 1]


def test_an_empty_project_has_no_files_to_delete():
    assert not delete_antique_files(NOON).changed


@pytest.mark.parametrize(
    ("name", "expected"),
    [("wu_r1_0_r42_1", 42), ("a_r_0", None), ("r42_1", None), ("x_r12_y", None), ("", None)],
)
def test_the_result_id_is_parsed_from_an_output_name(name, expected):
    assert result_of(name) == expected


def test_the_command_prints_counts_and_bytes():
    path = an_upload("wu_0_r900_0")
    page = StringIO()
    call_command("delete_antique_files", "--dry-run", stdout=page)
    assert page.getvalue() == (
        "Would delete 1 antique upload (7 bytes) and 0 orphans among the downloads (0 bytes).\n"
        "  wu_0_r900_0\n"
    )
    data = StringIO()
    call_command("delete_antique_files", "--json", stdout=data)
    assert json.loads(data.getvalue())["upload_bytes"] == 7
    assert not path.exists()


def test_a_min_age_that_is_too_low_is_refused():
    with pytest.raises(CommandError, match=r"too low.*Hint"):
        call_command("delete_antique_files", "--min-age", "1h")
