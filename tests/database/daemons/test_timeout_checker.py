"""The timeout checker ends overdue results and makes their workunits due."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from daemons import timeout_checker, transitioner
from daemons.tally import WHOLE
from daemons.timeout_checker import RECOUNT_WINDOW
from scheduler.lifecycle import Because, Target
from scheduler.models import (
    Account,
    App,
    Heartbeat,
    HostAppVersion,
    HostToken,
    LedgerEntry,
    Outage,
    Queue,
    QueueSlot,
    Refusal,
    Result,
    Team,
    UsageSample,
)
from scheduler.queues import named_queues
from scheduler.queues.facts import FOREVER
from scheduler.work.explain import explanation_of
from tests import rows
from tests.conftest import NOON
from tests.database.passes import a_pass, moves, statements_of

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def a_new_process(monkeypatch):
    """Reset the state that a process keeps between passes."""
    monkeypatch.setattr(timeout_checker, "_counted_at", {})
    monkeypatch.setattr(timeout_checker, "_logged_for", None)


def an_overdue(workunit=None, **fields):
    workunit = workunit or rows.a_workunit(transition_at=None)
    return rows.a_result(workunit, "sent", report_deadline=rows.hours(-1), **fields)


def test_a_result_past_its_deadline_times_out_and_is_replaced():
    result = an_overdue()
    tally = a_pass(timeout_checker)
    result.refresh_from_db()
    assert (result.server_state, result.outcome) == (5, 4)
    assert tally.sentence() == "1 result: 1 timed out"
    assert moves(result) == ["result: IN_PROGRESS→OVER/NO_REPLY"]
    result.workunit.refresh_from_db()
    assert rows.due_at(result.workunit) == rows.hours(0)
    a_pass(transitioner)
    assert result.workunit.results.count() == 3


def test_a_result_times_out_exactly_at_its_report_deadline():
    result = rows.a_result(rows.a_workunit(transition_at=None), "sent")
    deadline = result.report_deadline
    for now in (NOON, deadline - timedelta(seconds=1)):
        assert a_pass(timeout_checker, now=now).sentence() == "nothing to do"
    result.refresh_from_db()
    assert result.server_state == 4
    assert a_pass(timeout_checker, now=deadline).sentence() == "1 result: 1 timed out"
    result.refresh_from_db()
    assert (result.server_state, result.outcome) == (5, 4)


def test_a_result_times_out_only_after_the_grace_period_of_the_app():
    app = rows.an_app(grace=timedelta(hours=2))
    result = an_overdue(rows.a_workunit(app))
    assert a_pass(timeout_checker).seen == 0
    assert a_pass(timeout_checker, now=rows.hours(1)).seen == 1
    result.refresh_from_db()
    assert result.outcome == 4


def test_a_timeout_resets_the_consecutive_valid_count_of_the_host():
    workunit = rows.a_workunit()
    version = rows.an_app_version(workunit.app)
    result = an_overdue(workunit, app_version=version)
    trusted = HostAppVersion.objects.create(
        host=result.host, app_version=version, consecutive_valid=12, max_results_per_day=1
    )
    a_pass(timeout_checker)
    trusted.refresh_from_db()
    assert (trusted.consecutive_valid, trusted.max_results_per_day) == (0, 1)


def test_a_workunit_past_its_end_time_expires():
    workunit = rows.a_workunit(end_before=rows.hours(-1), transition_at=None)
    rows.a_result(workunit, "sent")
    a_pass(timeout_checker)
    a_pass(transitioner)
    workunit.refresh_from_db()
    assert workunit.error_mask == 64
    assert a_pass(timeout_checker).seen == 0


def test_workunit_reported_in_time_is_not_woken_at_its_end_while_the_validator_works():
    workunit = rows.a_workunit(end_before=rows.hours(-0.5), min_quorum=1, target_nresults=1)
    rows.a_result(workunit, "success", output=b"a")
    a_pass(transitioner)
    assert a_pass(timeout_checker).seen == 0
    workunit.refresh_from_db()
    assert (workunit.need_validate, workunit.error_mask) == (True, 0)
    rows.update(workunit, need_validate=False)
    assert a_pass(timeout_checker).seen == 1


def test_workunit_reported_too_late_expires_without_validation():
    workunit = rows.a_workunit(end_before=rows.hours(-1), min_quorum=1, target_nresults=1)
    rows.a_result(workunit, "success", output=b"a", received_at=rows.hours(-1))
    a_pass(transitioner)
    workunit.refresh_from_db()
    assert (workunit.need_validate, workunit.error_mask) == (False, 64)


def test_the_daily_quota_is_updated_once_for_each_timed_out_result(settings):
    workunit = rows.a_workunit(rows.an_app(daily_quota=40))
    version = rows.an_app_version(workunit.app)
    host = rows.a_host()
    known = HostAppVersion.objects.create(host=host, app_version=version, max_results_per_day=0)
    for _ in range(2):
        an_overdue(rows.a_workunit(workunit.app), host=host, app_version=version)
    a_pass(timeout_checker)
    known.refresh_from_db()
    assert known.max_results_per_day == 10


# Assignments that were never acknowledged


def an_unacknowledged(app=None, **fields):
    app = app or rows.an_app(ack_timeout=timedelta(minutes=5))
    return rows.a_result(
        rows.a_workunit(app, transition_at=None), "sent", **{"sent_at": rows.hours(-1)} | fields
    )


def test_a_result_that_was_never_acknowledged_times_out():
    result = an_unacknowledged()
    assert a_pass(timeout_checker).sentence() == "1 result: 1 never acknowledged"
    result.refresh_from_db()
    assert (result.server_state, result.outcome) == (5, 4)
    entry = LedgerEntry.objects.get(result_id=result.pk)
    assert Because(entry.because) is Because.NEVER_ACKNOWLEDGED
    result.workunit.refresh_from_db()
    assert rows.due_at(result.workunit) == rows.hours(0)


def test_acknowledged_recent_or_exempt_assignments_are_kept():
    an_unacknowledged(acknowledged_at=rows.hours(-0.9))
    an_unacknowledged(sent_at=rows.hours(-0.05))
    an_unacknowledged(rows.an_app())
    assert a_pass(timeout_checker).sentence() == "nothing to do"


def test_the_acknowledgement_timeout_restarts_after_an_outage():
    Outage.objects.create(
        began_at=rows.hours(-2), ended_at=rows.hours(-0.05), applied_at=rows.hours(0)
    )
    an_unacknowledged()
    assert a_pass(timeout_checker).seen == 0
    assert a_pass(timeout_checker, now=rows.hours(0.05)).seen == 1


# Hosts of the pool


def a_claim(*, trusted=True, app=None, queue=None, **fields):
    """Create a result in progress of a queue, which its host has not acknowledged for an hour."""
    queue = queue or Queue.objects.create(name="lab", created_at=NOON, trusted=trusted)
    workunit = rows.a_workunit(app, transition_at=None, queue=queue)
    target = {"target_kind": Target.QUEUE, "target_id": queue.pk}
    return rows.a_result(workunit, "sent", **target | {"sent_at": rows.hours(-1)} | fields)


def enroll(host, **fields):
    digest = f"{HostToken.objects.count():064}"
    HostToken.objects.create(
        host=host, token_hash=digest, **{"created_at": rows.hours(-2)} | fields
    )


def test_a_claim_of_a_host_of_the_pool_times_out_after_300_seconds():
    claimed = a_claim(sent_at=NOON)
    enroll(claimed.host)
    for seconds, late in ((299, 0), (300, 1)):
        tally = a_pass(timeout_checker, now=NOON + timedelta(seconds=seconds))
        assert tally.counts["never acknowledged"] == late
    claimed.refresh_from_db()
    assert (claimed.server_state, claimed.outcome) == (5, 4)
    entry = LedgerEntry.objects.get(result_id=claimed.pk)
    assert Because(entry.because) is Because.NEVER_ACKNOWLEDGED
    claimed.workunit.refresh_from_db()
    assert rows.due_at(claimed.workunit) == NOON + timedelta(seconds=300)


def test_a_claim_with_an_infinite_deadline_frees_its_slot_when_the_host_is_lost():
    queue = named_queues.create(name="lab", now=NOON, trusted=True, max_in_progress=1)
    claimed = a_claim(queue=queue, report_deadline=NOON + FOREVER)
    QueueSlot.objects.update(result=claimed)
    enroll(claimed.host)
    enroll(claimed.host)
    assert a_pass(timeout_checker).sentence() == "1 result: 1 never acknowledged"
    assert QueueSlot.objects.get().result_id is None


def test_a_claim_that_the_host_has_acknowledged_is_kept():
    claimed = a_claim(acknowledged_at=rows.hours(-0.9))
    enroll(claimed.host)
    assert a_pass(timeout_checker).sentence() == "nothing to do"


def test_a_claim_whose_usage_the_host_reports_is_kept():
    claimed = a_claim()
    enroll(claimed.host)
    UsageSample.objects.create(result_id=claimed.pk, at=rows.hours(-0.9), fraction_done=0.1)
    assert a_pass(timeout_checker).sentence() == "nothing to do"


@pytest.mark.parametrize(
    "token",
    [None, {"revoked_at": rows.hours(-0.1)}, {"expire_at": rows.hours(-0.1)}],
    ids=["none", "revoked", "expired"],
)
def test_hosts_outside_of_the_pool_keep_what_they_have_not_acknowledged(token):
    claimed = a_claim()
    enroll(rows.a_host())
    if token is not None:
        enroll(claimed.host, **token)
    assert a_pass(timeout_checker).sentence() == "nothing to do"


def test_a_host_of_the_pool_keeps_unacknowledged_results_of_other_work():
    plain = rows.a_result(rows.a_workunit(transition_at=None), "sent", sent_at=rows.hours(-1))
    enroll(plain.host)
    a_claim(trusted=False, host=plain.host)
    assert a_pass(timeout_checker).sentence() == "nothing to do"


def test_a_result_sent_before_its_host_was_enrolled_has_the_time_from_the_enrollment():
    claimed = a_claim()
    enroll(claimed.host, created_at=NOON)
    enroll(claimed.host, created_at=rows.hours(0.01))
    for seconds, late in ((299, 0), (300, 1)):
        assert a_pass(timeout_checker, now=NOON + timedelta(seconds=seconds)).seen == late


@pytest.mark.parametrize(("minutes", "late"), [(61, 0), (59, 1)])
def test_the_ack_timeout_of_an_app_replaces_that_of_the_pool(minutes, late):
    claimed = a_claim(app=rows.an_app(ack_timeout=timedelta(minutes=minutes)))
    enroll(claimed.host)
    assert a_pass(timeout_checker).seen == late


def test_the_timeout_of_the_pool_restarts_after_an_outage():
    Outage.objects.create(
        began_at=rows.hours(-2), ended_at=rows.hours(-0.05), applied_at=rows.hours(0)
    )
    enroll(a_claim().host)
    assert a_pass(timeout_checker).seen == 0
    assert a_pass(timeout_checker, now=rows.hours(0.05)).seen == 1


def test_results_of_the_pool_are_read_by_host_among_many_results_in_progress():
    claimed = a_claim()
    enroll(claimed.host)
    others = [rows.a_host() for _ in range(20)]
    app = rows.an_app()
    for number in range(400):
        workunit = rows.a_workunit(app, transition_at=None)
        rows.a_result(workunit, "sent", host=others[number % 20], acknowledged_at=NOON)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE result, host_token, queue, app, usage_sample")
    with CaptureQueriesContext(connection) as captured:
        a_pass(timeout_checker)
    [text] = [query["sql"] for query in captured.captured_queries if "timed_out AS" in query["sql"]]
    with connection.cursor() as cursor:
        cursor.execute("EXPLAIN (FORMAT JSON) " + text.replace("%", "%%"), ())
        (plan,) = cursor.fetchone()
    [node] = [node for node in nodes(plan[0]["Plan"]) if node.get("Alias") == "held"]
    indexes = {each["Index Name"] for each in nodes(node) if "Index Name" in each}
    assert indexes == {"results_held_by_host"}, node


def nodes(plan):
    """Return a node of a plan and all nodes below it."""
    return [plan, *(each for child in plan.get("Plans", ()) for each in nodes(child))]


# Outages


def test_no_result_times_out_while_the_web_heartbeat_is_missing(caplog):
    an_overdue()
    Heartbeat.objects.create(name="web", seen_at=rows.hours(-1))
    for _ in range(2):
        assert a_pass(timeout_checker).sentence() == "nothing to do"
    assert caplog.messages.count("timeouts_suspended") == 1
    Heartbeat.objects.update(seen_at=rows.hours(0))
    assert a_pass(timeout_checker).sentence() == "1 result: 1 timed out"


def test_deadlines_are_extended_by_an_outage_before_results_time_out():
    result = an_overdue(sent_at=rows.hours(-30))
    Outage.objects.create(began_at=rows.hours(-20), ended_at=rows.hours(-10))
    tally = a_pass(timeout_checker)
    assert (tally.counts, tally.more) == ({"deadlines moved": 1}, True)
    result.refresh_from_db()
    assert (result.server_state, result.report_deadline) == (4, rows.hours(9))
    for now in (rows.hours(0), rows.hours(1)):
        a_pass(timeout_checker, now=now)
    result.refresh_from_db()
    assert result.server_state == 4
    a_pass(timeout_checker, now=rows.hours(9))
    result.refresh_from_db()
    assert (result.server_state, result.outcome) == (5, 4)


# Unsendable workunits


def refuse(workunit, *hosts, at=None, first_at=None, **fields):
    """Record refusals of a workunit to hosts, the first of them a day before by default."""
    at = at or rows.hours(0)
    for host in hosts:
        rows.refuse(workunit, host, at, first_at=first_at or at - timedelta(days=1), **fields)


def an_unsent(app=None, **fields):
    workunit = rows.a_workunit(app, transition_at=None, **fields)
    rows.a_result(workunit)
    return workunit


def states(*workunits):
    for workunit in workunits:
        workunit.refresh_from_db()
    return [(w.unsendable_at is not None, rows.due_at(w) is not None) for w in workunits]


def test_a_result_refused_to_every_host_is_marked_unsendable():
    hosts = [rows.a_host() for _ in range(3)]
    refused, other = an_unsent(), an_unsent()
    refuse(refused, *hosts)
    refuse(other, hosts[0])
    assert a_pass(timeout_checker).counts["workunits unsendable"] == 1
    assert states(refused, other) == [(True, True), (False, False)]
    a_pass(transitioner)
    refused.refresh_from_db()
    assert refused.error_mask == 1


@pytest.mark.parametrize(
    ("hours", "at_once", "is_given_up"),
    [(0, False, False), (23.9, False, False), (24, False, True), (0, True, True)],
)
def test_a_refusal_counts_once_it_is_repeated_after_a_day(hours, at_once, is_given_up):
    host = rows.a_host()
    workunit = an_unsent(target_host=host)
    refuse(workunit, host, first_at=rows.hours(-hours), counts_at_once=at_once)
    a_pass(timeout_checker)
    assert states(workunit) == [(is_given_up, is_given_up)]


def test_refusal_counts_after_setting_is_applied(settings):
    settings.PROJECT = replace(settings.PROJECT, refusal_counts_after=timedelta(0))
    workunit = an_unsent()
    refuse(workunit, rows.a_host(), first_at=rows.hours(0))
    a_pass(timeout_checker)
    assert states(workunit) == [(True, True)]


def test_unconfirmed_refusals_count_once_they_reach_the_max_infeasible_limit():
    hosts = [rows.a_host() for _ in range(5)]
    workunit, other = (an_unsent(rows.an_app(max_infeasible=most)) for most in (3, 4))
    for one in (workunit, other):
        refuse(one, *hosts[:3], first_at=rows.hours(0))
    a_pass(timeout_checker)
    assert states(workunit, other) == [(True, True), (False, False)]


def test_a_result_refused_to_max_infeasible_hosts_is_marked_unsendable():
    hosts = [rows.a_host() for _ in range(5)]
    workunit = an_unsent(rows.an_app(max_infeasible=2))
    refuse(workunit, hosts[0])
    a_pass(timeout_checker)
    assert states(workunit) == [(False, False)]
    refuse(workunit, hosts[1])
    a_pass(timeout_checker)
    assert states(workunit) == [(True, True)]


@pytest.mark.parametrize(
    "away",
    [{"rpc_at": rows.hours(-31 * 24)}, {"denied": True}, {"merged": True}],
    ids=["not seen for a month", "denied", "merged"],
)
def test_inactive_hosts_count_neither_as_refused_nor_as_seen(away):
    here, gone = rows.a_host(), rows.a_host()
    if away.pop("merged", False):
        away = {"merged_into": here}
    rows.update(gone, **away)
    workunit, other = an_unsent(), an_unsent()
    refuse(workunit, here)
    refuse(other, gone)
    a_pass(timeout_checker)
    assert states(workunit, other) == [(True, True), (False, False)]


def test_refusals_older_than_the_newest_app_version_do_not_count():
    host, app = rows.a_host(), rows.an_app()
    workunit = an_unsent(app)
    refuse(workunit, host, at=NOON - timedelta(seconds=20))
    rows.an_app_version(app, created_at=NOON - timedelta(seconds=10))
    a_pass(timeout_checker)
    assert states(workunit) == [(False, False)]
    App.objects.get(pk=app.pk).versions.update(created_at=rows.hours(-20))
    a_pass(timeout_checker)
    assert states(workunit) == [(False, False)]
    App.objects.get(pk=app.pk).versions.update(created_at=rows.hours(-25))
    a_pass(timeout_checker)
    assert states(workunit) == [(True, True)]


@pytest.mark.parametrize("most", [1, 2], ids=["as many hosts as it bears", "counted at once"])
def test_refusals_older_than_the_newest_app_version_never_count_under_any_rule(most):
    app = rows.an_app(max_infeasible=most)
    workunit = an_unsent(app)
    refuse(workunit, rows.a_host(), at=NOON - timedelta(seconds=20), counts_at_once=most == 2)
    version = rows.an_app_version(app, created_at=NOON - timedelta(seconds=10))
    a_pass(timeout_checker)
    assert states(workunit) == [(False, False)]
    rows.update(version, created_at=NOON - timedelta(seconds=30))
    a_pass(timeout_checker)
    assert states(workunit) == [(True, True)]


@pytest.mark.parametrize("kind", ["host", "account", "team"])
def test_refusals_by_hosts_that_are_not_the_target_do_not_count(kind):
    mine, other = rows.a_host(), rows.a_host()
    team = Team.objects.create(name="primes", founder=mine.account, created_at=NOON)
    Account.objects.filter(pk=mine.account_id).update(team=team)
    target = {"host": mine, "account": mine.account, "team": team}[kind]
    workunit = an_unsent(**{f"target_{kind}": target})
    # The target was changed between the request of the host and the end of its transaction.
    refuse(workunit, other)
    assert a_pass(timeout_checker).counts["workunits unsendable"] == 0
    assert states(workunit) == [(False, False)]
    refuse(workunit, mine, at=NOON + timedelta(seconds=4))
    assert (
        a_pass(timeout_checker, now=NOON + timedelta(seconds=5)).counts["workunits unsendable"] == 1
    )


def test_a_targeted_result_is_unsendable_once_its_target_hosts_are_refused():
    mine, theirs = rows.a_host(), rows.a_host()
    for_host = an_unsent(target_host=mine)
    for_account = an_unsent(target_account=mine.account)
    for_others = an_unsent(target_host=theirs)
    for workunit in (for_host, for_account):
        refuse(workunit, mine)
    a_pass(timeout_checker)
    assert states(for_host, for_account, for_others) == [(True, True), (True, True), (False, False)]


@pytest.mark.parametrize(
    "lists",
    [
        lambda mine, _others: {"allowed_hosts": [mine.pk]},
        lambda mine, others: {
            "allowed_accounts": [mine.account_id],
            "denied_hosts": [mine.pk, others.pk],
        },
        lambda _mine, others: {"denied_hosts": [others.pk]},
        lambda _mine, others: {"denied_accounts": [others.account_id]},
    ],
)
def test_a_result_of_a_queue_is_unsendable_once_the_hosts_that_it_serves_are_refused(lists):
    mine, others = rows.a_host(), rows.a_host()
    served = Queue.objects.create(name="served", created_at=NOON, **lists(mine, others))
    workunit = an_unsent(queue=served)
    elsewhere = an_unsent(queue=Queue.objects.create(name="all", created_at=NOON))
    for each in (workunit, elsewhere):
        refuse(each, mine)
    assert "so far 1 (" in " ".join(explanation_of(workunit.name, now=NOON).reasons)
    assert "refused to 1 host:" in " ".join(explanation_of(workunit.name, now=NOON).reasons)
    a_pass(timeout_checker)
    assert states(workunit, elsewhere) == [(True, True), (False, False)]


def test_a_pass_counts_all_refusals_since_the_last_pass_regardless_of_the_limit():
    host, app = rows.a_host(), rows.an_app()
    a_pass(timeout_checker)
    old, new = an_unsent(app), [an_unsent(app) for _ in range(5)]
    refuse(old, host, at=NOON - timedelta(minutes=2))
    for workunit in new:
        refuse(workunit, host)
    assert a_pass(timeout_checker, limit=3).counts["workunits unsendable"] == 5
    assert states(old) == [(False, False)]
    # The host asks again and is refused again.
    Refusal.objects.filter(workunit_id=old.pk).update(at=rows.hours(1))
    a_pass(timeout_checker, now=rows.hours(1))
    assert states(old) == [(True, True)]


def test_each_pass_counts_again_from_shortly_before_the_last_pass():
    last = timeout_checker._counted_at
    a_pass(timeout_checker)
    assert timeout_checker._uncounted_since(WHOLE, now=rows.hours(0.01)) == NOON - RECOUNT_WINDOW
    assert last[WHOLE] == NOON


def test_sent_results_are_not_given_up():
    host = rows.a_host()
    workunit = rows.a_workunit(transition_at=None)
    rows.a_result(workunit, "sent", host=host)
    refuse(workunit, host)
    a_pass(timeout_checker)
    assert states(workunit) == [(False, False)]


def test_result_that_is_hard_to_send_is_logged_once(caplog):
    hosts = [rows.a_host() for _ in range(4)]
    workunit = an_unsent()
    refuse(workunit, hosts[0])
    a_pass(timeout_checker)
    assert "result_hard_to_send" not in caplog.text
    refuse(workunit, hosts[1])
    for _ in range(2):
        a_pass(timeout_checker)
    records = [record for record in caplog.records if record.message == "result_hard_to_send"]
    assert [
        (record.workunit, record.refused_hosts, record.given_up_after) for record in records
    ] == [(workunit.name, 2, 4)]
    assert states(workunit) == [(False, False)]


@pytest.mark.parametrize("count", [1, 100])
def test_counting_any_number_of_refusals_uses_8_statements(count):
    app, host = rows.an_app(), rows.a_host()
    for _ in range(count):
        refuse(an_unsent(app), host)
    assert statements_of(lambda: a_pass(timeout_checker)) == 8


@pytest.mark.parametrize("count", [1, 150])
def test_timeout_checker_pass_uses_9_statements_for_any_number_of_rows(count):
    app = rows.an_app()
    version = rows.an_app_version(app)
    host = rows.a_host()
    for _ in range(count):
        workunit = rows.a_workunit(app, transition_at=None)
        an_overdue(workunit, host=host, app_version=version)
    HostAppVersion.objects.create(host=host, app_version=version)
    # Signs of life; results in a transaction, with two for hosts; expired workunits; refusals.
    assert statements_of(lambda: a_pass(timeout_checker)) == 9
    assert not Result.objects.filter(server_state=4).exists()
