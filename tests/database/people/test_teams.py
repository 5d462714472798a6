"""Teams are created, joined, left and led by their members."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection, transaction

from scheduler.models import Account, AuditEntry, Team
from scheduler.people import teams
from scheduler.people.account_keys import BadName
from scheduler.people.teams import (
    InactiveAccount,
    NotFounder,
    TeamProfile,
    TeamRefused,
    UnknownTeam,
)
from tests.conftest import NOON
from tests.database.waiting import wait_until_blocked
from tests.rows import an_account, update

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


@pytest.fixture
def ada() -> Account:
    return an_account("ada")


@pytest.fixture
def eve() -> Account:
    return an_account("eve")


@pytest.fixture
def team(ada) -> Team:
    return teams.create(ada, TeamProfile(name="The primes"), now=NOON)


def team_of(account: Account) -> int | None:
    account.refresh_from_db()
    return account.team_id


def founder_of(team: Team) -> int | None:
    team.refresh_from_db()
    return team.founder_id


def details() -> list[dict]:
    entries = AuditEntry.objects.filter(event="team_changed").order_by("pk")
    return list(entries.values_list("details", flat=True))


# Creating and changing


def test_founder_is_the_first_member_of_a_new_team(ada):
    profile = TeamProfile(
        name=" The primes ", kind=Team.Kind.COMPANY, url="https://example.org/", country="Peru"
    )
    team = teams.create(ada, profile, now=NOON)
    team.refresh_from_db()
    assert (team.name, team.kind, team.country) == ("The primes", 2, "Peru")
    assert (founder_of(team), team_of(ada)) == (ada.pk, team.pk)
    assert details() == [{"created": True, "founder": ada.pk}]


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({"name": ""}, BadName),
        ({"name": "<b>"}, BadName),
        ({"kind": 8}, TeamRefused),
        ({"kind": -1}, TeamRefused),
        ({"url": "javascript:alert(1)"}, TeamRefused),
        ({"url": "https://example.org/" + "x" * 200}, TeamRefused),
        ({"country": "x" * 65}, TeamRefused),
        ({"description": "x" * 10_001}, TeamRefused),
        ({"description": "a\0b"}, TeamRefused),
        ({"name": "taken"}, TeamRefused),
    ],
)
def test_invalid_or_taken_values_are_refused_with_a_hint(ada, team, fields, refusal):
    teams.create(an_account("other"), TeamProfile(name="taken"), now=NOON)
    with pytest.raises(refusal, match="Hint:"):
        teams.change(team.pk, fields, by=ada, now=NOON)
    with pytest.raises(refusal, match="Hint:"):
        teams.create(an_account(), TeamProfile(**{"name": "new"} | fields), now=NOON)
    assert Team.objects.filter(name="The primes").exists()


def test_only_the_founder_changes_a_team(ada, eve, team):
    teams.join(eve, team.pk)
    with pytest.raises(NotFounder):
        teams.change(team.pk, {"joinable": False}, by=eve, now=NOON)
    teams.change(team.pk, {"joinable": False, "country": "Peru"}, by=ada, now=NOON)
    team.refresh_from_db()
    assert (team.joinable, team.country) == (False, "Peru")
    assert details()[-1] == {"changed": ["country", "joinable"]}
    with pytest.raises(UnknownTeam):
        teams.change(10**9, {"joinable": True}, by=ada, now=NOON)


# Members


def test_account_joins_a_team_and_leaves_its_former_team(eve, team):
    other = teams.create(an_account(), TeamProfile(name="other"), now=NOON)
    teams.join(eve, team.pk)
    assert team_of(eve) == team.pk
    teams.join(eve, team.pk)
    teams.join(eve, other.pk)
    assert team_of(eve) == other.pk
    teams.leave(eve)
    teams.leave(eve)
    assert team_of(eve) is None


def test_closed_and_unknown_teams_cannot_be_joined(eve, team):
    update(team, joinable=False)
    with pytest.raises(TeamRefused, match="accepts no members"):
        teams.join(eve, team.pk)
    with pytest.raises(UnknownTeam):
        teams.join(eve, 10**9)
    assert team_of(eve) is None


def test_founder_leaves_only_as_the_last_member(ada, eve, team):
    teams.join(eve, team.pk)
    for leaving in (
        lambda: teams.leave(ada),
        lambda: teams.create(ada, TeamProfile(name="new"), now=NOON),
    ):
        with pytest.raises(TeamRefused, match="transfer the foundership"):
            leaving()
    assert team_of(ada) == team.pk
    assert not Team.objects.filter(name="new").exists()
    teams.leave(eve)
    teams.leave(ada)
    assert (team_of(ada), founder_of(team)) == (None, None)


def test_founder_removes_other_members(ada, eve, team):
    teams.join(eve, team.pk)
    teams.request_foundership(eve, now=NOON)
    with pytest.raises(NotFounder):
        teams.remove_member(team.pk, ada.pk, by=eve, now=NOON)
    with pytest.raises(TeamRefused, match="leave the team"):
        teams.remove_member(team.pk, ada.pk, by=ada, now=NOON)
    teams.remove_member(team.pk, eve.pk, by=ada, now=NOON)
    team.refresh_from_db()
    assert (team_of(eve), team.requested_by) == (None, None)
    assert details()[-1] == {"removed": eve.pk}
    for stranger in (eve.pk, 10**9):
        with pytest.raises(TeamRefused, match="is not a member of The primes"):
            teams.remove_member(team.pk, stranger, by=ada, now=NOON)


# Inactive members


def test_founder_leaves_a_team_whose_other_members_are_all_inactive(ada, eve, team):
    teams.join(eve, team.pk)
    update(eve, is_active=False)
    teams.leave(ada)
    assert (team_of(ada), founder_of(team)) == (None, None)
    update(eve, is_active=True)
    teams.request_foundership(eve, now=NOON)
    assert founder_of(team) == eve.pk


def test_founder_removes_an_inactive_member(ada, eve, team):
    teams.join(eve, team.pk)
    update(eve, is_active=False)
    teams.remove_member(team.pk, eve.pk, by=ada, now=NOON)
    assert team_of(eve) is None


# Foundership


def test_founder_transfers_the_foundership_to_a_member(ada, eve, team):
    with pytest.raises(TeamRefused, match="not an active member"):
        teams.transfer(team.pk, eve.pk, by=ada, now=NOON)
    teams.join(eve, team.pk)
    teams.transfer(team.pk, eve.pk, by=ada, now=NOON)
    assert founder_of(team) == eve.pk
    assert details()[-1] == {"founder": eve.pk, "former_founder": ada.pk}
    with pytest.raises(NotFounder):
        teams.transfer(team.pk, ada.pk, by=ada, now=NOON)
    teams.leave(ada)
    assert team_of(ada) is None


def test_inactive_member_cannot_become_the_founder(ada, eve, team):
    teams.join(eve, team.pk)
    update(eve, is_active=False)
    with pytest.raises(TeamRefused, match="not an active member"):
        teams.transfer(team.pk, eve.pk, by=ada, now=NOON)


def test_unanswered_request_gives_the_foundership_after_sixty_days(ada, eve, team):
    teams.join(eve, team.pk)
    teams.request_foundership(eve, now=NOON)
    with pytest.raises(TeamRefused, match="time to answer"):
        teams.assume_foundership(eve, now=NOON + 59 * DAY)
    teams.assume_foundership(eve, now=NOON + 60 * DAY)
    assert founder_of(team) == eve.pk
    assert (team.requested_by, team.requested_at) == (None, None)


def test_declined_request_gives_nothing_and_may_be_repeated_after_sixty_days(ada, eve, team):
    teams.join(eve, team.pk)
    teams.request_foundership(eve, now=NOON)
    with pytest.raises(NotFounder):
        teams.decline_request(team.pk, by=eve, now=NOON)
    teams.decline_request(team.pk, by=ada, now=NOON)
    with pytest.raises(TeamRefused, match="was not requested"):
        teams.decline_request(team.pk, by=ada, now=NOON)
    with pytest.raises(TeamRefused, match="no open request"):
        teams.assume_foundership(eve, now=NOON + 61 * DAY)
    with pytest.raises(TeamRefused, match="Hint: request it after"):
        teams.request_foundership(eve, now=NOON + 59 * DAY)
    teams.request_foundership(eve, now=NOON + 60 * DAY)


def test_second_member_requests_after_ninety_days_without_an_answer(ada, eve, team):
    bob = an_account("bob")
    teams.join(eve, team.pk)
    teams.join(bob, team.pk)
    teams.request_foundership(eve, now=NOON)
    with pytest.raises(TeamRefused):
        teams.request_foundership(bob, now=NOON + 89 * DAY)
    teams.request_foundership(bob, now=NOON + 90 * DAY)
    with pytest.raises(TeamRefused, match="no open request"):
        teams.assume_foundership(eve, now=NOON + 200 * DAY)


def test_request_ends_when_the_member_leaves(ada, eve, team):
    teams.join(eve, team.pk)
    teams.request_foundership(eve, now=NOON)
    teams.leave(eve)
    team.refresh_from_db()
    assert team.requested_by is None
    teams.join(eve, team.pk)
    with pytest.raises(TeamRefused, match="no open request"):
        teams.assume_foundership(eve, now=NOON + 61 * DAY)


def test_member_of_a_team_without_a_founder_becomes_its_founder_at_once(ada, eve, team):
    with pytest.raises(TeamRefused, match="has no team"):
        teams.request_foundership(eve, now=NOON)
    teams.join(eve, team.pk)
    with pytest.raises(TeamRefused, match="founder of The primes already"):
        teams.request_foundership(ada, now=NOON)
    update(team, founder=None)
    teams.request_foundership(eve, now=NOON)
    assert founder_of(team) == eve.pk


def test_new_account_cannot_join_through_another_case_or_space_of_a_taken_name(team):
    with pytest.raises(TeamRefused, match="already"):
        teams.create(an_account(), TeamProfile(name=" The primes"), now=NOON)


# Concurrent changes


def refusal_elsewhere(act, *args, **options) -> TeamRefused | None:
    """Carry out an operation on another connection; return its refusal, if any."""
    try:
        act(*args, **options)
    except TeamRefused as refusal:
        return refusal
    finally:
        connection.close()
    return None


@pytest.mark.django_db(transaction=True)
def test_founder_does_not_leave_the_account_that_joins_at_the_same_moment():
    ada, eve = an_account("ada"), an_account("eve")
    team = teams.create(ada, TeamProfile(name="The primes"), now=NOON)
    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            teams.join(eve, team.pk)
            leaving = threads.submit(refusal_elsewhere, teams.leave, ada)
            wait_until_blocked()
        assert "transfer the foundership" in str(leaving.result(20))
    assert (founder_of(team), team_of(ada), team_of(eve)) == (ada.pk, team.pk, team.pk)


@pytest.mark.django_db(transaction=True)
def test_foundership_is_not_transferred_to_a_member_who_leaves_at_the_same_moment():
    ada, eve = an_account("ada"), an_account("eve")
    team = teams.create(ada, TeamProfile(name="The primes"), now=NOON)
    teams.join(eve, team.pk)
    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            teams.leave(eve)
            giving = threads.submit(
                refusal_elsewhere, teams.transfer, team.pk, eve.pk, by=ada, now=NOON
            )
            wait_until_blocked()
        assert "not an active member" in str(giving.result(20))
    assert (founder_of(team), team_of(eve)) == (ada.pk, None)


@pytest.mark.django_db(transaction=True)
def test_account_does_not_join_a_team_that_is_closed_at_the_same_moment():
    ada, eve = an_account("ada"), an_account("eve")
    team = teams.create(ada, TeamProfile(name="The primes"), now=NOON)
    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            teams.change(team.pk, {"joinable": False}, by=ada, now=NOON)
            joining = threads.submit(refusal_elsewhere, teams.join, eve, team.pk)
            wait_until_blocked()
        assert "accepts no members" in str(joining.result(20))
    assert team_of(eve) is None


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("action", "is_member"),
    [
        (lambda team, eve: teams.join(eve, team.pk), False),
        (lambda _team, eve: teams.create(eve, TeamProfile(name="new"), now=NOON), False),
        (lambda _team, eve: teams.request_foundership(eve, now=NOON), True),
        (lambda _team, eve: teams.assume_foundership(eve, now=NOON), True),
    ],
    ids=["join", "create", "request the foundership", "assume the foundership"],
)
def test_account_that_is_blocked_at_the_same_moment_gets_no_team_and_no_foundership(
    action, is_member
):
    ada, eve = an_account("ada"), an_account("eve")
    team = teams.create(ada, TeamProfile(name="The primes"), now=NOON)
    if is_member:
        teams.join(eve, team.pk)
        update(team, requested_by=eve, requested_at=NOON - 90 * DAY)
        eve.refresh_from_db()
    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            update(eve, is_active=False)
            acting = threads.submit(refusal_elsewhere, action, team, eve)
            wait_until_blocked()
        assert isinstance(acting.result(20), InactiveAccount)
    assert (founder_of(team), Team.objects.count()) == (ada.pk, 1)
    assert team_of(eve) == (team.pk if is_member else None)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "action",
    [
        lambda team, ada, eve: teams.transfer(team.pk, eve.pk, by=ada, now=NOON),
        lambda team, ada, _eve: teams.change(team.pk, {"name": "new"}, by=ada, now=NOON),
        lambda team, ada, eve: teams.remove_member(team.pk, eve.pk, by=ada, now=NOON),
        lambda team, ada, _eve: teams.decline_request(team.pk, by=ada, now=NOON),
    ],
    ids=["transfer", "change", "remove a member", "decline a request"],
)
def test_founder_who_is_blocked_at_the_same_moment_changes_nothing(action):
    ada, eve = an_account("ada"), an_account("eve")
    team = teams.create(ada, TeamProfile(name="The primes"), now=NOON)
    teams.join(eve, team.pk)
    eve.refresh_from_db()
    teams.request_foundership(eve, now=NOON)
    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            update(ada, is_active=False)
            acting = threads.submit(refusal_elsewhere, action, team, ada, eve)
            wait_until_blocked()
        assert isinstance(acting.result(20), InactiveAccount)
    team.refresh_from_db()
    assert (team.name, team.founder_id, team.requested_by_id) == ("The primes", ada.pk, eve.pk)
    assert team_of(eve) == team.pk
