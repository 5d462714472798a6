"""The pages of leaderboards."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from scheduler.models import Account, AccountAppCredit, HostAppCredit, Team, TeamAppCredit
from scheduler.web.boards import views
from tests.conftest import NOON
from tests.faces.pages import INLINE
from tests.rows import a_host, an_account, an_app, update

pytestmark = pytest.mark.django_db

PATHS = ("/leaderboards/", "/leaderboards/computers/", "/leaderboards/teams/")


def an_owner(name: str, credit: float, **fields: Any) -> Account:
    return an_account(name, total_credit=Decimal(str(credit)), expavg_credit=credit / 10, **fields)


def a_team(name: str, credit: float) -> Team:
    return Team.objects.create(
        name=name, created_at=NOON, total_credit=credit, expavg_credit=credit / 10
    )


def page(browser: Client, path: str, status: int = 200) -> str:
    answer = browser.get(path)
    assert answer.status_code == status
    text = answer.content.decode()
    assert not INLINE.search(text)
    return text


def shown_names(text: str) -> list[str]:
    """Return the names in the first column of the table."""
    return re.findall(r'role="rowheader"[^>]*>(?:<a [^>]*>)?([^<]+)', text)


def test_people_are_listed_with_team_country_and_credit(client):
    reds = a_team("Reds", 5)
    an_owner("ada", 1234567.8, team=reds, country="Finland")
    an_owner("bob", 3)
    text = page(client, "/leaderboards/")
    assert [name.strip() for name in shown_names(text)] == ["ada", "bob"]
    for part in ("Reds", "Finland", "1,234,568", "123,456.8"):
        assert part in text
    assert 'aria-sort="descending"' in text
    assert text.count("aria-sort") == 1


def test_names_of_teams_link_to_their_pages(client):
    reds = a_team("Reds", 5)
    ada = an_owner("ada", 5, team=reds)
    link = f'<a href="/teams/{reds.pk}/">Reds</a>'
    for path in ("/leaderboards/", "/leaderboards/teams/", f"/accounts/{ada.pk}/"):
        assert link in page(client, path)
    assert link in page(client, "/user_search.php?search_string=ada")
    page(client, f"/teams/{reds.pk}/")


def test_own_account_links_to_its_public_page(client):
    ada = an_owner("ada", 5)
    client.force_login(ada)
    assert f'<a href="/accounts/{ada.pk}/">Show</a>' in page(client, "/account/")
    update(ada, share_statistics=False)
    text = page(client, "/account/")
    assert f'href="/accounts/{ada.pk}/"' not in text
    assert "You have none, because you do not share your statistics" in text


def test_boards_are_sorted_by_recent_average_on_request(client):
    an_account("once", total_credit=Decimal(9), expavg_credit=1)
    an_account("now", total_credit=Decimal(2), expavg_credit=8)
    assert shown_names(page(client, "/leaderboards/"))[0].strip() == "once"
    assert shown_names(page(client, "/leaderboards/?sort=recent"))[0].strip() == "now"
    assert shown_names(page(client, "/leaderboards/?sort=name"))[0].strip() == "once"


def test_board_of_an_app_lists_its_credit(client):
    app = an_app("primes", user_friendly_name="Prime numbers")
    an_owner("ada", 100)
    bob = an_owner("bob", 50)
    AccountAppCredit.objects.create(account=bob, app=app, total=7, expavg=1)
    text = page(client, "/leaderboards/?app=primes")
    assert [name.strip() for name in shown_names(text)] == ["bob"]
    assert '<option value="primes" selected>Prime numbers</option>' in text
    assert "?app=primes&amp;sort=recent" in text
    page(client, "/leaderboards/?app=unknown", 404)


def test_boards_of_computers_and_teams_list_the_credit_for_an_app(client):
    app = an_app("primes", user_friendly_name="Prime numbers")
    an_app("twins")
    ada = an_owner("ada", 100, show_hosts=True)
    host = a_host(ada, total_credit=Decimal(90))
    a_host(ada, total_credit=Decimal(80))
    HostAppCredit.objects.create(host=host, app=app, total=17, expavg=1)
    TeamAppCredit.objects.create(team=a_team("Reds", 0), app=app, total=23, expavg=1)
    for path, line, credit in (("computers", f"Computer {host.pk}", "17"), ("teams", "Reds", "23")):
        text = page(client, f"/leaderboards/{path}/?app=primes")
        assert text.count('<th scope="row"') == 1
        assert line in text
        assert f">{credit}<" in text
        assert '<option value="primes" selected>Prime numbers</option>' in text
        assert "counted every ten minutes" in text
        assert 'href="/leaderboards/?app=primes"' in text
        text = page(client, f"/leaderboards/{path}/?app=twins")
        assert "has credit for this app yet" in text
        page(client, f"/leaderboards/{path}/?app=unknown", 404)


def test_next_page_begins_after_the_last_line(client, monkeypatch):
    monkeypatch.setattr(views, "LINES_PER_PAGE", 2)
    for number in range(3):
        an_owner(f"v{number}", 10 - number)
    text = page(client, "/leaderboards/?sort=recent")
    [link] = re.findall(r'href="([^"]*)" rel="next"', text)
    assert link.startswith("?sort=recent&amp;below=")
    text = page(client, "/leaderboards/" + link.replace("&amp;", "&"))
    assert [name.strip() for name in shown_names(text)] == ["v2"]
    assert ">3</td>" in text
    assert 'rel="next"' not in text
    assert '<a href="?sort=recent">First page</a>' in text


@pytest.mark.parametrize("path", PATHS)
def test_invalid_positions_select_the_first_page(client, path):
    an_host_owner = an_owner("ada", 5)
    a_host(an_host_owner, total_credit=Decimal(5))
    a_team("Reds", 5)
    first = re.findall("<tbody.*?</tbody>", page(client, path), re.DOTALL)
    assert first
    for below in ("x", "-1_1", "nan_1", "1_", "9" * 300, "1_99999999999999999999", "\0"):
        answer = client.get(path, {"below": below})
        text = answer.content.decode()
        assert re.findall("<tbody.*?</tbody>", text, re.DOTALL) == first
        assert "The link to this page is not valid any more" in text


def test_own_place_is_shown_and_own_line_is_marked(client):
    an_owner("high", 9)
    ada = an_owner("ada", 5)
    client.force_login(ada)
    text = page(client, "/leaderboards/")
    assert "Your place: <b>2</b>" in re.sub(r"\s+", " ", text)
    assert text.count('class="mine"') == 1
    [link] = re.findall(r'href="([^"]*)">Show the page', text)
    text = page(client, "/leaderboards/" + link.replace("&amp;", "&"))
    assert [name.strip() for name in shown_names(text)] == ["ada"]


def test_unlisted_visitor_is_told_why(client):
    ada = an_owner("ada", 5, share_statistics=False)
    client.force_login(ada)
    text = page(client, "/leaderboards/")
    assert "You are not listed" in text
    assert "Your place" not in text
    assert shown_names(text) == []


def test_own_computers_and_own_team_are_marked(client):
    reds = a_team("Reds", 5)
    a_team("Blues", 9)
    ada = an_owner("ada", 5, team=reds)
    a_host(ada, total_credit=Decimal(5), p_model="Ryzen (TM)", p_ncpus=8, os_name="Linux")
    a_host(total_credit=Decimal(7))
    client.force_login(ada)
    text = page(client, "/leaderboards/computers/")
    assert text.count('class="mine"') == 1
    assert "8 × Ryzen" in text
    text = page(client, "/leaderboards/teams/")
    assert "The place of your team: <b>2</b>" in re.sub(r"\s+", " ", text)
    assert text.count('class="mine"') == 1


def test_teams_are_filtered_by_type(client, monkeypatch):
    monkeypatch.setattr(views, "LINES_PER_PAGE", 1)
    for name, credit, kind in (
        ("Reds", 5, Team.Kind.PRIMARY_SCHOOL),
        ("Blues", 4, Team.Kind.PRIMARY_SCHOOL),
        ("Greens", 9, Team.Kind.NONE),
    ):
        update(a_team(name, credit), kind=kind)
    text = page(client, "/leaderboards/teams/?type=primary_school&sort=recent")
    assert [name.strip() for name in shown_names(text)] == ["Reds"]
    assert '<option value="primary_school" selected>primary school</option>' in text
    assert '<input type="hidden" name="sort" value="recent">' in text
    [link] = re.findall(r'href="([^"]*)" rel="next"', text)
    assert link.startswith("?type=primary_school&amp;sort=recent&amp;below=")
    text = page(client, "/leaderboards/teams/" + link.replace("&amp;", "&"))
    assert [name.strip() for name in shown_names(text)] == ["Blues"]
    for value in ("", "none", "x", "6", "PRIMARY_SCHOOL"):
        text = page(client, f"/leaderboards/teams/?type={value}")
        assert [name.strip() for name in shown_names(text)] == ["Greens"]
    text = page(client, "/leaderboards/teams/?type=club")
    assert "No team of this type has credit yet." in text
    assert '<select id="type"' in text


def test_place_of_the_own_team_is_that_among_its_type(client):
    a_team("Greens", 9)
    reds = a_team("Reds", 5)
    update(reds, kind=Team.Kind.CLUB)
    client.force_login(an_owner("ada", 5, team=reds))
    text = re.sub(r"\s+", " ", page(client, "/leaderboards/teams/?type=club"))
    assert "The place of your team among these: <b>1</b>" in text
    text = page(client, "/leaderboards/teams/?type=company")
    assert "The place of your team" not in text


@pytest.mark.parametrize("path", PATHS)
def test_empty_boards_tell_how_to_get_credit(client, path):
    text = page(client, path)
    assert "<table" not in text
    assert "credit yet" in text
    assert "How to take part" in text


@pytest.mark.parametrize("path", PATHS)
def test_number_of_statements_does_not_depend_on_the_number_of_lines(client, path):
    def statements() -> int:
        with CaptureQueriesContext(connection) as captured:
            page(client, path)
        return len(captured)

    def add(number: int) -> Account:
        account = an_owner(f"v{number}", 5, team=a_team(f"t{number}", 5))
        a_host(account, total_credit=Decimal(5))
        return account

    add(0)
    few = statements()
    for number in range(1, 9):
        ada = add(number)
    assert statements() == few <= 2
    client.force_login(ada)
    assert statements() <= few + 4  # the session, the account, and the own line with its place


def test_site_leads_to_the_leaderboards(client):
    ada = an_owner("ada", 5)
    assert 'href="/leaderboards/"' in page_of_status(client)
    client.force_login(ada)
    assert 'href="/leaderboards/"' in client.get("/account/").content.decode()


def page_of_status(client: Client) -> str:
    return client.get("/").content.decode()


def test_account_without_a_name_is_listed_as_anonymous(client):
    update(an_owner("x", 5), name="")
    assert shown_names(page(client, "/leaderboards/"))[0].strip() == "Anonymous"


def test_statistics_pages_lead_to_the_files_for_other_sites(client):
    for path in ("/statistics/computers/", "/statistics/credit/"):
        assert '<a href="/stats/">' in page(client, path)


# Accounts


def test_page_of_an_account_shows_profile_credit_and_computers(client):
    reds = a_team("Reds", 5)
    an_owner("high", 1e9)
    ada = an_owner("ada", 1234567, team=reds, country="Finland", url="https://ada.example/")
    update(ada, show_hosts=True)
    app = an_app("primes", user_friendly_name="Prime numbers")
    AccountAppCredit.objects.create(account=ada, app=app, total=4321, expavg=1)
    host = a_host(ada, domain_name="hidden-name", p_model="Ryzen", p_ncpus=8, os_name="Linux")
    a_host(ada, p_model="Merged", merged_into=host)
    text = page(client, f"/accounts/{ada.pk}/")
    for part in ("ada", "Reds", "Finland", "1,234,567", "123,456.7", "Prime numbers", "4,321"):
        assert part in text
    assert 'href="https://ada.example/" rel="nofollow ugc noopener noreferrer"' in text
    assert f'?hostid={host.pk}"' in text
    assert "8 × Ryzen" in text
    assert "<dt>place by credit</dt><dd>2</dd>" in text
    assert 'title="2026-01-01 12:00:00 UTC">2026-01-01</time>' in text
    assert "hidden-name" not in text
    assert "Merged" not in text
    assert f'href="/accounts/{ada.pk}/"' in page(client, "/leaderboards/")


def test_page_of_an_account_without_anything_is_empty_but_complete(client):
    ada = an_account("ada", show_hosts=True)
    text = page(client, f"/accounts/{ada.pk}/")
    assert "No credit yet" in text
    assert "No computer is shown" in text
    assert "place by credit" not in text
    update(ada, show_hosts=False)
    assert "does not show their computers" in page(client, f"/accounts/{ada.pk}/")


def test_page_of_an_account_takes_a_constant_number_of_statements(client):
    ada = an_owner("ada", 5)
    numbers = []
    for _ in range(2):
        for _ in range(3):
            AccountAppCredit.objects.create(account=ada, app=an_app(), total=4, expavg=1)
            a_host(ada)
        with CaptureQueriesContext(connection) as captured:
            page(client, f"/accounts/{ada.pk}/")
        numbers.append(len(captured))
    assert numbers[0] == numbers[1] <= 6


def test_certificate_shows_name_credit_and_operations(client):
    ada = an_owner("ada", 200)
    client.force_login(ada)
    text = page(client, "/account/certificate/")
    for part in ("Certificate of computation", "ada", "200", "86.4 trillion", "1 January 2026"):
        assert part in text
    assert "certificate.css" in text
    assert 'href="/account/certificate/"' in page(client, "/account/")
    assert f'href="/accounts/{ada.pk}/certificate/"' in text


def test_certificate_of_an_account_is_public_only_if_it_shares_its_statistics(client):
    ada = an_owner("ada", 200)
    path = f"/accounts/{ada.pk}/certificate/"
    text = page(client, path)
    for part in ("Certificate of computation", "ada", "200", "86.4 trillion", "1 January 2026"):
        assert part in text
    assert ada.email not in text
    assert f'href="{path}"' in page(client, f"/accounts/{ada.pk}/")
    update(ada, share_statistics=False)
    page(client, path, 404)
    client.force_login(ada)
    page(client, path, 404)
    assert path not in page(client, "/account/certificate/")
    update(ada, share_statistics=True, is_active=False)
    page(Client(), path, 404)
    page(client, f"/accounts/{2**70}/certificate/", 404)
