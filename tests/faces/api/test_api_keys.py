"""The account's own keys over the API."""

from __future__ import annotations

import pytest

from scheduler.models import Account, AccountKey, AuditEntry
from scheduler.people import account_keys, accounts, submitters
from tests.conftest import NOON
from tests.faces.apis import Program, a_program

pytestmark = pytest.mark.django_db

EMAIL, PASSWORD = "ada@example.org", "correct horse"


@pytest.fixture
def ada() -> Account:
    digest = accounts.password_digest(email=EMAIL, password=PASSWORD)
    return accounts.create_account(email=EMAIL, passwd_hash=digest, name="Ada", now=NOON).account


@pytest.fixture
def program(ada: Account) -> Program:
    return a_program(ada, "read", "submit")


def create(program: Program, **fields: str):
    body = {"kind": "host", "name": "lab", "password": PASSWORD} | fields
    return program.send("post", "/me/keys", body)


def test_keys_are_listed_without_their_texts(program, ada):
    kind = AccountKey.Kind.SUBMISSION
    row, text = account_keys.create_key(account=ada, name="cluster", kind=kind, now=NOON)
    account_keys.record_use(ada, row, now=NOON)
    answer = program.send("get", "/me/keys")
    listed = answer.json()["results"]
    assert [(key["kind"], key["name"], key["is_current"]) for key in listed] == [
        ("submission", "cluster", False),
        ("weak", "weak key", True),
        ("host", "first key", True),
    ]
    assert listed[0]["created_at"] == "2026-01-01T12:00:00Z"
    assert [key["last_used_on"] for key in listed] == ["2026-01-01", None, None]
    for secret in (text, account_keys.login_key(ada), account_keys.weak_key(ada)):
        assert secret not in answer.content.decode()
    assert program.send("get", f"/me/keys/{row.pk}").json() == listed[0]


@pytest.mark.parametrize("kind", ["host", "submission"])
def test_key_is_created_with_the_password_and_its_text_is_returned_once(program, ada, kind):
    submitters.allow(ada, apps=None, now=NOON)
    answer = create(program, kind=kind)
    assert answer.status_code == 201
    assert answer["Cache-Control"] == "no-store"
    made = answer.json()
    owner = account_keys.find_account_by_key(made["key"])
    assert (owner.account, owner.key.pk, made["kind"]) == (ada, made["id"], kind)
    assert "key" not in program.send("get", f"/me/keys/{made['id']}").json()
    entry = AuditEntry.objects.get(event="key_created")
    assert (entry.account_id, entry.actor) == (ada.pk, EMAIL)


def test_submission_key_of_an_account_that_may_not_submit_is_refused(program, ada):
    refused = create(program, kind="submission")
    assert refused.status_code == 403
    assert "may not submit work" in refused.json()["detail"]
    assert not account_keys.live_keys(ada, AccountKey.Kind.SUBMISSION).exists()


def test_key_is_renamed(program, ada):
    row, _text = account_keys.create_key(account=ada, name="lab", now=NOON)
    changed = program.send("patch", f"/me/keys/{row.pk}", {"name": "school"})
    assert (changed.status_code, changed.json()["name"]) == (200, "school")
    refused = program.send("patch", f"/me/keys/{row.pk}", {"name": "a\nb"})
    assert (refused.status_code, refused.json()["code"]) == (422, "bad_name")
    unchanged = program.send("patch", f"/me/keys/{row.pk}", {})
    assert (unchanged.status_code, unchanged.json()["name"]) == (200, "school")
    row.refresh_from_db()
    assert row.name == "school"


def test_key_is_revoked_with_the_password(program, ada):
    row, text = account_keys.create_key(account=ada, name="lab", now=NOON)
    path = f"/me/keys/{row.pk}"
    assert program.send("post", f"{path}/revoke", {"password": PASSWORD}).status_code == 204
    assert account_keys.find_account_by_key(text) is None
    for method, body in (("get", None), ("patch", {"name": "x"})):
        assert program.send(method, path, body).status_code == 404
    assert program.send("post", f"{path}/revoke", {"password": PASSWORD}).status_code == 404
    assert row.pk not in {key["id"] for key in program.send("get", "/me/keys").json()["results"]}


def test_current_key_is_replaced_by_its_revocation(program, ada):
    weak = account_keys.current_key(ada, AccountKey.Kind.WEAK)
    former = account_keys.weak_key(ada)
    answer = program.send("post", f"/me/keys/{weak.pk}/revoke", {"password": PASSWORD})
    assert (answer.status_code, answer.content) == (204, b"")
    assert account_keys.weak_key(ada) != former


def test_limit_of_keys_is_a_conflict(program, monkeypatch):
    monkeypatch.setattr(account_keys, "MAX_KEYS", 2)
    refused = create(program)
    assert (refused.status_code, refused.json()["code"]) == (409, "key_refused")


@pytest.mark.parametrize(
    "fields", [{"kind": "weak"}, {"kind": ""}, {"name": ""}, {"name": "x" * 101}, {"unknown": "x"}]
)
def test_invalid_body_is_refused(program, fields):
    assert create(program, **fields).status_code == 400
    assert AccountKey.objects.count() == 2
