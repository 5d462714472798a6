"""Public pages name only people who consent to be shown."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client

from scheduler.credit import leaderboards, sealed_positions
from scheduler.credit.rules.board_positions import Order, Position, read_position
from scheduler.models import Account, AccountAppCredit, App, Host
from scheduler.people.personal_data import erasure
from tests.conftest import NOON
from tests.faces.apis import Program
from tests.rows import a_host, an_account, an_app, update

pytestmark = pytest.mark.django_db

BOARDS = (
    "/leaderboards/",
    "/leaderboards/?sort=recent",
    "/leaderboards/?app=primes",
    "/leaderboards/?app=primes&sort=recent",
    "/leaderboards/computers/",
    "/leaderboards/computers/?sort=recent",
)
TWINS = tuple(
    path.replace("/?", "?").rstrip("/").replace("leaderboards?", "leaderboards/accounts?")
    for path in BOARDS
)


@pytest.fixture
def app() -> App:
    return an_app("primes")


PAIRS = list(zip(BOARDS, TWINS, strict=True))


def a_volunteer(app: App, **fields: Any) -> tuple[Account, Host]:
    """Create an account with a computer and credit, all with recognizable texts."""
    credit = {"total_credit": Decimal("777.5"), "expavg_credit": 77.5}
    account = an_account("secretname", country="Secretland", **credit, **fields)
    host = a_host(
        account,
        domain_name="secret-computer",
        last_ip_addr="203.0.113.77",
        p_model="secretchip",
        os_name="secretsystem",
        **credit,
    )
    AccountAppCredit.objects.create(account=account, app=app, total=Decimal("777.5"), expavg=77.5)
    return account, host


def contents(path: str, twin: str) -> list[str]:
    """Return the page and its twin in the API."""
    answers = [
        Client().get(path),
        Program().send("get", twin if twin != "/leaderboards" else "/leaderboards/accounts"),
    ]
    assert [answer.status_code for answer in answers] == [200, 200]
    return [answer.content.decode() for answer in answers]


@pytest.mark.parametrize(("path", "twin"), PAIRS)
@pytest.mark.parametrize("state", ["unshared", "banned", "erased"])
def test_account_without_consent_is_on_no_leaderboard(app, path, twin, state):
    account, host = a_volunteer(app)
    assert all("777.5" in text or "778" in text for text in contents(path, twin))
    if state == "unshared":
        update(account, share_statistics=False)
    elif state == "banned":
        update(account, is_active=False)
    else:
        erasure.erase(account, now=NOON)
    for text in contents(path, twin):
        for part in ("secret", "Secret", "777", "778", f"hostid={host.pk}"):
            assert part not in text


@pytest.mark.parametrize(("path", "twin"), PAIRS[4:])
def test_computer_is_anonymous_if_its_owner_does_not_show_their_computers(app, path, twin):
    account, host = a_volunteer(app, show_hosts=False)
    page, reply = contents(path, twin)
    assert "secretchip" in page
    assert "secretchip" in reply
    for text in (page, reply):
        for part in ("secretname", "secret-computer", "203.0.113", f"hostid={host.pk}"):
            assert part not in text
    assert f'"id":{host.pk}' not in reply.replace(" ", "")
    assert f'"owner":{account.pk}' not in reply.replace(" ", "")


@pytest.mark.parametrize(("path", "twin"), PAIRS)
def test_leaderboards_contain_no_address_and_no_name_of_a_computer(app, path, twin):
    a_volunteer(app)
    for text in contents(path, twin):
        for part in ("@example.org", "secret-computer", "203.0.113"):
            assert part not in text


@pytest.mark.parametrize("path", BOARDS)
def test_texts_of_people_and_clients_are_escaped(app, path):
    evil = "<script>alert(1)</script>"
    account, host = a_volunteer(app)
    update(account, name=evil, country=evil)
    update(host, p_model=evil, os_name=evil)
    assert "<script" not in Client().get(path).content.decode()


@pytest.mark.parametrize("path", BOARDS)
def test_leaderboards_are_not_kept_by_caches(path, app):
    assert "no-store" in Client().get(path)["Cache-Control"]


# The page of an account


@pytest.mark.parametrize("state", ["unshared", "banned", "erased", "unknown"])
def test_account_without_consent_has_no_page(app, state):
    account, _host = a_volunteer(app)
    pages = (f"/accounts/{account.pk}/", f"/accounts/{account.pk}")
    assert Client().get(pages[0]).status_code == 200
    assert Program().send("get", pages[1]).status_code == 200
    if state == "unshared":
        update(account, share_statistics=False)
    elif state == "banned":
        update(account, is_active=False)
    elif state == "erased":
        erasure.erase(account, now=NOON)
    else:
        pages = (f"/accounts/{10**19}/", f"/accounts/{10**15}")
    page, reply = Client().get(pages[0]), Program().send("get", pages[1])
    assert [page.status_code, reply.status_code] == [404, 404]
    assert b"secret" not in page.content + reply.content
    # Also the owner sees what others see.
    browser = Client()
    browser.force_login(an_account("eve", is_staff=True, is_superuser=True))
    assert browser.get(pages[0]).status_code == 404


@pytest.mark.parametrize(
    ("path", "hidden"),
    [
        ("/leaderboards/computers", {"share_statistics": False}),
        ("/leaderboards/computers", {"show_hosts": False}),
        ("/leaderboards/accounts?app=primes", {"share_statistics": False}),
    ],
)
def test_link_to_the_next_page_contains_no_number_and_no_credit_of_a_hidden_row(
    app: App, path: str, hidden: dict[str, Any]
) -> None:
    """A page can end at a row that is not shown; its link must not describe that row."""
    for number in range(8):
        account = an_account(f"v{number}", **hidden)
        a_host(account, total_credit=Decimal("777.5"))
        AccountAppCredit.objects.create(
            account=account, app=app, total=Decimal("777.5"), expavg=1.0
        )
    query = "&limit=1" if "?" in path else "?limit=1"
    link = Program().send("get", path + query).json()["next"]
    below = parse_qs(urlsplit(link).query)["below"][0]
    assert "777" not in below
    assert read_position(below, Order.TOTAL) is None
    next_page = Program().send("get", link.partition("/api/v1")[2])
    assert next_page.status_code == 200


def test_position_of_a_page_is_valid_for_its_board_and_order_only(app: App) -> None:
    position = Position(Decimal("777.5"), 12)
    board = leaderboards.account_board(Order.TOTAL)
    text = sealed_positions.seal(position, board)
    assert len(text) < sealed_positions.MAX_LENGTH
    assert sealed_positions.unseal(text, board) == position
    for other in (
        leaderboards.account_board(Order.RECENT),
        leaderboards.account_board(Order.TOTAL, app),
        leaderboards.computer_board(Order.TOTAL),
        leaderboards.team_board(Order.TOTAL),
    ):
        assert sealed_positions.unseal(text, other) is None
    for forged in ("", "777.5_12", text[:-8], text[::-1], "\0", "x" * 1000, "\ud800"):
        assert sealed_positions.unseal(forged, board) is None


def test_longest_position_can_be_read_again() -> None:
    board = leaderboards.account_board(Order.TOTAL)
    position = Position(Decimal("9" * 20 + "." + "9" * 20), 2**63 - 1)
    text = sealed_positions.seal(position, board)
    assert len(text) <= sealed_positions.MAX_LENGTH
    assert sealed_positions.unseal(text, board) == position


def test_page_of_an_account_hides_computers_and_private_columns(app):
    account, host = a_volunteer(app, show_hosts=False)
    update(account, url="javascript:alert(1)", venue="secretvenue", project_prefs="secretprefs")
    page = Client().get(f"/accounts/{account.pk}/").content.decode()
    reply = Program().send("get", f"/accounts/{account.pk}").content.decode()
    for text in (page, reply):
        assert "secretname" in text
        for part in ("secretchip", "secret-computer", "@example.org", "203.0.113", "javascript:"):
            assert part not in text
        for part in ("secretvenue", "secretprefs", f"hostid={host.pk}"):
            assert part not in text


def test_certificate_is_only_for_its_owner(app):
    account, _host = a_volunteer(app, share_statistics=False)
    answer = Client().get("/account/certificate/")
    assert answer.status_code == 302
    assert answer["Location"].startswith("/account/login/")
    assert Program().send("get", "/me/certificate").status_code == 401
    browser = Client()
    browser.force_login(account)
    answer = browser.get("/account/certificate/")
    assert b"secretname" in answer.content
    assert b"@example.org" not in answer.content
    assert "no-store" in answer["Cache-Control"]
