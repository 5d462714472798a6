"""Only members lead teams: staff appoint no others, who would have no rights."""

from __future__ import annotations

import pytest
from django.test import Client

from scheduler.models import Account, Team
from scheduler.people import accounts, roles, team_reads, teams
from scheduler.people.teams import NotFounder, TeamProfile
from tests.conftest import NOON
from tests.rows import an_account, update

pytestmark = pytest.mark.django_db

HIDDEN = "hidden-person"


@pytest.fixture
def ada() -> Account:
    return an_account("ada")


@pytest.fixture
def team(ada: Account) -> Team:
    return teams.create(ada, TeamProfile(name="The primes"), now=NOON)


@pytest.fixture
def moderator() -> Client:
    account = accounts.create_staff(
        email="mod@example.org", password="forty two hands", is_superuser=False, now=NOON
    )
    roles.give(account, "moderator", now=NOON)
    client = Client()
    client.force_login(account)
    return client


def appoint(client: Client, team: Team, account: Account):
    """Send the form of a team as the page shows it, with another founder."""
    path = f"/admin/scheduler/team/{team.pk}/change/"
    [inline] = client.get(path).context["inline_admin_formsets"]
    management = inline.formset.management_form
    fields = {management.add_prefix(name): management[name].value() for name in management.fields}
    fields |= {"name": team.name, "kind": team.kind, "joinable": "on", "founder": account.pk}
    return client.post(path, fields)


@pytest.mark.parametrize("fields", [{}, {"is_active": False}])
def test_staff_make_no_other_account_the_founder(moderator, ada, team, fields):
    update(other := an_account("other"), **fields)
    if fields:
        update(other, team=team)
    answer = appoint(moderator, team, other)
    assert answer.status_code == 200
    assert f"Account {other.pk} is not an active member of The primes" in str(
        answer.context["errors"]
    )
    team.refresh_from_db()
    assert team.founder_id == ada.pk


@pytest.fixture
def stale(team: Team) -> Account:
    """The founder of the team in a row of an earlier version, who is not a member."""
    an_account(HIDDEN, team=team, share_statistics=False)
    founder = an_account("stale")
    update(team, founder=founder)
    return founder


def test_founder_who_is_no_member_opens_no_page_of_the_team(ada, team, stale):
    browser = Client()
    browser.force_login(stale)
    path = f"/teams/{team.pk}/"
    for page in ("delete/", "edit/", f"members/{ada.pk}/", f"members/{ada.pk}/administrator/"):
        assert browser.get(f"{path}{page}").status_code == 404
        assert browser.post(f"{path}{page}", {"action": "name"}).status_code == 404
    assert HIDDEN not in browser.get(path).content.decode()
    assert team_reads.shown_administrators(team, stale) == []


def test_founder_who_is_no_member_changes_nothing(ada, team, stale):
    for operation in (
        lambda: teams.change(team.pk, {"country": "Peru"}, by=stale, now=NOON),
        lambda: teams.remove_member(team.pk, ada.pk, by=stale, now=NOON),
        lambda: teams.name_administrator(team.pk, ada.pk, by=stale, now=NOON),
        lambda: teams.dismiss_administrator(team.pk, ada.pk, by=stale, now=NOON),
        lambda: teams.transfer(team.pk, ada.pk, by=stale, now=NOON),
        lambda: teams.decline_request(team.pk, by=stale, now=NOON),
        lambda: teams.delete(team.pk, by=stale, now=NOON),
    ):
        with pytest.raises(NotFounder):
            operation()
    assert not team_reads.may_manage(team, stale)


def test_founder_who_left_at_the_same_moment_has_no_rights(ada, team):
    """The rights are those of the locked account, not of the one that the request has read."""
    ada.refresh_from_db()
    Account.objects.filter(pk=ada.pk).update(team=None)
    assert ada.team_id == team.pk
    with pytest.raises(NotFounder):
        teams.delete(team.pk, by=ada, now=NOON)
