"""Holding and releasing workunits over the API and with the scientist's program."""

from __future__ import annotations

import pytest

from scheduler.models import Workunit
from scheduler.people import submitters
from scheduler.work import control
from tests.conftest import NOON
from tests.faces.apis import a_program
from tests.rows import an_account, an_app
from tests.scientists import Scientist, a_batch, in_batch

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada():
    account = an_account("ada")
    submitters.allow(account, apps=None, now=NOON)
    return Scientist(account)


def code(row):
    row.refresh_from_db()
    return row.release_state, row.hold_code


def test_submitter_holds_and_releases_their_workunits(ada):
    batch = a_batch(submitter=ada.account)
    one, two = in_batch(batch), in_batch(batch)
    answer = ada.post("workunits/hold", {"ids": [one.pk], "hold_code": -7})
    assert answer.json() == {"held": 1, "already": 0, "finished": 0, "impossible": 0}
    assert ada.post("workunits/hold", {"batch": batch.pk}).json()["held"] == 2
    assert (code(one), code(two)) == ((2, -4), (2, -4))
    shown = ada.get(f"workunits/{one.pk}").json()
    assert (shown["hold_code"], shown["status"]) == (-4, "waiting")
    answer = ada.post("workunits/release", {"names": [one.name, two.name]})
    assert answer.json() == {"released": 2, "already": 0, "finished": 0, "impossible": 0}
    assert code(one) == (3, None)


def test_submitter_cannot_release_what_staff_hold_but_staff_can(ada):
    row = in_batch(a_batch(submitter=ada.account))
    control.hold(ids=[row.pk], now=NOON)
    assert ada.post("workunits/release", {"ids": [row.pk]}).json()["impossible"] == 1
    assert code(row) == (2, None)
    staff = Scientist(name="eve", is_superuser=True)
    assert staff.post("workunits/release", {"ids": [row.pk]}).json()["released"] == 1
    assert code(row) == (3, None)


@pytest.mark.parametrize("word", ["hold", "release"])
def test_workunits_of_others_are_not_found_and_reading_tokens_are_refused(ada, word):
    row = in_batch(a_batch(submitter=an_account("bob")))
    assert ada.post(f"workunits/{word}", {"ids": [row.pk]}).status_code == 404
    assert ada.post(f"workunits/{word}", {"batch": row.batch_id}).status_code == 404
    reader = a_program(an_account("cyd"), "read")
    answer = reader.post(f"/api/v1/workunits/{word}", {"ids": [row.pk]}, "application/json")
    assert answer.status_code == 403
    assert code(row) == (3, None)


@pytest.mark.parametrize("bad", [-2, -1, -6])
def test_code_with_another_meaning_is_refused_with_a_hint(ada, bad):
    row = in_batch(a_batch(submitter=ada.account))
    answer = ada.post("workunits/hold", {"ids": [row.pk], "hold_code": bad})
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_hold_code")
    assert "use -3, -4, -5" in answer.json()["hint"]


@pytest.mark.parametrize("bad", [0, 5, -32769, "x", None])
def test_code_that_is_not_a_negative_number_does_not_match_the_schema(ada, bad):
    row = in_batch(a_batch(submitter=ada.account))
    assert ada.post("workunits/hold", {"ids": [row.pk], "hold_code": bad}).status_code == 400


def test_workunit_is_submitted_with_a_code(ada):
    an_app("fold", workunit_defaults={"outputs": ["out"]})
    body = {"app": "fold", "batch": {"name": "b"}, "workunits": [{"name": "w", "hold_code": -7}]}
    answer = ada.post("workunits", body)
    assert answer.status_code == 201, answer.content
    assert code(Workunit.objects.get(name="w")) == (2, -7)
