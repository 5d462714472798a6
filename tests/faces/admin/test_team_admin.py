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


# Changes by staff


def audited() -> list[tuple[str, str, dict]]:
    rows = AuditEntry.objects.filter(event="team_changed", actor="mod@example.org").order_by("pk")
    return [(row.actor, row.subject, row.details) for row in rows]


def founder_of(team: Team) -> int | None:
    return Team.objects.get(pk=team.pk).founder_id


def errors_of(answer) -> str:
    assert answer.status_code == 200
    return str(answer.context["errors"])


def test_team_that_staff_add_has_no_founder_and_is_audited():
    superuser = staff_member("mod")
    Account.objects.update(is_superuser=True)
    ada = an_account("ada")
    fields = {"name": " New team", "joinable": "on", "founder": ada.pk}
    form = superuser.get("/admin/scheduler/team/add/").context["adminform"].form
    assert "founder" not in form.fields
    submit(superuser, "/admin/scheduler/team/add/", **fields)
    team = Team.objects.get()
    assert (team.name, team.founder, team.joinable) == ("New team", None, True)
    assert team.created_at is not None
    details = {"created": True, "founder": None}
    assert audited() == [("mod@example.org", f"team {team.pk} New team", details)]
    assert not Account.objects.filter(team=team).exists()


def test_changes_by_staff_are_audited_by_the_names_of_the_fields(team):
    moderator = staff_member("mod", "moderator")
    text = "one\r\ntwo"
    submit(moderator, page_of(team), country="Peru", description=text)
    team.refresh_from_db()
    assert (team.country, team.description) == ("Peru", "one\ntwo")
    details = {"changed": ["country", "description"]}
    assert audited() == [("mod@example.org", f"team {team.pk} The primes", details)]
    # The browser sends the stored text with other line ends.
    submit(moderator, page_of(team), description=text)
    assert len(audited()) == 1


def test_change_of_the_founder_by_staff_is_audited(team):
    ada, eve = (Account.objects.get(name=name) for name in ("ada", "eve"))
    moderator = staff_member("mod", "moderator")
    submit(moderator, page_of(team), founder=eve.pk, country="Peru")
    assert founder_of(team) == eve.pk
    assert Team.objects.get().country == "Peru"
    submit(moderator, page_of(team), founder="")
    assert founder_of(team) is None
    assert [details for _, _, details in audited()] == [
        {"founder": eve.pk, "former_founder": ada.pk},
        {"changed": ["country"]},
        {"founder": None, "former_founder": eve.pk},
    ]


def test_staff_cannot_change_the_credit_of_a_team(team):
    moderator = staff_member("mod", "moderator")
    submit(moderator, page_of(team), total_credit="5", expavg_credit="5", country="Peru")
    team.refresh_from_db()
    assert (team.country, team.total_credit, team.expavg_credit) == ("Peru", 0, 0)


@pytest.mark.parametrize("changed", [{"name": "<b>"}, {"url": "ftp://a.example"}])
def test_bad_values_of_a_team_are_refused_in_the_form(team, changed):
    moderator = staff_member("mod", "moderator")
    submit_fields = {"name": "The primes", "kind": 0, "founder": team.founder_id} | changed
    inline = {"administrators-TOTAL_FORMS": 0, "administrators-INITIAL_FORMS": 0}
    assert "Hint" in errors_of(moderator.post(page_of(team), submit_fields | inline))
    assert audited() == []


def test_founder_of_other_active_members_is_not_moved_by_staff(team):
    ada = team.founder
    moderator = staff_member("mod", "moderator")
    other = teams.create(an_account("zoe"), TeamProfile(name="other"), now=NOON)
    for target in (other.pk, ""):
        answer = moderator.post(page_of(ada), {"name": "ada", "team": target})
        assert "transfer the foundership first" in errors_of(answer)
        ada.refresh_from_db()
        assert (ada.team_id, founder_of(team)) == (team.pk, ada.pk)
    assert audited() == []


def test_founder_whom_staff_move_as_the_last_active_member_leaves_no_founder_behind(team):
    ada = team.founder
    Account.objects.filter(name="eve").update(is_active=False)
    moderator = staff_member("mod", "moderator")
    other = teams.create(an_account("zoe"), TeamProfile(name="other"), now=NOON)
    submit(moderator, page_of(ada), team=other.pk, country="Peru")
    ada.refresh_from_db()
    assert (ada.team_id, ada.country, founder_of(team)) == (other.pk, "Peru", None)
    former, new = f"team {team.pk} The primes", f"team {other.pk} other"
    assert audited() == [
        ("mod@example.org", former, {"founder": None, "former_founder": ada.pk}),
        ("mod@example.org", former, {"removed": ada.pk}),
        ("mod@example.org", new, {"added": ada.pk}),
    ]


def test_request_of_an_account_that_staff_move_ends(team):
    eve = Account.objects.get(name="eve")
    teams.request_foundership(eve, now=NOON)
    submit(staff_member("mod", "moderator"), page_of(eve), team="")
    eve.refresh_from_db()
    team.refresh_from_db()
    assert (eve.team_id, team.requested_by_id) == (None, None)
