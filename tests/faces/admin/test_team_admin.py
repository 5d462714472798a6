"""Staff deletes teams in the administration, after a preview."""

from __future__ import annotations

import pytest
from django.test import Client

from scheduler.models import Account, AuditEntry, Team, TeamAdministrator
from scheduler.people import accounts, roles, teams
from scheduler.people.teams import NotFounder, TeamProfile, deletion
from tests.conftest import NOON
from tests.rows import an_account
from tests.security.test_role_matrix import submit

pytestmark = pytest.mark.django_db

LIST = "/admin/scheduler/team/"


def staff_member(name: str, *role_names: str) -> Client:
    account = accounts.create_staff(
        email=f"{name}@example.org", password="forty two hands", is_superuser=False, now=NOON
    )
    for role in role_names:
        roles.give(account, role, now=NOON)
    client = Client()
    client.force_login(account)
    return client


@pytest.fixture
def team() -> Team:
    team = teams.create(an_account("ada"), TeamProfile(name="The primes"), now=NOON)
    teams.join(an_account("eve"), team.pk)
    return team


def act(client: Client, *chosen: Team, **fields: str):
    form = {"action": "delete_teams", "_selected_action": [team.pk for team in chosen], **fields}
    return client.post(LIST, form, follow=True)


def test_moderator_sees_what_is_deleted_and_confirms_it(team):
    moderator = staff_member("mod", "moderator")
    text = act(moderator, team).content.decode()
    assert "The primes: members 2, credit 0" in text
    assert "Yes, delete them" in text
    assert Team.objects.exists()
    text = act(moderator, team, confirmed="yes").content.decode()
    assert "1 of 1 teams are deleted." in text
    assert not Team.objects.exists()
    assert not Account.objects.filter(team__isnull=False).exists()
    entry = AuditEntry.objects.filter(event="team_changed").latest("pk")
    assert (entry.actor, entry.details) == ("mod@example.org", {"deleted": True, "members": 2})
    assert "The primes" not in moderator.get(LIST).content.decode()
    assert moderator.get(f"{LIST}{team.pk}/change/").status_code == 302


def test_refusal_of_a_large_team_is_shown(team, monkeypatch):
    monkeypatch.setattr(deletion, "MAX_MEMBERS", 1)
    text = act(staff_member("mod", "moderator"), team, confirmed="yes").content.decode()
    assert "has more than 1 members" in text
    assert "teams are deleted" not in text
    assert Team.objects.exists()


def test_other_staff_deletes_no_team(team):
    for number, role in enumerate(("operator", "publisher", "read-only")):
        act(staff_member(f"staff{number}", role), team, confirmed="yes")
    assert Team.objects.exists()


@pytest.fixture
def eve(team) -> Account:
    """An administrator of the team."""
    eve = Account.objects.get(name="eve")
    teams.name_administrator(team.pk, eve.pk, by=team.founder, now=NOON)
    return eve


def page_of(row: object) -> str:
    return f"/admin/scheduler/{row._meta.model_name}/{row.pk}/change/"


def test_page_of_a_team_shows_its_administrators_read_only(team, eve):
    moderator = staff_member("mod", "moderator")
    answer = moderator.get(page_of(team))
    [inline] = answer.context["inline_admin_formsets"]
    assert [form.instance.account for form in inline.formset.forms] == [eve]
    assert not inline.has_add_permission
    assert not inline.has_change_permission
    assert page_of(TeamAdministrator.objects.get()) in answer.content.decode()
    listed = moderator.get("/admin/scheduler/teamadministrator/").content.decode()
    assert "eve" in listed
    assert "The primes" in listed


@pytest.mark.parametrize("joins_again", [False, True])
def test_administrator_whom_staff_move_to_another_team_loses_the_right(team, eve, joins_again):
    moderator = staff_member("mod", "moderator")
    other = teams.create(an_account("zoe"), TeamProfile(name="other"), now=NOON)
    submit(moderator, page_of(eve), team=other.pk)
    eve.refresh_from_db()
    assert eve.team_id == other.pk
    assert not TeamAdministrator.objects.exists()
    entry = AuditEntry.objects.filter(event="team_changed").latest("pk")
    assert (entry.actor, entry.details) == ("mod@example.org", {"ended_administrator": eve.pk})
    if joins_again:
        submit(moderator, page_of(eve), team=team.pk)
        eve.refresh_from_db()
        with pytest.raises(NotFounder):
            teams.change(team.pk, {"country": "Peru"}, by=eve, now=NOON)


def test_other_changes_by_staff_keep_the_right(team, eve):
    moderator = staff_member("mod", "moderator")
    submit(moderator, page_of(eve), country="Peru")
    submit(moderator, page_of(team), country="Peru")
    assert TeamAdministrator.objects.get().account == eve
    eve.refresh_from_db()
    team.refresh_from_db()
    assert (eve.country, team.country) == ("Peru", "Peru")


def test_administrator_whom_staff_make_the_founder_is_no_administrator(team, eve):
    submit(staff_member("mod", "moderator"), page_of(team), founder=eve.pk)
    team.refresh_from_db()
    assert team.founder_id == eve.pk
    assert not TeamAdministrator.objects.exists()
