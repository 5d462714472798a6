"""Founders and staff delete teams; the ledger of credit keeps its sums."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pytest
from django.core.management import call_command
from django.db import connection, transaction

from scheduler import sql
from scheduler.credit import badge_awards, leaderboards
from scheduler.credit.badge_awards import BadgeRefused
from scheduler.credit.rules.board_positions import Order
from scheduler.models import (
    Account,
    AuditEntry,
    Badge,
    CreditEntry,
    CreditSample,
    Team,
    TeamBadge,
    Workunit,
)
from scheduler.people import team_reads, teams
from scheduler.people.teams import (
    NotFounder,
    TeamProfile,
    TeamRefused,
    UnknownTeam,
    deletion,
    team_lists,
    team_views,
)
from tests.conftest import NOON
from tests.database.waiting import wait_until_blocked
from tests.rows import a_host, a_workunit, an_account, an_app, update

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada() -> Account:
    return an_account("ada")


@pytest.fixture
def eve() -> Account:
    return an_account("eve")


@pytest.fixture
def team(ada) -> Team:
    profile = TeamProfile(name="The primes", description="By Ada", url="https://example.org/")
    return teams.create(ada, profile, now=NOON)


def team_of(account: Account) -> int | None:
    account.refresh_from_db()
    return account.team_id


def refusal_elsewhere(operation: Callable, *args: object, **kwargs: object) -> Exception | None:
    """Call an operation with a connection of its own; return the refusal, if any."""
    try:
        operation(*args, **kwargs)
    except TeamRefused as refusal:
        return refusal
    finally:
        connection.close()
    return None


def row_of(team: Team) -> Team:
    return Team._base_manager.get(pk=team.pk)


def test_founder_deletes_the_team_as_its_only_member(ada, team):
    teams.delete(team.pk, by=ada, now=NOON)
    assert team_of(ada) is None
    assert not Team.objects.exists()
    row = row_of(team)
    assert row.deleted_at == NOON
    assert (row.founder_id, row.description, row.url, row.joinable) == (None, "", "", False)
    entry = AuditEntry.objects.filter(event="team_changed").latest("pk")
    assert entry.details == {"deleted": True, "members": 1}
    assert entry.subject == f"team {team.pk} The primes"


def test_other_active_members_keep_the_founder_from_deleting(ada, eve, team):
    teams.join(eve, team.pk)
    with pytest.raises(TeamRefused, match=r"other active members. Hint: remove them"):
        teams.delete(team.pk, by=ada, now=NOON)
    assert team_of(ada) == team_of(eve) == team.pk
    update(eve, is_active=False)
    teams.delete(team.pk, by=ada, now=NOON)
    assert team_of(eve) is None


def test_only_the_founder_and_staff_delete_a_team(ada, eve, team):
    teams.join(eve, team.pk)
    with pytest.raises(NotFounder):
        teams.delete(team.pk, by=eve, now=NOON)
    teams.delete_as_staff(team.pk, now=NOON)
    assert team_of(ada) is team_of(eve) is None
    for delete in (teams.delete_as_staff, lambda pk, now: teams.delete(pk, by=ada, now=now)):
        with pytest.raises(UnknownTeam):
            delete(team.pk, now=NOON)


def test_team_with_too_many_members_is_not_deleted(ada, eve, team, monkeypatch):
    teams.join(eve, team.pk)
    monkeypatch.setattr(deletion, "MAX_MEMBERS", 1)
    with pytest.raises(TeamRefused, match=r"more than 1 members. Hint: set the team"):
        teams.delete_as_staff(team.pk, now=NOON)


def test_name_of_a_deleted_team_can_be_used_again(ada, team):
    for _ in range(2):
        teams.delete(Team.objects.get().pk, by=ada, now=NOON)
        teams.create(ada, TeamProfile(name="The primes"), now=NOON)
    assert Team.objects.get().name == "The primes"


def test_deleted_team_is_on_no_list_and_cannot_be_joined(ada, eve, team):
    update(team, total_credit=7, expavg_credit=1)
    teams.delete(team.pk, by=ada, now=NOON)
    assert team_lists.teams(order="name", count=9).rows == ()
    assert team_lists.teams(prefix="<", order="name", count=9).rows == ()
    assert team_views.read(team.pk, eve, now=NOON) is None
    assert team_reads.find(team.pk) is None
    assert team_reads.search("deleted") == []
    board = leaderboards.team_board(Order.TOTAL)
    assert leaderboards.read(board, below=None, count=9).lines == ()
    assert leaderboards.find(board, team.pk) is None
    with pytest.raises(UnknownTeam):
        teams.join(eve, team.pk)
    rows = sql.fetch(
        "work/submission/read_addressees", {"hosts": [], "accounts": [], "teams": [team.pk]}
    )
    assert rows == []


def test_badges_and_samples_of_a_deleted_team_are_deleted_and_do_not_return(ada, team):
    update(team, total_credit=7)
    badge = Badge.objects.create(
        name="gold", title="Gold", for_teams=True, is_published=True, created_at=NOON
    )
    TeamBadge.objects.create(badge=badge, team=team, created_at=NOON)
    CreditSample.objects.create(
        kind=CreditSample.Kind.TEAM, holder_id=team.pk, day=NOON.date(), total_credit=5
    )
    teams.delete(team.pk, by=ada, now=NOON)
    assert not TeamBadge.objects.exists()
    sql.execute("credit/sample_teams", {"day": NOON.date()})
    assert not CreditSample.objects.filter(kind=CreditSample.Kind.TEAM).exists()
    with pytest.raises(BadgeRefused, match="There is no team"):
        badge_awards.award_team(badge.pk, team.pk, now=NOON)
    limits = {"min_total": 1, "min_recent": 0, "created_until": NOON, "now": NOON}
    sql.execute("credit/award_team_badge", {"badge_id": badge.pk, **limits})
    assert not TeamBadge.objects.exists()


def test_credit_of_a_deleted_team_remains_the_sum_of_its_entries(ada, team):
    CreditEntry.objects.create(
        account=ada,
        host=a_host(ada),
        team=team,
        app=an_app(),
        amount=Decimal(7),
        rule="fixed",
        result_id=1,
        granted_at=NOON,
    )
    update(team, total_credit=7)
    teams.delete(team.pk, by=ada, now=NOON)
    assert row_of(team).total_credit == 7
    Team._base_manager.filter(pk=team.pk).update(total_credit=8)
    call_command("recompute_credit", "--apply")
    assert row_of(team).total_credit == 7


@pytest.mark.django_db(transaction=True)
def test_account_does_not_join_a_team_that_is_deleted_at_the_same_moment():
    ada, eve = an_account("ada"), an_account("eve")
    team = teams.create(ada, TeamProfile(name="The primes"), now=NOON)
    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            teams.delete(team.pk, by=ada, now=NOON)
            joining = threads.submit(refusal_elsewhere, teams.join, eve, team.pk)
            wait_until_blocked()
        assert isinstance(joining.result(20), UnknownTeam)
    assert team_of(eve) is None


@pytest.mark.parametrize("is_staff", [True, False])
def test_team_for_which_unfinished_work_was_submitted_is_not_deleted(is_staff):
    founder = an_account("founder")
    team = teams.create(founder, TeamProfile(name="primes"), now=NOON)
    workunit = a_workunit(target_team=team)

    def delete() -> None:
        if is_staff:
            teams.delete_as_staff(team.pk, now=NOON)
        else:
            teams.delete(team.pk, by=founder, now=NOON)

    with pytest.raises(TeamRefused, match="only for the team primes"):
        delete()
    Workunit.objects.filter(pk=workunit.pk).update(finished_at=NOON)
    delete()
    assert not Team.objects.exists()
