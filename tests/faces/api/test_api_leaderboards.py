"""The leaderboards in the API."""

from __future__ import annotations

from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.models import AccountAppCredit, HostAppCredit, Team, TeamAppCredit
from tests.conftest import NOON
from tests.faces.apis import Program, a_program
from tests.rows import a_host, an_account, an_app

pytestmark = pytest.mark.django_db


def read(path: str, status: int = 200):
    answer = Program().send("get", path)
    assert answer.status_code == status
    return answer.json()


def test_accounts_are_read_without_a_token_in_pages():
    team = Team.objects.create(name="Reds", created_at=NOON)
    ada = an_account("ada", total_credit=Decimal("2.5"), expavg_credit=0.5, team=team)
    an_account("bob", total_credit=Decimal(1))
    page = read("/leaderboards/accounts?limit=1")
    assert page["results"] == [
        {
            "place": 1,
            "total_credit": 2.5,
            "recent_credit": 0.5,
            "id": ada.pk,
            "name": "ada",
            "country": "",
            "team": "Reds",
        }
    ]
    page = read(page["next"].partition("/api/v1")[2])
    assert [line["name"] for line in page["results"]] == ["bob"]
    assert page["next"] is None


def test_accounts_are_listed_by_the_credit_for_an_app():
    app = an_app("primes")
    bob = an_account("bob")
    AccountAppCredit.objects.create(account=bob, app=app, total=3, expavg=2)
    for query in ("app=primes", "app=primes&sort=recent"):
        [line] = read(f"/leaderboards/accounts?{query}")["results"]
        assert (line["name"], line["total_credit"], line["recent_credit"]) == ("bob", 3, 2)
    read("/leaderboards/accounts?app=unknown", 404)


def test_computers_and_teams_are_listed_by_the_credit_for_an_app():
    app, team = an_app("primes"), Team.objects.create(name="Reds", created_at=NOON)
    host = a_host(an_account("ada", show_hosts=True))
    HostAppCredit.objects.create(host=host, app=app, total=3, expavg=2)
    TeamAppCredit.objects.create(team=team, app=app, total=5, expavg=4)
    for query in ("app=primes", "app=primes&sort=recent"):
        [line] = read(f"/leaderboards/computers?{query}")["results"]
        assert (line["id"], line["owner_name"], line["total_credit"]) == (host.pk, "ada", 3)
        [line] = read(f"/leaderboards/teams?{query}")["results"]
        assert (line["id"], line["total_credit"], line["recent_credit"]) == (team.pk, 5, 4)
    for board in ("computers", "teams"):
        read(f"/leaderboards/{board}?app=unknown", 404)
        assert read(f"/leaderboards/{board}")["results"] == []


def test_computers_have_their_owner_if_they_show_them():
    ada = an_account("ada", show_hosts=True)
    host = a_host(ada, total_credit=Decimal(3), p_model="Ryzen", p_ncpus=8, os_name="Linux")
    a_host(an_account("hides", show_hosts=False), total_credit=Decimal(2))
    first, second = read("/leaderboards/computers")["results"]
    assert first == {
        "place": 1,
        "total_credit": 3,
        "recent_credit": 0,
        "id": host.pk,
        "owner": ada.pk,
        "owner_name": "ada",
        "cpu": "Ryzen",
        "ncpus": 8,
        "os_name": "Linux",
    }
    assert (second["place"], second["id"], second["owner"], second["owner_name"]) == (
        2, None, None, None,
    )  # fmt: skip


def test_teams_are_listed():
    Team.objects.create(name="Reds", created_at=NOON, total_credit=5, country="Peru")
    [line] = read("/leaderboards/teams")["results"]
    assert (line["name"], line["country"], line["place"]) == ("Reds", "Peru", 1)


def test_teams_of_a_type_are_listed():
    for name, kind in (("Reds", Team.Kind.CLUB), ("Blues", Team.Kind.COMPANY)):
        Team.objects.create(name=name, created_at=NOON, total_credit=5, kind=kind)
    for query in ("kind=1", "kind=1&sort=recent"):
        lines = read(f"/leaderboards/teams?{query}")["results"]
        assert [line["name"] for line in lines] == (["Reds"] if query == "kind=1" else [])
    for kind in ("0", "8", "club", ""):
        read(f"/leaderboards/teams?kind={kind}", 400)


@pytest.mark.parametrize("board", ["accounts", "computers", "teams"])
def test_bad_parameters_are_refused(board):
    for query in ("sort=name", "limit=0", "limit=101", "page=2", "below="):
        read(f"/leaderboards/{board}?{query}", 400)


@pytest.mark.parametrize("board", ["accounts", "computers", "teams"])
def test_bad_positions_are_refused_as_such(board):
    for below in ("x", "nan_1", "5_7", "%20", "%E2%98%83", "%F0%9F%98%80", "A" * 100, "=", "0"):
        problem = read(f"/leaderboards/{board}?below={below}", 422)
        assert problem["code"] == "bad_position"
        assert problem["detail"] == "This is not a position in this list."
        assert "unchanged" in problem["hint"]


@pytest.mark.parametrize("board", ["accounts", "computers", "teams"])
def test_number_of_statements_is_constant(board):
    for number in range(4):
        team = Team.objects.create(name=f"t{number}", created_at=NOON, total_credit=5)
        account = an_account(f"v{number}", total_credit=Decimal(5), team=team)
        a_host(account, total_credit=Decimal(5))
    numbers = []
    for limit in (1, 3):
        with CaptureQueriesContext(connection) as captured:
            assert len(read(f"/leaderboards/{board}?limit={limit}")["results"]) == limit
        numbers.append(len(captured))
    assert numbers[0] == numbers[1] <= 2


def test_public_part_of_an_account_and_the_certificate_are_read():
    team = Team.objects.create(name="Reds", created_at=NOON)
    ada = an_account(
        "ada", total_credit=Decimal(200), team=team, url="https://ada.example/", show_hosts=True
    )
    AccountAppCredit.objects.create(account=ada, app=an_app("primes"), total=3, expavg=2)
    host = a_host(ada, p_model="Ryzen", p_ncpus=8, os_name="Linux")
    account = read(f"/accounts/{ada.pk}")
    assert account["apps"] == [
        {"app": "primes", "title": "primes", "total_credit": 3, "recent_credit": 2}
    ]
    assert [computer["id"] for computer in account["computers"]] == [host.pk]
    assert (account["name"], account["team"], account["place"]) == ("ada", "Reds", 1)
    assert account["home_page"] == "https://ada.example/"
    certificate = a_program(ada, "read").send("get", "/me/certificate").json()
    assert certificate["name"] == "ada"
    assert certificate["total_credit"] == 200
    assert certificate["operations"] == pytest.approx(86_400e9)
