"""Submitting a workunit for each document of a query, a CSV or JSON lines."""

from __future__ import annotations

import json

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.api.endpoints.bulk import query_submissions
from scheduler.models import File, Workunit
from scheduler.people import submitters
from tests.conftest import NOON
from tests.faces.apis import a_program
from tests.rows import a_host, a_result, an_account, an_app
from tests.scientists import Scientist, a_batch, in_batch

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada():
    account = an_account("ada")
    submitters.allow(account, apps=None, now=NOON)
    an_app("fold", workunit_defaults={"outputs": ["out"]})
    return Scientist(account)


def query(scientist, source, workunit, **fields):
    body = {"app": "fold", "source": source, "workunit": workunit} | fields
    headers = fields.pop("headers", {})
    body.pop("headers", None)
    return scientist.post("workunits/from-query", body, **headers)


def made(names="new"):
    rows = Workunit.objects.filter(name__startswith=names).order_by("id")
    return list(rows.values_list("name", "command_line", "priority"))


def test_workunit_is_submitted_for_each_line_of_a_csv(ada):
    template = {"name": "new_{document.seed}", "command_line": "--seed {document.seed}"}
    answer = query(ada, {"csv": "seed,t\n1,a b\n2,c\n"}, template, batch="b")
    assert answer.status_code == 201, answer.content
    assert answer.json()["count"] == 2
    assert made() == [("new_1", "--seed 1", 0), ("new_2", "--seed 2", 0)]


def test_workunit_is_submitted_for_each_found_workunit(ada):
    batch = a_batch("old", submitter=ada.account)
    in_batch(batch, name="one", command_line="3", meta={"study": 7})
    in_batch(batch, name="two", command_line="4", meta={"study": 8})
    in_batch(a_batch("foreign", submitter=an_account("bob")), name="theirs")
    template = {
        "name": "new_{document.name}",
        "command_line": "document.command_line",
        "meta": {"parent": "document.id", "study": "document.meta.study"},
        "hold_code": -7,
    }
    source = {"workunits": {"name": {"ne": "two"}}}
    answer = query(ada, source, template, batch="next")
    assert answer.status_code == 201, answer.content
    row = Workunit.objects.get(name="new_one")
    assert (row.command_line, row.hold_code) == ("3", -7)
    assert row.meta == {"parent": Workunit.objects.get(name="one").pk, "study": 7}
    assert len(made()) == 1, "workunits of others are not found"


def test_results_hosts_and_json_lines_are_sources(ada):
    host = a_host(ada.account, domain_name="$(reboot)", p_ncpus=8)
    row = in_batch(a_batch("old", submitter=ada.account), name="one")
    a_result(row, "error", host=host, exit_status=3)
    template = {"name": "new_{document.name}_{document.exit_status}_{document.host}"}
    answer = query(ada, {"results": {"state": "OVER/CLIENT_ERROR"}}, template, batch="b")
    assert answer.status_code == 201, answer.content
    assert made()[0][0] == f"new_one_0_3_{host.pk}"
    answer = query(ada, {"hosts": {}}, {"name": "new_h{document.ncpus}"}, batch="b")
    assert (answer.status_code, made("new_h")[0][0]) == (201, "new_h8")
    lines = '{"n": 1, "p": 5}\n{"n": 2, "p": 6}\n'
    answer = query(
        ada, {"json_lines": lines}, {"name": "new_j{document.n}", "priority": "document.p"}
    )
    assert answer.status_code == 201, answer.content
    assert [name for name, *_ in made("new_j")] == ["new_j1", "new_j2"]


def test_texts_of_volunteers_cannot_become_part_of_a_command(ada):
    a_host(ada.account, domain_name="$(reboot)")
    answer = query(ada, {"hosts": {}}, {"command_line": "{document.name}"})
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_documents")
    assert answer.json()["hint"] == "its fields are denied, id, memory_nbytes, ncpus."


def test_dry_run_shows_and_checks_the_workunits_and_creates_none(ada):
    content = {"open_name": "in", "content": "{document.n}"}
    template = {"name": "new_{document.n}", "input_files": [content]}
    text = "n\n" + "\n".join(map(str, range(30)))
    answer = query(ada, {"csv": text}, template, dry_run=True)
    assert answer.status_code == 200, answer.content
    assert answer.json()["count"] == 30
    assert len(answer.json()["workunits"]) == 20
    assert answer.json()["workunits"][2]["name"] == "new_2"
    assert not Workunit.objects.exists()
    assert not File.objects.filter(doomed_at=None).exists()
    bad = query(ada, {"csv": "n\n-1"}, {"min_quorum": "document.n"}, dry_run=True)
    assert (bad.status_code, bad.json()["code"]) == (422, "bad_workunits")
    assert bad.json()["errors"][0]["pointer"] == "/workunits/0"


@pytest.mark.parametrize(
    ("source", "status", "code"),
    [
        ({}, 422, "bad_source"),
        ({"csv": "a\n1", "json_lines": "{}"}, 422, "bad_source"),
        ({"csv": "a\n"}, 422, "no_documents"),
        ({"csv": "a,a\n"}, 422, "bad_documents"),
        ({"workunits": {"$where": "1"}}, 422, "bad_filter"),
        ({"workunits": {"name": "nothing"}}, 422, "no_documents"),
        ({"table": "account"}, 400, "invalid"),
        ({"workunits": "x"}, 400, "invalid"),
    ],
)
def test_bad_sources_are_refused_with_a_hint(ada, source, status, code):
    answer = query(ada, source, {"name": "new"})
    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_more_rows_than_the_maximum_are_refused(ada, monkeypatch):
    monkeypatch.setattr(query_submissions, "MAX_DOCUMENTS", 2)
    batch = a_batch("old", submitter=ada.account)
    for _ in range(3):
        in_batch(batch)
    answer = query(ada, {"workunits": {"batch": batch.pk}}, {"name": "new"})
    assert answer.json()["detail"] == "The filter selects more than 2 workunits."


def test_same_key_submits_once(ada):
    headers = {"Idempotency-Key": "once"}
    for _ in range(2):
        answer = query(ada, {"csv": "n\n1"}, {"name": "new_{document.n}"}, headers=headers)
        assert answer.status_code == 201, answer.content
    assert len(made()) == 1


def test_tokens_that_only_submit_cannot_read_by_a_query_and_readers_cannot_submit(ada):
    in_batch(a_batch("old", submitter=ada.account))
    body = {"app": "fold", "source": {"workunits": {}}, "workunit": {}}
    for scope in ("read", "submit"):
        program = a_program(ada.account, scope)
        answer = program.post("/api/v1/workunits/from-query", body, "application/json")
        assert answer.status_code == 403, answer.content
    body["source"] = {"csv": "n\n1"}
    program = a_program(ada.account, "submit")
    answer = program.post("/api/v1/workunits/from-query", body, "application/json")
    assert answer.status_code == 201


def test_statements_do_not_depend_on_the_number_of_documents(ada):
    batch = a_batch("old", submitter=ada.account)
    counts = []
    for number in (1, 40):
        for _ in range(number):
            in_batch(batch)
        source = {"workunits": {"batch": batch.pk}}
        with CaptureQueriesContext(connection) as statements:
            answer = query(ada, source, {"command_line": "{document.id}"}, batch=f"b{number}")
        assert answer.status_code == 201, answer.content
        counts.append(len(statements))
    assert counts[0] == counts[1], json.dumps(counts)
