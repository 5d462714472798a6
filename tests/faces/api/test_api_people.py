"""Consents and teams over the API."""

from __future__ import annotations

import pytest

from scheduler.models import Account, AuditEntry
from tests.faces.apis import Program, a_program
from tests.rows import an_account, update

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada() -> Account:
    return an_account("ada")


@pytest.fixture
def program(ada) -> Program:
    return a_program(ada)


def test_account_reads_and_changes_its_consents(program, ada):
    consents = program.send("get", "/me/consents").json()
    assert consents == {
        "share_statistics": True,
        "show_hosts": False,
        "receive_letters": False,
        "terms_accepted_at": None,
    }
    changed = program.send("patch", "/me/consents", {"share_statistics": False, "show_hosts": True})
    assert changed.json() == consents | {"share_statistics": False, "show_hosts": True}
    ada.refresh_from_db()
    assert (ada.share_statistics, ada.show_hosts) == (False, True)
    entry = AuditEntry.objects.get(event="consent_changed")
    assert entry.details == {"consent": "STATSEXPORT", "given": False, "source": "API"}
    assert entry.account_id == ada.pk
    assert program.send("patch", "/me/consents", {"show_hosts": "no"}).status_code == 400


def test_account_consents_to_letters(program, ada):
    changed = program.send("patch", "/me/consents", {"receive_letters": True})
    assert changed.json()["receive_letters"]
    ada.refresh_from_db()
    assert ada.receive_letters
    assert program.send("patch", "/me/consents", {"receive_letters": "yes!"}).status_code == 400


def test_team_is_created_changed_joined_and_left(program, ada):
    assert program.send("get", "/me/team").status_code == 404
    created = program.send("post", "/me/team", {"name": "The primes", "kind": 6})
    assert created.status_code == 201
    team = created.json()
    assert (team["name"], team["kind"], team["founder"]) == ("The primes", 6, ada.pk)
    assert program.send("get", "/me/team").json() == team
    assert program.send("patch", "/me/team", {"country": "Peru"}).json()["country"] == "Peru"

    eve = an_account("eve")
    other = a_program(eve)
    assert other.send("post", "/me/team/join", {"team": team["id"]}).json()["id"] == team["id"]
    refused = other.send("patch", "/me/team", {"name": "Mine"})
    assert (refused.status_code, refused.json()["code"]) == (403, "not_founder")
    refused = program.send("delete", "/me/team")
    assert (refused.status_code, refused.json()["code"]) == (409, "team_refused")
    assert "transfer the foundership" in refused.json()["hint"]
    assert other.send("delete", "/me/team").status_code == 204
    assert program.send("delete", "/me/team").status_code == 204
    assert program.send("delete", "/me/team").status_code == 204


def test_founder_removes_a_member_and_transfers_the_foundership(program, ada):
    team = program.send("post", "/me/team", {"name": "The primes"}).json()
    eve, bob = an_account("eve"), an_account("bob")
    update(eve, team_id=team["id"])
    update(bob, team_id=team["id"])
    assert program.send("delete", f"/me/team/members/{bob.pk}").status_code == 204
    assert program.send("delete", f"/me/team/members/{bob.pk}").status_code == 404
    requested = a_program(eve).send("post", "/me/team/foundership", {"action": "request"})
    assert requested.json()["requested_by"] == eve.pk
    too_soon = a_program(eve).send("post", "/me/team/foundership", {"action": "assume"})
    assert too_soon.status_code == 409
    given = {"action": "transfer", "account": eve.pk}
    assert program.send("post", "/me/team/foundership", given).json()["founder"] == eve.pk
    assert program.send("delete", f"/me/team/members/{eve.pk}").status_code == 403


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"action": "transfer"}, 422),
        ({"action": "request", "account": 1}, 422),
        ({"action": "x"}, 400),
        ({}, 400),
    ],
)
def test_foundership_needs_an_account_only_for_a_transfer(program, body, status):
    program.send("post", "/me/team", {"name": "The primes"})
    assert program.send("post", "/me/team/foundership", body).status_code == status


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"name": "<b>"}, 422),
        ({"name": ""}, 400),
        ({"name": "x", "url": "javascript:alert(1)"}, 409),
        ({"name": "x", "kind": 8}, 400),
    ],
)
def test_bad_teams_are_refused_with_a_hint(program, body, status):
    refused = program.send("post", "/me/team", body)
    assert refused.status_code == status
    assert "hint" in refused.json() or "errors" in refused.json()


def test_teams_are_listed_and_found_by_the_beginning_of_their_names(program, ada):
    for name in ("The primes", "the second", "other"):
        a_program(an_account()).send("post", "/me/team", {"name": name})
    page = program.send("get", "/teams?name=THE&sort=name&limit=1").json()
    assert [team["name"] for team in page["results"]] == ["The primes"]
    assert set(page["results"][0]) == {
        "id", "name", "kind", "country", "joinable", "total_credit", "recent_credit", "created_at"
    }  # fmt: skip
    page = program.send("get", page["next"].partition("/api/v1")[2]).json()
    assert [team["name"] for team in page["results"]] == ["the second"]
    assert page["next"] is None
    for query in ("sort=x", "limit=0", "limit=101", "x=1"):
        assert program.send("get", f"/teams?{query}").status_code == 400
    for path in ("/teams", f"/teams/{page['results'][0]['id']}/members"):
        for after in ("x", "17", "%20", "%E2%98%83"):
            refused = program.send("get", f"{path}?after={after}")
            assert (refused.status_code, refused.json()["code"]) == (422, "bad_position")


def test_any_team_is_read_with_its_members(program, ada):
    team = program.send("post", "/me/team", {"name": "The primes", "description": "<b>"}).json()
    other = a_program(an_account("eve"))
    shown = other.send("get", f"/teams/{team['id']}").json()
    assert (shown["name"], shown["description"], shown["founder"]) == ("The primes", "<b>", ada.pk)
    assert shown["administrators"] == []
    members = other.send("get", f"/teams/{team['id']}/members").json()
    assert members == {
        "next": None,
        "results": [
            {
                "id": ada.pk,
                "name": "ada",
                "country": "",
                "shares_statistics": True,
                "is_administrator": False,
                "total_credit": 0.0,
                "recent_credit": 0.0,
            }
        ],
    }
    for path in ("/teams/1000000", "/teams/1000000/members"):
        assert other.send("get", path).status_code == 404


@pytest.fixture
def eve(program) -> Account:
    """A member of the team that Ada leads."""
    team = program.send("post", "/me/team", {"name": "The primes"}).json()
    return an_account("eve", team_id=team["id"])


def test_founder_names_and_dismisses_an_administrator(program, eve):
    path = f"/me/team/administrators/{eve.pk}"
    for _ in range(2):
        named = program.send("put", path)
        assert (named.status_code, named.json()["administrators"]) == (200, [eve.pk])
    other = a_program(an_account("other"), "read")
    assert other.send("get", f"/teams/{eve.team_id}").json()["administrators"] == [eve.pk]
    members = other.send("get", f"/teams/{eve.team_id}/members?sort=name").json()["results"]
    assert [(row["name"], row["is_administrator"]) for row in members] == [
        ("ada", False),
        ("eve", True),
    ]
    assert program.send("delete", path).status_code == 204
    assert program.send("delete", path).status_code == 404
    assert program.send("get", "/me/team").json()["administrators"] == []


def test_administrator_changes_the_team_removes_a_member_and_resigns(program, eve):
    program.send("put", f"/me/team/administrators/{eve.pk}")
    bob = an_account("bob", team_id=eve.team_id, share_statistics=False)
    administrator = a_program(eve)
    changed = administrator.send("patch", "/me/team", {"country": "Peru"})
    assert (changed.status_code, changed.json()["country"]) == (200, "Peru")
    members = administrator.send("get", f"/teams/{eve.team_id}/members").json()["results"]
    assert {row["name"] for row in members} == {"ada", "eve", "bob"}
    assert administrator.send("delete", f"/me/team/members/{bob.pk}").status_code == 204
    own = f"/me/team/administrators/{eve.pk}"
    assert administrator.send("delete", own).status_code == 204
    assert administrator.send("delete", own).json()["code"] == "team_refused"
    assert administrator.send("patch", "/me/team", {"country": ""}).status_code == 403


def test_impossible_administrators_are_refused(program, ada, eve):
    for account_id, status in ((ada.pk, 409), (an_account().pk, 404), (10**9, 404)):
        refused = program.send("put", f"/me/team/administrators/{account_id}")
        assert refused.status_code == status
        assert refused.json()["hint"]
    without_team = a_program(an_account())
    for method in ("put", "delete"):
        path = f"/me/team/administrators/{eve.pk}"
        assert without_team.send(method, path).status_code == 404
