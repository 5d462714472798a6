"""The validator sets validate states, chooses canonical results and grants credit."""

from __future__ import annotations

from decimal import Decimal

import pytest

from daemons import transitioner, validator
from scheduler.lifecycle import ValidateState
from scheduler.models import CreditEntry, HostAppVersion, Workunit
from tests import rows
from tests.database.passes import a_pass, moves, statements_of

pytestmark = pytest.mark.django_db

#: Credit for 3000 seconds at 1 GFLOPS.
PAY = Decimal("6.944444")


def asking(letters: str, /, *, app=None, words: str = "", **fields):
    """Create a workunit with a result for each letter, its output; a dot means no output."""
    workunit = rows.a_workunit(app, need_validate=True, transition_at=None, **fields)
    states = words.split() or ["success"] * len(letters)
    results = [
        rows.a_result(workunit, word, output=None if letter == "." else letter.encode())
        for letter, word in zip(letters, states, strict=True)
    ]
    return workunit, results


def refreshed(*found):
    for row in found:
        row.refresh_from_db()
    return [row.validate_state for row in found]


def test_two_matching_results_are_valid_and_the_first_is_canonical():
    workunit, (first, second) = asking("aa")
    tally = a_pass(validator)
    workunit.refresh_from_db()
    assert refreshed(first, second) == [1, 1]
    assert workunit.canonical_result_id == first.pk
    assert not workunit.need_validate
    assert rows.due_at(workunit) == rows.hours(0)
    assert moves(workunit) == ["workunit: OPEN→CANONICAL"]
    assert moves(second) == ["validation: INIT→VALID"]
    assert tally.done == {"with a canonical result": 1, "results valid": 2, "results paid": 2}


def test_a_result_that_differs_from_the_quorum_is_invalid_and_gets_no_credit():
    _workunit, results = asking("aba")
    a_pass(validator)
    assert refreshed(*results) == [1, 2, 1]
    assert [result.granted_credit for result in results] == [PAY, 0, PAY]
    assert not CreditEntry.objects.filter(result_id=results[1].pk).exists()


def test_a_third_result_is_created_if_two_results_disagree():
    workunit, results = asking("ab")
    a_pass(validator)
    workunit.refresh_from_db()
    assert not workunit.need_validate
    assert refreshed(*results) == [4, 4]
    a_pass(transitioner)
    workunit.refresh_from_db()
    assert workunit.canonical_result_id is None
    assert not workunit.need_validate
    assert workunit.results.count() == 3


def test_results_can_reach_all_six_validate_states():
    _, (first,) = asking("a")
    _, (one, _other) = asking("ab")
    _, (right, wrong, _same) = asking("aba")
    cancelled = rows.a_workunit(cancel_requested_at=rows.hours(-1))
    unchecked = rows.a_result(cancelled, "success", output=b"a")
    answered = rows.a_workunit()
    canonical = rows.a_result(answered, "valid", output=b"a")
    late = rows.a_result(answered, "success", output=b"a", credit_deadline=rows.hours(-2))
    rows.settled(answered, canonical)
    for daemon in (validator, transitioner):
        a_pass(daemon)
    reached = (first, right, wrong, unchecked, one, late)
    assert refreshed(*reached) == [
        ValidateState.INIT,
        ValidateState.VALID,
        ValidateState.INVALID,
        ValidateState.NO_CHECK,
        ValidateState.INCONCLUSIVE,
        ValidateState.TOO_LATE,
    ]
    assert [result.validate_state for result in reached] == sorted(ValidateState)


def test_a_third_result_decides_between_two_that_disagree():
    workunit, results = asking("abb", words="inconclusive inconclusive success")
    a_pass(validator)
    workunit.refresh_from_db()
    assert refreshed(*results) == [2, 1, 1]
    assert workunit.canonical_result_id == results[1].pk


def test_a_result_with_a_missing_output_is_a_validate_error_and_is_replaced():
    workunit, (good, bare) = asking("a.")
    a_pass(validator)
    assert refreshed(good, bare) == [0, 2]
    assert (bare.server_state, bare.outcome) == (5, 6)
    assert sorted(moves(bare)) == [
        "result: OVER/SUCCESS→OVER/VALIDATE_ERROR",
        "validation: INIT→INVALID",
    ]
    a_pass(transitioner)
    workunit.refresh_from_db()
    assert not workunit.need_validate
    assert workunit.results.count() == 3


def test_an_optional_output_may_be_missing_if_it_is_missing_in_all_results():
    outputs = [{"open_name": "out", "optional": True}]
    _workunit, results = asking("..", outputs=outputs)
    _other, others = asking("a.", outputs=outputs)
    a_pass(validator)
    assert refreshed(*results) == [1, 1]
    assert refreshed(*others) == [4, 4]


def test_an_output_with_no_validate_may_differ_between_valid_results():
    outputs = [{"open_name": "out", "no_validate": True}]
    _workunit, results = asking("ab", outputs=outputs)
    a_pass(validator)
    assert refreshed(*results) == [1, 1]


def test_a_late_success_is_compared_with_the_canonical_result():
    workunit, results = asking("aaba", words="valid valid success success")
    rows.settled(workunit, results[0], canonical_credit=Decimal("3.5"))
    a_pass(validator)
    assert refreshed(*results) == [1, 1, 2, 1]
    assert results[3].granted_credit == Decimal("3.5")
    workunit.refresh_from_db()
    assert workunit.canonical_result_id == results[0].pk
    assert not workunit.need_validate


def test_a_workunit_that_already_failed_is_not_validated():
    workunit, results = asking("aa")
    rows.settled(workunit)
    a_pass(validator)
    workunit.refresh_from_db()
    assert workunit.canonical_result_id is None
    assert not workunit.need_validate
    assert refreshed(*results) == [0, 0]


def test_host_and_account_totals_are_the_sums_of_credit_entries():
    account = rows.an_account()
    host, other = rows.a_host(account), rows.a_host(account)
    workunit = rows.a_workunit(need_validate=True)
    for computer in (host, other):
        rows.a_result(workunit, "success", host=computer, output=b"a")
    a_pass(validator)
    for row in (host, other, account):
        row.refresh_from_db()
    assert (host.total_credit, other.total_credit, account.total_credit) == (PAY, PAY, 2 * PAY)
    # The average is per day: two hours after the sending, it is twelve times the credit.
    assert host.expavg_credit == pytest.approx(12 * float(PAY))
    assert account.expavg_credit == pytest.approx(24 * float(PAY))
    assert host.turnaround_seconds == 3600


def test_paid_results_are_not_paid_again():
    workunit, (first, second) = asking("aa")
    CreditEntry.objects.create(
        result_id=first.pk,
        rule="validated",
        account=first.account,
        host=first.host,
        app=workunit.app,
        amount=PAY,
        granted_at=rows.hours(-1),
    )
    a_pass(validator)
    first.host.refresh_from_db()
    second.host.refresh_from_db()
    assert (first.host.total_credit, second.host.total_credit) == (0, PAY)


@pytest.mark.parametrize(
    ("rule", "paid"), [("fixed", Decimal("2.5")), ("runtime", PAY), ("none", Decimal(0))]
)
def test_credit_is_granted_by_the_credit_rule_of_the_app(rule, paid):
    app = rows.an_app(credit_rule=rule, credit_per_workunit=Decimal("2.5"))
    workunit, _results = asking("aa", app=app)
    a_pass(validator)
    workunit.refresh_from_db()
    assert workunit.canonical_credit == paid
    assert CreditEntry.objects.count() == (2 if paid else 0)


def test_valid_results_raise_and_invalid_results_reset_consecutive_valid():
    app = rows.an_app()
    version = rows.an_app_version(app)
    good, bad = rows.a_host(), rows.a_host()
    HostAppVersion.objects.create(host=bad, app_version=version, consecutive_valid=9, n_valid=9)
    workunit = rows.a_workunit(app, need_validate=True, rsc_fpops_est=3000.0)
    for host, letter in ((good, b"a"), (bad, b"b"), (rows.a_host(), b"a")):
        rows.a_result(workunit, "success", host=host, app_version=version, output=letter)
    a_pass(validator)
    earned = HostAppVersion.objects.get(host=good)
    lost = HostAppVersion.objects.get(host=bad)
    assert (earned.consecutive_valid, earned.n_valid, earned.et_avg, earned.et_n) == (1, 1, 1, 1)
    assert (lost.consecutive_valid, lost.n_valid) == (0, 9)


def test_unknown_validator_is_logged_once_and_its_work_waits(caplog):
    workunit, _ = asking("aa", app=rows.an_app("odd", validator="bitwize"))
    other, _ = asking("aa")
    a_pass(validator)
    a_pass(validator)
    workunit.refresh_from_db()
    other.refresh_from_db()
    records = [record for record in caplog.records if record.message == "unknown_validator"]
    assert [(r.app, r.validator) for r in records] == [("odd", "bitwize")]
    assert workunit.need_validate
    assert other.canonical_result_id is not None


def test_the_lease_of_another_daemon_is_not_changed():
    workunit, results = asking("aa", words="valid success")
    lease = rows.hours(1)
    rows.settled(workunit, results[0], assimilate_state=1, lease_until=lease, lease_token=7)
    a_pass(validator)
    workunit.refresh_from_db()
    assert refreshed(*results) == [1, 1]
    assert (workunit.lease_until, workunit.lease_token) == (lease, 7)


def test_different_results_of_a_broadcast_workunit_can_all_be_valid():
    app = rows.an_app(validator="trivial")
    workunit, results = asking("abc", app=app, broadcast=True, min_quorum=1, target_nresults=1)
    a_pass(validator)
    workunit.refresh_from_db()
    assert refreshed(*results) == [1, 1, 1]
    assert workunit.canonical_result_id == results[0].pk


def test_a_pass_validates_no_more_workunits_than_its_limit():
    app = rows.an_app()
    for _ in range(3):
        asking("aa", app=app)
    assert a_pass(validator, limit=2).more
    assert Workunit.objects.filter(canonical_result__isnull=False).count() == 2


@pytest.mark.parametrize("count", [1, 150])
def test_validator_pass_uses_16_statements_for_any_number_of_rows(count):
    app = rows.an_app()
    version = rows.an_app_version(app)
    hosts = [rows.a_host() for _ in range(2)]
    for _ in range(count):
        workunit = rows.a_workunit(app, need_validate=True)
        for host in hosts:
            rows.a_result(workunit, "success", host=host, app_version=version, output=b"a")
    assert statements_of(lambda: a_pass(validator)) == 16
    assert Workunit.objects.filter(canonical_result__isnull=False).count() == count
