"""Volunteers' lists of results: states, pages, and a bounded number of rows read."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.conf import settings
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from scheduler import sql
from scheduler.lifecycle import (
    Actor,
    Axis,
    Because,
    Outcome,
    ResultState,
    ServerState,
    ValidateState,
)
from scheduler.models import Account, CreditEntry, Host, LedgerEntry, Result
from scheduler.work.volunteers import own_result, result_lists, result_states
from scheduler.work.volunteers.result_states import OwnState
from tests.conftest import NOON
from tests.rows import a_host, a_result, a_workunit, an_account, an_app, settled, update

pytestmark = pytest.mark.django_db

#: Word for a result's state -> its state on the pages.
STATES = {
    "sent": OwnState.IN_PROGRESS,
    "success": OwnState.WAITING,
    "inconclusive": OwnState.WAITING,
    "valid": OwnState.VALID,
    "invalid": OwnState.INVALID,
    "nocheck": OwnState.INVALID,
    "toolate": OwnState.INVALID,
    "unreadable": OwnState.INVALID,
    "error": OwnState.ERROR,
    "aborted": OwnState.ERROR,
    "noreply": OwnState.ERROR,
    "detached": OwnState.ERROR,
}
#: Results of a host, of which every tenth is in progress, and the others are valid.
_FILL = """
INSERT INTO result
    (workunit_id, app_id, name, attempt, created_at, server_state, outcome, validate_state,
     host_id, account_id, sent_at, report_deadline)
SELECT %(workunit)s, %(app)s, 'r' || n, 1000 + n, now(), CASE WHEN n %% 10 = 0 THEN 4 ELSE 5 END,
    CASE WHEN n %% 10 = 0 THEN 0 ELSE 1 END, CASE WHEN n %% 10 = 0 THEN 0 ELSE 1 END,
    %(host)s, %(account)s, now(), now()
FROM generate_series(%(first)s::int, %(last)s::int) AS n
"""


@pytest.fixture
def ada() -> Account:
    return an_account("ada")


@pytest.fixture
def host(ada: Account) -> Host:
    return a_host(ada, domain_name="desk")


def fill(host: Host, first: int, last: int) -> None:
    """Add results of one workunit to a host, without the guard triggers."""
    workunit = a_workunit()
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(
            _FILL,
            {
                "workunit": workunit.pk,
                "app": workunit.app_id,
                "host": host.pk,
                "account": host.account_id,
                "first": first,
                "last": last,
            },
        )
        cursor.execute("SET LOCAL session_replication_role = origin")
        cursor.execute("ANALYZE result, host")


def all_oldest_ids(account: Account, **options: object) -> list[int]:
    """Return the ids of all pages, the oldest results first."""
    ids, above = [], None
    for _ in range(1000):
        page = result_lists.oldest(account, above=above, count=7, **options)
        ids += [row.id for row in page.rows]
        if page.newer_than is None:
            return ids
        assert above is None or page.newer_than > above
        above = page.newer_than
    raise AssertionError("The list has no end.")


def all_ids(account: Account, **options: object) -> list[int]:
    """Return the ids of all pages."""
    ids, below = [], None
    for _ in range(1000):
        page = result_lists.newest(account, below=below, count=7, **options)
        ids += [row.id for row in page.rows]
        if page.older_than is None:
            return ids
        assert below is None or page.older_than < below
        below = page.older_than
    raise AssertionError("The list has no end.")


@pytest.mark.parametrize("word", STATES)
def test_result_is_listed_with_its_state_only_under_this_state(ada, host, word):
    result = a_result(a_workunit(an_app("primes")), word, host=host)
    for state in (None, *OwnState):
        expected = [result.pk] if state in (None, STATES[word]) else []
        for read in (result_lists.newest, result_lists.oldest):
            assert [row.id for row in read(ada, state=state, count=10).rows] == expected
    (row,) = result_lists.newest(ada, count=10).rows
    assert (row.state, row.app, row.host_name) == (STATES[word], "primes", "desk")
    assert row.why.endswith(".")


def test_every_combination_of_states_has_a_state_and_an_explanation():
    for outcome in Outcome:
        for validity in ValidateState:
            state = result_states.state_of(ServerState.OVER, outcome, validity)
            assert state in result_states.LABELS
            assert 10 * outcome + validity in result_states.codes_of(state)
            if outcome is not Outcome.INIT:
                assert result_states.why(ServerState.OVER, outcome, validity, 0)


def test_pages_contain_each_result_of_the_account_once_and_newest_first(ada, host):
    other = a_host(ada)
    workunits = [a_workunit() for _ in range(6)]
    results = [
        a_result(workunit, word, host=each)
        for workunit in workunits
        for word, each in (("valid", host), ("sent", other), ("error", other), ("sent", host))
    ]
    a_result(workunits[0], "valid")  # of another account
    ids = sorted((result.pk for result in results), reverse=True)
    assert all_ids(ada) == ids
    assert all_ids(ada, host_id=other.pk) == [
        pk for pk in ids if Result.objects.get(pk=pk).host_id == other.pk
    ]
    assert len(all_ids(ada, state=OwnState.IN_PROGRESS)) == 12
    assert len(all_ids(ada, state=OwnState.ERROR, host_id=host.pk)) == 0
    assert all_oldest_ids(ada) == ids[::-1]
    for options in ({"host_id": other.pk}, {"state": OwnState.IN_PROGRESS}):
        assert all_oldest_ids(ada, **options) == all_ids(ada, **options)[::-1]
    assert all_oldest_ids(ada, state=OwnState.ERROR, host_id=host.pk) == []


def test_lists_of_many_computers_read_only_those_with_the_newest_results(ada, monkeypatch):
    monkeypatch.setattr(result_lists, "MAX_READ", 7)
    hosts = [a_host(ada) for _ in range(60)]
    for place, host in enumerate(hosts):
        fill(host, 100 * place + 1, 100 * place + 9)
    rare = a_result(a_workunit(), "invalid", host=hosts[0])
    for place, host in enumerate(reversed(hosts)):
        fill(host, 10_000 + 100 * place + 1, 10_000 + 100 * place + 9)
    ids = list(Result.objects.order_by("-pk").values_list("pk", flat=True))
    assert all_ids(ada) == ids
    assert all_ids(ada, state=OwnState.VALID) == [pk for pk in ids if pk != rare.pk]
    assert all_ids(ada, state=OwnState.INVALID) == [rare.pk]
    assert all_oldest_ids(ada) == ids[::-1]
    assert all_oldest_ids(ada, state=OwnState.INVALID) == [rare.pk]
    for read in (result_lists.newest, result_lists.oldest):
        with transaction.atomic(), connection.cursor() as cursor:
            before = _rows_read(cursor)
            assert len(read(ada, state=OwnState.VALID, count=7).rows) == 7
            # The newest of each of 60 computers, and 7 of 7 computers; 7 of each would be 420.
            assert _rows_read(cursor) - before < 200


def test_host_of_another_account_has_no_results(ada):
    theirs = a_host()
    a_result(a_workunit(), "valid", host=theirs)
    for read in (result_lists.newest, result_lists.oldest):
        assert read(ada, host_id=theirs.pk, count=10).rows == ()


def test_rare_state_is_found_although_each_page_reads_a_limited_number_of_rows(
    ada, host, monkeypatch
):
    monkeypatch.setattr(result_lists, "MAX_READ", 20)
    rare = a_result(a_workunit(), "invalid", host=host)
    fill(host, 1, 100)
    first = result_lists.newest(ada, state=OwnState.INVALID, count=7)
    assert first.rows == ()
    assert first.older_than is not None
    assert all_ids(ada, state=OwnState.INVALID) == [rare.pk]
    assert len(all_ids(ada, state=OwnState.VALID)) == 90


def test_rare_state_is_found_with_the_oldest_results_first(ada, host, monkeypatch):
    monkeypatch.setattr(result_lists, "MAX_READ", 20)
    fill(host, 1, 100)
    rare = a_result(a_workunit(), "invalid", host=host)
    first = result_lists.oldest(ada, state=OwnState.INVALID, count=7)
    assert first.rows == ()
    assert first.newer_than is not None
    assert all_oldest_ids(ada, state=OwnState.INVALID) == [rare.pk]
    assert len(all_oldest_ids(ada, state=OwnState.VALID)) == 90


@pytest.mark.parametrize(
    ("statement", "edge"),
    [("read_own_results", {"below": 2**62}), ("read_oldest_own_results", {"above": 0})],
)
@pytest.mark.parametrize("state", [None, OwnState.IN_PROGRESS, OwnState.INVALID])
def test_page_reads_results_by_the_indexes_of_hosts(ada, host, state, statement, edge):
    fill(host, 1, 3000)
    for _ in range(5):
        fill(a_host(), 10_000 + Result.objects.count(), 10_500 + Result.objects.count())
    params = {
        "account_id": ada.pk,
        "host_id": None,
        **edge,
        "count": 26,
        "max_read": 0 if state is None else 500,
        "with_running": state is not OwnState.INVALID,
        "codes": [] if state is OwnState.IN_PROGRESS else result_states.codes_of(state),
    }
    with transaction.atomic(), connection.cursor() as cursor:
        for option, value in re.findall(r"-c (enable_\w+)=(\w+)", settings.WEB_PLANS):
            cursor.execute(f"SET LOCAL {option} = {value}")
        text = sql.load(f"work/volunteers/{statement}")
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {text}", params)
        (plan,) = cursor.fetchone()
    plan = json.loads(plan) if isinstance(plan, str) else plan
    text = json.dumps(plan)
    scans = set(re.findall(r'"Index Name": "(\w+)"', text))
    assert (
        scans & {"results_held_by_host", "read_own_results"}
        == {
            None: {"results_held_by_host", "read_own_results"},
            OwnState.IN_PROGRESS: {"results_held_by_host"},
            OwnState.INVALID: {"read_own_results"},
        }[state]
    )
    assert not re.search(r'"Node Type": "Seq Scan"[^{}]*"Relation Name": "result"', text)
    top = plan[0]["Plan"]
    assert top["Shared Hit Blocks"] + top["Shared Read Blocks"] < 1200


@pytest.mark.parametrize("read", [result_lists.newest, result_lists.oldest])
@pytest.mark.parametrize("mode", ["force_generic_plan", "force_custom_plan"])
@pytest.mark.parametrize("state", [None, OwnState.VALID])
def test_computers_without_results_cause_no_scan_of_all_results(ada, host, state, mode, read):
    # By id, PostgreSQL would read all results for each of these computers.
    fill(host, 1, 5000)
    for _ in range(40):
        a_host(ada)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("ANALYZE host")
        cursor.execute(f"SET LOCAL plan_cache_mode = {mode}")
        before = _rows_read(cursor)
        assert len(read(ada, state=state, count=50).rows) == 50
        assert _rows_read(cursor) - before < 3000


def _rows_read(cursor: Any) -> int:
    """Return the number of rows of `result` that this transaction has read."""
    cursor.execute(
        "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'result'"
    )
    return int(cursor.fetchone()[0])


# One result


def test_page_of_a_result_takes_a_constant_number_of_statements(ada, host):
    few, many = a_workunit(), a_workunit()
    for workunit, count in ((few, 1), (many, 30)):
        results = [a_result(workunit, "valid", host=host)]
        results += [a_result(workunit, "valid") for _ in range(count)]
        for result in results:
            _grant(result, "fixed")
        settled(workunit, results[0])
    statements = []
    for workunit in (few, many):
        first_id = workunit.results.order_by("pk")[0].pk
        with CaptureQueriesContext(connection) as captured:
            details = own_result.find(ada, first_id)
        statements.append(len(captured))
        assert details.siblings
        assert details.grants
    assert statements[0] == statements[1] <= 5


def _grant(result: Result, rule: str) -> None:
    CreditEntry.objects.create(
        result_id=result.pk,
        rule=rule,
        account=result.account,
        host=result.host,
        app=result.app,
        amount=Decimal("2.5"),
        granted_at=NOON,
    )


@pytest.mark.parametrize(
    ("rule", "part"), [("runtime", "the highest one"), ("fixed", "the same amount for every")]
)
def test_credit_of_a_valid_result_is_explained_by_the_rule_of_the_app(ada, host, rule, part):
    result = a_result(a_workunit(an_app(credit_rule=rule)), "valid", host=host)
    for each in (CreditEntry.VALIDATED, "bonus"):
        _grant(result, each)
    first, second = own_result.find(ada, result.pk).grants
    assert (first.amount, first.rule) == (Decimal("2.5"), rule)
    assert part in first.why
    assert (second.rule, second.why) == ("bonus", "bonus")


def test_timeline_shows_the_moves_of_this_result_since_it_was_sent(ada, host):
    workunit = a_workunit()
    result = a_result(workunit, "valid", host=host)
    other = a_result(workunit, "valid")
    steps = own_result.find(ada, result.pk).timeline
    assert [step.text for step in steps] == ["sent", "ended"]
    assert [step.sentence for step in steps] == ["Sent to this computer.", "Ended."]
    moves = (
        (result, 0, ResultState.UNSENT, Because.REPLICA_NEEDED, Actor.TRANSITIONER),
        (result, 20, ResultState.IN_PROGRESS, Because.SENT, Actor.SCHEDULER),
        (result, 40, ResultState.SUCCESS, Because.REPORTED, Actor.SCHEDULER),
        (other, 20, ResultState.IN_PROGRESS, Because.SENT, Actor.SCHEDULER),
    )
    for number, (row, source, target, because, actor) in enumerate(moves):
        LedgerEntry.objects.create(
            at=NOON + timedelta(minutes=number),
            workunit_id=workunit.pk,
            result_id=row.pk,
            axis=Axis.RESULT,
            source=source,
            target=target,
            because=because,
            by=actor,
        )
    first, second = own_result.find(ada, result.pk).timeline
    assert first.text == "IN_PROGRESS: sent to a host"
    assert first.sentence == "Sent to this computer."
    assert second.text == "OVER/SUCCESS: reported"
    assert second.sentence == "Reported: the program finished without an error."


def test_stderr_is_cut_at_its_beginning(ada, host):
    result = a_result(a_workunit(), "error", host=host, stderr="x" * own_result.MAX_STDERR + "end")
    details = own_result.find(ada, result.pk)
    assert details.stderr_is_cut
    assert len(details.stderr) == own_result.MAX_STDERR
    assert details.stderr.endswith("xend")
    update(result, stderr="short")
    details = own_result.find(ada, result.pk)
    assert (details.stderr, details.stderr_is_cut) == ("short", False)
