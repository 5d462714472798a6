"""Leaderboards list people who may be shown, in order, at a bounded cost."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.credit import leaderboards
from scheduler.credit.rules.board_positions import Order
from scheduler.models import Account, AccountAppCredit, HostAppCredit, Team, TeamAppCredit
from scheduler.sealed_positions import BadPosition
from tests.conftest import NOON
from tests.rows import a_host, an_account, an_app

pytestmark = pytest.mark.django_db

#: Accounts with credit from 1; of every ten, one does not share its statistics.
_ACCOUNTS = """
INSERT INTO account
    (email, name, password, cross_project_id, created_at, is_superuser, is_staff, is_active,
     country, url, venue, global_prefs, global_prefs_mod_time, project_prefs,
     total_credit, expavg_credit, share_statistics)
SELECT 'v' || n || '@example.org', 'v' || n, '!', '', now(), false, false, true,
    '', '', '', '', 0, '', n, n, n % 10 <> 0
FROM generate_series(1, 20000) AS n
"""


def an_owner(name: str, credit: float, **fields: Any) -> Account:
    return an_account(name, total_credit=Decimal(str(credit)), expavg_credit=credit, **fields)


def names(board: leaderboards.Board, count: int = 50) -> list[str]:
    return [line.row.name for line in leaderboards.read(board, below=None, count=count).lines]


@pytest.mark.parametrize("order", Order)
def test_accounts_that_share_their_statistics_are_listed_by_credit(order):
    an_owner("low", 1.5)
    an_owner("high", 20)
    an_owner("middle", 3)
    an_owner("without", 0)
    an_owner("hidden", 30, share_statistics=False)
    an_owner("closed", 40, is_active=False)
    assert names(leaderboards.account_board(order)) == ["high", "middle", "low"]


def test_orders_are_those_of_their_own_column():
    an_account("once", total_credit=Decimal(9), expavg_credit=1)
    an_account("now", total_credit=Decimal(2), expavg_credit=8)
    assert names(leaderboards.account_board(Order.TOTAL)) == ["once", "now"]
    assert names(leaderboards.account_board(Order.RECENT)) == ["now", "once"]


@pytest.mark.parametrize("order", Order)
def test_board_of_an_app_has_the_credit_for_this_app(order):
    primes, other = an_app("primes"), an_app("other")
    ada, bob = an_owner("ada", 1), an_owner("bob", 90)
    hidden = an_owner("hidden", 90, share_statistics=False)
    for account, app, credit in (
        (ada, primes, 50),
        (bob, primes, 40),
        (hidden, primes, 60),
        (bob, other, 70),
    ):
        AccountAppCredit.objects.create(account=account, app=app, total=credit, expavg=credit / 2)
    page = leaderboards.read(leaderboards.account_board(order, primes), below=None, count=50)
    assert [
        (line.row.name, line.place, line.total_credit, line.recent_credit) for line in page.lines
    ] == [("ada", 1, 50, 25.0), ("bob", 2, 40, 20.0)]


@pytest.mark.parametrize("order", Order)
def test_computers_of_sharing_owners_are_listed_and_only_shown_ones_name_the_owner(order):
    credit = {"total_credit": Decimal(5), "expavg_credit": 5.0}
    shown = a_host(an_account("shows", show_hosts=True), **credit)
    anonymous = a_host(an_account("hides", show_hosts=False), **credit)
    a_host(an_account("private", share_statistics=False), **credit)
    a_host(an_account("closed", is_active=False), **credit)
    a_host(an_account("merged"), merged_into=shown, **credit)
    a_host(an_account("new"))
    page = leaderboards.read(leaderboards.computer_board(order), below=None, count=50)
    assert [(line.row.pk, line.names_owner) for line in page.lines] == [
        (anonymous.pk, False),
        (shown.pk, True),
    ]


def test_teams_are_listed_by_credit():
    for name, credit in (("reds", 3), ("blues", 7), ("greens", 0)):
        Team.objects.create(name=name, created_at=NOON, total_credit=credit, expavg_credit=credit)
    assert names(leaderboards.team_board(Order.TOTAL)) == ["blues", "reds"]
    assert names(leaderboards.team_board(Order.RECENT)) == ["blues", "reds"]


@pytest.mark.parametrize("order", Order)
def test_computers_of_an_app_are_listed_for_owners_who_share_by_credit_for_it(order):
    app, other = an_app("primes"), an_app("twins")
    credit = {"total_credit": Decimal(50), "expavg_credit": 50.0}
    shown = a_host(an_account("shows", show_hosts=True), **credit)
    anonymous = a_host(an_account("hides", show_hosts=False), **credit)
    private = a_host(an_account("private", share_statistics=False), **credit)
    closed = a_host(an_account("closed", is_active=False), **credit)
    merged = a_host(an_account("merged"), merged_into=shown, **credit)
    for number, host in enumerate((shown, anonymous, private, closed, merged)):
        HostAppCredit.objects.create(host=host, app=app, total=9 - number, expavg=9 - number)
    HostAppCredit.objects.create(host=anonymous, app=other, total=70, expavg=70)
    page = leaderboards.read(leaderboards.computer_board(order, app), below=None, count=50)
    assert [
        (line.row.pk, line.place, line.names_owner, line.total_credit, line.recent_credit)
        for line in page.lines
    ] == [(shown.pk, 1, True, 9, 9), (anonymous.pk, 2, False, 8, 8)]
    assert page.lines[0].row.account.name == "shows"


@pytest.mark.parametrize("order", Order)
def test_teams_of_an_app_are_listed_by_credit_for_it_without_deleted_teams(order):
    app = an_app("primes")
    for name, credit, deleted_at in (("reds", 3, None), ("blues", 7, None), ("gone", 9, NOON)):
        team = Team.objects.create(name=name, created_at=NOON, deleted_at=deleted_at)
        TeamAppCredit.objects.create(team=team, app=app, total=credit, expavg=credit)
    Team.objects.create(name="greens", created_at=NOON, total_credit=99, expavg_credit=99)
    board = leaderboards.team_board(order, app)
    assert names(board) == ["blues", "reds"]
    line, _above = leaderboards.find(board, Team.objects.get(name="reds").pk)
    assert (line.place, line.row.name, line.total_credit) == (2, "reds", 3)


@pytest.mark.parametrize("order", Order)
def test_board_of_a_type_has_only_teams_of_this_type_with_places_among_them(order):
    kinds = (Team.Kind.UNIVERSITY, Team.Kind.CLUB, Team.Kind.NONE, Team.Kind.UNIVERSITY)
    for number, kind in enumerate(kinds):
        credit = 10 - number
        Team.objects.create(
            name=f"t{number}", kind=kind, created_at=NOON, total_credit=credit, expavg_credit=credit
        )
    board = leaderboards.team_board(order, None, Team.Kind.UNIVERSITY)
    assert walked(board, 1) == [[(1, "t0")], [(2, "t3")]]
    line, _above = leaderboards.find(board, Team.objects.get(name="t3").pk)
    assert line.place == 2
    assert leaderboards.find(board, Team.objects.get(name="t1").pk) is None
    assert len(names(leaderboards.team_board(order))) == 4


@pytest.mark.parametrize("order", Order)
def test_only_the_hidden_one_of_two_computers_has_no_owner(order):
    credit = {"total_credit": Decimal(5), "expavg_credit": 5.0}
    ada = an_account("ada", show_hosts=True)
    hidden, shown = a_host(ada, hidden=True, **credit), a_host(ada, **credit)
    page = leaderboards.read(leaderboards.computer_board(order), below=None, count=50)
    assert {line.row.pk: line.names_owner for line in page.lines} == {
        hidden.pk: False,
        shown.pk: True,
    }


# Pages


def walked(board: leaderboards.Board, count: int) -> list[list[tuple[int | None, str]]]:
    """Return the places and names of all pages."""
    pages, below = [], None
    while True:
        page = leaderboards.read(board, below=below, count=count)
        pages.append([(line.place, line.row.name) for line in page.lines])
        if page.next is None:
            return pages
        below = page.next


@pytest.mark.parametrize("order", Order)
def test_pages_continue_exactly_after_each_other_also_among_equal_credit(order):
    for number in range(5):
        an_owner(f"v{number}", 1 / 3 if number else 1e-6)
    board = leaderboards.account_board(order)
    assert walked(board, 2) == [
        [(1, "v4"), (2, "v3")],
        [(3, "v2"), (4, "v1")],
        [(5, "v0")],
    ]


def test_pages_of_an_app_skip_hidden_accounts_and_count_places_without_them(monkeypatch):
    monkeypatch.setattr(leaderboards, "READ_PER_LINE", 1)
    app = an_app()
    for number in range(6):
        account = an_owner(f"v{number}", 1, share_statistics=number not in {4, 3, 2})
        AccountAppCredit.objects.create(account=account, app=app, total=number + 1)
    pages = walked(leaderboards.account_board(Order.TOTAL, app), 2)
    assert pages == [[(1, "v5")], [], [(2, "v1"), (3, "v0")]]


def test_own_line_is_found_with_its_place():
    an_owner("high", 9)
    an_owner("hidden", 8, share_statistics=False)
    ada = an_owner("ada", 7)
    an_owner("low", 1)
    board = leaderboards.account_board(Order.TOTAL)
    line, above = leaderboards.find(board, ada.pk)
    assert (line.row.name, line.place) == ("ada", 2)
    page = leaderboards.read(board, below=above, count=5)
    assert [(each.row.name, each.place) for each in page.lines] == [("ada", 2), ("low", 3)]


def test_line_of_an_account_that_may_not_be_shown_is_not_found():
    app = an_app()
    hidden = an_owner("hidden", 8, share_statistics=False)
    AccountAppCredit.objects.create(account=hidden, app=app, total=8)
    for board in (
        leaderboards.account_board(Order.TOTAL),
        leaderboards.account_board(Order.TOTAL, app),
    ):
        assert leaderboards.find(board, hidden.pk) is None


def test_places_are_counted_up_to_a_limit(monkeypatch):
    monkeypatch.setattr(leaderboards, "MAX_PLACE", 3)
    accounts = [an_owner(f"v{number}", 10 - number) for number in range(5)]
    board = leaderboards.account_board(Order.TOTAL)
    assert [line.place for line in leaderboards.read(board, below=None, count=9).lines] == [
        1, 2, 3, None, None,
    ]  # fmt: skip
    line, _above = leaderboards.find(board, accounts[4].pk)
    assert line.place is None


# Cost


def rows_read(plan: dict[str, Any], table: str) -> float:
    """Return the number of rows of a table that a plan read."""
    own = 0.0
    if plan.get("Relation Name") == table:
        own = plan["Actual Loops"] * (plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0))
    return own + sum(rows_read(each, table) for each in plan.get("Plans", ()))


def test_pages_read_a_bounded_number_of_rows_of_many(monkeypatch):
    # A small part of the table, as the real limit is of a large project's.
    monkeypatch.setattr(leaderboards, "MAX_PLACE", 100)
    app = an_app()
    with connection.cursor() as cursor:
        cursor.execute(_ACCOUNTS)
        cursor.execute(
            "INSERT INTO account_app_credit (account_id, app_id, total, expavg)"
            " SELECT id, %s, total_credit, expavg_credit FROM account",
            [app.pk],
        )
        cursor.execute(
            "INSERT INTO host (account_id, rpc_at, created_at, total_credit, expavg_credit, "
            + ", ".join(_host_columns())
            + ") SELECT id, now(), now(), total_credit, expavg_credit, "
            + ", ".join(_host_columns().values())
            + " FROM account"
        )
        cursor.execute(
            "INSERT INTO team (name, created_at, kind, url, description, country, joinable,"
            " total_credit, expavg_credit)"
            " SELECT name, now(), CASE WHEN id % 10 = 0 THEN 1 + id / 10 % 7 ELSE 0 END,"
            " '', '', '', true, total_credit, expavg_credit FROM account"
        )
        for owner in ("host", "team"):
            cursor.execute(
                f"INSERT INTO {owner}_app_credit ({owner}_id, app_id, total, expavg)"
                f" SELECT id, %s, total_credit, expavg_credit FROM {owner}",
                [app.pk],
            )
        cursor.execute(
            "ANALYZE account, account_app_credit, host, team, host_app_credit, team_app_credit"
        )
    middle = Account.objects.get(name="v10001")
    club = Team.objects.filter(kind=Team.Kind.CLUB).order_by("total_credit")[60]
    for order in Order:
        boards = (
            (leaderboards.account_board(order), middle.pk),
            (leaderboards.account_board(order, app), middle.pk),
            (leaderboards.computer_board(order), middle.hosts.get().pk),
            (leaderboards.computer_board(order, app), middle.hosts.get().pk),
            (leaderboards.team_board(order), Team.objects.get(name=middle.name).pk),
            (leaderboards.team_board(order, app), Team.objects.get(name=middle.name).pk),
            (leaderboards.team_board(order, None, Team.Kind.CLUB), club.pk),
        )
        for board, own in boards:
            with CaptureQueriesContext(connection) as captured:
                line, above = leaderboards.find(board, own)
                page = leaderboards.read(board, below=above, count=50)
            assert line.place is None
            assert len(page.lines) == 50
            assert len(captured) == 4
            for query in captured.captured_queries:
                with connection.cursor() as cursor:
                    cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {query['sql']}")
                    (plan,) = cursor.fetchone()
                plan = json.loads(plan) if isinstance(plan, str) else plan
                # The accounts of other tables' rows may come from a hash of this small table.
                number = rows_read(plan[0]["Plan"], board.rows.model._meta.db_table)
                assert 0 < number <= 2 * (leaderboards.READ_PER_LINE * 50 + 1), query["sql"]


def _host_columns() -> dict[str, str]:
    """Return the columns of hosts that have no default in the database, with values."""
    texts = "host_cpid domain_name last_ip_addr platform_name venue p_vendor p_model os_name"
    texts += " os_version deny_reason p_features"
    numbers = "rpc_seqno timezone client_version p_ncpus p_fpops p_iops p_membw m_nbytes m_cache"
    numbers += " m_swap d_total d_free n_bwup n_bwdown on_frac active_frac gpu_active_frac hr_class"
    numbers += " turnaround_seconds"
    return {
        **dict.fromkeys(texts.split(), "''"),
        **dict.fromkeys(numbers.split(), "1"),
        "denied": "false",
        "capabilities": "'{}'",
        "last_decisions": "'[]'",
    }


def test_position_is_accepted_only_by_its_own_board_and_order():
    primes, twins = an_app("primes"), an_app("twins")
    boards = [
        board
        for order in Order
        for board in (
            leaderboards.account_board(order),
            leaderboards.account_board(order, primes),
            leaderboards.account_board(order, twins),
            leaderboards.computer_board(order),
            leaderboards.computer_board(order, primes),
            leaderboards.team_board(order),
            leaderboards.team_board(order, primes),
            leaderboards.team_board(order, None, Team.Kind.CLUB),
            leaderboards.team_board(order, None, Team.Kind.COMPANY),
        )
    ]
    ada = an_owner("ada", 5)
    for app in (primes, twins):
        AccountAppCredit.objects.create(account=ada, app=app, total=5, expavg=5)
    _line, above = leaderboards.find(boards[0], ada.pk)
    assert leaderboards.read(boards[0], below=above, count=5).lines
    for board in boards[1:]:
        with pytest.raises(BadPosition):
            leaderboards.read(board, below=above, count=5)
