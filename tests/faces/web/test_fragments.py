"""Requests of htmx get the parts of pages that change; visits get the pages."""

from __future__ import annotations

import json
import re
from contextlib import closing
from datetime import timedelta
from decimal import Decimal

import pytest
from django.contrib.staticfiles import finders
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from scheduler.credit.credit_samples import Kind
from scheduler.health import status
from scheduler.models import Account, CreditSample, Team
from scheduler.people import accounts
from tests.conftest import NOON
from tests.faces.pages import HTMX, INLINE, comparable
from tests.rows import a_host, a_result, a_workunit, an_account, update

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
LISTS = (
    "/leaderboards/",
    "/leaderboards/?sort=recent",
    "/leaderboards/computers/",
    "/leaderboards/teams/",
    "/teams/",
    "/teams/?q=the&sort=-name",
    "/teams/{team}/?sort=name",
    "/account/computers/?sort=name",
    "/account/computers/?show=hidden&system=linux",
    "/account/results/?sort=id",
    "/leaderboards/teams/?type=club",
    "/account/computers/{host}/results/?state=valid",
    "/account/results/",
)
#: The parts of the front page and of the desk that are refreshed.
STATUS_PARTS = ["notices", "figures", "workunits", "results", "daemons", "latest", "read-at"]
DESK_PARTS = [
    "notices",
    "alerts",
    "flow",
    "daemons",
    "charts",
    "rates",
    "refusals",
    "without-work",
    "parked",
    "space",
    "read-at",
]


@pytest.fixture(autouse=True)
def _empty_caches():
    cache.clear()
    status.forget()


@pytest.fixture
def ada() -> Account:
    return an_account("ada", total_credit=50, expavg_credit=5)


@pytest.fixture
def browser(client: Client, ada: Account) -> Client:
    client.force_login(ada)
    return client


@pytest.fixture
def ids(ada) -> dict[str, int]:
    team = Team.objects.create(name="The primes", founder=ada, total_credit=5, created_at=NOON)
    update(ada, team=team)
    host = a_host(ada, domain_name="desk", total_credit=50, expavg_credit=5)
    a_result(a_workunit(), "valid", host=host)
    return {"team": team.pk, "host": host.pk}


def text_of(browser: Client, path: str, *, htmx: bool = False) -> str:
    answer = browser.get(path, headers=HTMX if htmx else {})
    assert answer.status_code == 200, path
    assert "HX-Request" in answer["Vary"]
    text = comparable(answer).decode()
    assert not INLINE.search(text)
    # Positions are encrypted, each time in another way.
    return re.sub(r"(?<=below=)[\w=%-]+", "position", text)


def statements(browser: Client, path: str, *, htmx: bool = False) -> int:
    with CaptureQueriesContext(connection) as queries:
        text_of(browser, path, htmx=htmx)
    return len(queries)


@pytest.mark.parametrize("path", LISTS)
def test_request_of_htmx_gets_the_list_of_the_page_and_nothing_else(browser, ids, path):
    path = path.format(**ids)
    page, part = text_of(browser, path), text_of(browser, path, htmx=True)
    assert part.strip().startswith('<div id="list"')
    assert part.strip().endswith("</div>")
    assert part.strip() in page
    assert "<h1" not in part
    assert "</html>" in page
    assert "<html" not in part


@pytest.mark.parametrize("path", LISTS)
def test_part_takes_no_more_statements_than_the_page(browser, ids, path):
    path = path.format(**ids)
    text_of(browser, path)
    assert statements(browser, path, htmx=True) <= statements(browser, path)


@pytest.mark.parametrize("path", LISTS)
def test_links_and_forms_of_a_list_work_without_htmx(browser, ids, path):
    path = path.format(**ids)
    part = text_of(browser, path, htmx=True)
    # htmx takes the addresses from the links and forms; nothing else has one.
    assert not re.search(r"hx-(get|post|vals|on|push-url)", part)
    for link in re.findall(r'<a id="(?:sort|state|show|system)-[^>]*href="([^"]*)"', part):
        target = path.partition("?")[0] + link.replace("&amp;", "&")
        assert "</html>" in text_of(browser, target)


def test_visitor_without_a_log_in_is_sent_to_the_log_in(client):
    answer = client.get("/account/results/", headers=HTMX)
    assert answer.status_code == 302
    assert answer["Location"].startswith("/account/login/")


def test_other_values_of_the_header_get_the_page(client):
    for value in ("false", "", "x"):
        assert b"</html>" in client.get("/teams/", headers={"HX-Request": value}).content


def test_scripts_of_htmx_are_own_files_with_a_strict_configuration(client):
    text = client.get("/teams/").content.decode()
    [config] = re.findall(r"<meta name=\"htmx-config\" content='([^']*)'>", text)
    assert json.loads(config) == {
        "allowEval": False,
        "allowScriptTags": False,
        "historyCacheSize": 0,
        "includeIndicatorStyles": False,
        "refreshOnHistoryMiss": True,
        "scrollIntoViewOnBoost": False,
        "selfRequestsOnly": True,
    }
    sources = re.findall(r'<script src="/static/([^"]*)" defer></script>', text)
    assert sources == ["django_htmx/htmx-2.min.js", "scheduler/pages.js"]
    for source in sources:
        assert finders.find(source), source
        with closing(client.get(f"/static/{source}")) as answer:
            assert answer.status_code == 200


# Figures


def test_front_page_refreshes_its_figures_and_nothing_else(client):
    page, part = text_of(client, "/"), text_of(client, "/", htmx=True)
    assert re.findall(r'^ *<[^>]* id="([\w-]+)"', part, re.MULTILINE)
    for name in STATUS_PARTS:
        assert page.count(f'id="{name}"') == part.count(f'id="{name}"') == 1
        assert f"#{name}" in re.search(r'hx-select-oob="([^"]*)"', page)[1].split(",")
    for name in ("take-part", "credit-per-day", "apps"):
        assert f'id="{name}"' in page
        assert f'id="{name}"' not in part
    assert 'hx-trigger="every 15s, visibilitychange from:document"' in page


def test_part_of_the_front_page_is_in_the_language_of_the_visitor(client):
    client.cookies["language"] = "de"
    assert "in Arbeit" in text_of(client, "/", htmx=True)


def test_desk_refreshes_its_parts():
    operator = Client()
    operator.force_login(accounts.create_staff(email="chief@example.org", password="forty two"))
    page, part = text_of(operator, "/admin/"), text_of(operator, "/admin/?period=week", htmx=True)
    for name in DESK_PARTS:
        assert page.count(f'id="{name}"') == part.count(f'id="{name}"') == 1
        assert f"#{name}" in re.search(r'hx-select-oob="([^"]*)"', page)[1].split(",")
    assert 'id="tables"' in page
    assert 'id="tables"' not in part
    assert 'id="period-week" href="?period=week#charts" aria-current="true"' in part
    assert statements(operator, "/admin/", htmx=True) <= statements(operator, "/admin/")


def test_desk_is_not_refreshed_without_a_log_in(client):
    assert client.get("/admin/", headers=HTMX).status_code == 302


# Charts of these pages


def sample(kind: Kind, holder_id: int, *totals: int, days_ago: int = 3) -> None:
    today = timezone.now().date()
    for number, total in enumerate(totals):
        for each, holder in {(kind, holder_id), (Kind.PROJECT, 0)}:
            CreditSample.objects.update_or_create(
                kind=each,
                holder_id=holder,
                day=today - (days_ago - number) * DAY,
                defaults={"total_credit": Decimal(total)},
            )


def test_front_page_has_the_credit_of_sixty_days_and_keeps_it(client):
    sample(Kind.PROJECT, 0, 10, 30, 60, days_ago=59)
    text = text_of(client, "/")
    assert text.count("<polyline") == 1
    assert "50 credits in this period" in text
    assert "?days=" not in text
    sample(Kind.PROJECT, 0, 10, 30, 90, days_ago=59)
    with CaptureQueriesContext(connection) as queries:
        assert "50 credits in this period" in text_of(client, "/")
    assert not any("credit_sample" in query["sql"] for query in queries)
    cache.clear()
    assert "80 credits in this period" in text_of(client, "/")


def test_public_page_of_a_computer_has_its_chart_if_the_owner_shares_statistics(client, ada):
    host = a_host(ada)
    update(ada, show_hosts=True, share_statistics=True)
    sample(Kind.HOST, host.pk, 10, 30, 60)
    path = f"/show_host_detail.php?hostid={host.pk}"
    text = client.get(path).content.decode()
    assert not INLINE.search(text)
    assert "50 credits in this period" in text
    assert f'href="?hostid={host.pk}&amp;days=90#credit-per-day"' in text
    update(ada, share_statistics=False)
    text = client.get(path).content.decode()
    assert f"Computer {host.pk}" in text
    assert "Credit per day" not in text
