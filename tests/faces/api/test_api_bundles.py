"""Task lists over the API: made, listed, read, and refused."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.models import Account, Bundle, Workunit
from scheduler.people import submitters
from tests.conftest import NOON
from tests.database.passes import statements_of
from tests.faces.apis import Program, a_program
from tests.lists import a_scientist, an_app_with_lists, passes, state, submitted
from tests.rows import an_account
from tests.scripted_client import a_client

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def scientist() -> Account:
    account = a_scientist()
    submitters.allow(account, apps=None, now=NOON)
    return account


@pytest.fixture
def program(scientist: Account) -> Program:
    return a_program(scientist)


def post(program: Program, path: str, status: int, **body: Any) -> dict[str, Any]:
    answer = program.send("post", f"/{path}", body)
    assert answer.status_code == status, answer.content
    return dict(answer.json())


def get(program: Program, path: str, status: int = 200) -> dict[str, Any]:
    answer = program.send("get", f"/{path}")
    assert answer.status_code == status, answer.content
    return dict(answer.json())


def test_a_list_is_made_of_workunits_and_read_with_its_members(program):
    made = submitted(an_app_with_lists(), None, None, None)
    bundle = post(program, "bundles", 201, batch=made.batch_id, workunits=["wu0", "wu2"])
    assert bundle["state"] == "open"
    assert bundle["is_ready"] is True
    assert [(w["name"], w["phase"]) for w in bundle["workunits"]] == [
        ("wu0", "ready"),
        ("wu2", "ready"),
    ]
    client = a_client(email="ada@example.org", name="pc7")
    client.ask()
    assert client.ask_for_work() == ["wu0_0", "wu2_0"]
    running = get(program, f"bundles/{bundle['id']}")
    assert (running["state"], running["host"]) == ("running", client.hostid)
    assert running["label"].split("_")[1] == "pc7"
    assert running["lease_until"] is not None
    assert get(program, "workunits?name=wu0")["results"][0]["name"] == "wu0"


def test_a_list_of_a_batch_is_found_by_its_state(program):
    made = submitted(an_app_with_lists(), "a", "b", "b")
    page = get(program, f"bundles?batch={made.batch_id}&state=open")
    assert [bundle["claims"] for bundle in page["results"]] == [0, 0]
    assert get(program, f"bundles?batch={made.batch_id}&state=closed")["results"] == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"workunits": ["wu0", "nobody"]}, "has no workunits nobody"),
        ({"bundle_id": 7}, "wu0 is in task list 7"),
        ({"error_mask": 16}, "wu0 has ended or was cancelled"),
        ({"pending_dependency_count": 1}, "wu0 waits for other workunits"),
        ({"target_nresults": 2}, "wu0 may have several results"),
        ({"broadcast": True}, "wu0 may have several results"),
    ],
)
def test_a_list_that_cannot_be_sent_is_refused_with_the_reason(program, change, expected):
    made = submitted(an_app_with_lists(), None)
    names = change.pop("workunits", ["wu0"])
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        Workunit.objects.update(**change)
        cursor.execute("SET session_replication_role = DEFAULT")
    refusal = post(program, "bundles", 409, batch=made.batch_id, workunits=names)
    assert refusal["code"] == "list_refused"
    assert expected in refusal["detail"]
    assert refusal["hint"]
    assert not Bundle.objects.exists()


def test_a_workunit_that_a_host_computes_is_refused(program):
    made = submitted(an_app_with_lists(), None)
    client = a_client()
    client.ask()
    client.ask_for_work()
    refusal = post(program, "bundles", 409, batch=made.batch_id, workunits=["wu0"])
    assert "wu0 is computed by a host" in refusal["detail"]


def test_strangers_get_404(program):
    made = submitted(an_app_with_lists(), "a", None)
    [bundle] = Bundle.objects.all()
    stranger = a_program(an_account("stranger"))
    get(stranger, f"bundles/{bundle.pk}", 404)
    assert get(stranger, "bundles")["results"] == []
    post(stranger, "bundles", 404, batch=made.batch_id, workunits=["wu1"])


def test_a_token_that_only_reads_cannot_make_a_list(scientist):
    made = submitted(an_app_with_lists(), None)
    reader = a_program(scientist, "read")
    post(reader, "bundles", 403, batch=made.batch_id, workunits=["wu0"])


def test_a_submission_names_its_lists_and_a_batch_asks_for_them(program):
    app = an_app_with_lists()
    batch = post(program, "batches", 201, app=app.name, bundle_size=2, bundle_duration_seconds=900)
    assert (batch["bundle_size"], batch["bundle_duration_seconds"]) == (2, 900.0)
    body = {
        "app": app.name,
        "batch": {"name": batch["name"]},
        "workunits": [
            {"name": "one", "bundle": "x", "expected_duration_seconds": 60, "outputs": ["out"]},
            {"name": "two", "outputs": ["out"]},
        ],
    }
    post(program, "workunits", 201, **body)
    passes()
    one, two = (Workunit.objects.get(name=name) for name in ("one", "two"))
    assert state(Bundle.objects.get(pk=one.bundle_id)) == "open"
    assert one.delay_bound.total_seconds() == 3600
    assert one.rsc_fpops_est == 60e9
    assert two.bundle_id == 0
    shown = get(program, f"workunits/{one.pk}")
    assert (shown["bundle"], shown["expected_duration_seconds"]) == (one.bundle_id, 60.0)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"min_quorum": 2}, "has one result at a time, not 2"),
        ({"bundle": ""}, "is not a label for a task list"),
        ({"after": ["other"]}, "cannot wait for other workunits"),
        ({"expected_duration_seconds": 0}, "expected_duration is 0 seconds"),
    ],
)
def test_a_member_that_cannot_be_in_a_list_is_refused(program, fields, expected):
    workunit = {"name": "one", "bundle": "x", "outputs": ["out"]} | fields
    body = {"app": an_app_with_lists().name, "batch": {"name": "b"}, "workunits": [workunit]}
    answer = program.send("post", "/workunits", body)
    assert answer.status_code in {400, 422}
    assert expected in answer.content.decode()
    assert not Workunit.objects.exists()


def test_a_page_of_lists_takes_the_same_number_of_statements_for_any_number(program):
    app = an_app_with_lists()
    submitted(app, "a")
    before = statements_of(lambda: get(program, "bundles"))
    submitted(app, *"bcdefg")
    assert statements_of(lambda: get(program, "bundles")) == before
