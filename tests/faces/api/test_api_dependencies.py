"""Dependencies over the API: submission, changes, refusals and graphs."""

from __future__ import annotations

import pytest

from scheduler.models import Batch, Dependency, Workunit
from tests.graphs import finish, named, run_daemons, sent
from tests.rows import an_account, an_app
from tests.scientists import Scientist

pytestmark = pytest.mark.django_db


@pytest.fixture
def eve() -> Scientist:
    one = Scientist(name="eve", is_superuser=True)
    an_app("fold", one_result_per="nothing", workunit_defaults={"outputs": ["out"]})
    return one


def post(eve, *workunits, **head):
    body = {"app": "fold", "workunits": list(workunits)} | head
    return eve.post("workunits", body)


def read(eve, name):
    return eve.get(f"workunits/{named(name).pk}").json()


def change(eve, word, name, **body):
    return eve.post(f"workunits/{named(name).pk}/{word}", body)


def test_graph_is_submitted_and_shown(eve):
    answer = post(
        eve,
        {"name": "p", "continuations": ["d"]},
        {"name": "c", "after": ["p"]},
        {"name": "d", "command_line": "7"},
    )
    assert answer.status_code == 201, answer.content
    parent, child = read(eve, "p"), read(eve, "c")
    assert (parent["after"], parent["pending_dependency_count"]) == ([], 0)
    assert parent["continuations"] == [named("c").pk, named("d").pk]
    # Only add_continuations and remove_continuations change them.
    address = f"workunits/{named('p').pk}"
    assert eve.patch(address, {"continuations": []}).status_code == 405
    assert (child["after"], child["pending_dependency_count"]) == ([parent["id"]], 1)
    assert child["status"] == "waiting"
    run_daemons()
    assert sent() == {"p"}
    finish("p")
    assert read(eve, "c")["pending_dependency_count"] == 0
    assert read(eve, "c")["status"] == "unsent"


def test_reading_a_workunit_takes_the_same_statements_with_and_without_dependencies(
    eve, django_assert_num_queries
):
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    post(eve, {"name": "alone"}, {"name": "p"}, {"name": "c", "after": ["p"]})
    with CaptureQueriesContext(connection) as alone:
        read(eve, "alone")
    with django_assert_num_queries(len(alone.captured_queries)):
        read(eve, "c")


def test_continuations_are_added_and_removed(eve):
    post(eve, {"name": "p"}, {"name": "q"}, {"name": "c", "after": ["q"]})
    child = named("c").pk
    answer = change(eve, "add_continuations", "p", names=["c"])
    assert (answer.status_code, answer.json()) == (
        200,
        {"changed": 1, "already": 0, "continuations": [child]},
    )
    assert change(eve, "add_continuation", "p", continuation="c").json()["already"] == 1
    assert read(eve, "c")["pending_dependency_count"] == 2
    answer = change(eve, "remove_continuations", "p", ids=[child])
    assert answer.json() == {"changed": 1, "already": 0, "continuations": []}
    assert change(eve, "remove_continuation", "q", continuation="c").status_code == 200
    assert not Dependency.objects.exists()
    run_daemons()
    assert sent() == {"p", "q", "c"}


def refusal(answer):
    problem = answer.json()
    assert problem["hint"]
    return answer.status_code, problem["code"], problem["detail"]


def test_refusals_name_the_workunits_and_the_cycle(eve):
    post(eve, {"name": "a"}, {"name": "b", "after": ["a"]}, {"name": "c", "after": ["b"]})
    status, code, detail = refusal(change(eve, "add_continuations", "c", names=["b"]))
    assert (status, code) == (409, "dependency_refused")
    assert detail == "The dependencies form a cycle of 2 workunits: c -> b -> c."
    status, code, detail = refusal(change(eve, "add_continuations", "b", names=["a"]))
    assert (status, code) == (409, "dependency_refused")
    assert "a was released" in detail
    status, code, detail = refusal(change(eve, "remove_continuations", "a", names=["c"]))
    assert (status, code) == (409, "dependency_refused")
    assert detail == "c does not wait for a."
    status, code, detail = refusal(change(eve, "add_continuations", "a", names=["nothing"]))
    assert (status, code) == (422, "unknown_workunits")
    assert "There is no workunit nothing" in detail
    assert refusal(change(eve, "add_continuations", "a"))[:2] == (422, "nothing_named")
    assert Dependency.objects.count() == 2


@pytest.mark.parametrize(
    ("workunit", "pointer"),
    [
        ({"after": ["no name!"]}, "/after/0"),
        ({"after": [True]}, "/after/0"),
        ({"after": [-1]}, "/after/0"),
        ({"after": "p"}, "/after"),
        ({"continuations": [{}]}, "/continuations/0"),
        ({"pending_dependency_count": 1}, "/pending_dependency_count"),
        ({"group": 1}, "/group"),
    ],
)
def test_wrong_fields_are_refused_with_their_place(eve, workunit, pointer):
    answer = post(eve, {"name": "a"}, workunit)
    assert answer.status_code in {400, 422}
    assert any(error["pointer"].endswith(pointer) for error in answer.json()["errors"])
    assert not Workunit.objects.exists()


def test_submission_with_unknown_or_cyclic_dependencies_creates_nothing(eve):
    assert refusal(post(eve, {"name": "a", "after": ["b"]}))[:2] == (422, "unknown_workunits")
    answer = post(eve, {"name": "a", "after": ["b"]}, {"name": "b", "after": ["a"]})
    assert refusal(answer)[:2] == (409, "dependency_refused")
    assert not Workunit.objects.exists()
    assert not Batch.objects.exists()


def test_number_of_dependencies_of_a_submission_is_limited(eve, monkeypatch):
    from scheduler.work import dependencies

    monkeypatch.setattr(dependencies, "MAX_EDGES", 2)
    assert post(eve, {"name": "a"}, {"name": "b", "after": ["a"]}).status_code == 201
    more = [{"name": "d", "after": ["a", "b"]}, {"name": "e", "continuations": ["d"]}]
    assert refusal(post(eve, *more))[:2] == (413, "too_many_dependencies")
    assert Workunit.objects.count() == 2


def test_workunits_of_other_accounts_cannot_be_linked(eve):
    post(eve, {"name": "p"})
    ada = Scientist(an_account("ada"))
    assert (
        ada.post(f"workunits/{named('p').pk}/add_continuations", {"names": ["p"]}).status_code
        == 404
    )
    from scheduler.people import submitters

    submitters.allow(ada.account, apps=None, now=named("p").created_at)
    answer = post(ada, {"name": "c", "after": ["p"]})
    assert refusal(answer)[:2] == (422, "unknown_workunits")


def test_defaults_do_not_apply_to_groups(eve):
    answer = post(
        eve,
        {"name": "a"},
        {"name": "all", "group": True, "after": ["a"]},
        defaults={"command_line": "--fast", "min_quorum": 2},
    )
    assert answer.status_code == 201, answer.content
    group = read(eve, "all")
    assert (group["group"], group["command_line"], group["outputs"]) == (True, "", [])
    assert read(eve, "a")["command_line"] == "--fast"


def test_complete_group_is_done_without_a_canonical_result(eve):
    post(eve, {"name": "all", "group": True})
    run_daemons()
    group = read(eve, "all")
    assert (group["status"], group["canonical_result"], group["results"]) == ("done", None, [])


def test_graph_of_a_batch_has_its_workunits_and_edges(eve):
    post(eve, {"name": "p"}, {"name": "c", "after": ["p"]}, batch="one")
    post(eve, {"name": "d", "after": ["c"], "group": True}, batch="two")
    one, two = (Batch.objects.get(name=name).pk for name in ("one", "two"))
    parent, child = named("p").pk, named("c").pk
    assert eve.get(f"batches/{one}/graph").json() == {
        "workunits": [
            {"id": parent, "name": "p", "status": "unsent", "group": False, "after": []},
            {"id": child, "name": "c", "status": "waiting", "group": False, "after": [parent]},
        ],
        "left_out": 0,
    }
    (node,) = eve.get(f"batches/{two}/graph").json()["workunits"]
    assert (node["group"], node["after"]) == (True, [child])


def test_large_graph_is_cut_off(eve, monkeypatch):
    from scheduler.work import submitted

    monkeypatch.setattr(submitted, "MAX_GRAPH", 2)
    post(eve, {"name": "a"}, {"name": "b"}, {"name": "c"}, batch="one")
    graph = eve.get(f"batches/{Batch.objects.get().pk}/graph").json()
    assert (len(graph["workunits"]), graph["left_out"]) == (2, 1)
