"""Claims of hosts that may get work of queues and task lists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.utils import timezone

from scheduler.boinc import conversation
from scheduler.dispatch import search
from scheduler.models import App, Host, Queue, Result, Workunit
from scheduler.queues import named_queues
from tests.lists import an_app_with_lists, submitted
from tests.scripted_client import ScriptedClient, a_client, rpc_statements
from tests.work import workunits

pytestmark = pytest.mark.django_db(transaction=True)


def a_queue(name: str = "lane", **facts: Any) -> Queue:
    return named_queues.create(name=name, now=timezone.now(), **facts)


def attached(name: str = "ada") -> ScriptedClient:
    client = a_client(email=f"{name}@example.org", name=name)
    client.ask()
    return client


def an_app_with_a_list(queue: Queue, **fields: Any) -> App:
    """Create an app with the ready list of wu0 and wu1, and one workunit of a queue."""
    app = an_app_with_lists()
    submitted(app, "a", "a", priority=1000)
    workunits(app, 1, queue=queue, **fields)
    return app


def sent_to(host: ScriptedClient, number: int = 2) -> list[list[str]]:
    return [host.ask_for_work() for _ in range(number)]


# Queues that a client names


def test_a_client_with_active_queues_gets_no_task_list() -> None:
    an_app_with_a_list(a_queue("lab"))
    client = attached()
    reply = client.ask(cpu_req_secs=1, active_queues=("lab",))
    assert [result.name for result in reply.results] == ["upper_2_0"]
    client.held = ["upper_2_0"]
    reply = client.ask(cpu_req_secs=1, active_queues=("lab",))
    assert reply.results == ()
    assert client.ask_for_work() == ["wu0_0", "wu1_0"]


def test_a_client_with_active_queues_gets_no_refusal_of_lists_that_do_not_fit() -> None:
    an_app_with_a_list(a_queue("lab"))
    Workunit.objects.filter(name="wu0").update(rsc_memory_bound=1e13)
    client = attached()
    reply = client.ask(cpu_req_secs=1, active_queues=("other",))
    assert reply.results == ()
    assert not any("RAM" in message.text for message in reply.messages)
    Result.objects.filter(name="upper_2_0").delete()
    reply = client.ask(cpu_req_secs=1)
    assert any("RAM" in message.text for message in reply.messages)


# Priority groups


def test_work_of_a_higher_group_comes_before_a_ready_list() -> None:
    app = an_app_with_a_list(a_queue("high", priority_group=5, order="fifo"))
    workunits(app, 1, queue=a_queue("low", priority_group=-1), priority=2000)
    workunits(app, 1, priority=500)
    assert sent_to(attached(), 4) == [
        ["upper_2_0"],
        ["wu0_0", "wu1_0"],
        ["upper_4_0"],
        ["upper_3_0"],
    ]


@pytest.mark.parametrize("group", [0, -1])
def test_a_ready_list_comes_before_work_of_lower_groups_and_of_group_0(group: int) -> None:
    an_app_with_a_list(a_queue(priority_group=group), priority=2000)
    assert sent_to(attached()) == [["wu0_0", "wu1_0"], ["upper_2_0"]]


def test_a_host_gets_no_list_beside_work_of_a_higher_group() -> None:
    an_app_with_a_list(a_queue(priority_group=1))
    assert attached().ask_for_work(9 * 3600) == ["upper_2_0"]


def closed(queue: Queue) -> None:
    named_queues.change(queue, now=timezone.now(), max_in_progress=0)


def disabled(queue: Queue) -> None:
    tomorrow = timezone.now() + timedelta(days=1)
    named_queues.change(queue, now=timezone.now(), disabled_until=tomorrow)


def for_others(queue: Queue) -> None:
    named_queues.change(queue, now=timezone.now(), allowed_hosts=[attached("bob").hostid])


def full(queue: Queue) -> None:
    named_queues.change(queue, now=timezone.now(), max_in_progress=1)
    workunits(App.objects.get(), 1, queue=queue)
    assert attached("bob").ask_for_work() == ["upper_2_0"]


def empty(_queue: Queue) -> None:
    Result.objects.filter(name="upper_2_0").delete()


def unfit(_queue: Queue) -> None:
    Workunit.objects.filter(name="upper_2").update(rsc_memory_bound=1e13)


@pytest.mark.parametrize("prevent", [closed, disabled, for_others, full, empty, unfit])
def test_a_list_is_sent_while_a_higher_queue_sends_nothing(
    prevent: Callable[[Queue], None],
) -> None:
    queue = a_queue(priority_group=1)
    an_app_with_a_list(queue)
    prevent(queue)
    reply = attached().ask(cpu_req_secs=1)
    assert [result.name for result in reply.results] == ["wu0_0", "wu1_0"]
    assert reply.messages == ()


def test_a_list_is_sent_while_other_transactions_hold_the_work_of_a_higher_group(
    other: Any,
) -> None:
    an_app_with_a_list(a_queue(priority_group=1, max_in_progress=3))
    client = attached()
    other.execute("SELECT FROM workunit WHERE name = 'upper_2' FOR NO KEY UPDATE")
    assert client.ask_for_work() == ["wu0_0", "wu1_0"]


def test_hosts_of_one_batch_get_the_higher_group_first_and_the_list_second() -> None:
    an_app_with_a_list(a_queue(priority_group=1, max_in_progress=1))
    hosts = [attached("ada"), attached("bob")]
    calls = [conversation.Call(host.request(cpu_req_secs=1), "127.0.0.1") for host in hosts]
    answers = conversation.answer_all(calls, config=django_settings.PROJECT, now=timezone.now())
    names = [[result.name for result in answer.results] for answer in answers]
    assert sorted(names) == [["upper_2_0"], ["wu0_0", "wu1_0"]]


def test_a_host_without_lists_of_its_own_gets_the_refusals_of_every_stream() -> None:
    """The search in queues of higher groups alone leaves no refusal of its own."""
    an_app_with_a_list(a_queue(priority_group=1))
    Workunit.objects.update(rsc_memory_bound=1e13)
    reply = attached().ask(cpu_req_secs=1)
    assert [message.text for message in reply.messages if "RAM" in message.text]
    decision = Host.objects.get(domain_name="ada").last_decisions[0]
    assert sum(decision["refused"].values()) == 2, "the list and the result are counted once"


def test_scan_cursors_of_other_work_outlive_a_search_in_queues_of_higher_groups(
    settings: Any,
) -> None:
    settings.PROJECT = replace(settings.PROJECT, candidates_per_page=4)
    app = an_app_with_lists()
    workunits(app, 12, rsc_memory_bound=1e13)
    workunits(app, 1, queue=a_queue(priority_group=1), rsc_memory_bound=1e13)
    client = attached()
    assert client.ask_for_work() == []
    kept = search._host_scan_cursors.of(client.hostid, now=timezone.now())
    assert kept
    submitted(app, "a")
    assert client.ask_for_work() == ["wu13_0"]
    assert search._host_scan_cursors.of(client.hostid, now=timezone.now()) == kept


def test_higher_groups_cost_a_statement_only_where_they_serve_a_host_with_lists() -> None:
    app = an_app_with_lists()
    for label in "abcd":
        submitted(app, label)
    clients = [attached(name) for name in ("ada", "bob", "eve", "joe")]
    clients[0].ask_for_work()
    plain = len(rpc_statements(clients[1].ask_for_work))
    queue = a_queue(priority_group=1)
    # A request that reads the changed queue again.
    clients[2].ask()
    assert len(rpc_statements(clients[2].ask_for_work)) == plain + 1
    closed(queue)
    clients[3].ask()
    assert len(rpc_statements(clients[3].ask_for_work)) == plain
