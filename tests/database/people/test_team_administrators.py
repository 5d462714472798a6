"""Founders name members as administrators, who resign or are dismissed."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import IntegrityError, connection, transaction

from scheduler.models import Account, AuditEntry, Team, TeamAdministrator
from scheduler.people import audit, team_reads, teams
from scheduler.people.personal_data import erasure
from scheduler.people.teams import (
    InactiveAccount,
    NotFounder,
    NotMember,
    TeamProfile,
    TeamRefused,
    administrators,
    team_views,
)
from tests.conftest import NOON
from tests.database.waiting import wait_until_blocked
from tests.rows import an_account, update

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada() -> Account:
    return an_account("ada")


@pytest.fixture
def eve() -> Account:
    return an_account("eve")


@pytest.fixture
def bob() -> Account:
    return an_account("bob")


@pytest.fixture
def team(ada, eve, bob) -> Team:
    """The team of Ada, with the members Eve and Bob."""
    team = teams.create(ada, TeamProfile(name="The primes"), now=NOON)
    for member in (eve, bob):
        teams.join(member, team.pk)
    for account in (ada, eve, bob):
        account.refresh_from_db()
    return team


@pytest.fixture
def administered(ada, eve, team) -> Team:
    """The team, of which Eve is an administrator."""
    return teams.name_administrator(team.pk, eve.pk, by=ada, now=NOON)


def names(team: Team) -> list[str]:
    return [account.name for account in team_reads.administrators(team)]


def details() -> list[dict]:
    entries = AuditEntry.objects.filter(event="team_changed").order_by("pk")
    return list(entries.values_list("details", flat=True))


def team_of(account: Account) -> int | None:
    account.refresh_from_db()
    return account.team_id


# Naming and dismissing


def test_founder_names_and_dismisses_administrators(ada, eve, bob, team):
    with audit.acting(account_id=ada.pk, name=ada.email):
        teams.name_administrator(team.pk, bob.pk, by=ada, now=NOON)
        teams.name_administrator(team.pk, eve.pk, by=ada, now=NOON)
    assert names(team) == ["bob", "eve"]
    row = TeamAdministrator.objects.get(account=eve)
    assert (row.team_id, row.named_at) == (team.pk, NOON)
    entry = AuditEntry.objects.latest("pk")
    assert (entry.event, entry.account_id) == ("team_changed", ada.pk)
    assert (entry.subject, entry.details) == (
        f"team {team.pk} The primes",
        {"named_administrator": eve.pk},
    )
    teams.dismiss_administrator(team.pk, bob.pk, by=ada, now=NOON)
    assert names(team) == ["eve"]
    assert details()[-1] == {"dismissed_administrator": bob.pk}
    assert team_of(bob) == team.pk
    with pytest.raises(NotMember, match=f"Account {bob.pk} is not an administrator of The primes"):
        teams.dismiss_administrator(team.pk, bob.pk, by=ada, now=NOON)


def test_naming_an_administrator_again_changes_nothing(ada, eve, administered):
    before = details()
    teams.name_administrator(administered.pk, eve.pk, by=ada, now=NOON)
    assert names(administered) == ["eve"]
    assert details() == before


def test_only_another_active_member_becomes_an_administrator(ada, eve, bob, team):
    stranger = an_account("stranger")
    update(bob, is_active=False)
    for account in (stranger, bob):
        with pytest.raises(NotMember, match="is not an active member of The primes"):
            teams.name_administrator(team.pk, account.pk, by=ada, now=NOON)
    with pytest.raises(TeamRefused, match="is the founder of The primes already"):
        teams.name_administrator(team.pk, ada.pk, by=ada, now=NOON)
    assert not TeamAdministrator.objects.exists()


def test_number_of_active_administrators_is_limited(ada, eve, bob, team, monkeypatch):
    monkeypatch.setattr(administrators, "MAX_ADMINISTRATORS", 1)
    teams.name_administrator(team.pk, eve.pk, by=ada, now=NOON)
    with pytest.raises(TeamRefused, match=r"has 1 administrators, .* Hint: dismiss one of them"):
        teams.name_administrator(team.pk, bob.pk, by=ada, now=NOON)
    assert names(team) == ["eve"]
    update(eve, is_active=False)
    teams.name_administrator(team.pk, bob.pk, by=ada, now=NOON)
    assert names(team) == ["bob"]


def test_inactive_administrator_is_dismissed(ada, eve, administered):
    update(eve, is_active=False)
    teams.dismiss_administrator(administered.pk, eve.pk, by=ada, now=NOON)
    assert not TeamAdministrator.objects.exists()


def test_administrator_resigns(eve, bob, administered):
    teams.resign(eve, now=NOON)
    assert names(administered) == []
    assert team_of(eve) == administered.pk
    assert details()[-1] == {"resigned_administrator": eve.pk}
    for account in (eve, bob):
        with pytest.raises(TeamRefused, match="is not an administrator"):
            teams.resign(account, now=NOON)
    with pytest.raises(TeamRefused, match="has no team"):
        teams.resign(an_account(), now=NOON)


def test_account_administers_one_team_only(eve, administered):
    other = Team.objects.create(name="composites", created_at=NOON)
    with pytest.raises(IntegrityError), transaction.atomic():
        TeamAdministrator.objects.create(account=eve, team=other, named_at=NOON)


# Rights of administrators


def test_administrator_changes_the_team_and_removes_members(eve, bob, administered):
    fields = {"name": "Primes", "kind": 2, "url": "https://example.org/", "country": "Peru"}
    fields |= {"description": "By Eve", "joinable": False}
    teams.change(administered.pk, fields, by=eve, now=NOON)
    administered.refresh_from_db()
    assert {name: getattr(administered, name) for name in fields} == fields
    teams.remove_member(administered.pk, bob.pk, by=eve, now=NOON)
    assert team_of(bob) is None
    assert details()[-1] == {"removed": bob.pk}


def test_administrator_removes_neither_the_founder_nor_administrators(ada, eve, bob, administered):
    teams.name_administrator(administered.pk, bob.pk, by=ada, now=NOON)
    for account in (ada, bob):
        with pytest.raises(NotFounder, match="Only the founder of The primes may do this"):
            teams.remove_member(administered.pk, account.pk, by=eve, now=NOON)
        assert team_of(account) == administered.pk
    with pytest.raises(TeamRefused, match=r"cannot remove itself. Hint: leave the team"):
        teams.remove_member(administered.pk, eve.pk, by=eve, now=NOON)
    teams.remove_member(administered.pk, bob.pk, by=ada, now=NOON)
    assert names(administered) == ["eve"]


@pytest.mark.parametrize(
    "action",
    [
        lambda team, eve, bob: teams.name_administrator(team.pk, bob.pk, by=eve, now=NOON),
        lambda team, eve, _bob: teams.dismiss_administrator(team.pk, eve.pk, by=eve, now=NOON),
        lambda team, eve, bob: teams.transfer(team.pk, bob.pk, by=eve, now=NOON),
        lambda team, eve, _bob: teams.transfer(team.pk, eve.pk, by=eve, now=NOON),
        lambda team, eve, _bob: teams.decline_request(team.pk, by=eve, now=NOON),
        lambda team, eve, _bob: teams.delete(team.pk, by=eve, now=NOON),
    ],
    ids=["name", "dismiss", "transfer", "transfer to oneself", "decline a request", "delete"],
)
def test_administrator_has_no_other_rights_of_the_founder(action, ada, eve, bob, administered):
    teams.request_foundership(bob, now=NOON)
    with pytest.raises(NotFounder, match="Only the founder"):
        action(administered, eve, bob)
    administered.refresh_from_db()
    assert (administered.founder_id, administered.requested_by_id) == (ada.pk, bob.pk)
    assert names(administered) == ["eve"]


def test_administrator_gets_the_foundership_like_every_member(ada, eve, administered):
    teams.request_foundership(eve, now=NOON)
    with pytest.raises(TeamRefused, match="time to answer"):
        teams.assume_foundership(eve, now=NOON)
    administered.refresh_from_db()
    assert administered.founder_id == ada.pk


# The end of an administratorship


@pytest.mark.parametrize(
    "end",
    [
        lambda _team, _ada, eve: teams.leave(eve),
        lambda team, ada, eve: teams.remove_member(team.pk, eve.pk, by=ada, now=NOON),
        lambda _team, _ada, eve: teams.create(eve, TeamProfile(name="new"), now=NOON),
        lambda _team, _ada, eve: teams.join(eve, Team.objects.get(name="other").pk),
    ],
    ids=["leave", "removed", "create a team", "join another team"],
)
def test_administrator_who_left_the_team_has_no_rights_also_after_joining_again(
    end, ada, eve, administered
):
    teams.create(an_account("zoe"), TeamProfile(name="other"), now=NOON)
    end(administered, ada, eve)
    assert not TeamAdministrator.objects.exists()
    assert {"ended_administrator": eve.pk} in details()
    if Team.objects.filter(founder=eve).exists():
        teams.leave(eve)
    teams.join(eve, administered.pk)
    eve.refresh_from_db()
    with pytest.raises(NotFounder):
        teams.change(administered.pk, {"country": "Peru"}, by=eve, now=NOON)


def test_row_of_an_account_in_another_team_gives_no_rights(ada, eve, administered):
    """Only damaged rows are like this; `fsck` finds them."""
    update(eve, team=None)
    assert names(administered) == []
    with pytest.raises(NotFounder):
        teams.change(administered.pk, {"country": "Peru"}, by=eve, now=NOON)


def test_new_founder_is_no_administrator_and_the_others_stay(ada, eve, bob, administered):
    teams.name_administrator(administered.pk, bob.pk, by=ada, now=NOON)
    teams.transfer(administered.pk, eve.pk, by=ada, now=NOON)
    assert names(administered) == ["bob"]
    with pytest.raises(NotFounder):
        teams.change(administered.pk, {"country": "Peru"}, by=ada, now=NOON)


def test_administrators_of_a_deleted_team_end(administered):
    teams.delete_as_staff(administered.pk, now=NOON)
    assert not TeamAdministrator.objects.exists()


def test_erased_account_administers_no_team(eve, administered):
    erasure.erase(eve, now=NOON)
    assert not TeamAdministrator.objects.exists()


def test_administrator_who_inherits_the_team_of_an_erased_founder_leads_it(ada, eve, administered):
    erasure.erase(ada, now=NOON)
    administered.refresh_from_db()
    assert administered.founder_id == eve.pk
    assert not TeamAdministrator.objects.exists()


# Reading


def test_administrators_are_shown_as_they_permit(ada, eve, bob, administered):
    teams.name_administrator(administered.pk, bob.pk, by=ada, now=NOON)
    update(bob, share_statistics=False)
    member = an_account("member", team=administered)
    for viewer, expected in (
        (None, ["eve"]),
        (member, ["eve"]),
        (an_account(), ["eve"]),
        (ada, ["eve", "bob"]),
        (bob, ["eve", "bob"]),
    ):
        view = team_views.read(administered.pk, viewer, now=NOON)
        assert view is not None
        assert [account.name for account in view.administrators] == expected
        assert view.may_manage is (viewer in (ada, bob))
    update(eve, is_active=False)
    assert names(administered) == ["bob"]


def test_hidden_founder_is_named_to_administrators_while_active(ada, eve, administered):
    update(ada, share_statistics=False)
    eve.refresh_from_db()
    view = team_views.read(administered.pk, eve, now=NOON)
    assert (view.founder_name, view.shown_founder_id) == ("ada", 0)
    assert team_reads.shown_leaders(administered, eve) == (ada.pk, None)
    update(ada, is_active=False)
    assert team_views.read(administered.pk, eve, now=NOON).founder_name == ""
    assert team_reads.shown_leaders(administered, eve) == (None, None)


# Concurrent changes


def refusal_elsewhere(act: Callable, *args: object, **options: object) -> TeamRefused | None:
    """Carry out an operation on another connection; return its refusal, if any."""
    try:
        act(*args, **options)
    except TeamRefused as refusal:
        return refusal
    finally:
        connection.close()
    return None


def refusal_after(first: Callable, second: Callable) -> TeamRefused | None:
    """Start `second` on another connection during the transaction of `first`, for which it waits."""
    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            first()
            waiting = threads.submit(refusal_elsewhere, second)
            wait_until_blocked()
        return waiting.result(20)


@pytest.mark.django_db(transaction=True)
def test_member_who_leaves_at_the_same_moment_is_not_named(ada, eve, team):
    refusal = refusal_after(
        lambda: teams.leave(eve),
        lambda: teams.name_administrator(team.pk, eve.pk, by=ada, now=NOON),
    )
    assert isinstance(refusal, NotMember)
    assert team_of(eve) is None
    assert not TeamAdministrator.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_member_who_is_named_at_the_same_moment_leaves_without_the_right(ada, eve, team):
    refusal = refusal_after(
        lambda: teams.name_administrator(team.pk, eve.pk, by=ada, now=NOON),
        lambda: teams.leave(eve),
    )
    assert refusal is None
    assert team_of(eve) is None
    assert not TeamAdministrator.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_administrator_who_leaves_at_the_same_moment_is_not_dismissed_again(ada, eve, administered):
    refusal = refusal_after(
        lambda: teams.leave(eve),
        lambda: teams.dismiss_administrator(administered.pk, eve.pk, by=ada, now=NOON),
    )
    assert isinstance(refusal, NotMember)
    assert team_of(eve) is None
    assert {"dismissed_administrator": eve.pk} not in details()


@pytest.mark.django_db(transaction=True)
def test_administrator_who_is_dismissed_at_the_same_moment_leaves(ada, eve, administered):
    refusal = refusal_after(
        lambda: teams.dismiss_administrator(administered.pk, eve.pk, by=ada, now=NOON),
        lambda: teams.leave(eve),
    )
    assert refusal is None
    assert team_of(eve) is None
    assert not TeamAdministrator.objects.exists()
    assert {"ended_administrator": eve.pk} not in details()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("action", "refused"),
    [
        (
            lambda team, eve, _bob: teams.change(team.pk, {"name": "x"}, by=eve, now=NOON),
            NotFounder,
        ),
        (lambda team, eve, bob: teams.remove_member(team.pk, bob.pk, by=eve, now=NOON), NotFounder),
        (lambda _team, eve, _bob: teams.resign(eve, now=NOON), TeamRefused),
    ],
    ids=["change", "remove a member", "resign"],
)
def test_administrator_who_is_dismissed_at_the_same_moment_changes_nothing(
    action, refused, ada, eve, bob, administered
):
    refusal = refusal_after(
        lambda: teams.dismiss_administrator(administered.pk, eve.pk, by=ada, now=NOON),
        lambda: action(administered, eve, bob),
    )
    assert isinstance(refusal, refused)
    administered.refresh_from_db()
    assert (administered.name, team_of(bob)) == ("The primes", administered.pk)


@pytest.mark.django_db(transaction=True)
def test_member_who_is_named_at_the_same_moment_is_not_removed_by_another_administrator(
    ada, eve, bob, administered
):
    refusal = refusal_after(
        lambda: teams.name_administrator(administered.pk, bob.pk, by=ada, now=NOON),
        lambda: teams.remove_member(administered.pk, bob.pk, by=eve, now=NOON),
    )
    assert isinstance(refusal, NotFounder)
    assert team_of(bob) == administered.pk


@pytest.mark.django_db(transaction=True)
def test_limit_holds_for_two_members_who_are_named_at_the_same_moment(
    ada, eve, bob, team, monkeypatch
):
    monkeypatch.setattr(administrators, "MAX_ADMINISTRATORS", 1)
    refusal = refusal_after(
        lambda: teams.name_administrator(team.pk, eve.pk, by=ada, now=NOON),
        lambda: teams.name_administrator(team.pk, bob.pk, by=ada, now=NOON),
    )
    assert "which is the limit" in str(refusal)
    assert names(team) == ["eve"]


@pytest.mark.django_db(transaction=True)
def test_founder_who_hands_over_at_the_same_moment_cannot_name_administrators(ada, eve, bob, team):
    refusal = refusal_after(
        lambda: teams.transfer(team.pk, bob.pk, by=ada, now=NOON),
        lambda: teams.name_administrator(team.pk, eve.pk, by=ada, now=NOON),
    )
    assert isinstance(refusal, NotFounder)
    assert not TeamAdministrator.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("blocked_name", ["ada", "eve"])
def test_account_that_is_blocked_at_the_same_moment_neither_names_nor_is_named(
    blocked_name, ada, eve, team
):
    refusal = refusal_after(
        lambda: Account.objects.filter(name=blocked_name).update(is_active=False),
        lambda: teams.name_administrator(team.pk, eve.pk, by=ada, now=NOON),
    )
    assert isinstance(refusal, InactiveAccount if blocked_name == "ada" else NotMember)
    assert not TeamAdministrator.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_administrator_who_is_blocked_at_the_same_moment_changes_nothing(eve, administered):
    refusal = refusal_after(
        lambda: update(eve, is_active=False),
        lambda: teams.change(administered.pk, {"name": "new"}, by=eve, now=NOON),
    )
    assert isinstance(refusal, InactiveAccount)
    administered.refresh_from_db()
    assert administered.name == "The primes"
