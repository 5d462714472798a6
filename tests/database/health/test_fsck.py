"""`fsck` prints the rows that break an invariant, and no others."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from datetime import timedelta
from io import StringIO
from itertools import pairwise
from pathlib import Path

import pytest
from allauth.account.models import EmailAddress
from django.core.management import call_command
from django.db import connection

from daemons import transitioner
from scheduler import storage
from scheduler.health.invariants import invariants
from scheduler.lifecycle import MOVES, Axis
from scheduler.models import (
    AccountAppCredit,
    Batch,
    CreditEntry,
    File,
    HostAppCredit,
    LedgerEntry,
    Team,
    TeamAdministrator,
    TeamAppCredit,
    WorkunitFile,
)
from scheduler.results.facts import output_name
from scheduler.sql import guard_triggers
from tests import rows
from tests.conftest import NOON
from tests.database.passes import a_pass

pytestmark = pytest.mark.django_db


@pytest.fixture
def unguarded():
    """Remove the guard triggers, so that a test can make moves that the law forbids."""
    guard_triggers.remove()
    yield
    guard_triggers.install()


def broken():
    """Return the violated invariants, with the names of the rows that break them."""
    found = {one.name: one.find(NOON) for one in invariants()}
    return {name: [v.name for v in violations] for name, violations in found.items() if violations}


def in_the_ledger(row, axis, target, *, source=0, because=2, by=3):
    """Create a ledger entry for a move."""
    is_workunit = row._meta.db_table == "workunit"
    return LedgerEntry.objects.create(
        at=NOON,
        workunit_id=row.pk if is_workunit else row.workunit_id,
        result_id=None if is_workunit else row.pk,
        axis=axis,
        source=source,
        target=target,
        because=because,
        by=by,
    )


@pytest.fixture
def workunit(settings):
    """A workunit with results after a pass, in which fsck finds no violation."""
    workunit = rows.a_workunit()
    in_the_ledger(workunit, 4, 1, because=1, by=1)
    a_pass(transitioner)
    workunit.refresh_from_db()
    assert broken() == {}
    return workunit


def test_a_consistent_database_has_no_violations(workunit):
    out = StringIO()
    call_command("fsck", stdout=out)
    assert out.getvalue() == "fsck: 0 violations\n"


def test_an_open_workunit_without_results_or_transition_time_is_found(workunit):
    workunit.results.all().delete()
    LedgerEntry.objects.filter(result_id__isnull=False).delete()
    assert broken() == {"nobody_is_forgotten": [workunit.name]}


def test_an_end_time_without_a_transition_time_is_found(workunit):
    rows.update(workunit, end_before=rows.hours(5))
    assert broken() == {"nobody_is_forgotten": [workunit.name]}


def test_a_dependent_workunit_without_a_batch_to_follow_is_found(workunit):
    bare = rows.a_workunit(
        workunit.app,
        release_state=1,
        pending_dependency_count=1,
        waits_for_batch=True,
        transition_at=rows.hours(1),
    )
    in_the_ledger(bare, 4, 1, because=1, by=1)
    assert broken() == {"waiting_workunits_have_a_dependency": [bare.name]}
    submitter = rows.a_host().account
    first, second = (
        Batch.objects.create(name=name, submitter=submitter, created_at=NOON)
        for name in ("first", "second")
    )
    rows.update(bare, batch=second)
    assert broken() == {"waiting_workunits_have_a_dependency": [bare.name]}
    rows.update(second, after=first)
    assert broken() == {}


def test_a_state_that_differs_from_the_ledger_is_found(workunit):
    result = workunit.results.first()
    host = rows.a_host()
    rows.update(
        result,
        server_state=4,
        host=host,
        account=host.account,
        sent_at=NOON,
        report_deadline=rows.hours(1),
    )
    assert broken() == {"states_are_the_last_moves": [result.name]}


def test_an_illegal_move_in_the_ledger_is_found(workunit, unguarded):
    in_the_ledger(workunit, 4, 1, because=1, by=6)
    assert set(broken()) == {"moves_are_legal", "moves_are_unbroken"}


def test_a_gap_between_moves_in_the_ledger_is_found(workunit):
    result = workunit.results.first()
    in_the_ledger(result, 1, 51, source=40, because=5, by=2)
    assert set(broken()) == {"moves_are_unbroken", "states_are_the_last_moves"}


def test_a_missing_first_move_is_found_while_its_ledger_partition_exists(workunit):
    result = workunit.results.first()
    rows.walk(result, server_state=5, outcome=5)
    in_the_ledger(result, 1, 55, source=20, because=12, by=3)
    known = broken()
    assert "first_moves_are_known" not in known
    LedgerEntry.objects.filter(result_id=result.pk, source=0).delete()
    rows.update(result, created_at=NOON - timedelta(days=2))
    assert broken() == known
    rows.update(result, created_at=NOON)
    assert broken() == known | {"first_moves_are_known": [result.name]}


def test_remaining_ledger_entries_of_a_purged_workunit_are_not_a_violation(workunit):
    result = workunit.results.first()
    in_the_ledger(result, 1, 51, source=40, because=5, by=2)
    in_the_ledger(result, 1, 51, source=40, because=5, by=2)
    workunit.delete()
    assert "moves_are_unbroken" not in broken()


def test_a_canonical_result_that_is_not_valid_is_found(workunit):
    rows.update(workunit, canonical_result=workunit.results.first())
    in_the_ledger(workunit, 4, 2, source=1, because=17, by=5)
    assert broken()["canonical_is_valid"] == [workunit.name]


def test_a_result_whose_app_differs_from_its_workunit_is_found(workunit):
    result = rows.a_result(workunit)
    rows.update(result, app_id=workunit.app_id + 1)
    assert broken()["results_repeat_their_app"] == [result.name]


def test_an_input_row_without_a_workunit_is_found(workunit):
    file = rows.an_input(workunit, b"left over")
    WorkunitFile.objects.create(workunit_id=10**9, position=0, file=file)
    assert broken() == {"inputs_have_a_workunit": ["workunit 1000000000"]}


def test_credit_entries_of_a_deleted_app_are_found(workunit):
    host = rows.a_host()
    CreditEntry.objects.create(
        result_id=1,
        rule="bonus",
        account=host.account,
        host=host,
        app_id=10**9,
        amount=0,
        granted_at=NOON,
    )
    assert broken() == {"app_credit_is_its_sum": ["app 1000000000"]}


def test_credit_totals_without_credit_entries_are_found(workunit):
    host = rows.a_host()
    rows.update(host, total_credit=5)
    rows.update(host.account, total_credit=6)
    team = Team.objects.create(name="t", total_credit=7, created_at=NOON)
    rows.update(workunit.app, total_credit=8)
    AccountAppCredit.objects.create(account=host.account, app=workunit.app, total=9)
    assert broken() == {
        "host_credit_is_its_sum": [f"host {host.pk}"],
        "account_credit_is_its_sum": [f"account {host.account_id}"],
        "account_app_credit_is_its_sum": [f"account {host.account_id}, app {workunit.app_id}"],
        "team_credit_is_its_sum": [f"team {team.pk}"],
        "app_credit_is_its_sum": [f"app {workunit.app_id}"],
    }


def test_credit_entries_of_purged_results_still_count(workunit):
    host = rows.a_host()
    CreditEntry.objects.create(
        result_id=99,
        rule="validated",
        account=host.account,
        host=host,
        app=workunit.app,
        amount=5,
        granted_at=NOON,
    )
    rows.update(host, total_credit=5)
    rows.update(host.account, total_credit=5)
    rows.update(workunit.app, total_credit=5)
    assert set(broken()) == {"account_app_credit_is_its_sum"}
    AccountAppCredit.objects.create(account=host.account, app=workunit.app, total=5)
    assert broken() == {}


def test_credit_by_computer_and_by_team_that_differs_from_counted_entries_is_found(workunit):
    host = rows.a_host()
    team = Team.objects.create(name="t", created_at=NOON)
    HostAppCredit.objects.create(host=host, app=workunit.app, total=3)
    TeamAppCredit.objects.create(team=team, app=workunit.app, total=4)
    assert broken() == {
        "host_app_credit_is_its_sum": [f"host {host.pk}, app {workunit.app_id}"],
        "team_app_credit_is_its_sum": [f"team {team.pk}, app {workunit.app_id}"],
    }


def test_granted_credit_without_a_credit_entry_is_found(workunit):
    result = workunit.results.first()
    rows.update(result, granted_credit=1)
    assert broken() == {"granted_credit_is_entered": [result.name]}


def test_missing_input_and_output_files_are_found(workunit):
    result = workunit.results.first()
    missing = rows.an_output(result, b"x")
    file = rows.an_input(workunit)
    storage.download_path(file.name).unlink()
    assert broken() == {"needed_outputs_exist": [missing.name], "inputs_exist": [file.name]}


def test_input_files_of_the_wrong_length_and_old_downloads_without_a_row_are_found(workunit):
    file = rows.an_input(workunit, b"12345")
    storage.download_path(file.name).write_bytes(b"1234")
    storage.publish(storage.stage_bytes(b"x"), "orphan_1")
    young = storage.download_path("orphan_1")
    violations = {one.name: [v.detail for v in one.find(NOON)] for one in invariants()}
    assert violations["inputs_exist"] == ["has 4 bytes, not 5"]
    assert violations["downloads_are_known"] == []
    long_ago = (NOON - timedelta(days=2)).timestamp()
    os.utime(young, (long_ago, long_ago))
    assert broken()["downloads_are_known"] == ["orphan_1"]


def test_digests_option_reports_damaged_files_with_a_hint(workunit):
    file = rows.an_input(workunit, b"12345")
    output = rows.an_output(workunit.results.first(), b"answer", uploaded=True)
    for path in (storage.download_path(file.name), storage.upload_path(output.name)):
        path.write_bytes(path.read_bytes()[::-1])
    assert broken() == {}
    page = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("fsck", "--digests", stdout=page)
    assert ended.value.code == 1
    said = page.getvalue()
    assert f"  {file.name}: has SHA-256 " in said
    assert f"  {output.name}: has SHA-256 " in said
    assert "Hint: restore them" in said
    assert "files: 1 of 5 bytes, referred to by 1 inputs of workunits, 0 parts of app" in said

    page = StringIO()
    with pytest.raises(SystemExit):
        call_command("fsck", "--digests", "--json", stdout=page)
    assert json.loads(page.getvalue())["references"]["workunits"] == 1


def read_violations():
    """Return the violations that `fsck --digests` reports, by invariant."""
    page = StringIO()
    with suppress(SystemExit):
        call_command("fsck", "--digests", "--json", stdout=page)
    report = json.loads(page.getvalue())["invariants"]
    return {
        one["name"]: [(row["name"], row["detail"]) for row in one["broken_by"]]
        for one in report
        if one["broken_by"]
    }


def an_answer(workunit, data=b"answer"):
    """Assimilate the workunit and return the path of its output in `results`."""
    result = rows.a_result(workunit, "valid", output=data, uploaded=True)
    rows.settled(workunit, result, assimilate_state=2)
    kept = storage.keep_result(
        upload_name=result.output_files.get().name,
        app=workunit.app.name,
        relative=f"{workunit.name}/out",
    )
    return Path(kept)


def test_missing_or_changed_files_of_assimilated_results_are_found():
    app = rows.an_app()
    whole, missing, changed = (an_answer(rows.a_workunit(app)) for _ in range(3))
    failed = rows.settled(rows.a_workunit(app), assimilate_state=2)
    elsewhere = rows.a_workunit(rows.an_app(assimilator="trivial"))
    an_answer(elsewhere).unlink()
    assert "answers_are_kept" in read_violations()
    storage.write_result(app=app.name, relative=f"{failed.name}/FAILED.json", data=b"{}")
    assert "answers_are_kept" not in read_violations()
    missing.unlink()
    changed.unlink()
    changed.write_bytes(b"other")
    (gone, detail), (other, difference) = read_violations()["answers_are_kept"]
    folder = missing.parents[1].name
    assert gone == f"{folder}/{missing.parent.name}/out"
    assert detail == "is missing"
    assert other == f"{folder}/{changed.parent.name}/out"
    assert difference.startswith("has SHA-256 ")
    assert whole.exists()


def test_answer_with_changed_bytes_of_the_same_length_is_found():
    answer = an_answer(rows.a_workunit(rows.an_app()), b"answer")
    assert "answers_are_kept" not in read_violations()
    with answer.open("r+b") as file:
        file.write(b"ANSWER")
    ((_, difference),) = read_violations()["answers_are_kept"]
    assert difference.startswith("has SHA-256 ")


def test_missing_result_files_of_a_dropped_workunit_are_not_a_violation():
    workunit = rows.settled(rows.a_workunit(), assimilate_state=2)
    assert "answers_are_kept" in read_violations()
    in_the_ledger(workunit, 6, 2, source=1, because=38, by=8)
    assert "answers_are_kept" not in read_violations()


def test_old_uploads_without_a_result_are_found():
    result = rows.a_result(rows.a_workunit(), "sent", host=rows.a_host())
    own = output_name(result.name, result.pk, 0)
    names = [own, "range_7_0_r999999_0", "readme.txt"]
    for name in names:
        with storage.begin_upload(name, 0) as upload:
            upload.write(b"x")
            upload.finish(md5=None)
    assert "uploads_have_a_result" not in read_violations()
    for name in names:
        os.utime(storage.upload_path(name), (1e9, 1e9))
    found = read_violations()["uploads_have_a_result"]
    assert sorted(found) == [(name, "1 bytes, without a result") for name in names[1:]]


def test_unreferenced_files_not_marked_for_deletion_are_found(workunit):
    file = rows.an_input(workunit)
    workunit.input_files.all().delete()
    assert broken() == {"unused_files_are_doomed": [file.name]}
    rows.update(file, doomed_at=NOON)
    assert broken() == {}


def test_a_referenced_file_marked_for_deletion_is_found(workunit):
    file = rows.an_input(workunit)
    File.objects.update(doomed_at=NOON)
    assert broken() == {"doomed_files_are_unused": [file.name]}


def test_inputs_deleted_before_all_results_are_over_are_found(workunit, unguarded):
    rows.settled(workunit, assimilate_state=2, file_delete_state=1)
    names = [result.name for result in workunit.results.all()]
    assert len(broken()["inputs_kept_until_over"]) == len(names)


# The end of a workunit, and its outputs


def without_constraint(name):
    """Drop a CHECK constraint of workunits, so that rows may break it."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")
        cursor.execute(f"ALTER TABLE workunit DROP CONSTRAINT {name}")


def moved(row, axis, *states):
    """Create the ledger entries of a row that moved through these states of an axis."""
    for source, target in pairwise(map(int, states)):
        move = next(m for m in MOVES if (m.axis, m.source, m.target) == (axis, source, target))
        in_the_ledger(row, axis, target, source=source, because=move.because, by=move.by)


def give_up_outputs(result):
    """Mark a result's outputs as READY to be deleted, as the transitioner does."""
    rows.update(result, file_delete_state=1)
    moved(result, Axis.RESULT_FILES, 0, 1)


def answered(*words, assimilate_state=2, file_delete_state=0, **fields):
    """Create a workunit with a complete ledger; return it and its results, the first canonical."""
    workunit = rows.a_workunit(transition_at=None, **fields)
    results = [rows.a_result(workunit, word) for word in words]
    rows.settled(
        workunit,
        results[0],
        assimilate_state=assimilate_state,
        file_delete_state=file_delete_state,
    )
    moved(workunit, Axis.WORKUNIT, 0, 1, 2)
    moved(workunit, Axis.ASSIMILATION, *range(assimilate_state + 1))
    moved(workunit, Axis.WORKUNIT_FILES, *range(file_delete_state + 1))
    for result, word in zip(results, words, strict=True):
        moved(result, Axis.RESULT, 0, 20, 40, *([] if word == "sent" else [51]))
        if word == "valid":
            moved(result, Axis.VALIDATION, 0, 1)
    return workunit, *results


@pytest.fixture
def finished():
    """A finished workunit whose files are deleted, in which fsck finds no violation."""
    workunit, result = answered("valid", file_delete_state=2)
    give_up_outputs(result)
    rows.update(result, file_delete_state=2)
    moved(result, Axis.RESULT_FILES, 1, 2)
    assert broken() == {}
    return workunit


def test_a_workunit_with_both_a_canonical_result_and_an_error_is_found(finished):
    without_constraint("workunit_has_an_answer_or_a_reason_not_both")
    rows.update(finished, error_mask=16)
    assert broken() == {"answer_or_reason": [finished.name]}


def test_an_assimilated_workunit_with_neither_canonical_result_nor_error_is_found(finished):
    without_constraint("workunit_is_assimilated_with_an_answer_or_a_reason")
    # Due, so that it does not also violate `nobody_is_forgotten`.
    rows.update(finished, canonical_result=None, transition_at=NOON)
    moved(finished, Axis.WORKUNIT, 2, 1)
    assert broken() == {"answer_or_reason": [finished.name]}


def test_an_assimilated_workunit_without_finished_at_is_found(finished):
    rows.update(finished, finished_at=None)
    assert broken() == {"finished_when_assimilated": [finished.name]}


def test_an_unassimilated_workunit_with_finished_at_is_found(workunit):
    rows.update(workunit, finished_at=NOON)
    assert broken() == {"finished_when_assimilated": [workunit.name]}


def test_outputs_released_before_assimilation_are_found():
    _workunit, canonical, other = answered("valid", "valid", assimilate_state=1)
    assert broken() == {}
    give_up_outputs(other)
    assert broken() == {"outputs_kept_until_assimilated": [other.name]}
    give_up_outputs(canonical)
    found = broken()["outputs_kept_until_assimilated"]
    assert sorted(found) == [canonical.name, other.name]


def test_canonical_outputs_released_while_a_result_is_in_progress_are_found():
    workunit, canonical, other, _out = answered("valid", "valid", "sent")
    give_up_outputs(other)
    assert broken() == {}
    give_up_outputs(canonical)
    assert broken() == {"canonical_outputs_kept_until_judged": [workunit.name]}
    # A workunit that is due is no violation: the transitioner will process it.
    rows.update(workunit, transition_at=NOON)
    assert broken() == {}


def test_canonical_outputs_released_before_a_success_is_validated_are_found():
    workunit, canonical, _waiting = answered("valid", "success", need_validate=True)
    # The inputs are no longer needed.
    rows.update(workunit, file_delete_state=1)
    moved(workunit, Axis.WORKUNIT_FILES, 0, 1)
    assert broken() == {}
    give_up_outputs(canonical)
    # The success is now too late, and the workunit is not due to be marked so.
    assert broken() == {
        "canonical_outputs_kept_until_judged": [workunit.name],
        "nobody_is_forgotten": [workunit.name],
    }


def test_kept_outputs_that_are_released_or_outlive_their_batch_are_found():
    batch = Batch.objects.create(
        name="kept", submitter=rows.a_host().account, created_at=NOON, keep_outputs=True
    )
    workunit, result = answered("valid", outputs_kept=True, batch=batch)
    # The inputs are no longer needed.
    rows.update(workunit, file_delete_state=1)
    moved(workunit, Axis.WORKUNIT_FILES, 0, 1)
    assert broken() == {}
    rows.update(batch, retired_at=NOON)
    assert broken() == {"kept_outputs_exist": [workunit.name]}
    rows.update(batch, retired_at=None)
    give_up_outputs(result)
    assert broken() == {"kept_outputs_exist": [workunit.name]}


def test_outputs_that_are_never_released_are_found():
    workunit, _canonical = answered("valid", file_delete_state=2)
    assert broken() == {"nobody_is_forgotten": [workunit.name]}


def test_outputs_marked_as_deleted_but_still_on_disk_are_found(finished):
    output = rows.an_output(finished.results.get(), b"x", uploaded=True)
    assert broken() == {"deleted_outputs_are_gone": [output.name]}
    storage.upload_path(output.name).unlink()
    assert broken() == {}


def test_two_results_of_a_workunit_in_progress_on_one_host_are_found(workunit):
    host = rows.a_host()
    for result in workunit.results.all():
        rows.walk(
            result,
            server_state=4,
            outcome=0,
            host=host,
            account=host.account,
            sent_at=NOON,
            report_deadline=rows.hours(1),
        )
    assert broken()["one_live_result_per_host"] == [workunit.name]


def test_more_results_than_allowed_are_found(workunit):
    rows.update(workunit, max_total_results=2)
    rows.a_result(workunit)
    assert broken()["no_more_results_than_allowed"] == [workunit.name]


def test_the_command_prints_the_violating_rows_and_exits_with_status_1(workunit):
    host = rows.a_host()
    rows.update(host, total_credit=5)
    out = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("fsck", stdout=out)
    assert ended.value.code == 1
    assert out.getvalue().splitlines() == [
        "Broken: Every host's total credit is the sum of its credit entries.",
        f"  host {host.pk}: total 5.000000, entries 0",
        "fsck: 1 violation",
    ]


def test_json_option_prints_the_invariants_as_json(workunit):
    out = StringIO()
    call_command("fsck", "--json", stdout=out)
    answer = json.loads(out.getvalue())
    assert answer["violations"] == 0
    assert len(answer["invariants"]) == len(invariants())


def test_ledger_invariants_are_skipped_when_the_ledger_is_off(settings):
    from dataclasses import replace

    everything = len(invariants())
    settings.PROJECT = replace(settings.PROJECT, ledger=False)
    assert len(invariants()) == everything - 4
    rows.a_workunit()
    assert broken() == {}


def test_guard_trigger_command_switches_the_guard_triggers():
    said = []
    for what in ("off", "status", "on"):
        out = StringIO()
        call_command("guard_trigger", what, stdout=out)
        said.append(out.getvalue().strip())
    assert said == [
        "The guard triggers are off.",
        "The guard triggers are off.",
        "The guard triggers are on.",
    ]
    assert guard_triggers.is_installed()


def test_an_account_without_its_email_address_is_found():
    lost, renamed = rows.an_account(), rows.an_account()
    rows.an_account()
    EmailAddress.objects.filter(user=lost).delete()
    EmailAddress.objects.filter(user=renamed).update(email="other@example.org")
    accounts = [f"account {lost.pk}", f"account {renamed.pk}"]
    assert broken() == {"accounts_have_an_email_address": accounts}


def test_an_administrator_who_is_no_member_or_leads_the_team_is_found():
    team = Team.objects.create(name="team", created_at=NOON)
    member, left, founder = (rows.an_account(team=team) for _ in range(3))
    for account in (member, left, founder):
        TeamAdministrator.objects.create(account=account, team=team, named_at=NOON)
    assert broken() == {}
    rows.update(left, team=None)
    rows.update(team, founder=founder)
    damaged = [f"account {left.pk}", f"account {founder.pk}"]
    assert broken() == {"team_administrators_are_members": damaged}
