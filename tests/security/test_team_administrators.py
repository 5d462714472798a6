"""Administrators of a team have only the rights that its founder gave them."""

from __future__ import annotations

import pytest
from django.test import Client

from scheduler.models import Account, AuditEntry, Team, TeamAdministrator
from scheduler.people import teams
from scheduler.people.teams import TeamProfile
from tests.conftest import NOON
from tests.faces.apis import a_program
from tests.rows import an_account, update

pytestmark = pytest.mark.django_db

HIDDEN = "hidden-person"


@pytest.fixture
def ada() -> Account:
    return an_account("ada")


@pytest.fixture
def eve(team: Team) -> Account:
    """An administrator of the team."""
    eve = an_account("eve", team=team)
    teams.name_administrator(team.pk, eve.pk, by=team.founder, now=NOON)
    return eve


@pytest.fixture
def team(ada: Account) -> Team:
    return teams.create(ada, TeamProfile(name="The primes"), now=NOON)


@pytest.fixture
def member(team: Team) -> Account:
    return an_account("mallory", team=team)


def browser_of(account: Account, **options: object) -> Client:
    client = Client(**options)
    client.force_login(account)
    return client


def text_of(browser: Client, path: str) -> str:
    answer = browser.get(path)
    assert answer.status_code == 200
    return answer.content.decode()


def state_of(team: Team) -> dict[str, object]:
    """Return what only the founder may change, and who the members are."""
    return {
        "founder": Team.objects.get(pk=team.pk).founder_id,
        "requested_by": Team.objects.get(pk=team.pk).requested_by_id,
        "members": sorted(Account.objects.filter(team=team).values_list("name", flat=True)),
        "administrators": sorted(
            TeamAdministrator.objects.filter(team=team).values_list("account__name", flat=True)
        ),
    }


def test_administrator_cannot_delete_hand_over_or_name_and_dismiss_others(ada, team, eve, member):
    other = an_account("other", team=team)
    teams.name_administrator(team.pk, other.pk, by=ada, now=NOON)
    teams.request_foundership(other, now=NOON)
    before, browser, path = state_of(team), browser_of(eve), f"/teams/{team.pk}/"
    assert browser.get(f"{path}delete/").status_code == 404
    assert browser.post(f"{path}delete/").status_code == 404
    for account in (ada, eve, member, other):
        page = f"{path}members/{account.pk}/"
        assert browser.get(f"{page}administrator/").status_code == 404
        for action in ("name", "dismiss"):
            answer = browser.post(f"{page}administrator/", {"action": action})
            assert answer.status_code == 404
        assert browser.post(page, {"action": "transfer"}).status_code == 404
    for account in (ada, eve, other):
        page = f"{path}members/{account.pk}/"
        assert browser.get(page).status_code == 404
        assert browser.post(page, {"action": "remove"}).status_code == 404
    browser.post(f"{path}foundership/", {"action": "decline"})
    browser.post(f"{path}foundership/", {"action": "assume"})
    assert state_of(team) == before
    text = text_of(browser, path)
    for link in ("delete/", f"members/{ada.pk}/", f"members/{other.pk}/", f"members/{eve.pk}/"):
        assert f'href="{path}{link}' not in text
    assert f'href="{path}members/{member.pk}/"' in text
    page = text_of(browser, f"{path}members/{member.pk}/")
    assert "administrator/" not in page
    assert "transfer" not in page


def test_administrator_has_no_rights_of_the_founder_over_the_api(ada, team, eve, member):
    other = an_account("other", team=team)
    teams.name_administrator(team.pk, other.pk, by=ada, now=NOON)
    before, program = state_of(team), a_program(eve)
    paths = [f"/me/team/administrators/{account.pk}" for account in (member, other, ada)]
    for path in paths:
        for method in ("put", "delete"):
            answer = program.send(method, path)
            assert (answer.status_code, answer.json()["code"]) == (403, "not_founder")
    for account in (ada, other):
        answer = program.send("delete", f"/me/team/members/{account.pk}")
        assert (answer.status_code, answer.json()["code"]) == (403, "not_founder")
    for body in ({"action": "transfer", "account": eve.pk}, {"action": "decline"}):
        assert program.send("post", "/me/team/foundership", body).status_code == 403
    assert state_of(team) == before


@pytest.mark.parametrize("end", ["dismissed", "resigned", "left", "left and joined again"])
def test_former_administrator_can_do_nothing(ada, team, eve, member, end):
    update(member, share_statistics=False)
    match end:
        case "dismissed":
            teams.dismiss_administrator(team.pk, eve.pk, by=ada, now=NOON)
        case "resigned":
            teams.resign(eve, now=NOON)
        case _:
            teams.leave(eve)
    if "again" in end:
        teams.join(eve, team.pk)
    eve.refresh_from_db()
    before, browser, path = state_of(team), browser_of(eve), f"/teams/{team.pk}/"
    assert before["administrators"] == []
    assert browser.get(f"{path}edit/").status_code == 404
    assert browser.post(f"{path}edit/", {"name": "mine", "kind": "0"}).status_code == 404
    manage = f"{path}members/{member.pk}/"
    assert browser.get(manage).status_code == 404
    assert browser.post(manage, {"action": "remove"}).status_code == 404
    browser.post(f"{path}resign/")
    assert f">{member.name}<" not in text_of(browser, path)
    program = a_program(eve)
    status = 404 if end == "left" else 403
    assert program.send("patch", "/me/team", {"name": "mine"}).status_code == status
    assert program.send("delete", f"/me/team/members/{member.pk}").status_code == status
    listed = program.send("get", f"/teams/{team.pk}/members").json()["results"]
    assert member.pk not in {row["id"] for row in listed}
    assert state_of(team) == before
    assert Team.objects.get().name == "The primes"


def test_member_of_another_team_and_stranger_cannot_be_named(ada, team):
    rival = an_account("rival")
    teams.create(rival, TeamProfile(name="composites"), now=NOON)
    browser, program = browser_of(ada), a_program(ada)
    for account in (rival, an_account("alone"), an_account("banned", team=team, is_active=False)):
        path = f"/teams/{team.pk}/members/{account.pk}/administrator/"
        assert browser.get(path).status_code == 404
        assert browser.post(path, {"action": "name"}).status_code == 404
        answer = program.send("put", f"/me/team/administrators/{account.pk}")
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    for number in (10**15, 10**19, 10**200):
        path = f"/teams/{team.pk}/members/{number}/administrator/"
        assert browser.post(path, {"action": "name"}).status_code == 404
    assert not TeamAdministrator.objects.exists()


def test_founder_of_another_team_cannot_name_administrators(team, member):
    rival = an_account("rival")
    teams.create(rival, TeamProfile(name="composites"), now=NOON)
    path = f"/teams/{team.pk}/members/{member.pk}/administrator/"
    assert browser_of(rival).post(path, {"action": "name"}).status_code == 404
    assert a_program(rival).send("put", f"/me/team/administrators/{member.pk}").status_code == 404
    assert not TeamAdministrator.objects.exists()


@pytest.mark.parametrize("role", ["member", "staff", "administrator of another team"])
def test_others_have_no_rights_of_administrators(role, team, member):
    eve = an_account("eve", team=team)
    if role == "staff":
        update(eve, is_staff=True, is_superuser=True)
    elif "another" in role:
        rival = an_account("rival")
        other = teams.create(rival, TeamProfile(name="composites"), now=NOON)
        update(eve, team=other)
        teams.name_administrator(other.pk, eve.pk, by=rival, now=NOON)
    before, browser, path = state_of(team), browser_of(eve), f"/teams/{team.pk}/"
    assert browser.get(f"{path}edit/").status_code == 404
    assert browser.post(f"{path}edit/", {"name": "mine", "kind": "0"}).status_code == 404
    for address in (f"members/{member.pk}/", f"members/{member.pk}/administrator/"):
        assert browser.get(path + address).status_code == 404
        for action in ("remove", "transfer", "name", "dismiss"):
            assert browser.post(path + address, {"action": action}).status_code == 404
    assert state_of(team) == before
    assert Team.objects.get(pk=team.pk).name == "The primes"


def test_hidden_members_and_administrators_are_named_only_to_those_who_lead_the_team(
    ada, team, eve, member
):
    update(eve, name=HIDDEN, share_statistics=False)
    an_account("hidden-member", team=team, share_statistics=False)
    path = f"/teams/{team.pk}/"
    for browser in (Client(), browser_of(member), browser_of(an_account("stranger"))):
        text = text_of(browser, path)
        for part in (HIDDEN, "hidden-member", "Administrators"):
            assert part not in text
    for account in (ada, eve):
        text = text_of(browser_of(account), path)
        for part in (HIDDEN, "hidden-member", "Administrators", "hidden from others"):
            assert part in text
        assert f"/accounts/{eve.pk}/" not in text
    program = a_program(an_account("reader"), "read")
    assert program.send("get", f"/teams/{team.pk}").json()["administrators"] == []
    assert a_program(member).send("get", "/me/team").json()["administrators"] == []
    for account in (ada, eve):
        shown = a_program(account).send("get", "/me/team").json()
        assert shown["administrators"] == [eve.pk]


def test_blocked_administrator_is_not_shown(team, eve):
    assert f"/accounts/{eve.pk}/" in text_of(Client(), f"/teams/{team.pk}/")
    update(eve, is_active=False)
    assert "Administrators" not in text_of(Client(), f"/teams/{team.pk}/")
    program = a_program(an_account("reader"), "read")
    assert program.send("get", f"/teams/{team.pk}").json()["administrators"] == []


def test_forms_of_administrators_need_a_log_in_and_the_token_of_the_page(ada, team, eve, member):
    before = state_of(team)
    naming = f"/teams/{team.pk}/members/{member.pk}/administrator/"
    for account, path in ((ada, naming), (eve, f"/teams/{team.pk}/resign/")):
        fields = {"action": "name"}
        assert Client().post(path, fields)["Location"].startswith("/account/login/")
        forged = browser_of(account, enforce_csrf_checks=True)
        assert forged.post(path, fields).status_code == 403
    assert browser_of(eve).get(f"/teams/{team.pk}/resign/").status_code == 405
    assert "no-store" in browser_of(ada).get(naming)["Cache-Control"]
    assert state_of(team) == before


def test_names_of_administrators_are_escaped(ada, team, eve):
    update(eve, name="<script>alert(1)</script>")
    for path in ("", f"members/{eve.pk}/", f"members/{eve.pk}/administrator/"):
        text = text_of(browser_of(ada), f"/teams/{team.pk}/{path}")
        assert "<script>alert" not in text
        assert "&lt;script&gt;" in text


def test_audit_log_names_who_named_and_who_dismissed(ada, team, member):
    path = f"/teams/{team.pk}/members/{member.pk}/administrator/"
    browser = browser_of(ada)
    for action in ("name", "dismiss"):
        browser.post(path, {"action": action}, REMOTE_ADDR="192.0.2.7")
    teams.name_administrator(team.pk, member.pk, by=ada, now=NOON)
    browser_of(member).post(f"/teams/{team.pk}/resign/", REMOTE_ADDR="192.0.2.8")
    entries = AuditEntry.objects.filter(event="team_changed", address__isnull=False).order_by("pk")
    assert [(each.account_id, each.address, each.details) for each in entries] == [
        (ada.pk, "192.0.2.7", {"named_administrator": member.pk}),
        (ada.pk, "192.0.2.7", {"dismissed_administrator": member.pk}),
        (member.pk, "192.0.2.8", {"resigned_administrator": member.pk}),
    ]
