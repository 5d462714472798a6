"""Concurrent claims never give sibling results to one account or lose a result."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from threading import Thread, Timer
from typing import Any

import psycopg
import pytest
from django.db import connections

from scheduler.dispatch import assign, claim
from scheduler.models import Account, Host, Result, Workunit
from tests.scripted_client import ScriptedClient, a_client
from tests.work import an_app, workunits

pytestmark = pytest.mark.django_db(transaction=True)

_LOCK = "SELECT id FROM workunit WHERE name = %s FOR NO KEY UPDATE"
_TAKE = """
UPDATE result SET server_state = 4, host_id = %s, account_id = %s, sent_at = now(),
    report_deadline = now() + interval '1 day'
WHERE name = %s
"""


def take(somebody: psycopg.Connection, host: Host, workunit: str, result: str) -> None:
    """Claim a result as another RPC would, and leave the transaction open."""
    somebody.execute(_LOCK, [workunit])
    somebody.execute(_TAKE, [host.pk, host.account_id, result])


def attached(email: str, name: str = "computer") -> tuple[ScriptedClient, Host]:
    client = a_client(email=email, name=name)
    client.ask()
    return client, Host.objects.get(pk=client.hostid)


def on_sleep(monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any]) -> list[float]:
    """Call `act` in the first wait of a claim; return the list of waits in seconds."""
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 1:
            act()

    monkeypatch.setattr(assign, "sleep", sleep)
    return waits


def test_a_claim_is_retried_while_another_transaction_locks_the_workunit(
    other: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    workunits(an_app(), 1, results=2)
    ada, _host = attached("ada@example.org")
    _bob, bobs = attached("bob@example.org")
    take(other, bobs, "upper_0", "upper_0_0")
    waits = on_sleep(monkeypatch, other.commit)
    assert ada.ask_for_work() == ["upper_0_1"]
    assert len(waits) == 1


def test_a_result_that_another_transaction_is_claiming_is_sent_once(
    other: psycopg.Connection,
) -> None:
    workunits(an_app(), 1)
    ada, _host = attached("ada@example.org")
    _bob, bobs = attached("bob@example.org")
    take(other, bobs, "upper_0", "upper_0_0")
    # A claim without the lock would wait for the result, and would send it after the commit.
    commit = Timer(1.0, other.commit)
    commit.start()
    names = ada.ask_for_work()
    commit.join()
    assert names == []
    assert Result.objects.get().host_id == bobs.pk


def test_result_of_a_failed_claim_goes_to_the_waiting_claim(
    other: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    workunits(an_app(), 1)
    ada, _host = attached("ada@example.org")
    _bob, bobs = attached("bob@example.org")
    take(other, bobs, "upper_0", "upper_0_0")
    on_sleep(monkeypatch, other.rollback)
    assert ada.ask_for_work() == ["upper_0_0"]


def test_a_request_is_deferred_if_the_last_result_is_still_locked_by_another_claim(
    other: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    workunits(an_app(), 1)
    ada, _host = attached("ada@example.org")
    _bob, bobs = attached("bob@example.org")
    take(other, bobs, "upper_0", "upper_0_0")
    waits = on_sleep(monkeypatch, lambda: None)
    reply = ada.ask(cpu_req_secs=1)
    assert reply.results == ()
    assert any("too recent" in message.text for message in reply.messages)
    assert 0.15 <= sum(waits) <= 0.25


def test_sibling_result_claimed_between_read_and_lock_is_detected(
    other: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A single statement would have a snapshot older than the commit of the other host."""
    workunits(an_app(), 1, results=2)
    ada, _host = attached("ada@example.org", "first")
    _same, second = attached("ada@example.org", "second")
    lock = claim.lock

    def overtaken(*args: Any, **kwargs: Any) -> Any:
        if not Result.objects.filter(server_state=4).exists():
            take(other, second, "upper_0", "upper_0_0")
            other.commit()
        return lock(*args, **kwargs)

    monkeypatch.setattr(claim, "lock", overtaken)
    assert ada.ask_for_work() == []
    assert Result.objects.filter(server_state=4).count() == 1


def test_workunit_cancelled_between_read_and_lock_is_not_sent(
    other: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    workunits(an_app(), 1)
    ada, _host = attached("ada@example.org")
    lock = claim.lock

    def overtaken(*args: Any, **kwargs: Any) -> Any:
        other.execute("UPDATE workunit SET cancel_requested_at = now()")
        other.commit()
        return lock(*args, **kwargs)

    monkeypatch.setattr(claim, "lock", overtaken)
    assert ada.ask_for_work() == []
    assert Result.objects.get().server_state == 2


def test_eight_concurrent_hosts_each_get_one_of_the_last_eight_results() -> None:
    app = an_app()
    clients = [attached(f"v{n}@example.org")[0] for n in range(8)]
    for round_number in range(5):
        Result.objects.all().delete()
        Workunit.objects.all().delete()
        workunits(app, 4, results=2) if round_number % 2 else workunits(app, 8)
        given = ask_at_once(clients)
        assert [len(names) for names in given] == [1] * 8
        assert len({name for names in given for name in names}) == 8
        for client in clients:
            client.held = []


def test_concurrent_hosts_of_one_account_never_receive_sibling_results() -> None:
    app = an_app()
    clients = [attached("ada@example.org", f"computer {n}")[0] for n in range(4)]
    for _round in range(5):
        Result.objects.all().delete()
        Workunit.objects.all().delete()
        workunits(app, 2, results=2)
        given = [name for names in ask_at_once(clients) for name in names]
        assert len({name.rsplit("_", 1)[0] for name in given}) == len(given) == 2
        for client in clients:
            client.held = []


def ask_at_once(clients: list[ScriptedClient]) -> list[list[str]]:
    given: list[list[str]] = [[] for _client in clients]

    def ask(number: int) -> None:
        given[number] = clients[number].ask_for_work()
        connections.close_all()

    threads = [Thread(target=ask, args=(number,)) for number in range(len(clients))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    return given


def test_concurrent_first_requests_of_one_computer_create_one_host() -> None:
    an_app()
    client = a_client()
    copies = [ScriptedClient(key=client.key, name="same computer") for _ in range(4)]
    ask_at_once(copies)
    assert Host.objects.count() == Account.objects.count() == 1
    assert Host.objects.get().created_at <= datetime.now(tz=UTC)
