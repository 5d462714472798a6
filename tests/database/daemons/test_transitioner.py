"""The transitioner applies the verdicts of its rules to the database."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection

from daemons import file_deleter, timeout_checker, transitioner
from daemons.tally import Shard
from scheduler import storage
from scheduler.health.invariants import invariants
from scheduler.lifecycle import ErrorMask
from scheduler.models import Batch, Host, Result, Workunit, WorkunitWakeup
from tests import rows
from tests.conftest import NOON
from tests.database.passes import a_pass, moves, statements_of, transitioner_pass_later

pytestmark = pytest.mark.django_db


def test_results_are_created_for_a_new_workunit():
    workunit = rows.a_workunit(priority=7)
    tally = a_pass(transitioner)
    results = list(workunit.results.order_by("id"))
    workunit.refresh_from_db()
    assert [result.name for result in results] == [f"{workunit.name}_0", f"{workunit.name}_1"]
    assert {(r.server_state, r.outcome, r.priority, r.app_id) for r in results} == {
        (2, 0, 7, workunit.app_id)
    }
    # The safety net: 1.5 times the delay bound of seven days.
    assert rows.due_at(workunit) == rows.hours(252)
    assert tally.sentence() == "1 workunit: 1 replicated"
    assert moves(results[0]) == ["result: nothing→UNSENT"]


def test_a_second_pass_finds_nothing_to_do():
    rows.a_workunit()
    a_pass(transitioner)
    assert a_pass(transitioner).sentence() == "nothing to do"
    assert Result.objects.count() == 2


def test_a_workunit_that_is_not_due_is_skipped():
    rows.a_workunit(transition_at=rows.hours(1))
    rows.a_workunit(transition_at=None)
    a_pass(timeout_checker)
    assert a_pass(transitioner).seen == 0


def test_a_replacement_result_gets_the_next_attempt_number():
    workunit = rows.a_workunit()
    rows.a_result(workunit, "success", output=b"a")
    rows.a_result(workunit, "error")
    a_pass(transitioner)
    assert sorted(workunit.results.values_list("attempt", flat=True)) == [0, 1, 2]


def test_a_workunit_with_failed_attempts_stays_open_and_gets_replacements():
    workunit = rows.a_workunit()
    rows.a_result(workunit, "error")
    rows.a_result(workunit, "noreply")
    a_pass(transitioner)
    workunit.refresh_from_db()
    attempts = workunit.results.order_by("attempt")
    assert [(r.attempt, r.server_state, r.outcome) for r in attempts] == [
        (0, 5, 3),
        (1, 5, 4),
        (2, 2, 0),
        (3, 2, 0),
    ]
    assert (workunit.canonical_result_id, workunit.error_mask) == (None, 0)
    assert (workunit.assimilate_state, workunit.file_delete_state) == (0, 0)
    assert moves(workunit) == []


def test_a_workunit_fails_if_the_remaining_results_cannot_reach_the_quorum():
    # The only result was sent to an untrusted host, which raised the quorum, and it failed.
    workunit = rows.a_workunit(max_total_results=2)
    rows.a_result(workunit, "error")
    a_pass(transitioner)
    assert [violation.name for violation in forgotten()] == []
    assert workunit.results.count() == 1
    assert moves(workunit)[-2:] == ["workunit: OPEN→FAILED", "assimilation: INIT→READY"]


def forgotten():
    """Return workunits that need a transition but are not due."""
    (asked,) = [one for one in invariants() if one.name == "nobody_is_forgotten"]
    return asked.find(NOON)


def test_enough_successful_results_set_need_validate():
    workunit = rows.a_workunit()
    for _ in range(2):
        rows.a_result(workunit, "success", output=b"a")
    a_pass(transitioner)
    workunit.refresh_from_db()
    assert workunit.need_validate
    assert rows.due_at(workunit) == rows.hours(252)


def test_a_cancelled_workunit_fails_and_its_unsent_results_end():
    workunit = rows.a_workunit(cancel_requested_at=rows.hours(-1))
    unsent = rows.a_result(workunit)
    success = rows.a_result(workunit, "success", output=b"a")
    a_pass(transitioner)
    for row in (workunit, unsent, success):
        row.refresh_from_db()
    assert (workunit.error_mask, workunit.assimilate_state) == (16, 1)
    assert (unsent.server_state, unsent.outcome) == (5, 5)
    assert success.validate_state == 3
    assert moves(workunit) == ["workunit: OPEN→FAILED", "assimilation: INIT→READY"]
    assert moves(unsent) == ["result: UNSENT→OVER/DIDNT_NEED"]


def test_a_workunit_with_an_answer_becomes_ready_for_assimilation():
    workunit = rows.a_workunit()
    canonical = rows.a_result(workunit, "valid", output=b"a")
    rows.settled(workunit, canonical)
    a_pass(transitioner)
    workunit.refresh_from_db()
    assert workunit.assimilate_state == 1
    assert moves(workunit) == ["assimilation: INIT→READY"]


def test_one_result_can_move_on_two_axes_at_once():
    workunit = rows.a_workunit()
    canonical = rows.a_result(workunit, "valid", output=b"a")
    unsent = rows.a_result(workunit)
    rows.settled(workunit, canonical, assimilate_state=2)
    a_pass(transitioner)
    unsent.refresh_from_db()
    assert (unsent.outcome, unsent.file_delete_state) == (5, 1)
    assert len(moves(unsent)) == 2


def test_files_of_an_assimilated_workunit_become_deletable_and_late_ones_at_credit_deadline():
    workunit = rows.a_workunit()
    canonical = rows.a_result(workunit, "valid", output=b"a")
    other = rows.a_result(workunit, "valid", output=b"a")
    late = rows.a_result(workunit, "noreply")
    rows.settled(workunit, canonical, assimilate_state=1)
    a_pass(transitioner)
    for row in (workunit, canonical, other, late):
        row.refresh_from_db()
    assert [r.file_delete_state for r in (workunit, canonical, other, late)] == [0, 0, 0, 0]
    rows.update(workunit, assimilate_state=2, finished_at=NOON, transition_at=NOON)
    a_pass(transitioner)
    for row in (workunit, canonical, other, late):
        row.refresh_from_db()
    assert workunit.file_delete_state == 1
    assert [r.file_delete_state for r in (canonical, other, late)] == [0, 1, 0]
    assert rows.due_at(workunit) == late.credit_deadline
    transitioner_pass_later(late.credit_deadline)
    for row in (workunit, canonical, late):
        row.refresh_from_db()
    assert [r.file_delete_state for r in (canonical, late)] == [1, 1]
    assert rows.due_at(workunit) is None


def test_files_of_a_timed_out_result_stay_if_it_was_reported_after_the_judgement(monkeypatch):
    workunit = rows.a_workunit()
    canonical = rows.a_result(workunit, "valid", output=b"a")
    late = rows.a_result(workunit, "noreply", credit_deadline=rows.hours(-1))
    rows.settled(workunit, canonical, assimilate_state=2)
    read_results = transitioner.read_results

    def read_then_report(*args, **kwargs):
        judged = read_results(*args, **kwargs)
        # A writer that ignores the lock on the workunit.
        rows.walk(late, server_state=5, outcome=1, received_at=NOON)
        return judged

    monkeypatch.setattr(transitioner, "read_results", read_then_report)
    with pytest.raises(transitioner.StaleJudgement, match=str(late.pk)):
        a_pass(transitioner)
    monkeypatch.undo()
    late.refresh_from_db()
    assert late.file_delete_state == 0


def test_the_hr_class_is_reset_when_all_results_failed():
    workunit = rows.a_workunit(hr_class=384)
    rows.a_result(workunit, "error")
    a_pass(transitioner)
    workunit.refresh_from_db()
    assert workunit.hr_class == 0


def test_a_released_workunit_is_replicated_in_the_same_pass():
    workunit = rows.a_workunit(release_state=1)
    a_pass(transitioner)
    workunit.refresh_from_db()
    assert workunit.release_state == 3
    assert workunit.results.count() == 2
    assert moves(workunit) == ["release: INACTIVE→RELEASED"]


def test_shards_together_process_every_workunit():
    app = rows.an_app()
    for _ in range(7):
        rows.a_workunit(app)
    seen = [a_pass(transitioner, shard=Shard(index, 3)).seen for index in range(3)]
    assert sum(seen) == 7
    assert max(seen) <= 3


def test_a_pass_that_reaches_its_limit_reports_more_work():
    app = rows.an_app()
    for _ in range(3):
        rows.a_workunit(app)
    assert a_pass(transitioner, limit=2).more
    assert not a_pass(transitioner, limit=2).more


def test_no_ledger_entries_are_written_when_the_ledger_is_off(settings):
    from dataclasses import replace

    settings.PROJECT = replace(settings.PROJECT, ledger=False)
    workunit = rows.a_workunit()
    a_pass(transitioner)
    assert workunit.results.count() == 2
    assert moves(workunit.results.first()) == []


def test_results_of_an_unsendable_workunit_end_as_couldnt_send():
    workunit = rows.a_workunit(unsendable_at=rows.hours(-1))
    unsent, sent = rows.a_result(workunit), rows.a_result(workunit, "sent")
    a_pass(transitioner)
    for row in (workunit, unsent, sent):
        row.refresh_from_db()
    assert (workunit.error_mask, workunit.unsendable_at) == (1, rows.hours(-1))
    assert (unsent.server_state, unsent.outcome, sent.server_state) == (5, 2, 4)
    assert moves(unsent) == ["result: UNSENT→OVER/COULDNT_SEND"]


def test_request_to_give_up_is_dropped_if_the_result_was_sent_meanwhile():
    workunit = rows.a_workunit(unsendable_at=rows.hours(-1), min_quorum=1, target_nresults=1)
    rows.a_result(workunit, "sent")
    a_pass(transitioner)
    workunit.refresh_from_db()
    assert (workunit.error_mask, workunit.unsendable_at) == (0, None)


@pytest.fixture
def answered():
    """A workunit to revalidate: one of its results was invalid, and it is not assimilated."""
    workunit = rows.a_workunit(revalidate_requested_at=rows.hours(-1))
    canonical = rows.a_result(workunit, "valid", output=b"a")
    rows.a_result(workunit, "valid", output=b"a")
    rows.a_result(workunit, "invalid", output=b"b")
    rows.a_result(workunit, "error")
    return rows.settled(
        workunit,
        canonical,
        assimilate_state=1,
        canonical_credit=5,
        lease_until=rows.hours(1),
        lease_token=3,
    )


def test_a_revalidation_request_clears_the_canonical_result_and_the_verdicts(answered):
    assert a_pass(transitioner).sentence() == "1 workunit: 1 to be validated again"
    answered.refresh_from_db()
    assert (answered.canonical_result_id, answered.canonical_credit) == (None, 0)
    assert (answered.assimilate_state, answered.revalidate_requested_at) == (0, None)
    assert [r.validate_state for r in answered.results.order_by("id")] == [0, 0, 0, 2]
    assert moves(answered) == ["workunit: CANONICAL→OPEN", "assimilation: READY→INIT"]
    # The new token fences off the assimilator that had leased the answer.
    assert (answered.lease_until, answered.lease_token) == (None, 4)
    a_pass(transitioner)
    answered.refresh_from_db()
    assert answered.need_validate


def test_a_revalidation_request_is_dropped_if_the_workunit_is_already_assimilated(answered):
    rows.update(answered, assimilate_state=2, finished_at=rows.hours(-1))
    a_pass(transitioner)
    answered.refresh_from_db()
    assert answered.canonical_result_id is not None
    assert answered.revalidate_requested_at is None
    assert moves(answered)[:1] != ["workunit: CANONICAL→OPEN"]


def test_a_broadcast_workunit_gets_no_results_and_needs_validation_at_its_end():
    workunit = rows.a_workunit(
        broadcast=True, min_quorum=1, target_nresults=1, end_before=rows.hours(5)
    )
    a_pass(transitioner)
    workunit.refresh_from_db()
    assert (workunit.results.count(), rows.due_at(workunit)) == (0, rows.hours(5))
    rows.a_result(workunit, "success", output=b"a")
    transitioner_pass_later(rows.hours(5))
    workunit.refresh_from_db()
    assert (workunit.need_validate, workunit.error_mask) == (True, 0)


def test_a_broadcast_workunit_without_reported_results_expires():
    workunit = rows.a_workunit(broadcast=True, end_before=rows.hours(0))
    a_pass(transitioner)
    workunit.refresh_from_db()
    assert workunit.error_mask == 64


def test_a_retry_result_gets_higher_priority_and_is_reserved_for_reliable_hosts():
    app = rows.an_app(
        retry_priority=10,
        reliable_max_turnaround=timedelta(days=1),
        reliable_wait=timedelta(hours=3),
    )
    workunit = rows.a_workunit(app, priority=7)
    a_pass(transitioner)
    assert set(workunit.results.values_list("priority", "reliable_until")) == {(7, None)}
    first = workunit.results.order_by("id").first()
    rows.walk(
        first,
        server_state=5,
        outcome=3,
        host=rows.a_host(),
        account=rows.an_account(),
        sent_at=rows.hours(-1),
        report_deadline=rows.hours(1),
    )
    rows.update(workunit, transition_at=rows.hours(0))
    a_pass(transitioner)
    retry = workunit.results.order_by("id").last()
    assert (retry.priority, retry.reliable_until) == (17, rows.hours(3))


def test_without_a_bound_on_turnarounds_a_retry_goes_to_any_host():
    workunit = rows.a_workunit(rows.an_app(retry_priority=10), min_quorum=1, target_nresults=1)
    rows.a_result(workunit, "error")
    a_pass(transitioner)
    retry = workunit.results.order_by("id").last()
    assert (retry.priority, retry.reliable_until) == (10, None)


def test_results_of_an_accelerated_batch_get_the_retry_priority():
    batch = Batch.objects.create(
        name="tail", submitter=rows.an_account(), created_at=rows.hours(0), accelerate=True
    )
    workunit = rows.a_workunit(rows.an_app(retry_priority=10), batch=batch)
    a_pass(transitioner)
    assert set(workunit.results.values_list("priority", flat=True)) == {10}


def test_results_have_the_target_of_their_workunit():
    host = rows.a_host()
    targets = [
        ({"target_host": host}, (1, host.pk)),
        ({"target_account": host.account}, (2, host.account_id)),
        ({}, (0, 0)),
    ]
    made = [(rows.a_workunit(**fields), target) for fields, target in targets]
    a_pass(transitioner)
    for workunit, target in made:
        assert set(workunit.results.values_list("target_kind", "target_id")) == {target}


def test_files_are_kept_for_the_delete_delay_of_the_app_after_the_last_report():
    workunit = rows.a_workunit(rows.an_app(delete_delay=timedelta(hours=5)))
    canonical = rows.a_result(workunit, "valid", output=b"a", received_at=rows.hours(-3))
    rows.a_result(workunit, "valid", output=b"a", received_at=rows.hours(-1))
    rows.settled(workunit, canonical, assimilate_state=2)
    a_pass(transitioner)
    workunit.refresh_from_db()
    assert (workunit.file_delete_state, rows.due_at(workunit)) == (0, rows.hours(4))
    transitioner_pass_later(rows.hours(4))
    workunit.refresh_from_db()
    assert workunit.file_delete_state == 1
    assert set(workunit.results.values_list("file_delete_state", flat=True)) == {1}


def test_a_result_reported_after_its_credit_deadline_is_marked_too_late():
    workunit = rows.a_workunit()
    canonical = rows.a_result(workunit, "valid", output=b"a")
    late = rows.a_result(workunit, "success", output=b"a", credit_deadline=rows.hours(-2))
    in_time = rows.a_result(workunit, "success", output=b"a")
    rows.settled(workunit, canonical)
    a_pass(transitioner)
    for row in (workunit, late, in_time):
        row.refresh_from_db()
    assert (late.validate_state, in_time.validate_state, workunit.need_validate) == (5, 0, True)


def test_output_files_of_a_too_late_result_are_deleted_immediately():
    workunit = rows.a_workunit()
    canonical = rows.a_result(workunit, "valid", output=b"a", uploaded=True)
    late = rows.a_result(
        workunit, "success", output=b"a", uploaded=True, credit_deadline=rows.hours(-2)
    )
    rows.a_result(workunit, "sent")  # still to be compared with the canonical result
    rows.settled(workunit, canonical, assimilate_state=2)
    for daemon in (transitioner, file_deleter):
        a_pass(daemon)
    for row in (canonical, late):
        row.refresh_from_db()
    assert (late.validate_state, late.file_delete_state) == (5, 2)
    assert canonical.file_delete_state == 0
    assert not storage.upload_path(late.output_files.get().name).exists()
    assert storage.upload_path(canonical.output_files.get().name).exists()


def a_mixture(count: int) -> None:
    """Create workunits that need, in turn, to be cancelled or to be replicated."""
    app = rows.an_app()
    host = rows.a_host()
    for number in range(count):
        workunit = rows.a_workunit(app)
        if number % 2:
            rows.a_result(workunit, "success", host=host, output=b"a")
        else:
            rows.update(workunit, cancel_requested_at=rows.hours(-1))
            rows.a_result(workunit)


@pytest.mark.parametrize("count", [2, 150])
def test_transitioner_pass_uses_7_statements_for_any_number_of_rows(count):
    a_mixture(count)
    # A savepoint and its release, wake-ups with workunits, results; workunits, moves, replicas.
    assert statements_of(lambda: a_pass(transitioner)) == 7
    assert not WorkunitWakeup.objects.exists()


@pytest.mark.parametrize(
    ("check_at", "written"),
    [
        (None, True),
        (rows.hours(-1), True),
        (rows.hours(24 * 9), False),
        (rows.hours(24 * 11), True),
    ],
)
def test_a_row_is_written_only_if_it_changes_or_needs_an_earlier_check(check_at, written):
    workunit = rows.a_workunit()
    rows.a_result(workunit, "sent")
    Workunit.objects.filter(pk=workunit.pk).update(transition_at=check_at)
    before = version_of(workunit)
    assert a_pass(transitioner).seen == 1
    assert (version_of(workunit) != before) is written
    workunit.refresh_from_db()
    assert workunit.transition_at == (rows.hours(24 * 10.5) if written else check_at)


def version_of(workunit):
    with connection.cursor() as cursor:
        cursor.execute("SELECT ctid::text FROM workunit WHERE id = %s", [workunit.pk])
        return cursor.fetchone()


def test_an_idle_pass_uses_one_statement_and_its_savepoint():
    assert statements_of(lambda: a_pass(transitioner)) == 3


# Workunits that have no eligible account left


def tried(app, *hosts, word="error", **fields):
    fields = {"min_quorum": 1, "target_nresults": 1, **fields}
    workunit = rows.a_workunit(app, **fields)
    for host in hosts:
        rows.a_result(workunit, word, host=host)
    return workunit


def test_fail_when_all_tried_ends_a_workunit_that_every_account_has_tried():
    waits = tried(rows.an_app(), rows.a_host())
    ends = tried(rows.an_app(fail_when_all_tried=True), *Host.objects.all())
    a_pass(transitioner)
    waits.refresh_from_db()
    ends.refresh_from_db()
    assert (waits.error_mask, waits.results.count()) == (0, 2)
    assert (ErrorMask(ends.error_mask), ends.results.count()) == (ErrorMask.COULDNT_SEND, 1)


@pytest.mark.parametrize(
    ("hours", "at_once", "is_over"),
    [(0, False, False), (23.9, False, False), (24, False, True), (0, True, True)],
)
def test_a_refused_host_counts_as_tried_once_its_refusal_counts(hours, at_once, is_over):
    app, unfit = rows.an_app(fail_when_all_tried=True), rows.a_host()
    workunit = tried(app, rows.a_host())
    rows.refuse(workunit, unfit, first_at=rows.hours(-hours), counts_at_once=at_once)
    a_pass(transitioner)
    workunit.refresh_from_db()
    assert bool(workunit.error_mask) is is_over


@pytest.mark.parametrize("seconds", [-1, 1])
def test_a_refusal_older_than_the_newest_app_version_does_not_count_as_tried(seconds):
    app, unfit = rows.an_app(fail_when_all_tried=True), rows.a_host()
    workunit = tried(app, rows.a_host())
    rows.an_app_version(app, created_at=NOON + timedelta(seconds=seconds))
    rows.refuse(workunit, unfit, counts_at_once=True)
    a_pass(transitioner)
    workunit.refresh_from_db()
    assert bool(workunit.error_mask) is (seconds < 0)


@pytest.mark.parametrize(
    ("kind", "is_over"), [("account", True), ("host", False), ("nothing", False)]
)
def test_remaining_accounts_depend_on_the_one_result_per_rule(kind, is_over):
    app = rows.an_app(fail_when_all_tried=True, one_result_per=kind)
    account = rows.an_account()
    host = rows.a_host(account)
    rows.a_host(account)
    workunit = tried(app, host)
    a_pass(transitioner)
    workunit.refresh_from_db()
    assert bool(workunit.error_mask) is is_over


@pytest.mark.parametrize(
    "fields", [{"denied": True}, {"rpc_at": NOON - timedelta(days=31)}], ids=["denied", "gone"]
)
def test_a_workunit_waiting_for_an_untried_account_is_checked_again_after_an_hour(fields):
    app = rows.an_app(fail_when_all_tried=True)
    other = rows.a_host()
    workunit = tried(app, rows.a_host())
    a_pass(transitioner)
    workunit.refresh_from_db()
    assert (workunit.error_mask, rows.due_at(workunit)) == (0, NOON + timedelta(hours=1))
    rows.update(other, **fields)
    transitioner_pass_later(NOON + timedelta(hours=1))
    workunit.refresh_from_db()
    assert ErrorMask(workunit.error_mask) == ErrorMask.COULDNT_SEND


@pytest.mark.parametrize("word", ["sent", "success"])
def test_workunit_waits_for_results_that_may_be_the_answer(word):
    workunit = tried(rows.an_app(fail_when_all_tried=True), rows.a_host(), word=word)
    a_pass(transitioner)
    workunit.refresh_from_db()
    assert workunit.error_mask == 0
