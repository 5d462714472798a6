"""Public pages name only people who consent to be shown."""

from __future__ import annotations

from base64 import urlsafe_b64decode
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client

from scheduler import sealed_positions
from scheduler.health import status
from scheduler.models import (
    Account,
    AccountAppCredit,
    App,
    CreditEntry,
    Host,
    HostAppCredit,
)
from scheduler.people.personal_data import erasure
from tests.conftest import NOON
from tests.faces.apis import Program
from tests.faces.pages import HTMX, comparable
from tests.rows import a_host, a_result, a_workunit, an_account, an_app, update

pytestmark = pytest.mark.django_db

BOARDS = (
    "/leaderboards/",
    "/leaderboards/?sort=recent",
    "/leaderboards/?app=primes",
    "/leaderboards/?app=primes&sort=recent",
    "/leaderboards/computers/",
    "/leaderboards/computers/?sort=recent",
    "/leaderboards/computers/?app=primes",
    "/leaderboards/computers/?app=primes&sort=recent",
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
    by_app: dict[str, Any] = {"app": app, "total": Decimal("777.5"), "expavg": 77.5}
    AccountAppCredit.objects.create(account=account, **by_app)
    HostAppCredit.objects.create(host=host, **by_app)
    return account, host


def contents(path: str, twin: str) -> list[str]:
    """Return the page, without the random tokens of its forms, and its twin in the API."""
    answers = [
        Client().get(path),
        Program().send("get", twin if twin != "/leaderboards" else "/leaderboards/accounts"),
    ]
    assert [answer.status_code for answer in answers] == [200, 200]
    return [comparable(answer).decode() for answer in answers]


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


@pytest.mark.parametrize(("path", "twin"), PAIRS[4:])
def test_hidden_computer_is_anonymous_although_its_owner_shows_their_computers(app, path, twin):
    account, host = a_volunteer(app, show_hosts=True)
    for text in contents(path, twin):
        assert "secretname" in text
    update(host, hidden=True)
    page, reply = contents(path, twin)
    assert "secretchip" in page
    assert "secretchip" in reply
    for text in (page, reply):
        for part in ("secretname", "secret-computer", "203.0.113", f"hostid={host.pk}"):
            assert part not in text
    assert f'"id":{host.pk}' not in reply.replace(" ", "")
    assert f'"owner":{account.pk}' not in reply.replace(" ", "")


def test_page_of_an_account_leaves_out_hidden_computers(app):
    account, hidden = a_volunteer(app, show_hosts=True)
    shown = a_host(account, p_model="openchip")
    update(hidden, hidden=True)
    page = Client().get(f"/accounts/{account.pk}/").content.decode()
    reply = Program().send("get", f"/accounts/{account.pk}")
    assert "openchip" in page
    assert f"hostid={shown.pk}" in page
    assert [computer["id"] for computer in reply.json()["computers"]] == [shown.pk]
    for text in (page, reply.content.decode()):
        assert "secretchip" not in text
    assert f"hostid={hidden.pk}" not in page


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
    assert "<script>" not in Client().get(path).content.decode()


@pytest.mark.parametrize("path", BOARDS)
def test_leaderboards_are_not_kept_by_caches(path, app):
    assert "no-store" in Client().get(path)["Cache-Control"]


# Positions of pages


def position_in(url: str) -> str:
    """Return the parameter `below` of a link."""
    [below] = parse_qs(urlsplit(url).query)["below"]
    return below


@pytest.mark.parametrize(
    "path", ["accounts?app=primes", "accounts?app=primes&sort=recent", "computers"]
)
@pytest.mark.parametrize("state", ["unshared", "banned"])
def test_next_page_does_not_disclose_credit_or_id_of_a_hidden_account(app, path, state):
    an_owner(app, "1000")
    hidden = {"share_statistics": False} if state == "unshared" else {"is_active": False}
    for number in range(9):
        an_owner(app, f"7777.5{number}", **hidden, id=88880000 + number)
    an_owner(app, "5")
    mark = "&" if "?" in path else "?"
    link, positions = f"/leaderboards/{path}{mark}limit=1", []
    while link:
        page = Program().send("get", link).json()
        link = page["next"] and page["next"].partition("/api/v1")[2]
        positions += [position_in(link)] if link else []
    # Of the nine hidden rows at the top, a page of one line reads four.
    assert len(positions) >= 2
    for position in positions:
        assert "." not in position
        content = urlsafe_b64decode(position)
        assert b"7777" not in content
        assert b"8888" not in content
    # The length discloses nothing, either.
    assert len({len(position) for position in positions}) == 1


def an_owner(app: App, credit: str, **fields: Any) -> Account:
    amounts = {"total_credit": Decimal(credit), "expavg_credit": float(credit)}
    account = an_account(**amounts, **fields)
    host = a_host(account, id=account.pk + 1000, **amounts)
    by_app: dict[str, Any] = {"app": app, "total": Decimal(credit), "expavg": float(credit)}
    AccountAppCredit.objects.create(account=account, **by_app)
    HostAppCredit.objects.create(host=host, **by_app)
    return account


def test_position_changes_each_time_so_that_no_change_of_hidden_credit_is_seen(app):
    for credit in ("9", "8", "7"):
        an_owner(app, credit)
    first, second = (
        position_in(Program().send("get", "/leaderboards/computers?limit=1").json()["next"])
        for _ in range(2)
    )
    assert first != second


@pytest.mark.parametrize(("path", "twin"), PAIRS)
def test_readers_cannot_choose_a_position(app, path, twin):
    _account, host = a_volunteer(app)
    twin = twin if twin != "/leaderboards" else "/leaderboards/accounts"
    mark = "&" if "?" in path else "?"
    foreign = sealed_positions.seal("another list", "777.5", host.pk)
    for below in ("777.5_1", "99999_1", foreign, foreign[:-4] + "AAA=", foreign[:-1]):
        answer = Program().send("get", f"{twin}{'&' if '?' in twin else '?'}below={below}")
        assert (answer.status_code, answer.json()["code"]) == (422, "bad_position")
        page = Client().get(f"{path}{mark}below={below}").content.decode()
        assert "This is the first page" in page
        assert "777.5" in page or "778" in page


# The status page


def an_entry(app: App, host: Host) -> None:
    """Create the credit of a valid result of a computer."""
    CreditEntry.objects.create(
        result_id=a_result(a_workunit(app), "valid", host=host).pk,
        rule="validated",
        account=host.account,
        host=host,
        app=app,
        amount=Decimal("777.5"),
        granted_at=NOON,
    )


def status_texts() -> list[str]:
    """Return the status page, its part for htmx and its twins, read again from the tables."""
    pages = [("/", {}), ("/", HTMX), ("/status.json", {})]
    pages += [("/server_status.php?xml=1", {}), ("/server_status.php?counts=1", {})]
    texts = []
    for path, headers in pages:
        status.forget()
        answer = Client().get(path, headers=headers)
        assert answer.status_code == 200
        texts.append(comparable(answer).decode())
    return texts


@pytest.mark.parametrize("state", ["unshared", "banned", "erased"])
def test_status_page_names_no_volunteer_without_consent(app, state):
    account, host = a_volunteer(app)
    an_entry(app, host)
    assert "secretname" in status_texts()[0]
    if state == "unshared":
        update(account, share_statistics=False)
    elif state == "banned":
        update(account, is_active=False)
    else:
        erasure.erase(account, now=NOON)
    page, *others = status_texts()
    assert "a volunteer<small>primes</small>" in page
    for text in (page, *others):
        for part in ("secret", "Secret"):
            assert part not in text


def test_newest_valid_results_take_one_statement(app, django_assert_num_queries):
    for number in range(status.LATEST):
        shares = bool(number % 2)
        an_entry(app, a_host(an_account(f"v{number}", share_statistics=shares)))
        with django_assert_num_queries(1):
            lines = status._latest()
    assert [line.volunteer for line in lines] == ["v7", "", "v5", "", "v3", "", "v1", ""]


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
