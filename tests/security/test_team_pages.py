"""Pages of teams name only members who consent, and change only own teams."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode

import pytest
from django.test import Client

from scheduler import sealed_positions
from scheduler.models import Account, Team
from scheduler.people import teams
from scheduler.people.personal_data import erasure
from scheduler.people.teams import TeamProfile
from tests.conftest import NOON
from tests.faces.apis import Program, a_program
from tests.rows import an_account, update

pytestmark = pytest.mark.django_db

EVIL = "<script>alert(1)</script>"


@pytest.fixture
def ada() -> Account:
    return an_account("ada")


@pytest.fixture
def team(ada: Account) -> Team:
    return teams.create(ada, TeamProfile(name="The primes"), now=NOON)


def browser_of(account: Account, **options: object) -> Client:
    client = Client(**options)
    client.force_login(account)
    return client


def a_member(team: Team, name: str, **fields: object) -> Account:
    account = an_account(name, **fields)
    update(account, team=team)
    return account


def text_of(browser: Client, path: str) -> str:
    answer = browser.get(path)
    assert answer.status_code == 200
    return answer.content.decode()


def test_members_without_consent_are_named_to_nobody_but_the_founder(ada, team):
    a_member(team, "hidden-person", share_statistics=False, country="Hiddenland")
    a_member(team, "banned-person", is_active=False)
    erased = a_member(team, "erased-person")
    erasure.erase(erased, now=NOON)
    member, stranger = a_member(team, "member"), an_account("stranger")
    staff = an_account("staff", is_staff=True, is_superuser=True)
    path = f"/teams/{team.pk}/"
    for browser in (Client(), *map(browser_of, (member, stranger, staff))):
        for order in ("", "?sort=name", "?sort=-total"):
            text = text_of(browser, path + order)
            assert "member" in text
            for part in ("hidden-person", "Hiddenland", "banned-person", "erased-person"):
                assert part not in text
            assert "<dd>2</dd>" in text
    text = text_of(browser_of(ada), path)
    assert "hidden-person" in text
    assert "hidden from others" in text
    assert "banned-person" not in text
    # A hidden member has no public page.
    assert f'<a href="/accounts/{member.pk}/">member</a>' in text
    assert not re.search(r'<a href="/accounts/[^"]*">hidden-person', text)
    for account in (member, stranger, staff):
        reply = a_program(account, "read").send("get", f"/teams/{team.pk}/members")
        assert [row["name"] for row in reply.json()["results"]] == ["member", "ada"]
    names = a_program(ada, "read").send("get", f"/teams/{team.pk}/members").json()["results"]
    assert {row["name"] for row in names} == {"hidden-person", "member", "ada"}


@pytest.mark.parametrize("fields", [{"share_statistics": False}, {"is_active": False}])
def test_founder_without_consent_is_not_named(ada, team, fields):
    # Unlike "ada", this name cannot be a part of a random token of the page.
    update(ada, name="hidden-founder", **fields)
    stranger = an_account("stranger")
    for browser in (Client(), browser_of(stranger), browser_of(a_member(team, "member"))):
        text = text_of(browser, f"/teams/{team.pk}/")
        assert "hidden-founder" not in text
        assert ada.email not in text
        assert f"/accounts/{ada.pk}/" not in text
        assert "not shown" in text
    if "is_active" not in fields:
        text = text_of(browser_of(ada), f"/teams/{team.pk}/")
        assert "hidden-founder" in text
        assert f"/accounts/{ada.pk}/" not in text
    assert a_program(stranger, "read").send("get", f"/teams/{team.pk}").json()["founder"] is None


def test_requester_of_the_foundership_is_named_only_to_the_founder(ada, team):
    hidden = a_member(team, "hidden-person", share_statistics=False)
    teams.request_foundership(hidden, now=NOON)
    for browser in (Client(), browser_of(a_member(team, "member"))):
        assert "hidden-person" not in text_of(browser, f"/teams/{team.pk}/")
    reply = a_program(an_account(), "read").send("get", f"/teams/{team.pk}").json()
    assert "requested_by" not in reply
    assert "hidden-person has requested" in text_of(browser_of(ada), f"/teams/{team.pk}/")


def test_pages_contain_no_address_of_a_member(ada, team):
    for path in ("/teams/", f"/teams/{team.pk}/"):
        assert ada.email not in text_of(Client(), path)
    assert ada.email not in text_of(browser_of(a_member(team, "member")), f"/teams/{team.pk}/")


def test_texts_of_teams_are_escaped(ada, team):
    update(team, name=EVIL, description=EVIL + "\n\nhttps://evil.example/", country=EVIL)
    update(ada, name=EVIL, country=EVIL)
    member = a_member(team, EVIL)
    pages = ["/teams/", "/teams/?q=" + EVIL, f"/teams/{team.pk}/"]
    for path in (*pages, f"/teams/{team.pk}/edit/", f"/teams/{team.pk}/members/{member.pk}/"):
        text = text_of(browser_of(ada), path)
        assert "<script>alert" not in text
        assert "&lt;script&gt;" in text
        assert 'href="https://evil.example/' not in text


@pytest.mark.parametrize("url", ["javascript:alert(1)", "data:text/html,x", " javascript:x"])
def test_only_web_addresses_become_links(team, url):
    update(team, url=url)
    assert url.strip() not in text_of(Client(), f"/teams/{team.pk}/")


@pytest.mark.parametrize("staff", [False, True])
def test_teams_of_others_are_not_changed(ada, team, staff):
    """Staff moderates teams in the administration, which needs the second factor."""
    member = a_member(team, "member")
    eve = a_member(team, "eve", is_staff=staff, is_superuser=staff)
    browser = browser_of(eve)
    edit, manage = f"/teams/{team.pk}/edit/", f"/teams/{team.pk}/members/{member.pk}/"
    delete = f"/teams/{team.pk}/delete/"
    for path in (edit, manage, delete):
        assert browser.get(path).status_code == 404
    assert browser.post(delete).status_code == 404
    assert browser.post(edit, {"name": "mine", "kind": "0"}).status_code == 404
    for action in ("remove", "transfer"):
        assert browser.post(manage, {"action": action}).status_code == 404
    browser.post(f"/teams/{team.pk}/foundership/", {"action": "decline"})
    team.refresh_from_db()
    member.refresh_from_db()
    assert (team.name, team.founder_id, member.team_id) == ("The primes", ada.pk, team.pk)


@pytest.mark.parametrize("order", ["-total", "total", "-recent", "recent", "name", "-name"])
def test_credit_and_name_of_a_hidden_member_cannot_be_compared(ada, team, order):
    """A page after an account of the reader's choice would show who is above and below it."""
    hidden = a_member(
        team, "hidden", share_statistics=False, total_credit=50, expavg_credit=50, country="x"
    )
    stranger = an_account("private", share_statistics=False, total_credit=50, expavg_credit=50)
    for name, credit in (("a", 40), ("z", 60)):
        a_member(team, name, total_credit=credit, expavg_credit=credit)
    program, path = a_program(an_account("eve"), "read"), f"/teams/{team.pk}/members?sort={order}"
    all_names = {row["name"] for row in program.send("get", path).json()["results"]}
    for account in (hidden, stranger):
        foreign = sealed_positions.seal("another list", 50, account.pk)
        for after in (account.pk, f"50_{account.pk}", foreign):
            answer = program.send("get", f"{path}&after={after}")
            assert (answer.status_code, answer.json()["code"]) == (422, "bad_position")
            page = text_of(Client(), f"/teams/{team.pk}/?sort={order}&after={after}")
            assert set(
                re.findall(r'role="rowheader" class="person">(?:<a [^>]*>)?(\w+)', page)
            ) == (all_names)


def test_positions_are_those_of_shown_members_and_are_not_readable(ada, team):
    update(ada, total_credit=7777.5)
    a_member(team, "b", total_credit=5)
    reply = a_program(an_account("eve"), "read").send(
        "get", f"/teams/{team.pk}/members?sort=-total&limit=1"
    )
    after = reply.json()["next"].partition("after=")[2].replace("%3D", "=")
    assert b"7777" not in urlsafe_b64decode(after)


def test_founder_manages_no_account_of_another_team(ada, team):
    eve = an_account("eve")
    teams.create(eve, TeamProfile(name="composites"), now=NOON)
    browser = browser_of(ada)
    for account in (eve, an_account("alone"), ada):
        path = f"/teams/{team.pk}/members/{account.pk}/"
        assert browser.get(path).status_code == 404
        assert browser.post(path, {"action": "transfer"}).status_code == 404
    assert browser.post(f"/teams/{team.pk}/members/{10**200}/").status_code == 404


def test_account_of_another_team_requests_no_foundership(team):
    eve = an_account("eve")
    answer = browser_of(eve).post(f"/teams/{team.pk}/foundership/", {"action": "request"})
    assert answer.status_code == 404
    team.refresh_from_db()
    assert team.requested_by_id is None


def test_forms_need_a_log_in_and_the_token_of_the_page(ada, team):
    member = a_member(team, "member")
    paths = {
        "/teams/new/": {"name": "new", "kind": "0"},
        f"/teams/{team.pk}/edit/": {"name": "new", "kind": "0"},
        f"/teams/{team.pk}/join/": {},
        f"/teams/{team.pk}/leave/": {},
        f"/teams/{team.pk}/foundership/": {"action": "decline"},
        f"/teams/{team.pk}/members/{member.pk}/": {"action": "remove"},
    }
    forged = browser_of(ada, enforce_csrf_checks=True)
    for path, fields in paths.items():
        assert Client().post(path, fields)["Location"].startswith("/account/login/")
        assert forged.post(path, fields).status_code == 403
    member.refresh_from_db()
    assert member.team_id == team.pk
    assert Team.objects.get().name == "The primes"


def test_membership_is_not_changed_by_a_link(team):
    eve = an_account("eve")
    for action in ("join", "leave", "foundership"):
        assert browser_of(eve).get(f"/teams/{team.pk}/{action}/").status_code == 405
    eve.refresh_from_db()
    assert eve.team_id is None


def test_unknown_teams_are_not_found(ada):
    browser = browser_of(ada)
    for number in (10**15, 10**19, 10**200):
        assert browser.get(f"/teams/{number}/").status_code == 404
        for action in ("join", "leave", "edit", "delete", "foundership", "members/1"):
            assert browser.post(f"/teams/{number}/{action}/").status_code == 404


def test_pages_are_not_cached_by_others(ada, team):
    for path in ("/teams/", f"/teams/{team.pk}/", f"/teams/{team.pk}/edit/"):
        assert "no-store" in browser_of(ada).get(path)["Cache-Control"]


def test_api_of_teams_needs_a_token(team):
    for path in ("/teams", f"/teams/{team.pk}", f"/teams/{team.pk}/members"):
        assert Program().send("get", path).status_code == 401


@pytest.mark.parametrize("hidden", [{"share_statistics": False}, {"is_active": False}])
def test_own_team_names_no_founder_and_no_requester_without_consent(ada, team, hidden):
    eve, member = a_member(team, "eve"), a_program(a_member(team, "member"))
    teams.request_foundership(eve, now=NOON)
    shown = member.send("get", "/me/team").json()
    assert (shown["founder"], shown["requested_by"]) == (ada.pk, eve.pk)
    update(ada, **hidden)
    update(eve, **hidden)
    for answer in (
        member.send("get", "/me/team"),
        member.send("post", "/me/team/join", {"team": team.pk}),
    ):
        shown = answer.json()
        assert (shown["founder"], shown["requested_by"]) == (None, None)
        assert shown["requested_at"]


def test_founder_and_requester_see_their_own_numbers_without_consent(ada, team):
    eve = a_member(team, "eve", share_statistics=False)
    update(ada, share_statistics=False)
    answer = a_program(eve).send("post", "/me/team/foundership", {"action": "request"})
    assert (answer.json()["founder"], answer.json()["requested_by"]) == (None, eve.pk)
    shown = a_program(ada).send("get", "/me/team").json()
    assert (shown["founder"], shown["requested_by"]) == (ada.pk, eve.pk)
