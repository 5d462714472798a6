"""Lists of teams and members are sorted, searched and read page by page."""

from __future__ import annotations

import importlib
import re

import pytest
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.test.utils import CaptureQueriesContext

from scheduler.models import Account, Team
from scheduler.people.personal_data import profiles
from scheduler.people.teams import team_lists
from scheduler.sealed_positions import MAX_TOKEN, BadPosition
from tests.conftest import NOON
from tests.database.any_plans import plan_of
from tests.rows import an_account, update

pytestmark = pytest.mark.django_db


def a_team(name: str, **fields: object) -> Team:
    return Team.objects.create(name=name, created_at=NOON, **fields)


def all_pages(read, **options) -> list[str]:
    """Return the names of all rows, read in pages of two."""
    names: list[str] = []
    after = None
    while True:
        page = read(after=after, count=2, **options)
        names += [row.name for row in page.rows]
        if page.next is None:
            return names
        assert len(page.rows) == 2
        after = page.next


@pytest.mark.parametrize(
    ("order", "names"),
    [
        ("name", ["alpha", "Beta", "gamma", "Gauss", "zeta"]),
        ("-name", ["zeta", "Gauss", "gamma", "Beta", "alpha"]),
        ("-recent", ["Gauss", "zeta", "alpha", "gamma", "Beta"]),
        ("recent", ["Beta", "gamma", "alpha", "zeta", "Gauss"]),
        ("-total", ["Beta", "zeta", "Gauss", "alpha", "gamma"]),
        ("created", ["Beta", "gamma", "alpha", "Gauss", "zeta"]),
        ("-created", ["zeta", "Gauss", "alpha", "gamma", "Beta"]),
    ],
)
def test_pages_contain_every_team_once_in_each_order(order, names):
    a_team("Beta", total_credit=9)
    a_team("gamma", expavg_credit=0.25)
    a_team("alpha", expavg_credit=0.5, total_credit="0.125")
    a_team("Gauss", expavg_credit=2, total_credit="0.25")
    a_team("zeta", expavg_credit=1, total_credit="0.5")
    assert all_pages(team_lists.teams, order=order) == names


def test_equal_credit_is_sorted_by_id_across_pages():
    names = [a_team(f"team {number}", expavg_credit=1).name for number in range(5)]
    assert all_pages(team_lists.teams, order="recent") == names
    assert all_pages(team_lists.teams, order="-recent") == names[::-1]


def test_search_finds_the_beginnings_of_names_in_any_case_and_no_patterns():
    for name in ("Primes", "primates", "The primes", "100%", "a_b", "axb"):
        a_team(name)
    assert all_pages(team_lists.teams, prefix="PRIM", order="name") == ["primates", "Primes"]
    assert all_pages(team_lists.teams, prefix="%", order="name") == []
    assert all_pages(team_lists.teams, prefix="a_", order="name") == ["a_b"]
    assert all_pages(team_lists.teams, prefix="a\0", order="name") == []


def test_search_sorts_a_limited_number_of_teams(monkeypatch):
    monkeypatch.setattr(team_lists, "MAX_MATCHES", 2)
    for name, credit in (("a1", 1), ("a2", 2), ("a3", 3)):
        a_team(name, expavg_credit=credit)
    assert all_pages(team_lists.teams, prefix="a", order="-recent") == ["a2", "a1"]


def test_position_is_accepted_only_in_its_own_list_and_order():
    team, other = a_team("alpha"), a_team("beta")
    for name in ("a", "b"):
        update(an_account(name), team=team)
    position = team_lists.members(team.pk, order="-total", count=1).next
    assert len(team_lists.members(team.pk, order="-total", after=position, count=9).rows) == 1
    lists = [
        (team_lists.members, {"team_id": team.pk, "order": "total"}),
        (team_lists.members, {"team_id": team.pk, "order": "-name"}),
        (team_lists.members, {"team_id": other.pk, "order": "-total"}),
        (team_lists.teams, {"order": "-total"}),
    ]
    for read, options in lists:
        with pytest.raises(BadPosition):
            read(**options, after=position, count=9)


def test_pages_continue_after_names_that_are_long_or_unusual():
    names = sorted([" ", "a b ", "x" * 254, "y" * 254, "z\n\t", "é", "😀" * 254, "😀" * 253])
    for name in names:
        a_team(name)
    assert all_pages(team_lists.teams, order="name") == names
    last = team_lists.teams(order="name", count=len(names) - 1).next
    assert len(last) <= MAX_TOKEN


def a_member(team: Team, name: str, **fields: object) -> Account:
    account = an_account(name, **fields)
    update(account, team=team)
    return account


def test_members_who_share_nothing_are_listed_only_for_the_founder():
    team, other = a_team("alpha"), a_team("beta")
    a_member(team, "shares", total_credit=1)
    a_member(team, "hides", share_statistics=False, total_credit=2)
    a_member(team, "banned", is_active=False)
    a_member(other, "other")
    assert all_pages(lambda **options: team_lists.members(team.pk, **options), order="-total") == [
        "shares"
    ]
    assert team_lists.count_members(team.pk) == 1
    names = all_pages(
        lambda **options: team_lists.members(team.pk, all_active=True, **options), order="-total"
    )
    assert names == ["hides", "shares"]
    assert team_lists.count_members(team.pk, all_active=True) == 2


def test_list_of_members_reads_a_limited_number_of_accounts(monkeypatch):
    monkeypatch.setattr(team_lists, "MAX_MEMBERS", 2)
    team = a_team("alpha")
    for number in range(3):
        a_member(team, f"m{number}", total_credit=number)
    read = lambda **options: team_lists.members(team.pk, **options)  # noqa: E731
    assert all_pages(read, order="-total") == ["m1", "m0"]
    assert team_lists.count_members(team.pk) == 2


def test_next_page_follows_a_member_who_left_in_the_meantime():
    team = a_team("alpha")
    accounts = [a_member(team, f"m{number}", total_credit=number) for number in range(4)]
    first = team_lists.members(team.pk, order="-total", count=2)
    assert first.rows[-1] == accounts[2]
    update(accounts[2], team=None)
    second = team_lists.members(team.pk, order="-total", after=first.next, count=2)
    assert [member.name for member in second.rows] == ["m1", "m0"]


def test_page_takes_one_statement():
    for number in range(5):
        a_team(f"team {number}")
    last = team_lists.teams(order="-recent", count=2).next
    with CaptureQueriesContext(connection) as statements:
        team_lists.teams(order="-recent", after=last, prefix="t", count=2)
    assert len(statements) == 1


@pytest.mark.parametrize(
    ("order", "index"),
    [
        ("name", "list_teams_by_name"),
        ("-recent", "list_teams_by_recent_credit"),
        ("total", "list_teams_by_total_credit"),
        ("-created", "team_pkey"),
    ],
)
def test_pages_of_teams_are_read_from_an_index_without_sorting(order, index):
    Team.objects.bulk_create(
        Team(name=f"team {number}", created_at=NOON, expavg_credit=number % 7)
        for number in range(2000)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE team")
    last = team_lists.teams(order=order, count=50).next
    with CaptureQueriesContext(connection) as statements:
        team_lists.teams(order=order, after=last, count=50)
    with connection.cursor() as cursor:
        cursor.execute("EXPLAIN " + statements[-1]["sql"])
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert index in plan
    assert "Index Cond" in plan
    assert "Sort" not in plan


def conditions_of(index: str, function, *words, **options) -> list[str]:
    """Return the conditions by which a search reads an index, planned as in a web process."""
    statements = []

    def record(execute, statement, params, *more):
        statements.append((statement, params))
        return execute(statement, params, *more)

    def nodes(plan):
        yield plan
        for child in plan.get("Plans", ()):
            yield from nodes(child)

    with connection.execute_wrapper(record):
        function(*words, **options)
    plans = [plan_of(*each) for each in statements if "LOWER(" in each[0]]
    assert plans
    read = [node for plan in plans for node in nodes(plan) if node.get("Index Name") == index]
    return [str(node.get("Index Cond")) for node in read]


def test_searches_read_a_range_of_the_index_of_names_whatever_the_name():
    Team.objects.bulk_create(Team(name=f"team {n}", created_at=NOON) for n in range(5000))
    Account.objects.bulk_create(
        Account(email=f"a{n}@example.org", name=f"name {n}", created_at=NOON) for n in range(5000)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE team, account")
    [condition] = conditions_of(
        "list_teams_by_name", team_lists.teams, prefix="team 12", order="recent", count=50
    )
    assert re.search(r">= \$\d", condition)
    [condition] = conditions_of("search_accounts_by_name", profiles.search, "name 12")
    assert re.search(r">= \$\d", condition)


def test_members_of_a_large_team_are_read_from_an_index():
    team = a_team("alpha")
    a_member(team, "one")
    rows = Account.objects.filter(team_id=team.pk, is_active=True).order_by("pk")[:10]
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL enable_sort = off")
        cursor.execute("EXPLAIN " + str(rows.query).replace("%", "%%"))
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "list_members_of_teams" in plan


@pytest.mark.django_db(transaction=True)
def test_interrupted_migration_can_be_repeated():
    module = importlib.import_module("scheduler.migrations.0032_lists_of_teams")
    loader = MigrationLoader(connection)
    before = loader.project_state(("scheduler", "0031_computers_hidden_by_default"))
    migration = module.Migration("0032_lists_of_teams", "scheduler")
    with connection.schema_editor(atomic=False) as editor:
        migration.apply(before, editor)
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_indexes WHERE indexname LIKE 'list_%%'")
        assert cursor.fetchone()[0] >= 4
