"""Addresses of the API name a row by its id or by its name."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from scheduler.models import Batch, Host, Queue, Workunit
from tests.faces.apis import ALL_SCOPES, a_program
from tests.faces.owned import everything
from tests.rows import a_host, a_workunit, an_account, an_app, update

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada():
    return everything("adasown")


@pytest.fixture
def chief():
    return a_program(an_account("chief", is_superuser=True), *ALL_SCOPES)


def same(program, by_id, by_name):
    """Assert that both addresses return the same row; return it."""
    expected, answer = program.send("get", by_id), program.send("get", by_name)
    assert expected.status_code == 200, expected.content
    assert answer.status_code == 200, answer.content
    assert answer.json() == expected.json()
    return answer.json()


@pytest.mark.parametrize("below", ["", "/statistics", "/history", "/timeline", "/rounds"])
def test_a_workunit_is_read_by_its_name(ada, below):
    by_id = f"/workunits/{ada.workunit.pk}{below}"
    same(ada.program("read"), by_id, f"/workunits/{ada.workunit.name}{below}")


@pytest.mark.parametrize("below", ["", "/progress", "/graph", "/statistics", "/troubles"])
def test_a_batch_is_read_by_its_name(ada, below):
    by_id = f"/batches/{ada.batch.pk}{below}"
    same(ada.program("read"), by_id, f"/batches/{ada.batch.name}{below}")


def test_a_host_is_read_by_its_name(ada):
    same(ada.program("read"), f"/hosts/{ada.host.pk}", f"/hosts/{ada.host.domain_name}")


@pytest.mark.parametrize("below", ["", "/versions"])
def test_an_app_is_read_by_its_id(ada, below):
    same(ada.program("read"), f"/apps/{ada.app.name}{below}", f"/apps/{ada.app.pk}{below}")


def test_a_queue_is_read_by_its_id(ada):
    same(ada.program("read"), f"/queues/{ada.queue.name}", f"/queues/{ada.queue.pk}")


def test_rows_are_changed_by_the_other_kind_of_reference(ada, chief):
    program = ada.program("read", "submit")
    answer = program.send("post", f"/workunits/{ada.workunit.name}/cancel", {"reason": "wrong"})
    assert answer.status_code == 200, answer.content
    ada.workunit.refresh_from_db()
    assert ada.workunit.cancel_requested_at is not None
    etag = program.send("get", f"/batches/{ada.batch.pk}").headers["ETag"]
    answer = program.send(
        "patch", f"/batches/{ada.batch.name}", {"meta": {"a": 1}}, headers={"If-Match": etag}
    )
    assert answer.status_code == 200, answer.content
    ada.batch.refresh_from_db()
    assert ada.batch.meta == {"a": 1}
    answer = chief.send("patch", f"/hosts/{ada.host.domain_name}", {"max_in_progress": 3})
    assert answer.json()["max_in_progress"] == 3
    answer = chief.send("patch", f"/queues/{ada.queue.pk}", {"max_in_progress": 4})
    assert (answer.json()["name"], answer.json()["max_in_progress"]) == (ada.queue.name, 4)


def test_digits_are_always_the_id_of_a_workunit_host_or_batch(ada):
    """A request for a row that was purged must not reach a row whose name is that id."""
    program = ada.program("read", "submit")
    workunit = a_workunit(ada.app, name="987654321", batch=ada.batch)
    update(ada.host, domain_name="987654321")
    update(ada.batch, name="987654321")
    for place in ("workunits", "hosts", "batches"):
        assert program.send("get", f"/{place}/987654321").status_code == 404, place
    assert program.send("post", "/workunits/987654321/cancel", {}).status_code == 404
    workunit.refresh_from_db()
    assert workunit.cancel_requested_at is None
    listed = program.send("get", "/workunits?name=987654321").json()["results"]
    assert [row["id"] for row in listed] == [workunit.pk]


def test_name_of_digits_comes_before_the_id_of_a_queue_or_app(ada):
    """The address that the creation of a queue or app returns stays its address."""
    program = ada.program("read")
    queue = Queue.objects.create(name=str(ada.queue.pk), created_at=timezone.now())
    app = an_app(str(ada.app.pk))
    assert program.send("get", f"/queues/{ada.queue.pk}").json()["id"] == queue.pk
    assert program.send("get", f"/apps/{ada.app.pk}").json()["id"] == app.pk


@pytest.mark.parametrize("reference", [str(2**63), "9" * 19, "9" * 30, "0", "no such row", "1e3"])
@pytest.mark.parametrize("place", ["workunits", "hosts", "batches", "queues", "apps"])
def test_reference_to_no_row_returns_404(ada, place, reference):
    answer = ada.program("read").send("get", f"/{place}/{reference}")
    assert answer.status_code == 404
    assert answer.json()["code"] == "not_found"


def test_name_of_several_hosts_returns_409_with_their_ids(ada):
    program = ada.program("read")
    other = a_host(ada.account, domain_name=ada.host.domain_name)
    a_host(domain_name=ada.host.domain_name)  # of another account, which the caller may not see
    answer = program.send("get", f"/hosts/{ada.host.domain_name}")
    assert (answer.status_code, answer.json()["code"]) == (409, "ambiguous_name")
    assert answer.json()["detail"].endswith(f": {ada.host.pk}, {other.pk}.")
    Host.objects.filter(pk=ada.host.pk).update(merged_into=other)
    answer = program.send("get", f"/hosts/{ada.host.domain_name}")
    assert answer.json()["id"] == other.pk


def test_name_of_many_hosts_returns_the_first_ids(ada):
    for _ in range(12):
        a_host(ada.account, domain_name="many")
    answer = ada.program("read").send("get", "/hosts/many")
    assert answer.status_code == 409
    assert answer.json()["detail"].count(",") == 10
    assert answer.json()["detail"].endswith("and more.")


def test_name_of_batches_of_several_accounts_is_ambiguous_to_staff_only(ada, chief):
    bob = everything("bobsown")
    Batch.objects.filter(pk=bob.batch.pk).update(name=ada.batch.name)
    answer = chief.send("get", f"/batches/{ada.batch.name}")
    assert (answer.status_code, answer.json()["code"]) == (409, "ambiguous_name")
    answer = ada.program("read").send("get", f"/batches/{ada.batch.name}")
    assert answer.json()["id"] == ada.batch.pk


@pytest.mark.parametrize("place", ["workunits", "hosts", "batches"])
def test_name_takes_one_statement_more_than_an_id(ada, place):
    program = ada.program("read")
    row = {"workunits": ada.workunit, "hosts": ada.host, "batches": ada.batch}[place]
    name = row.domain_name if place == "hosts" else row.name
    counts = []
    for reference in (row.pk, row.pk, name):
        with CaptureQueriesContext(connection) as queries:
            assert program.send("get", f"/{place}/{reference}").status_code == 200
        counts.append(len(queries))
    assert counts[2] == counts[1] + 1


def explained(statement: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {statement}")
        return "\n".join(line for (line,) in cursor.fetchall())


@pytest.mark.lengthy
@pytest.mark.parametrize("caller", ["owner", "staff"])
def test_names_are_found_by_an_index(ada, chief, caller):
    """The rows belong to many accounts, so that an index by account does not find a name."""
    now = timezone.now()
    app, count = ada.app, 4000
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
    Host.objects.bulk_create(
        Host(account_id=10**6 + n, domain_name=f"node {n}", created_at=now, rpc_at=now)
        for n in range(count)
    )
    Batch.objects.bulk_create(
        Batch(submitter_id=10**6 + n, app=app, name=f"run {n}", created_at=now)
        for n in range(count)
    )
    Workunit.objects.bulk_create(
        Workunit(app=app, name=f"task {n}", created_at=now) for n in range(count)
    )
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = origin")
        cursor.execute("ANALYZE host, batch, workunit")
    program = chief if caller == "staff" else ada.program("read")
    by_name = {
        "workunits": "workunit_name_is_unique",
        "hosts": "find_host_by_name",
        "batches": "find_batch_by_name",
    }
    columns = {"workunits": "name", "hosts": "domain_name", "batches": "name"}
    for place, column in columns.items():
        with CaptureQueriesContext(connection) as queries:
            program.send("get", f"/{place}/no-such-row")
        (statement,) = [query["sql"] for query in queries if "no-such-row" in query["sql"]]
        plan = explained(statement)
        _, _, condition = plan.partition("Index Cond: ")
        assert f"(({column})::text = 'no-such-row'::text)" in condition, plan
        if caller == "staff":
            assert f"using {by_name[place]} " in plan, plan
