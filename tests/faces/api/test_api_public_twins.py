"""Searches for accounts, public computers, certificates and export files by API."""

from __future__ import annotations

from decimal import Decimal

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler import storage
from scheduler.models import Team
from scheduler.people.personal_data import profiles
from tests.conftest import NOON
from tests.faces.apis import Program
from tests.rows import a_host, an_account, update

pytestmark = pytest.mark.django_db


def read(path: str, status: int = 200):
    answer = Program().send("get", path)
    assert answer.status_code == status, answer.content
    return answer.json()


def names_in(page) -> list[str]:
    return [row["name"] for row in page["results"]]


# The search for accounts


def test_accounts_are_found_by_the_beginning_of_their_names():
    team = Team.objects.create(name="Reds", created_at=NOON)
    ada = an_account(
        "ada", country="Peru", team=team, total_credit=Decimal("2.5"), expavg_credit=0.5
    )
    update(ada, name="Ada")
    an_account("beada")
    assert read("/accounts?name=aDA") == {
        "next": None,
        "results": [
            {
                "id": ada.pk,
                "name": "Ada",
                "country": "Peru",
                "team": "Reds",
                "created_at": "2026-01-01T12:00:00Z",
                "total_credit": 2.5,
                "recent_credit": 0.5,
            }
        ],
    }
    assert read("/accounts?name=ada%25")["results"] == []


@pytest.mark.parametrize("sort", ["name", "-name", "recent", "-total", "created", "-created"])
def test_pages_of_a_search_contain_each_account_once_in_order(sort):
    for number in range(5):
        # The same credit twice, so that ids decide.
        an_account(f"ada {number}", total_credit=Decimal(number // 2), expavg_credit=number // 2)
    names, link = [], f"/accounts?name=ada&limit=2&sort={sort}"
    while link:
        page = read(link)
        assert len(page["results"]) <= 2
        names += names_in(page)
        link = page["next"] and page["next"].partition("/api/v1")[2]
    ascending = [f"ada {number}" for number in range(5)]
    assert names == (ascending[::-1] if sort.startswith("-") else ascending)


def test_search_is_limited_to_a_country_and_to_accounts_with_a_team():
    team = Team.objects.create(name="Reds", created_at=NOON)
    an_account("ada 1", country="Peru", team=team)
    an_account("ada 2", country="Chile")
    assert names_in(read("/accounts?name=ada&country=Peru")) == ["ada 1"]
    assert names_in(read("/accounts?name=ada&in_team=true")) == ["ada 1"]
    assert names_in(read("/accounts?name=ada&in_team=false")) == ["ada 2"]


@pytest.mark.parametrize(
    "query",
    ["", "?name=ad", "?name=", "?name=ada&sort=x", "?name=ada&limit=101", "?name=a%00da", "?x=1"],
)
def test_bad_searches_are_refused(query):
    read(f"/accounts{query}", 400)


@pytest.mark.parametrize("after", ["x", "17", "%20", "%E2%98%83"])
def test_bad_position_is_refused(after):
    assert read(f"/accounts?name=ada&after={after}", 422)["code"] == "bad_position"


def test_position_of_another_order_is_refused():
    for number in range(2):
        an_account(f"ada {number}")
    after = read("/accounts?name=ada&limit=1&sort=name")["next"].partition("after=")[2]
    token = after.partition("&")[0]
    assert read(f"/accounts?name=ada&sort=-name&after={token}", 422)["code"] == "bad_position"


def test_search_sorts_a_bounded_number_of_accounts(monkeypatch):
    monkeypatch.setattr(profiles, "MAX_SORTED", 2)
    for name in ("ada c", "ada b", "ada a"):
        an_account(name)
    assert names_in(read("/accounts?name=ada&sort=-name")) == ["ada b", "ada a"]


def test_search_takes_a_constant_number_of_statements():
    team = Team.objects.create(name="Reds", created_at=NOON)
    for number in range(4):
        an_account(f"ada {number}", team=team)
    numbers = []
    for limit in (1, 4):
        with CaptureQueriesContext(connection) as captured:
            assert len(read(f"/accounts?name=ada&limit={limit}")["results"]) == limit
        numbers.append(len(captured))
    assert numbers == [2, 2]


# Certificates and computers


def test_certificate_of_a_public_account_has_the_figures_of_its_page():
    ada = an_account("ada", total_credit=Decimal(200))
    assert read(f"/accounts/{ada.pk}/certificate") == {
        "project": "Manyhands",
        "name": "ada",
        "created_at": "2026-01-01T12:00:00Z",
        "total_credit": 200.0,
        "operations": pytest.approx(86_400e9),
    }


def test_shown_computer_has_the_figures_of_its_page():
    ada = an_account("ada", show_hosts=True)
    host = a_host(
        ada,
        p_vendor="AMD",
        p_model="Ryzen",
        p_ncpus=8,
        os_name="Linux",
        os_version="6.1",
        m_nbytes=8e9,
        total_credit=Decimal(3),
        expavg_credit=1.5,
    )
    assert read(f"/computers/{host.pk}") == {
        "id": host.pk,
        "owner": ada.pk,
        "owner_name": "ada",
        "vendor": "AMD",
        "cpu": "Ryzen",
        "ncpus": 8,
        "os_name": "Linux",
        "os_version": "6.1",
        "memory_nbytes": 8e9,
        "created_at": "2026-01-01T12:00:00Z",
        "last_contact_at": "2026-01-01T12:00:00Z",
        "total_credit": 3.0,
        "recent_credit": 1.5,
    }
    assert read(f"/computers/{host.pk}/credit-history") == {"history": []}
    with CaptureQueriesContext(connection) as captured:
        read(f"/computers/{host.pk}")
    assert len(captured) == 1
    update(host, merged_into=a_host(ada))
    read(f"/computers/{host.pk}", 404)


# Files of the statistics export


def test_files_of_the_statistics_export_are_listed_with_their_sizes(settings, tmp_path):
    settings.VAR_DIR = tmp_path
    assert read("/statistics/files") == {"results": []}
    an_account("ada", total_credit=Decimal(3))
    call_command("export_stats", verbosity=0)
    files = read("/statistics/files")["results"]
    assert [file["name"] for file in files] == list(storage.STATISTICS_FILES)
    for file in files:
        stored = tmp_path / "stats" / file["name"]
        assert file["nbytes"] == stored.stat().st_size > 0
        assert file["url"].endswith(f"/stats/{file['name']}")
        assert file["changed_at"].endswith("Z")
