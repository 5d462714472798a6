"""Platforms, queues, hosts, app versions and project figures over the API."""

from __future__ import annotations

import json

import pytest
from django.contrib.auth.models import Permission

from scheduler.models import Account, AppVersion, AuditEntry, Platform, Queue
from scheduler.people import submitters
from scheduler.rights import Right
from tests.conftest import NOON
from tests.faces.apis import ALL_SCOPES, Program, a_program
from tests.rows import a_host, a_workunit, an_account, an_app, an_app_version, update

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada() -> Account:
    return an_account("ada")


@pytest.fixture
def staff() -> Program:
    return a_program(an_account("chief", is_superuser=True), *ALL_SCOPES)


# Queues


def test_queue_can_be_created_changed_listed_and_deleted(staff):
    an_app("primes")
    made = staff.send("post", "/queues", {"name": "urgent", "app": "primes", "order": "fifo"})
    assert made.status_code == 201
    assert made["Location"] == "/api/v1/queues/urgent"
    assert made.json()["app"] == "primes"
    changed = staff.send("patch", "/queues/urgent", {"max_in_progress": 5, "app": None})
    assert changed.json()["max_in_progress"] == 5
    assert changed.json()["app"] is None
    assert changed.json()["order"] == "fifo"
    assert staff.send("get", "/queues?app=primes").json()["results"] == []
    assert staff.send("delete", "/queues/urgent").status_code == 204
    assert staff.send("get", "/queues/urgent").status_code == 404


def test_deleting_a_queue_with_workunits_returns_409(staff):
    queue = Queue.objects.create(name="full", created_at=NOON)
    a_workunit(queue=queue)
    answer = staff.send("delete", "/queues/full")
    assert answer.status_code == 409
    assert "purged" in answer.json()["hint"]


def test_duplicate_queue_name_returns_409(staff):
    staff.send("post", "/queues", {"name": "q"})
    answer = staff.send("post", "/queues", {"name": "q"})
    assert answer.status_code == 409
    assert answer.json()["code"] == "queue_exists"


def test_queue_for_an_unknown_app_returns_422(staff):
    answer = staff.send("post", "/queues", {"name": "q", "app": "prims"})
    assert answer.status_code == 422
    assert answer.json()["code"] == "unknown_app"
    staff.send("post", "/queues", {"name": "q"})
    assert staff.send("patch", "/queues/q", {"app": "prims"}).status_code == 422


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/name"),
        ({"name": 7}, "/name"),
        ({"name": "a/b"}, "/name"),
        ({"name": "q", "max_in_progress": -1}, "/max_in_progress"),
        ({"name": "q", "max_in_progress": 2**31}, "/max_in_progress"),
        ({"name": "q", "max_in_progress": "5"}, "/max_in_progress"),
        ({"name": "q", "max_in_progress": True}, "/max_in_progress"),
        ({"name": "q", "max_in_progress": 1.5}, "/max_in_progress"),
        ({"name": "q", "order": "random"}, "/order"),
        ({"name": "q", "order": ["fifo"]}, "/order"),
        ({"name": "q", "oder": "fifo"}, "/oder"),
        ([], ""),
        ("q", ""),
        (None, ""),
    ],
)
def test_invalid_queue_returns_400_with_a_pointer_to_the_field(staff, body, pointer):
    answer = staff.post("/api/v1/queues", json.dumps(body), content_type="application/json")
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == pointer


def test_only_staff_can_create_queues(ada):
    program = a_program(ada)
    assert program.send("post", "/queues", {"name": "q"}).status_code == 403
    assert program.send("get", "/queues").status_code == 200


def test_former_staff_member_cannot_create_queues(ada):
    update(ada, is_superuser=True)
    program = a_program(ada, *ALL_SCOPES)
    update(ada, is_superuser=False)
    assert program.send("post", "/queues", {"name": "q"}).status_code == 403


# Hosts


def test_account_sees_only_its_own_hosts_and_staff_see_all(
    ada, staff, django_assert_max_num_queries
):
    mine, other = a_host(ada, domain_name="mine"), a_host()
    program = a_program(ada)
    with django_assert_max_num_queries(3):
        seen = program.send("get", "/hosts").json()["results"]
    assert [host["id"] for host in seen] == [mine.pk]
    assert program.send("get", f"/hosts/{mine.pk}").json()["name"] == "mine"
    assert program.send("get", f"/hosts/{other.pk}").status_code == 404
    assert len(staff.send("get", "/hosts").json()["results"]) == 2
    assert staff.send("get", f"/hosts?account={ada.pk}").json()["results"][0]["id"] == mine.pk


def test_only_staff_who_administer_hosts_limit_them(staff: Program, ada: Account) -> None:
    host = a_host(ada)
    way = f"/hosts/{host.pk}"
    for program in (a_program(ada), a_program(an_account("op", is_superuser=True), "manage")):
        assert program.send("patch", way, {"max_in_progress": 0}).status_code == 403
    clerk = an_account("clerk")
    clerk.user_permissions.add(Permission.objects.get(codename=Right.ADMINISTER_PROJECT))
    refused = a_program(clerk, "administer").send("patch", way, {"max_in_progress": 0})
    assert (refused.status_code, bool(refused.json()["hint"])) == (403, True)
    changed = staff.send("patch", way, {"max_in_progress": 2})
    assert (changed.status_code, changed.json()["max_in_progress"]) == (200, 2)
    assert staff.send("patch", way, {"max_in_progress": -1}).status_code == 400
    assert staff.send("patch", way, {}).status_code == 400
    assert staff.send("patch", "/hosts/999999", {"max_in_progress": 1}).status_code == 404
    [entry] = AuditEntry.objects.filter(event="host_changed")
    assert (entry.subject, entry.details) == (f"host {host.pk}", {"max_in_progress": 2})


def test_hosts_can_be_filtered_by_denial_name_and_platform(staff):
    a_host(denied=True, platform_name="x86_64-pc-linux-gnu")
    a_host(domain_name="lab 7")

    def found(query: str) -> int:
        return len(staff.send("get", f"/hosts?{query}").json()["results"])

    assert found("denied=true") == found("denied=false") == 1
    assert found("name=lab%207") == 1
    assert found("platform=x86_64-pc-linux-gnu") == 1
    assert found("name=%27%20OR%201%3D1--") == 0


@pytest.mark.parametrize(
    "query",
    ["denied=perhaps", "account=1.5", "account=x", "account=99999999999999999999", "name=%00"],
)
def test_invalid_host_filter_returns_400(staff, query):
    assert staff.send("get", f"/hosts?{query}").status_code == 400


def test_matching_etag_returns_304_without_a_body(ada):
    host, program = a_host(ada), a_program(ada)
    first = program.send("get", f"/hosts/{host.pk}")
    again = program.send("get", f"/hosts/{host.pk}", headers={"If-None-Match": first["ETag"]})
    assert again.status_code == 304
    assert again.content == b""
    update(host, domain_name="renamed")
    later = program.send("get", f"/hosts/{host.pk}", headers={"If-None-Match": first["ETag"]})
    assert later.status_code == 200
    assert later["ETag"] != first["ETag"]


# Platforms and app versions


def test_platforms_are_listed(ada):
    Platform.objects.create(name="windows_x86_64")
    names = [one["name"] for one in a_program(ada).send("get", "/platforms").json()["results"]]
    assert "windows_x86_64" in names


def test_listing_app_versions_takes_at_most_four_statements(ada, django_assert_max_num_queries):
    app = an_app("primes")
    versions = [an_app_version(app) for _ in range(5)]
    an_app_version(an_app("other"))
    program = a_program(ada)
    with django_assert_max_num_queries(4):
        seen = program.send("get", "/apps/primes/versions").json()["results"]
    assert [one["id"] for one in seen] == [one.pk for one in reversed(versions)]
    assert a_program(ada).send("get", "/apps/none/versions").status_code == 404


def test_only_a_manager_with_the_publish_scope_can_deprecate_an_app_version(ada):
    app = an_app("primes")
    version = an_app_version(app, version_num=123)
    program, path = a_program(ada), f"/app-versions/{version.pk}"
    assert program.send("get", path).json()["version"] == "1.23"
    refused = program.send("patch", path, {"deprecated": True})
    assert refused.status_code == 403
    submitters.allow(ada, apps=[app], may_manage=True, now=NOON)
    assert program.send("patch", path, {"deprecated": True}).status_code == 403, "no scope"
    program = a_program(ada, "read", "publish")
    assert program.send("patch", path, {"deprecated": True}).json()["deprecated"] is True
    assert AppVersion.objects.get(pk=version.pk).deprecated
    assert program.send("get", "/apps/primes/versions?deprecated=false").json()["results"] == []


# The project


def test_status_is_public_and_equals_the_status_page(client):
    a_workunit(an_app("primes"))
    reply = client.get("/api/v1/status").json()
    page = client.get("/status.json").json()
    assert {name: one["value"] for name, one in reply["workunits"].items()} == page["workunits"]
    assert {one["name"]: one["waiting"]["value"] for one in reply["daemons"]} == page["waiting"]
    assert reply["apps"][0]["name"] == "primes"


def test_statistics_are_public(client):
    a_workunit(an_app("primes", total_credit=17))
    reply = client.get("/api/v1/statistics").json()
    assert reply["total_credit"] == 17
    assert reply["workunits"] == {"value": 1, "exact": True}
    assert reply["apps"] == [
        {
            "name": "primes",
            "title": "primes",
            "total_credit": 17,
            "workunits_done": 0,
            "workunits_failed": 0,
            "cpu_seconds": 0,
            "elapsed_seconds": 0,
            "mean_elapsed_seconds": None,
            "max_elapsed_seconds": None,
            "peak_memory_bytes": None,
        }
    ]


def test_public_operations_work_with_a_bad_token():
    assert Program("mh_nonsense").send("get", "/status").status_code == 200
