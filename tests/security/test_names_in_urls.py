"""A name in an address of the API gives no access that its id does not give."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from django.db import transaction

from tests.faces.api_schema import operations
from tests.faces.apis import ALL_SCOPES
from tests.faces.owned import PLACES, everything

pytestmark = pytest.mark.django_db

#: (Place, parameter) -> another reference to the same row as `PLACES`.
OTHERS = {
    ("apps", "name"): lambda one: one.app.pk,
    ("batches", "batch_id"): lambda one: one.batch.name,
    ("hosts", "host_id"): lambda one: one.host.domain_name,
    ("queues", "name"): lambda one: one.queue.pk,
    ("workunits", "workunit_id"): lambda one: one.workunit.name,
}


@contextmanager
def undone():
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def answers(caller, owner, monkeypatch, *, scopes):
    """Return the statuses and codes of every operation on the owner's rows, by both references."""
    found: dict = {"id": {}, "name": {}}
    for operation in operations():
        keys = [(operation.place, one["name"]) for one in operation.parameters("path")]
        if not any(key in OTHERS for key in keys):
            continue
        for kind, answered in found.items():
            with undone(), monkeypatch.context() as patch:
                if kind == "name":
                    for key in keys:
                        patch.setitem(PLACES, key, OTHERS.get(key, PLACES[key]))
                before = owner.rows()
                answer = operation.call(caller.program(*scopes), owner)
                code = answer.json().get("code", "") if answer.status_code >= 400 else ""
                answered[operation.name] = (
                    answer.status_code,
                    code,
                    owner.rows() == before,
                    answer.status_code >= 400 and owner.mark in str(answer.content),
                )
    return found


@pytest.mark.lengthy
@pytest.mark.parametrize("caller", ["stranger", "owner", "staff", "staff with few scopes"])
def test_every_operation_answers_a_name_as_it_answers_the_id(caller, monkeypatch):
    owner = everything("adasown")
    scopes = ALL_SCOPES if caller == "staff" else ()
    if caller == "stranger":
        account = everything("bobsown")
    elif caller == "owner":
        account = owner
    else:
        account = everything("chiefsown", is_superuser=True)
    found = answers(account, owner, monkeypatch, scopes=scopes)
    assert len(found["id"]) >= 30
    assert found["name"] == found["id"]


@pytest.mark.parametrize("place", ["workunits", "hosts", "batches"])
def test_name_of_a_row_of_another_account_is_answered_as_an_unknown_name(place):
    ada, bob = everything("adasown"), everything("bobsown")
    row = {"workunits": ada.workunit, "hosts": ada.host, "batches": ada.batch}[place]
    name = row.domain_name if place == "hosts" else row.name
    of_ada = bob.program().send("get", f"/{place}/{name}")
    unknown = bob.program().send("get", f"/{place}/no-such-name")
    assert of_ada.status_code == unknown.status_code == 404
    assert of_ada.json() == unknown.json()
