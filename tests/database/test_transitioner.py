"""The transitioner writes down what the judgement says."""

from __future__ import annotations

import pytest

from daemons import transitioner
from daemons.tally import Shard
from scheduler.models import Result, Workunit
from tests import rows
from tests.database.passes import a_pass, moves, statements_of

pytestmark = pytest.mark.django_db


def test_a_new_workunit_gets_its_results():
    workunit = rows.a_workunit(priority=7)
    tally = a_pass(transitioner)
    results = list(workunit.results.order_by("id"))
    workunit.refresh_from_db()
    assert [result.name for result in results] == [f"{workunit.name}_0", f"{workunit.name}_1"]
    assert {(r.server_state, r.outcome, r.priority, r.app_id) for r in results} == {
        (2, 0, 7, workunit.app_id)
    }
    assert workunit.transition_at is None
    assert tally.sentence() == "1 workunit: 1 replicated"
    assert moves(results[0]) == ["result: nothing→UNSENT"]


def test_a_second_pass_finds_nothing_to_do():
    rows.a_workunit()
    a_pass(transitioner)
    assert a_pass(transitioner).sentence() == "nothing to do"
    assert Result.objects.count() == 2


def test_a_workunit_that_is_not_due_is_left_alone():
    rows.a_workunit(transition_at=rows.hours(1))
    rows.a_workunit(transition_at=None)
    assert a_pass(transitioner).seen == 0


def test_a_replacement_takes_the_next_attempt():
    workunit = rows.a_workunit()
    rows.a_result(workunit, "success", output=b"a")
    rows.a_result(workunit, "error")
    a_pass(transitioner)
    assert sorted(workunit.results.values_list("attempt", flat=True)) == [0, 1, 2]


def test_enough_successes_ask_for_validation():
    workunit = rows.a_workunit()
    for _ in range(2):
        rows.a_result(workunit, "success", output=b"a")
    a_pass(transitioner)
    workunit.refresh_from_db()
    assert workunit.need_validate
    assert workunit.transition_at is None


def test_a_cancelled_workunit_ends():
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


def test_one_result_can_move_on_two_axes_at_once():
    workunit = rows.a_workunit()
    canonical = rows.a_result(workunit, "valid", output=b"a")
    unsent = rows.a_result(workunit)
    rows.settled(workunit, canonical, assimilate_state=2)
    a_pass(transitioner)
    unsent.refresh_from_db()
    assert (unsent.outcome, unsent.file_delete_state) == (5, 1)
    assert len(moves(unsent)) == 2


def test_an_assimilated_workunit_gives_its_files_up_and_is_looked_at_once_more_for_late_ones():
    workunit = rows.a_workunit()
    canonical = rows.a_result(workunit, "valid", output=b"a")
    other = rows.a_result(workunit, "valid", output=b"a")
    late = rows.a_result(workunit, "noreply")
    rows.settled(workunit, canonical, assimilate_state=2)
    a_pass(transitioner)
    for row in (workunit, canonical, other, late):
        row.refresh_from_db()
    assert workunit.file_delete_state == 1
    assert [r.file_delete_state for r in (canonical, other, late)] == [0, 1, 0]
    assert workunit.transition_at == late.credit_deadline
    a_pass(transitioner, now=late.credit_deadline)
    for row in (workunit, canonical, late):
        row.refresh_from_db()
    assert [r.file_delete_state for r in (canonical, late)] == [1, 1]
    assert workunit.transition_at is None


def test_the_class_of_hosts_is_forgotten_when_only_errors_came():
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


def test_shards_share_the_work_and_leave_nothing_out():
    app = rows.an_app()
    for _ in range(7):
        rows.a_workunit(app)
    seen = [a_pass(transitioner, shard=Shard(index, 3)).seen for index in range(3)]
    assert sum(seen) == 7
    assert max(seen) <= 3


def test_a_full_batch_says_that_there_is_more():
    app = rows.an_app()
    for _ in range(3):
        rows.a_workunit(app)
    assert a_pass(transitioner, limit=2).more
    assert not a_pass(transitioner, limit=2).more


def test_with_the_ledger_off_nothing_is_written_there(settings):
    from dataclasses import replace

    settings.PROJECT = replace(settings.PROJECT, ledger=False)
    workunit = rows.a_workunit()
    a_pass(transitioner)
    assert workunit.results.count() == 2
    assert moves(workunit.results.first()) == []


def a_mixture(count: int) -> None:
    """Workunits of which each wants something else."""
    app = rows.an_app()
    host = rows.a_host()
    for number in range(count):
        workunit = rows.a_workunit(app)
        if number % 2:
            rows.a_result(workunit, "success", host=host, output=b"a")
        else:
            rows.update(workunit, cancel_requested_at=rows.hours(-1))
            rows.a_result(workunit)


@pytest.mark.parametrize("count", [2, 500])
def test_a_pass_costs_the_same_statements_for_any_number_of_rows(count):
    a_mixture(count)
    # A savepoint and its release, the locks, the results; then workunits, moves and replicas.
    assert statements_of(lambda: a_pass(transitioner)) == 7
    assert not Workunit.objects.filter(transition_at__isnull=False).exists()


def test_an_idle_pass_costs_one_statement_and_its_transaction():
    assert statements_of(lambda: a_pass(transitioner)) == 3
