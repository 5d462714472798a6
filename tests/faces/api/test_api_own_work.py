"""The account's own computers and results over the API."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.models import Account, Host
from tests.conftest import NOON
from tests.faces.apis import Program, a_program
from tests.rows import a_host, a_result, a_workunit, an_account, an_app, settled, update

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada() -> Account:
    return an_account("ada")


@pytest.fixture
def program(ada) -> Program:
    return a_program(ada, "read")


@pytest.fixture
def host(ada) -> Host:
    return a_host(
        ada,
        domain_name="desk",
        capabilities={"gpus": [{"kind": "nvidia", "name": "T4", "ram_bytes": 2.0**34}]},
        last_decisions=[{"at": "2026-01-01T12:00:00+00:00", "refused": {"disk": 2}}],
    )


def test_account_reads_its_computers(program, host):
    a_result(a_workunit(), "sent", host=host)
    a_host()  # of another account
    listed = program.send("get", "/me/computers").json()["results"]
    assert [row["id"] for row in listed] == [host.pk]
    assert (listed[0]["name"], listed[0]["in_progress"]) == ("desk", 1)
    assert listed[0]["gpus"] == [
        {"kind": "nvidia", "name": "T4", "count": 1, "memory_bytes": 2.0**34}
    ]
    computer = program.send("get", f"/me/computers/{host.pk}").json()
    assert listed[0].items() <= computer.items()
    (decision,) = computer["decisions"]
    assert decision["summary"].startswith("No work")
    assert decision["reasons"][0]["reason"] == "disk"
    assert decision["reasons"][0]["results"] == 2


def test_list_of_computers_has_pages(program, ada):
    hosts = [a_host(ada) for _ in range(3)]
    first = program.send("get", "/me/computers?limit=2").json()
    second = program.get(first["next"]).json()
    ids = [row["id"] for page in (first, second) for row in page["results"]]
    assert ids == [host.pk for host in reversed(hosts)]


def test_account_reads_its_results_by_state_and_computer_in_pages(program, ada, host):
    other = a_host(ada)
    results = [a_result(a_workunit(), "valid", host=host) for _ in range(3)]
    error = a_result(a_workunit(), "error", host=other)
    page = program.send("get", f"/me/results?computer={host.pk}&state=valid&limit=2").json()
    ids = [row["id"] for row in page["results"]]
    page = program.get(page["next"]).json()
    ids += [row["id"] for row in page["results"]]
    assert ids == [result.pk for result in reversed(results)]
    assert page["next"] is None
    (row,) = program.send("get", "/me/results?state=error").json()["results"]
    assert (row["id"], row["computer"], row["state"]) == (error.pk, other.pk, "error")


def test_account_reads_its_oldest_results_first(program, host):
    results = [a_result(a_workunit(), "valid", host=host) for _ in range(3)]
    page = program.send("get", "/me/results?sort=id&limit=2").json()
    ids = [row["id"] for row in page["results"]]
    page = program.get(page["next"]).json()
    ids += [row["id"] for row in page["results"]]
    assert ids == [result.pk for result in results]
    assert page["next"] is None


@pytest.mark.parametrize("query", ["sort=id&before=5", "sort=-id&after=5", "after=5"])
def test_position_of_the_other_order_is_refused(program, query):
    refused = program.send("get", f"/me/results?{query}")
    assert (refused.status_code, refused.json()["code"]) == (422, "bad_position")


@pytest.mark.parametrize(
    "query", ["state=x", "limit=0", "limit=101", "before=-1", "before=x", "computer=0", "page=2"]
)
def test_invalid_parameter_is_refused(program, query):
    assert program.send("get", f"/me/results?{query}").status_code == 400


def test_account_reads_one_result(program, host):
    workunit = a_workunit(an_app("primes", user_friendly_name="Primes"))
    result = a_result(workunit, "valid", host=host, stderr="bye")
    a_result(workunit, "invalid", host=a_host(an_account(show_hosts=False)))
    settled(workunit, result)
    update(result, granted_credit=Decimal("2.5"))
    (listed,) = program.send("get", "/me/results").json()["results"]
    details = program.send("get", f"/me/results/{result.pk}").json()
    assert listed.items() <= details.items()
    assert (details["app"], details["credit"], details["stderr"]) == ("Primes", 2.5, "bye")
    assert details["siblings"] == [{"state": "invalid", "own_result": None, "computer": None}]
    # The sentences of the page are not in the API, whose texts are English for every visitor.
    assert [step["text"] for step in details["timeline"]] == ["sent", "ended"]
    assert {key for step in details["timeline"] for key in step} == {"at", "text"}


def test_lists_take_the_same_number_of_statements_for_one_row_and_for_many(program, ada, host):
    def statements(path: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            assert program.send("get", path).status_code == 200
        return len(captured)

    a_result(a_workunit(), "valid", host=host)
    few = [statements(path) for path in ("/me/computers", "/me/results")]
    for _ in range(8):
        a_result(a_workunit(), "valid", host=a_host(ada))
    assert [statements(path) for path in ("/me/computers", "/me/results")] == few


def test_account_sets_the_location_of_its_computer(ada, host):
    program = a_program(ada, "submit")
    changed = program.send("patch", f"/me/computers/{host.pk}", {"venue": "work"})
    assert (changed.status_code, changed.json()["venue"]) == (200, "work")
    host.refresh_from_db()
    assert host.venue == "work"
    bad = program.send("patch", f"/me/computers/{host.pk}", {"venue": "<work>"})
    assert (bad.status_code, bad.json()["code"]) == (422, "bad_venue")
    other = program.send("patch", f"/me/computers/{a_host().pk}", {"venue": "work"})
    assert other.status_code == 404


def test_account_merges_an_older_entry_of_its_computer(ada, host):
    program = a_program(ada, "submit")
    earlier = NOON - timedelta(days=1)
    old = a_host(ada, rpc_at=earlier, created_at=earlier, total_credit=Decimal(0))
    path = f"/me/computers/{host.pk}/merge"
    merged = program.send("post", path, {"merged": old.pk})
    assert (merged.status_code, merged.json()["id"]) == (200, host.pk)
    old.refresh_from_db()
    assert old.merged_into_id == host.pk
    again = program.send("post", path, {"merged": old.pk})
    assert (again.status_code, again.json()["code"]) == (409, "merge_refused")
    assert "merged into host" in again.json()["detail"]


def test_account_deletes_its_computer(ada, host):
    program = a_program(ada)
    result = a_result(a_workunit(), "valid", host=host)
    path = f"/me/computers/{host.pk}"
    refused = program.send("delete", path)
    assert (refused.status_code, refused.json()["code"]) == (409, "deletion_refused")
    result.delete()
    assert program.send("delete", path, headers={"If-Match": '"old"'}).status_code == 412
    assert program.send("delete", path).status_code == 204
    assert program.send("get", path).status_code == 404
    assert program.send("delete", path).status_code == 404
