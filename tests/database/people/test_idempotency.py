"""A request is carried out once, even if it is repeated with the same key."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Event

import pytest
from django.db import connection

from daemons import housekeeper
from scheduler.models import IdempotencyKey, Queue
from scheduler.people import idempotency
from tests.conftest import NOON
from tests.faces.apis import a_program
from tests.rows import an_account

BODY = {"name": "urgent"}


def staff(name: str = "chief"):
    return a_program(an_account(name, is_superuser=True), "read", "administer")


def send(program, body=None, *, key: str, path: str = "/queues"):
    return program.send("post", path, body or BODY, headers={"Idempotency-Key": key})


@pytest.mark.django_db
def test_a_repeat_gets_the_answer_of_the_first_request():
    program = staff()
    first, again = send(program, key="k"), send(program, key="k")
    assert first.status_code == again.status_code == 201
    assert first.json() == again.json()
    assert first["Location"] == again["Location"]
    assert "Idempotent-Replay" not in first
    assert again["Idempotent-Replay"] == "true"
    assert Queue.objects.count() == 1


@pytest.mark.django_db
def test_json_with_another_key_order_is_the_same_request():
    program = staff()
    send(program, {"name": "q", "order": "fifo"}, key="k")
    assert send(program, {"order": "fifo", "name": "q"}, key="k")["Idempotent-Replay"] == "true"


@pytest.mark.django_db
def test_another_body_with_the_same_idempotency_key_is_refused():
    program = staff()
    send(program, key="k")
    answer = send(program, {"name": "other"}, key="k")
    assert answer.status_code == 422
    assert answer.json()["code"] == "idempotency_key_reused"
    assert Queue.objects.count() == 1


@pytest.mark.django_db
def test_idempotency_keys_of_different_accounts_are_independent():
    send(staff("one"), {"name": "a"}, key="k")
    assert send(staff("two"), {"name": "b"}, key="k").status_code == 201


@pytest.mark.django_db
def test_a_refused_request_does_not_use_up_its_idempotency_key():
    program = staff()
    assert send(program, {"name": "q", "app": "prims"}, key="k").status_code == 422
    assert not IdempotencyKey.objects.exists()
    assert send(program, {"name": "q"}, key="k").status_code == 201


@pytest.mark.django_db
@pytest.mark.parametrize("key", ["", " ", "a b", "é", "k" * 201, "a\tb"])
def test_an_invalid_idempotency_key_is_refused(key):
    answer = staff().send(
        "post", "/queues", BODY, HTTP_IDEMPOTENCY_KEY=key.encode().decode("latin-1")
    )
    assert answer.status_code == 400
    assert answer.json()["code"] == "bad_idempotency_key"
    assert not Queue.objects.exists()


@pytest.mark.django_db
def test_idempotency_keys_are_deleted_after_a_week():
    account = an_account()
    for name, days in (("old", 8), ("new", 6)):
        idempotency.once(
            lambda: (201, {}),
            account=account,
            key=name,
            request_hash="",
            now=NOON - timedelta(days=days),
        )
    tally = housekeeper.run_pass(now=NOON, limit=10)
    assert tally.counts["idempotency keys dropped"] == 1
    assert [row.key for row in IdempotencyKey.objects.all()] == ["new"]


@pytest.mark.django_db
def test_earlier_outcome_returns_the_stored_outcome_or_refuses_a_reused_key():
    account = an_account()

    def earlier(request_hash):
        return idempotency.earlier_outcome(
            account=account, key="k", request_hash=lambda: request_hash
        )

    assert earlier("abc") is None
    idempotency.once(
        lambda: (201, {"count": 3}), account=account, key="k", request_hash="abc", now=NOON
    )
    assert earlier("abc") == idempotency.Outcome(201, {"count": 3}, replayed=True)
    with pytest.raises(idempotency.KeyReused, match="another request"):
        earlier("abd")


def _in_another_connection(act):
    try:
        return act()
    finally:
        connection.close()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("first_succeeds", [True, False])
def test_a_concurrent_repeat_waits_for_the_first_request_to_end(first_succeeds):
    account = an_account()
    claimed, go_on = Event(), Event()

    def first():
        def act():
            claimed.set()
            assert go_on.wait(20)
            if not first_succeeds:
                msg = "refused"
                raise RuntimeError(msg)
            return 201, {"by": "first"}

        return idempotency.once(act, account=account, key="k", request_hash="h", now=NOON)

    def second():
        return idempotency.once(
            lambda: (201, {"by": "second"}), account=account, key="k", request_hash="h", now=NOON
        )

    with ThreadPoolExecutor(2) as threads:
        one = threads.submit(_in_another_connection, first)
        assert claimed.wait(20)
        two = threads.submit(_in_another_connection, second)
        wait_until_somebody_waits()
        assert not two.done()
        go_on.set()
        if first_succeeds:
            assert one.result(20).answer == {"by": "first"}
            assert two.result(20) == idempotency.Outcome(201, {"by": "first"}, replayed=True)
        else:
            assert isinstance(one.exception(20), RuntimeError)
            assert two.result(20) == idempotency.Outcome(201, {"by": "second"})


@pytest.mark.django_db(transaction=True)
def test_a_concurrent_repeat_is_refused_after_the_claim_timeout(monkeypatch):
    monkeypatch.setattr(idempotency, "CLAIM_TIMEOUT", timedelta(milliseconds=50))
    account = an_account()
    claimed, go_on = Event(), Event()

    def act():
        claimed.set()
        assert go_on.wait(20)
        return 201, {}

    def first():
        return idempotency.once(act, account=account, key="k", request_hash="h", now=NOON)

    with ThreadPoolExecutor(1) as threads:
        one = threads.submit(_in_another_connection, first)
        assert claimed.wait(20)
        with pytest.raises(idempotency.StillUnderWay):
            idempotency.once(act, account=account, key="k", request_hash="h", now=NOON)
        go_on.set()
        one.result(20)


def wait_until_somebody_waits() -> None:
    """Return when a session of this database waits for a lock; fail after 20 seconds."""
    for _ in range(2000):
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
            if cursor.fetchone()[0]:
                return
            cursor.execute("SELECT pg_sleep(0.01)")
    pytest.fail("nobody waits")
