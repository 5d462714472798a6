"""Scheduler RPCs in one batch get the same replies as in separate calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from random import Random
from threading import Thread
from typing import Any

import pytest
from django.conf import settings
from django.db import IntegrityError, connections, transaction
from django.utils import timezone

from daemons import registry
from scheduler.boinc import conversation, scheduler_rpc, translate
from scheduler.boinc.conversation import Call
from scheduler.boinc.wire import messages
from scheduler.dispatch import search
from scheduler.lifecycle import Outcome, ServerState
from scheduler.models import Host, HostAppVersion, LedgerEntry, Result, Workunit, WorkunitWakeup
from tests.scripted_client import ScriptedClient, a_client, put_upload, rpc_statements
from tests.work import an_app, workunits

pytestmark = pytest.mark.django_db

BUSY = "Another scheduler instance is running for this host"


def clients(count: int) -> list[ScriptedClient]:
    """Return attached clients, each of an account of its own."""
    made = [a_client(email=f"v{number}@example.org") for number in range(count)]
    for client in made:
        client.ask()
    return made


def together(requests: list[messages.SchedulerRequest]) -> list[Any]:
    calls = [Call(request, "127.0.0.1") for request in requests]
    return conversation.answer_all(calls, config=settings.PROJECT, now=timezone.now())


def given(reply: messages.SchedulerReply) -> list[str]:
    return [result.name for result in reply.results]


def reported(client: ScriptedClient, *names: str, **fields: Any) -> messages.SchedulerRequest:
    """Return a request that reports these results with outputs and requests work."""
    for name in names:
        put_upload(name, b"the answer")
    client.held = [name for name in client.held if name not in names]
    done = tuple(messages.ReportedResult(name=name, state=5) for name in names)
    return client.request(results=done, **({"cpu_req_secs": 1} | fields))


def test_hosts_in_the_same_batch_receive_different_results() -> None:
    workunits(an_app(), 40)
    replies = together([client.request(cpu_req_secs=2 * 3600) for client in clients(8)])
    names = [name for reply in replies for name in given(reply)]
    assert len(names) == len(set(names)) == sum(len(given(reply)) for reply in replies)
    assert all(given(reply) for reply in replies)
    assert Result.objects.filter(server_state=ServerState.IN_PROGRESS).count() == len(names)
    assert LedgerEntry.objects.filter(target=40).count() == len(names)


def test_sibling_results_go_to_hosts_of_different_accounts_in_one_batch() -> None:
    workunits(an_app(), 4, results=2)
    replies = together([client.request(cpu_req_secs=1) for client in clients(8)])
    assert sorted(name for reply in replies for name in given(reply)) == sorted(
        Result.objects.values_list("name", flat=True)
    )


def test_two_hosts_of_one_account_in_one_batch_never_get_sibling_results() -> None:
    workunits(an_app(), 2, results=2)
    hosts = [a_client(name=f"computer {number}") for number in range(4)]
    for client in hosts:
        client.ask()
    replies = together([client.request(cpu_req_secs=1) for client in hosts])
    names = [name for reply in replies for name in given(reply)]
    assert len({name.rsplit("_", 1)[0] for name in names}) == len(names) == 2


def test_a_batch_of_eight_uses_as_many_statements_as_a_single_call() -> None:
    workunits(an_app(), 60)
    counts = []
    for count in (1, 8):
        hosts = clients(count)
        for client in hosts:
            client.ask_for_work()
        requests = [reported(client, *client.held) for client in hosts]
        counts.append(len(rpc_statements(partial(together, requests))))
    assert counts[0] == counts[1]


def test_second_request_of_a_host_in_one_batch_gets_a_retry_delay() -> None:
    workunits(an_app(), 4)
    (client,) = clients(1)
    first, second = together([client.request(cpu_req_secs=1)] * 2)
    assert given(first) == ["upper_0_0"]
    assert [message.text for message in second.messages] == [BUSY]
    assert second.request_delay == 60


def test_concurrent_first_calls_of_a_computer_create_one_host() -> None:
    client = a_client()
    replies = together([client.request(cpu_req_secs=1)] * 3)
    assert Host.objects.count() == 1
    assert [reply.hostid for reply in replies] == [Host.objects.get().pk, None, None]


def test_a_refused_call_does_not_affect_the_other_calls_of_its_batch() -> None:
    workunits(an_app(), 4)
    good, denied, other = clients(3)
    Host.objects.filter(pk=denied.hostid).update(denied=True)
    replies = together(
        [
            ScriptedClient(key="0" * 32).request(cpu_req_secs=1),
            denied.request(cpu_req_secs=1),
            good.request(cpu_req_secs=1),
            other.request(cpu_req_secs=1, code_sign_key="of another project"),
        ]
    )
    assert [reply.request_delay for reply in replies] == [3600, 86400, 7, 86400]
    assert [given(reply) for reply in replies] == [[], [], ["upper_0_0"], []]


def test_one_result_reported_by_two_hosts_of_an_account_counts_once() -> None:
    workunits(an_app(), 1)
    first, second = a_client(name="first"), a_client(name="second")
    second.ask()
    (name,) = first.ask_for_work()
    again = (messages.ReportedResult(name=name, state=3, exit_status=1),)
    requests = [reported(second, name), first.request(results=again)]
    replies = together(requests)
    assert [reply.result_acks for reply in replies] == [(name,), (name,)]
    assert LedgerEntry.objects.filter(source=40, target=51).count() == 1


def test_request_whose_evaluation_fails_does_not_affect_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workunits(an_app(), 20)
    hosts = clients(4)
    names = [client.ask_for_work()[0] for client in hosts]
    requests = [reported(client, name) for client, name in zip(hosts, names, strict=True)]
    original = translate.work_requests

    def work_requests(request: messages.SchedulerRequest, taste: Any) -> Any:
        if request.hostid == hosts[2].hostid:
            raise ZeroDivisionError
        return original(request, taste)

    monkeypatch.setattr(translate, "work_requests", work_requests)
    replies = together(requests)
    assert isinstance(replies[2], ZeroDivisionError)
    fine = [0, 1, 3]
    assert [replies[number].result_acks for number in fine] == [(names[n],) for n in fine]
    assert all(given(replies[number]) for number in fine)
    over = Result.objects.filter(outcome=Outcome.SUCCESS).values_list("name", flat=True)
    assert set(over) == {names[number] for number in fine}


def test_request_refused_by_the_database_does_not_affect_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workunits(an_app(), 20)
    hosts = clients(3)
    original = translate.description

    def description(request: messages.SchedulerRequest, ip_addr: str) -> Any:
        said = original(request, ip_addr)
        is_bad = request.hostid == hosts[1].hostid
        return replace(said, os_name="x" * 1000) if is_bad else said

    monkeypatch.setattr(translate, "description", description)
    replies = together([client.request(cpu_req_secs=1) for client in hosts])
    assert isinstance(replies[1], Exception)
    assert given(replies[0])
    assert given(replies[2])
    assert Result.objects.filter(server_state=ServerState.IN_PROGRESS).count() == 2


def test_error_of_a_whole_batch_is_raised_to_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer_all(calls: list[Call]) -> list[Any]:
        raise IntegrityError

    monkeypatch.setattr(scheduler_rpc._batches, "_answer_all", answer_all)
    with pytest.raises(IntegrityError):
        a_client().ask()


@pytest.mark.parametrize("seed", range(12))
def test_a_batch_returns_the_same_replies_and_rows_as_sequential_calls(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search._host_scan_cursors, "_cursors", {})
    requests = scenario(Random(seed))
    calls = [Call(request, "127.0.0.1") for request in requests]
    now = timezone.now()
    outcomes = []
    for parts in ([calls], [[call] for call in calls]):
        with transaction.atomic():
            replies = [
                reply
                for part in parts
                for reply in conversation.answer_all(part, config=settings.PROJECT, now=now)
            ]
            outcomes.append((replies, rows()))
            transaction.set_rollback(True)
    assert outcomes[0] == outcomes[1]


def scenario(chance: Random) -> list[messages.SchedulerRequest]:
    """Return requests of six hosts that report some results and request work."""
    apps = [
        an_app("plain", one_result_per=chance.choice(["account", "host", "nothing"])),
        an_app("other", weight=2.0, max_in_progress_per_cpu=chance.choice([None, 1])),
        an_app("bound", hr_type=1, homogeneous_app_version=chance.random() < 0.5),
    ]
    for app in apps:
        workunits(app, chance.randrange(5, 30), results=chance.choice([1, 2]))
        workunits(
            app, 2, priority=chance.choice([0, 7]), rsc_memory_bound=chance.choice([1e8, 1e15])
        )
    hosts = [
        a_client(email=f"v{number % 4}@example.org", name=f"computer {number}", ncpus=2)
        for number in range(6)
    ]
    for client in hosts:
        client.ask_for_work(seconds=chance.choice([1, 2 * 3600, 5 * 3600]))
    Host.objects.update(p_vendor="GenuineIntel", os_name="Linux")
    requests = []
    for client in chance.sample(hosts, len(hosts)):
        done = chance.sample(client.held, chance.randrange(len(client.held) + 1))
        if client.held and chance.random() < 0.3:
            client.held = client.held[1:]  # lost, or reported in this request
        seconds = chance.choice([0, 1, 1, 3 * 3600])
        requests.append(reported(client, *done, cpu_req_secs=seconds))
    return requests


def rows() -> list[Any]:
    results = Result.objects.order_by("id").values_list(
        "name", "server_state", "outcome", "host_id", "report_deadline", "resent_count"
    )
    records = HostAppVersion.objects.order_by("host_id", "app_version_id").values_list(
        "host_id", "app_version_id", "results_today", "max_results_per_day"
    )
    bound = Workunit.objects.order_by("id").values_list("hr_class", "app_version_id")
    return [list(results), list(records), list(bound)]


@pytest.mark.django_db(transaction=True)
def test_concurrent_batches_and_daemons_keep_all_invariants() -> None:
    app = an_app()
    workunits(app, 60, results=2)
    hosts = clients(6)
    refused: list[str] = []

    def compute(client: ScriptedClient) -> None:
        try:
            for _ in range(12):
                client.ask(cpu_req_secs=4 * 3600)
                if client.held:
                    reply = client.report(*client.held[:3])
                    refused.extend(m.text for m in reply.messages if BUSY in m.text)
        finally:
            connections.close_all()

    def move() -> None:
        try:
            for _ in range(15):
                a_pass_of_each(timezone.now())
        finally:
            connections.close_all()

    at_once([partial(compute, client) for client in hosts] + [move] * 2)
    assert refused == []
    assert Result.objects.filter(server_state=ServerState.OVER).count() > 50
    pairs = Result.objects.exclude(account_id=None).values_list("workunit_id", "account_id")
    assert len(pairs) == len(set(pairs))
    for client in hosts:
        mine = Result.objects.filter(host_id=client.hostid, server_state=ServerState.IN_PROGRESS)
        assert set(mine.values_list("name", flat=True)) == set(client.held)
    end = timezone.now()
    for _ in range(3):
        a_pass_of_each(end)
    assert not WorkunitWakeup.objects.exists()
    assert not Workunit.objects.filter(transition_at__lte=end).exists()


def a_pass_of_each(now: datetime) -> None:
    for name in ("transitioner", "timeout_checker", "validator"):
        daemon = registry.find(name)
        daemon.run_pass(now=now, limit=daemon.batch)


def at_once(tasks: list[Callable[[], None]]) -> None:
    threads = [Thread(target=task) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
