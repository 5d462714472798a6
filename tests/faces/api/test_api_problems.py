"""Problems have `detail` and `hint` in separate fields, without the word "Hint:"."""

from __future__ import annotations

import json

import pytest

from scheduler.api.http.problems import problem, split_hint
from tests.faces.api.test_api_schema import operations, schema
from tests.faces.apis import ALL_SCOPES, a_program
from tests.faces.owned import BODIES, PLACES, everything
from tests.rows import an_account, an_app, an_app_version

__all__ = ["schema"]

#: Bodies that are never valid: another type, unknown or missing fields, values of wrong types.
NONSENSE = ([], {"no_such_field": 1}, {}, {"name": 7, "app": [], "version": {}, "ids": "all"})


@pytest.mark.parametrize(
    ("said", "detail", "hint"),
    [
        ("It is full.", "It is full.", None),
        ("It is full. Hint: wait.", "It is full.", "wait."),
        ("It is full.\nHint: wait.", "It is full.", "wait."),
        ("Hint: wait.", "", "wait."),
        ("a: x. Hint: y. Hint: z.", "a: x.", "y. z."),
    ],
)
def test_hint_is_split_from_the_detail_of_a_problem(said, detail, hint) -> None:
    wanted = {"detail": detail} | ({"hint": hint} if hint else {})
    assert split_hint(said) == wanted
    body = problem(422, "full", said, errors=[{"pointer": "/a", "detail": said}])
    assert wanted.items() <= body.items()
    assert body["errors"] == [{"pointer": "/a"} | wanted]


def test_each_error_of_an_invalid_app_has_its_own_hint(db) -> None:
    an_app_version(an_app("primes"))
    chief = a_program(an_account(is_superuser=True), *ALL_SCOPES)
    answer = chief.send("patch", "/apps/primes", {"kind": "script"})
    reply = answer.json()
    assert (answer.status_code, reply["code"]) == (422, "bad_app"), reply
    it_is = "it is native, and has versions."
    assert reply["detail"] == f"The app is not valid: kind: {it_is}"
    assert reply["hint"] == "create another app."
    assert reply["errors"] == [{"pointer": "/kind", "detail": it_is, "hint": reply["hint"]}]
    answer = chief.send("patch", "/apps/primes", {"validator": "none", "assimilator": "none"})
    reply = answer.json()
    assert (answer.status_code, reply["code"]) == (422, "bad_app"), reply
    assert {one["pointer"] for one in reply["errors"]} == {"/validator", "/assimilator"}
    assert reply["hint"] == "correct these fields."
    assert "Hint:" not in answer.content.decode()


@pytest.mark.lengthy
@pytest.mark.django_db(transaction=True)
def test_no_error_response_repeats_the_word_hint_in_its_text(schema) -> None:
    owned = everything("adasown", is_superuser=True)
    chief = a_program(owned.account, *ALL_SCOPES)
    refusals = 0
    for name, operation in operations(schema):
        method, path = name.split(" ", 1)
        for (place, part), find in PLACES.items():
            if path.startswith(f"/api/v1/{place}/"):
                path = path.replace(f"{{{part}}}", str(find(owned)))
        good = BODIES.get(operation["operationId"], lambda _: {})(owned)
        bodies = (*NONSENSE, good, good)
        for body in bodies if method in {"POST", "PUT", "PATCH"} else (None,):
            for query in ("", "?no_such=1", "?limit=0&cursor=x", "?meta=[]&state=none&status=none"):
                where = path.removeprefix("/api/v1") + query
                sent = body.decode() if isinstance(body, bytes) else body
                if isinstance(sent, dict) and "file" in sent:
                    continue
                answer = chief.send(method.lower(), where, sent)
                answer.close()
                if answer.status_code < 400:
                    continue
                assert answer["Content-Type"] == "application/problem+json", (name, answer)
                assert answer.status_code < 500, (name, body, json.loads(answer.content))
                refusals += 1
                assert "Hint:" not in answer.content.decode(), (name, json.loads(answer.content))
    assert refusals > 300
