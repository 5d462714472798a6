"""A file is deleted when it has no references, and not earlier."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.apps import apps

from daemons import file_deleter, housekeeper
from scheduler import sql, storage
from scheduler.apps import app_versions
from scheduler.files import download_files, file_requests, unused_files
from scheduler.models import AppVersionFile, File, FileHold, FileRequest, JobFile, WorkunitFile
from scheduler.work.submission import submit
from scheduler.work.submission.facts import NewFile, NewWorkunit
from tests import rows
from tests.conftest import NOON
from tests.database.passes import a_pass

pytestmark = pytest.mark.django_db

LATER = NOON + timedelta(days=2)
#: Statement that decides whether a file has references -> its package.
JUDGES = {
    "files/mark_unused_files": "scheduler",
    "files/read_unused_files": "scheduler",
    "doomed_files_are_unused": "scheduler.health.invariant_sql",
    "unused_files_are_doomed": "scheduler.health.invariant_sql",
}


#: Tables whose references do not keep a file; their rows are deleted with the file's row.
NAMES_ALONE = {"job_file"}


def referring():
    """Return table and column of each foreign key that keeps a file from deletion."""
    return sorted(
        (model._meta.db_table, field.column)
        for model in apps.get_models(include_auto_created=True)
        for field in model._meta.local_fields
        if field.is_relation
        and field.related_model is File
        and model._meta.db_table not in NAMES_ALONE
    )


def a_file(content=b"in"):
    """Store a file without references and return its row."""
    staged = storage.stage_bytes(content)
    kept, _ = download_files.keep(
        {staged.digest.sha256: download_files.Wanted(staged, "in")}, now=NOON
    )
    return File.objects.get(pk=kept[staged.digest.sha256].id)


def a_hold(file, *, until, account=None):
    return FileHold.objects.create(file=file, account=account or rows.an_account(), until=until)


def is_marked(file):
    file.refresh_from_db()
    return file.doomed_at is not None


@pytest.mark.parametrize(("statement", "package"), JUDGES.items())
def test_deletion_statements_check_every_foreign_key_to_a_file(statement, package):
    words = " ".join(sql.load(statement, package).split()).replace("( ", "(")
    for table, column in referring():
        alias = words.partition(f"EXISTS (SELECT FROM {table} AS ")[2].partition(" ")[0]
        assert alias, f"{statement} does not look into {table}"
        assert f"{alias}.{column} = " in words.partition(f"FROM {table} AS ")[2].partition(")")[0]


def test_the_list_of_tables_that_reference_files_is_complete():
    """A new table needs a condition in every statement of JUDGES, and a function below."""
    assert referring() == [
        ("app_version_file", "file_id"),
        ("file_hold", "file_id"),
        ("file_request", "file_id"),
        ("workunit_file", "file_id"),
    ]


@pytest.mark.parametrize("table", [*sorted(NAMES_ALONE), "file_hold"])
def test_rows_that_do_not_keep_a_file_are_deleted_with_the_file_row(table):
    words = " ".join(sql.load("drop_doomed_files", "daemons.sql").split())
    assert f"DELETE FROM {table} " in words


def test_a_job_file_name_does_not_keep_a_file_from_deletion():
    file = a_file()
    JobFile.objects.create(account=rows.an_account(), name="mine", file=file, created_at=NOON)
    assert download_files.mark_unused_for_deletion([file.pk], now=NOON) == 1
    a_pass(file_deleter)
    assert not File.objects.exists()
    assert not JobFile.objects.exists()


def _by_a_workunit(file):
    WorkunitFile.objects.create(workunit=rows.a_workunit(), file=file, position=0)


def _by_an_app_version(file):
    version = rows.an_app_version(rows.an_app())
    AppVersionFile.objects.create(app_version=version, file=file, position=0, signature="s")


def _by_a_request(file):
    FileRequest.objects.create(
        host=rows.a_host(), kind=1, file_name=file.name, file=file, created_at=NOON
    )


def _by_a_hold(file):
    a_hold(file, until=NOON + timedelta(seconds=1))


@pytest.mark.parametrize("refer", [_by_a_workunit, _by_an_app_version, _by_a_request, _by_a_hold])
def test_reference_keeps_a_file_until_it_ends(refer):
    file = a_file()
    refer(file)
    assert unused_files.mark_forgotten_for_deletion(NOON, 10) == 0
    assert not is_marked(file)
    for model in (WorkunitFile, AppVersionFile, FileRequest, FileHold):
        model.objects.all().delete()
    assert unused_files.mark_forgotten_for_deletion(NOON, 10) == 1
    a_pass(file_deleter)
    assert not File.objects.exists()
    assert not storage.download_path(file.name).exists()


def test_an_expired_hold_is_deleted_and_its_unreferenced_file_is_marked():
    file, kept = a_file(), a_file(b"kept")
    a_hold(file, until=NOON)
    a_hold(kept, until=NOON)
    a_hold(kept, until=LATER)
    assert unused_files.drop_past_holds(NOON, 1) == 2
    assert is_marked(file)
    assert not is_marked(kept)
    assert [hold.until for hold in FileHold.objects.all()] == [LATER]


def test_an_expired_hold_does_not_keep_the_row_of_a_file_marked_for_deletion():
    file = a_file()
    a_hold(file, until=NOON)
    assert download_files.mark_unused_for_deletion([file.pk], now=NOON) == 1
    a_pass(file_deleter)
    assert not File.objects.exists()
    assert not FileHold.objects.exists()


def test_marking_unused_files_in_batches_covers_all_files_once():
    many = [a_file(b"%d" % number) for number in range(5)]
    a_hold(many[2], until=LATER)
    assert unused_files.mark_forgotten_for_deletion(NOON, 2) == 4
    assert unused_files.mark_forgotten_for_deletion(NOON, 2) == 0
    assert [is_marked(file) for file in many] == [True, True, False, True, True]


def test_housekeeper_marks_unused_files_for_deletion():
    held, forgotten = a_file(), a_file(b"forgotten")
    a_hold(held, until=NOON)
    tally = a_pass(housekeeper)
    assert tally.counts["holds dropped"] == 1
    assert tally.counts["unused files marked for deletion"] == 1
    assert is_marked(held)
    assert is_marked(forgotten)


def _submit(app, person, content):
    new = NewWorkunit(input_files=(NewFile(open_name="in", content=content),))
    return submit.submit(
        app=app.name, workunits=[new], batch="b", submitter=person, now=NOON
    ).workunit_ids[0]


def test_equal_content_of_two_submitters_is_one_file_until_neither_needs_it(tmp_path):
    app = rows.an_app()
    content = b"the same"
    ids = [_submit(app, rows.an_account(), content) for _ in range(2)]
    app_versions.publish(
        app=app.name,
        version_num=1,
        platform="x86_64-pc-linux-gnu",
        files={"main": content},
        now=NOON,
    )
    path = tmp_path / "sticky"
    path.write_bytes(content)
    file_requests.put_file(rows.a_host().pk, str(path), now=NOON)
    file = File.objects.get()
    assert WorkunitFile.objects.filter(file=file, workunit_id__in=ids).count() == 2
    assert [p.name for p in storage.download_path(file.name).parent.iterdir()] == [file.name]

    WorkunitFile.objects.all().delete()
    AppVersionFile.objects.all().delete()
    assert download_files.mark_unused_for_deletion([file.pk], now=NOON) == 0
    FileRequest.objects.all().delete()
    assert download_files.mark_unused_for_deletion([file.pk], now=NOON) == 1


def test_content_submitted_again_after_marking_gets_a_new_name_and_row():
    first = a_file()
    download_files.mark_unused_for_deletion([first.pk], now=NOON)
    second = a_file()
    assert (second.pk, second.name) != (first.pk, first.name)
    assert second.sha256 == first.sha256
    a_pass(file_deleter)
    assert list(File.objects.all()) == [second]
    assert storage.download_path(second.name).read_bytes() == b"in"
    assert not storage.download_path(first.name).exists()


def test_a_file_marked_for_deletion_is_not_found_by_name_or_content():
    file = a_file()
    File.objects.filter(pk=file.pk).update(doomed_at=NOON)
    for named in ({"names": [file.name]}, {"digests": [file.sha256]}):
        with pytest.raises(download_files.UnknownFiles, match="No such file"):
            download_files.keep({}, now=NOON, **named)
    assert a_file().pk != file.pk, "a content that comes again gets a row of its own"
