"""The file deleter deletes files that are no longer needed, and no other files."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import transaction

from daemons import file_deleter, transitioner
from daemons.tally import Shard
from scheduler import storage
from scheduler.dispatch import candidates, catalog
from scheduler.hosts.facts import Report
from scheduler.models import AppVersionFile, File, Result, Workunit
from scheduler.results import report
from scheduler.results.facts import output_name
from tests import rows
from tests.database.passes import a_pass, moves, statements_of

pytestmark = pytest.mark.django_db


def a_ready_result(workunit=None, *, output=b"x", **fields):
    workunit = workunit or rows.a_workunit(transition_at=None)
    return rows.a_result(
        workunit, "valid", output=output, uploaded=output is not None, file_delete_state=1, **fields
    )


def a_ready_workunit(app=None, *, file=None):
    workunit = rows.a_workunit(app, transition_at=None)
    found = rows.an_input(workunit, workunit.name.encode(), file=file)
    return rows.settled(workunit, assimilate_state=2, file_delete_state=1), found


def output_path(result, position=0):
    return storage.upload_path(output_name(result.name, result.pk, position))


def test_output_files_of_a_ready_result_are_deleted():
    result = a_ready_result()
    assert output_path(result).exists()
    tally = a_pass(file_deleter)
    result.refresh_from_db()
    assert not output_path(result).exists()
    assert result.file_delete_state == 2
    assert tally.sentence() == "1 row: 1 results rid of outputs"
    assert moves(result) == ["result files: READY→DONE"]


def test_output_files_still_needed_are_not_deleted():
    result = rows.a_result(rows.a_workunit(), "valid", output=b"x", uploaded=True)
    assert a_pass(file_deleter).sentence() == "nothing to do"
    assert output_path(result).exists()


def test_an_already_missing_output_file_is_not_an_error():
    result = a_ready_result()
    output_path(result).unlink()
    a_pass(file_deleter)
    result.refresh_from_db()
    assert result.file_delete_state == 2


def test_a_failed_file_deletion_is_retried_after_an_hour(caplog):
    result = a_ready_result(output=None)
    output_path(result).mkdir(parents=True)
    a_pass(file_deleter)
    result.refresh_from_db()
    assert result.file_delete_state == 3
    assert "output_deletion_failed" in caplog.text
    assert a_pass(file_deleter, now=rows.hours(0.9)).seen == 0
    output_path(result).rmdir()
    a_pass(file_deleter, now=rows.hours(1))
    result.refresh_from_db()
    assert result.file_delete_state == 2
    assert moves(result) == ["result files: READY→ERROR", "result files: ERROR→DONE"]


def test_a_result_reported_during_file_deletion_stays_ready_for_deletion(monkeypatch):
    result = a_ready_result()
    delete = storage.delete_uploads

    def and_report(names):
        rows.update(result, received_at=rows.hours(0))
        return delete(names)

    monkeypatch.setattr(storage, "delete_uploads", and_report)
    a_pass(file_deleter)
    result.refresh_from_db()
    assert result.file_delete_state == 1


def test_input_files_are_deleted_with_the_last_workunit_that_references_them():
    app = rows.an_app()
    first, shared = a_ready_workunit(app)
    second, _ = a_ready_workunit(app, file=shared)
    rows.update(second, file_delete_after=rows.hours(2))
    a_pass(file_deleter)
    first.refresh_from_db()
    assert first.file_delete_state == 2
    assert moves(first) == ["workunit files: READY→DONE"]
    assert storage.download_path(shared.name).exists()
    a_pass(file_deleter, now=rows.hours(2))
    assert not File.objects.exists()
    assert not storage.download_path(shared.name).exists()


@pytest.mark.parametrize("assimilate_state", [0, 1, 2])
def test_input_files_still_needed_are_not_deleted(assimilate_state):
    workunit = rows.a_workunit(transition_at=None)
    file = rows.an_input(workunit)
    rows.settled(workunit, assimilate_state=assimilate_state)
    assert a_pass(file_deleter).sentence() == "nothing to do"
    workunit.refresh_from_db()
    assert workunit.file_delete_state == 0
    assert workunit.input_files.count() == 1
    assert storage.download_path(file.name).exists()


def test_input_files_are_unlinked_before_file_deletion_is_marked_done(monkeypatch):
    workunit, file = a_ready_workunit()
    delete, states = storage.delete_downloads, []

    def note_and_delete(names):
        workunit.refresh_from_db()
        states.append((names, workunit.file_delete_state))
        return delete(names)

    monkeypatch.setattr(storage, "delete_downloads", note_and_delete)
    a_pass(file_deleter)
    workunit.refresh_from_db()
    assert states == [([file.name], 1)]
    assert workunit.file_delete_state == 2
    assert not storage.download_path(file.name).exists()


def test_a_failed_input_deletion_sets_state_error_and_is_retried_after_an_hour(caplog):
    workunit, file = a_ready_workunit()
    other, _ = a_ready_workunit()
    path = storage.download_path(file.name)
    path.unlink()
    path.mkdir()
    a_pass(file_deleter)
    workunit.refresh_from_db()
    other.refresh_from_db()
    assert (workunit.file_delete_state, workunit.file_delete_after) == (3, rows.hours(1))
    assert (other.file_delete_state, other.file_delete_after) == (2, None)
    assert "file_deletion_failed" in caplog.text
    assert a_pass(file_deleter, now=rows.hours(0.9)).seen == 0
    a_pass(file_deleter, now=rows.hours(1))
    workunit.refresh_from_db()
    assert workunit.file_delete_after == rows.hours(2)
    path.rmdir()
    a_pass(file_deleter, now=rows.hours(2))
    workunit.refresh_from_db()
    assert (workunit.file_delete_state, workunit.file_delete_after) == (2, None)
    assert not File.objects.exists()
    assert moves(workunit) == ["workunit files: READY→ERROR", "workunit files: ERROR→DONE"]
    assert moves(other) == ["workunit files: READY→DONE"]


def test_a_crash_before_unlinking_leaves_the_workunit_ready_for_deletion(monkeypatch):
    workunit, file = a_ready_workunit()
    with monkeypatch.context() as patch:
        patch.setattr(storage, "delete_downloads", lambda _names: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            a_pass(file_deleter)
    workunit.refresh_from_db()
    assert workunit.file_delete_state == 1
    a_pass(file_deleter)
    workunit.refresh_from_db()
    assert workunit.file_delete_state == 2
    assert [past["name"] for past in workunit.past_inputs] == [file.name]
    assert not storage.download_path(file.name).exists()


@pytest.mark.parametrize("index", [0, 1])
def test_a_sharded_deleter_unlinks_only_input_files_of_its_own_workunits(index):
    app = rows.an_app()
    made = [a_ready_workunit(app) for _ in range(4)]
    shared = made[0][1]
    a_ready_workunit(app, file=shared)
    a_pass(file_deleter, shard=Shard(index, 2))
    for workunit, file in made[1:]:
        workunit.refresh_from_db()
        is_own = workunit.pk % 2 == index
        assert workunit.file_delete_state == (2 if is_own else 1)
        if is_own:
            assert not storage.download_path(file.name).exists()


def test_a_file_used_by_an_app_version_is_not_deleted():
    workunit, file = a_ready_workunit()
    version = rows.an_app_version(workunit.app)
    AppVersionFile.objects.create(app_version=version, file=file, position=0, signature="s")
    a_pass(file_deleter)
    file.refresh_from_db()
    assert file.doomed_at is None
    assert storage.download_path(file.name).exists()


def test_a_file_marked_for_deletion_keeps_its_row_until_it_can_be_unlinked():
    _workunit, file = a_ready_workunit()
    path = storage.download_path(file.name)
    path.unlink()
    path.mkdir()
    a_pass(file_deleter)
    file.refresh_from_db()
    assert file.doomed_at == rows.hours(1)
    path.rmdir()
    a_pass(file_deleter, now=rows.hours(1))
    assert not File.objects.exists()


def test_output_of_a_late_report_is_deleted_after_all_other_files_were_deleted():
    """A result times out, is reported late, and its uploaded file is deleted."""
    host = rows.a_host()
    workunit = rows.a_workunit(transition_at=rows.hours(0))
    canonical = rows.a_result(workunit, "valid", output=b"x", uploaded=True)
    late = rows.a_result(workunit, "noreply", host=host, credit_deadline=rows.hours(-1))
    rows.settled(workunit, canonical, assimilate_state=2)
    for daemon in (transitioner, file_deleter):
        a_pass(daemon)
    late.refresh_from_db()
    assert late.file_delete_state == 2

    name = output_name(late.name, late.pk, 0)
    with storage.begin_upload(name, 0) as upload:
        upload.write(b"y")
        upload.finish(md5=None)
    said = Report(name=late.name, client_state=5, exit_status=0)
    (reported,) = report.look_up([[said]], most=10)
    with transaction.atomic():
        report.lock([reported])
        report.record(
            [
                report.Reporter(
                    reported=reported,
                    account_id=host.account_id,
                    host_id=host.pk,
                    ncpus=1,
                    daily_quota=0,
                )
            ],
            results=candidates.known_results(reported_ids=[late.pk], names=[], host_ids=[]),
            records={},
            apps=catalog._read(commands=False).apps,
            now=rows.hours(1),
        )
    late.refresh_from_db()
    assert (late.outcome, late.file_delete_state) == (1, 1)

    for daemon in (transitioner, file_deleter):
        a_pass(daemon, now=rows.hours(1))
    late.refresh_from_db()
    assert (late.validate_state, late.file_delete_state) == (5, 2)
    assert not storage.upload_path(name).exists()
    assert moves(late)[-4:] == [
        "result: OVER/NO_REPLY→OVER/SUCCESS",
        "result files: DONE→READY",
        "validation: INIT→TOO_LATE",
        "result files: READY→DONE",
    ]


@pytest.mark.parametrize("count", [1, 150])
def test_file_deleter_pass_uses_12_statements_for_any_number_of_rows(count):
    app = rows.an_app()
    host = rows.a_host()
    for _ in range(count):
        workunit, _ = a_ready_workunit(app)
        a_ready_result(workunit, host=host)
    now = rows.hours(0) + timedelta(seconds=1)
    # Two statements for outputs; nine for inputs, with a transaction; one for other marked files.
    assert statements_of(lambda: a_pass(file_deleter, now=now)) == 12
    assert not File.objects.exists()
    assert not Result.objects.exclude(file_delete_state=2).exists()
    assert not Workunit.objects.exclude(file_delete_state=2).exists()
