"""Results of checks are stored; requested checks advance a statement per pass."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.db import OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext

from daemons import housekeeper
from scheduler import storage
from scheduler.health import invariants
from scheduler.health.checks import check_runs, statement_limit
from scheduler.health.checks.check_runs import Kind, Outcome, RunRefused
from scheduler.health.invariants import statement_names
from scheduler.health.rules.check_findings import Finding
from scheduler.models import AuditEntry, CheckRun, Host
from scheduler.people import audit
from tests import rows
from tests.conftest import NOON
from tests.database.daemons.test_interleavings import PATIENCE, Meanwhile, stopped_in
from tests.database.passes import a_pass

pytestmark = pytest.mark.django_db

STEPS = "steps of checks done"
HOST_SUM = "host_credit_is_its_sum"


@pytest.fixture(autouse=True)
def only_checks(monkeypatch):
    """Let the housekeeper do only its chore of checks, to count its statements."""
    chores = [chore for chore in housekeeper.CHORES if chore.did == STEPS]
    assert len(chores) == 1
    monkeypatch.setattr(housekeeper, "CHORES", tuple(chores))


def run_command(*words):
    """Run a command; return its output, what it prints on standard error, and its exit status."""
    out, err = StringIO(), StringIO()
    try:
        call_command(*words, stdout=out, stderr=err)
    except SystemExit as ended:
        return out.getvalue(), err.getvalue(), ended.code
    return out.getvalue(), err.getvalue(), 0


def requested(kind=Kind.FSCK):
    return check_runs.request(kind, account=rows.an_account(), now=NOON)


def fresh(run):
    run.refresh_from_db()
    return run


def advance(times=1, now=NOON):
    """Run passes of the housekeeper; return the number of steps that they carried out."""
    return sum(a_pass(housekeeper, now=now).counts.get(STEPS, 0) for _ in range(times))


def carried_out(kind=Kind.FSCK):
    """Request a run and carry it out; return it."""
    run = requested(kind)
    while advance():
        pass
    return fresh(run)


# Commands


def test_fsck_stores_its_findings_and_prints_and_exits_as_before():
    host = rows.a_host(total_credit=5)
    out, err, status = run_command("fsck")
    assert (out.splitlines()[-1], err, status) == ("fsck: 1 violation", "", 1)
    run = CheckRun.objects.get()
    assert (run.kind, run.requested_at, run.requested_by) == ("fsck", None, None)
    assert run.options == {"digests": False}
    assert run.started_at <= run.ended_at
    every = [invariant.name for invariant in invariants.invariants()]
    assert run.checked_names == every
    assert (run.to_check, run.checked, run.skipped) == (len(every), len(every), 0)
    assert (run.violations, run.unresolved) == (1, 1)
    assert run.findings == [
        {
            "name": HOST_SUM,
            "sentence": "Every host's total credit is the sum of its credit entries.",
            "hint": "",
            "count": 1,
            "rows": [[f"host {host.pk}", "total 5.000000, entries 0"]],
        }
    ]


def test_at_most_twenty_rows_of_an_invariant_are_stored_and_all_are_printed_as_json():
    for _ in range(23):
        rows.a_host(total_credit=5)
    out, _, _ = run_command("fsck", "--json")
    [finding] = CheckRun.objects.get().findings
    assert (finding["count"], len(finding["rows"])) == (23, 20)
    assert json.loads(out)["violations"] == 23


def test_digests_are_invariants_and_options_of_the_stored_run():
    run_command("fsck", "--digests")
    run = CheckRun.objects.get()
    assert run.options == {"digests": True}
    assert {"files_are_as_hashed", "answers_are_kept"} <= set(run.checked_names)


def test_the_list_of_invariants_stores_nothing():
    run_command("fsck", "--list")
    assert not CheckRun.objects.exists()


def test_a_result_that_cannot_be_stored_is_reported_and_the_exit_status_stays():
    """A database of an earlier release has no such table."""
    rows.a_host(total_credit=5)
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE check_run RENAME TO of_a_later_release")
    out, err, status = run_command("fsck")
    assert (out.splitlines()[-1], status) == ("fsck: 1 violation", 1)
    assert err == 'The result was not stored: relation "check_run" does not exist\n'
    out, err, status = run_command("recompute_credit", "--verify")
    assert (out.splitlines()[-1], status) == ("1 sum of credit differs from the entries.", 1)
    assert err.startswith("The result was not stored: ")
    assert len(err.splitlines()) == 1


def test_a_read_only_database_does_not_change_the_output():
    with connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION READ ONLY")
    out, err, status = run_command("fsck")
    assert (out, status) == ("fsck: 0 violations\n", 0)
    assert err == "The result was not stored: cannot execute INSERT in a read-only transaction\n"


def test_recompute_credit_stores_what_it_compared():
    host = rows.a_host(total_credit=5)
    assert run_command("recompute_credit", "--verify")[2] == 1
    run = CheckRun.objects.get()
    assert (run.kind, run.requested_at) == ("credit", None)
    assert run.options == {"applied": False, "averages": False}
    by_app = ["hosts by app", "teams by app"]
    assert run.checked_names == ["hosts", "accounts", "accounts by app", "teams", *by_app, "apps"]
    # The host and its account count twice each, because their sums by app count, too.
    assert (run.to_check, run.checked) == (4, 4)
    assert (run.violations, run.unresolved) == (1, 1)
    [finding] = run.findings
    assert finding["name"] == "hosts"
    assert finding["rows"] == [[f"host {host.pk}", "total 5.000000, entries 0"]]


def test_corrected_sums_are_not_open_after_the_run():
    rows.a_host(total_credit=5)
    run_command("recompute_credit")
    run_command("recompute_credit", "--apply", "--averages")
    before, after = CheckRun.objects.order_by("pk")
    assert (before.violations, before.unresolved) == (1, 1)
    assert after.options == {"applied": True, "averages": True}
    assert (after.violations, after.unresolved) == (1, 0)


def test_a_correction_of_one_app_does_not_settle_the_differences_of_all_sums():
    app = rows.an_app("mill", total_credit=3)
    rows.a_host(total_credit=5)
    run_command("recompute_credit")
    run_command("recompute_credit", "--apply", "--app", app.name)
    run = CheckRun.objects.order_by("-pk")[0]
    assert (run.options["app"], run.checked_names) == ("mill", [])
    # The wrong sum of the app is counted until a run compares everything again.
    assert (run.violations, run.unresolved) == (1, 2)
    run_command("recompute_credit")
    assert CheckRun.objects.order_by("-pk")[0].unresolved == 1


# Requests


def test_a_request_is_recorded_with_the_person_and_refused_while_one_is_open():
    account = rows.an_account()
    with audit.acting(account_id=account.pk, name=account.email):
        run = check_runs.request(Kind.FSCK, account=account, now=NOON)
    assert (run.requested_by, run.requested_at, run.started_at) == (account, NOON, None)
    entry = AuditEntry.objects.get(event="action_taken")
    assert (entry.account_id, entry.subject) == (account.pk, f"check run {run.pk}")
    assert entry.details == {"action": "request", "check": "fsck"}
    with pytest.raises(RunRefused, match=r"was requested already, and has not ended\. Hint"):
        requested()
    advance()
    with pytest.raises(RunRefused):
        requested()
    requested(Kind.CREDIT)
    assert CheckRun.objects.count() == 2
    assert AuditEntry.objects.filter(event="action_taken").count() == 2


def test_a_request_wakes_the_housekeeper(monkeypatch, django_capture_on_commit_callbacks):
    rung = []
    monkeypatch.setattr("scheduler.wakeups.ring", rung.append)
    with django_capture_on_commit_callbacks(execute=True):
        requested()
    assert ("housekeeper",) in rung


# The housekeeper


def test_each_pass_checks_one_invariant_until_all_are_checked():
    host = rows.a_host(total_credit=5)
    run = requested()
    names = list(statement_names())
    for number, name in enumerate(names, start=1):
        tally = a_pass(housekeeper)
        assert (tally.done, tally.more) == ({STEPS: 1}, True)
        assert fresh(run).checked == number
        assert run.checked_names[-1] == name
        assert run.remaining == names[number:]
    assert (run.started_at, run.ended_at, run.to_check) == (NOON, None, len(names))
    # The end is a step of its own.
    assert advance(now=NOON + timedelta(minutes=1)) == 1
    assert fresh(run).ended_at >= NOON + timedelta(minutes=1)
    assert (run.violations, run.unresolved, run.skipped) == (1, 1, 0)
    [finding] = run.findings
    assert (finding["name"], finding["rows"][0][0]) == (HOST_SUM, f"host {host.pk}")
    tally = a_pass(housekeeper)
    assert (tally.changed, tally.more) == (False, False)


def test_a_pass_without_a_requested_run_costs_two_statements():
    run_command("fsck")
    with CaptureQueriesContext(connection) as queries:
        assert not a_pass(housekeeper).changed
    assert len(queries) == 2


def test_every_statement_works_in_the_form_that_limits_its_rows():
    for name in statement_names():
        assert invariants.first_violations(name, 5) == (0, []), name


def test_only_the_first_violations_are_read_but_all_are_counted():
    for _ in range(7):
        rows.a_host(total_credit=5)
    count, first = invariants.first_violations(HOST_SUM, 3)
    assert (count, len(first)) == (7, 3)


@pytest.fixture
def slow(monkeypatch):
    """Make one invariant take longer than the limit, and the database refuse another."""
    monkeypatch.setattr(statement_limit, "TIME_LIMIT", timedelta(milliseconds=500))
    real = invariants.sql.load
    texts = {
        "moves_are_legal": "SELECT 'x' AS name, pg_sleep(20)::text AS detail",
        "followers_wait": "SELECT 'x' AS name, (1 / 0)::text AS detail",
    }

    def load(name, package="scheduler"):
        return f"-- It is slow.\n{texts[name]}" if name in texts else real(name, package)

    monkeypatch.setattr(invariants.sql, "load", load)


def test_an_invariant_that_takes_too_long_or_fails_is_left_out_with_the_reason(slow):
    rows.a_host(total_credit=5)
    run = carried_out()
    assert run.not_checked == [
        {
            "name": "followers_wait",
            "sentence": "It is slow.",
            "reason": "The database refused the statement: division by zero",
            "count": 1,
        },
        {
            "name": "moves_are_legal",
            "sentence": "It is slow.",
            "reason": "It was cancelled: a statement of a requested check may take at most 0.5 "
            "seconds.",
            "count": 1,
        },
    ]
    assert run.skipped == 2
    assert run.checked == len(statement_names()) - 2
    assert not {"followers_wait", "moves_are_legal"} & set(run.checked_names)
    # The run continued after both.
    assert run.violations == 1


def test_an_invariant_of_another_release_is_left_out():
    run = requested()
    advance()
    CheckRun.objects.filter(pk=run.pk).update(remaining=["invariant_of_old"])
    assert advance() == 1
    [part] = fresh(run).not_checked
    assert part["name"] == "invariant_of_old"
    assert part["reason"] == "It is not checked with the present release and settings."


def test_a_part_that_raises_an_exception_is_left_out_and_the_run_ends(monkeypatch, caplog):
    def defective(name, limit, real=invariants.first_violations):
        if name == HOST_SUM:
            raise ValueError("no such\0 sum")
        return real(name, limit)

    monkeypatch.setattr(invariants, "first_violations", defective)
    run = carried_out()
    assert [(part["name"], part["reason"]) for part in run.not_checked] == [
        (HOST_SUM, "ValueError: no such sum")
    ]
    assert (run.skipped, run.checked) == (1, len(statement_names()) - 1)
    assert [record.part for record in caplog.records if record.message == "check_step_failed"] == [
        HOST_SUM
    ]


def test_a_killed_housekeeper_repeats_at_most_one_statement(monkeypatch):
    rows.a_host(total_credit=5)
    run = requested()
    advance(17)
    before = fresh(run).checked_names
    assert len(before) == 17

    def killed(*_arguments, **_options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(check_runs.CheckRun, "save", killed)
        with pytest.raises(KeyboardInterrupt), transaction.atomic():
            a_pass(housekeeper)
    assert fresh(run).checked_names == before
    while advance():
        pass
    assert fresh(run).checked_names == list(statement_names())
    assert run.violations == 1


def test_runs_are_carried_out_in_the_order_of_their_requests():
    late = check_runs.request(
        Kind.CREDIT, account=rows.an_account(), now=NOON + timedelta(seconds=1)
    )
    early = requested()
    advance(3)
    assert (fresh(early).checked, fresh(late).started_at) == (3, None)
    advance(len(statement_names()) - 2)
    assert fresh(early).ended_at is not None
    assert fresh(late).started_at is None
    advance()
    assert fresh(late).started_at == NOON


@pytest.mark.django_db(transaction=True)
def test_a_second_housekeeper_does_not_carry_out_the_same_step(monkeypatch):
    run = requested()
    with stopped_in(monkeypatch, invariants, "first_violations") as (arrived, go):
        first = Meanwhile(lambda: a_pass(housekeeper))
        assert arrived.wait(PATIENCE)
        assert not a_pass(housekeeper).changed
        assert fresh(run).checked == 0
        go.set()
        assert first.wait().done == {STEPS: 1}
    assert fresh(run).checked == 1
    assert advance() == 1
    assert fresh(run).checked_names == list(statement_names()[:2])


@pytest.mark.django_db(transaction=True)
def test_a_step_of_another_housekeeper_between_snapshot_and_lock_is_not_repeated():
    run = requested()
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            cursor.execute("SELECT count(*) FROM check_run")
        Meanwhile(advance).wait()
        assert check_runs.advance(housekeeper.CHECKERS, now=NOON) == 0
    assert fresh(run).checked == 1


@pytest.mark.django_db(transaction=True)
def test_a_lost_connection_is_not_taken_for_a_refused_statement(monkeypatch):
    run = requested()

    def lose_connection(_name, _limit):
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    monkeypatch.setattr(invariants, "first_violations", lose_connection)
    with pytest.raises(OperationalError):
        check_runs.advance(housekeeper.CHECKERS, now=NOON)
    connection.close()
    assert (fresh(run).skipped, run.started_at) == (0, None)


# Findings of earlier runs


def test_a_run_without_files_carries_over_what_fsck_found_in_files():
    rows.a_host(total_credit=5)
    file = rows.an_input(rows.a_workunit(), b"12345")
    storage.download_path(file.name).unlink()
    run_command("fsck")
    [full] = CheckRun.objects.all()
    assert {finding["name"] for finding in full.findings} >= {"inputs_exist", HOST_SUM}
    rows.update(Host.objects.get(), total_credit=0)
    run = carried_out()
    assert [finding["name"] for finding in run.carried] == [
        finding["name"] for finding in full.findings if finding["name"] not in statement_names()
    ]
    assert "inputs_exist" in {finding["name"] for finding in run.carried}
    assert run.violations + sum(f["count"] for f in run.carried) == run.unresolved
    again = carried_out()
    assert (again.carried, again.unresolved) == (run.carried, run.unresolved)


def test_a_skipped_invariant_keeps_its_earlier_finding(monkeypatch):
    rows.a_host(total_credit=5)
    assert carried_out().unresolved == 1
    rows.update(Host.objects.get(), total_credit=0)

    def refuse(name, _limit):
        raise statement_limit.NotChecked("too slow")

    with monkeypatch.context() as patch:
        patch.setattr(invariants, "first_violations", refuse)
        run = carried_out()
    assert (run.violations, run.unresolved, run.skipped) == (0, 1, len(statement_names()))
    assert carried_out().unresolved == 0


# Retention


def test_only_the_newest_ended_runs_of_each_check_are_kept(monkeypatch):
    monkeypatch.setattr(check_runs, "MAX_RUNS", 3)
    for number in range(5):
        for kind in Kind:
            at = NOON + timedelta(hours=number)
            check_runs.store(kind, Outcome(number, [], []), options={}, started_at=at, ended_at=at)
    run = requested()
    assert housekeeper.drop_check_runs(NOON, 1000) == 4
    kept = CheckRun.objects.filter(ended_at__isnull=False)
    for kind in Kind:
        assert sorted(kept.filter(kind=kind).values_list("checked", flat=True)) == [2, 3, 4]
    assert CheckRun.objects.filter(pk=run.pk).exists()
    assert housekeeper.drop_check_runs(NOON, 1000) == 0


def test_newest_runs_begin_with_the_open_ones_and_do_not_read_findings():
    finding = Finding.of("x", "No x.", [("a", "b")], count=1)
    for number in range(3):
        at = NOON + timedelta(hours=number)
        outcome = Outcome(number, [], [finding])
        check_runs.store(Kind.FSCK, outcome, options={}, started_at=at, ended_at=at)
    run = requested()
    runs = check_runs.newest(2)
    assert [each.checked for each in runs[1:]] == [2, 1]
    assert runs[0] == run
    assert all("findings" in each.get_deferred_fields() for each in runs)
