"""Claims honor queues: limits, order, priority groups, hosts and ramps."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from threading import Barrier, Thread
from time import perf_counter, sleep
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.db import connections, transaction
from django.utils import timezone

from daemons import timeout_checker
from scheduler.boinc import conversation
from scheduler.boinc.wire import messages
from scheduler.dispatch import claim, queue_claims
from scheduler.health import invariants
from scheduler.hosts import denials
from scheduler.lifecycle import Axis, ResultState, Target
from scheduler.models import Host, LedgerEntry, Queue, QueueSlot, Result, Workunit
from scheduler.queues import named_queues, slots
from scheduler.queues.facts import FOREVER
from tests.scripted_client import ScriptedClient, a_client, rpc_statements
from tests.work import an_app, workunits

pytestmark = pytest.mark.django_db(transaction=True)


def a_queue(name: str = "lane", **facts: Any) -> Queue:
    return named_queues.create(name=name, now=timezone.now(), **facts)


def in_progress(queue: Queue) -> int:
    return Result.objects.filter(workunit__queue=queue, server_state=4).count()


def clients(count: int) -> list[ScriptedClient]:
    attached = [a_client(email=f"v{n}@example.org", name=f"host {n}") for n in range(count)]
    for client in attached:
        client.ask()
    return attached


def most_in_progress(queue: Queue) -> int:
    """Return the maximum of results of a queue that were in progress at once, by the ledger.

    A slot is locked from before the entry of a move until the commit.  So entries that concern the
    same slot have ascending ids, and the ids order the moves as the slots did.
    """
    moves = LedgerEntry.objects.filter(
        axis=Axis.RESULT,
        result_id__in=Result.objects.filter(target_kind=Target.QUEUE, target_id=queue.pk).values(
            "pk"
        ),
    )
    most = running = 0
    for source, target in moves.order_by("id").values_list("source", "target"):
        running += (target == ResultState.IN_PROGRESS) - (source == ResultState.IN_PROGRESS)
        most = max(most, running)
    assert running == in_progress(queue), "the ledger lacks moves"
    return most


def violations() -> list[str]:
    names = {"queue_slots_match_results", "queue_slots_within_limit"}
    return [
        f"{invariant.name}: {violation.name} {violation.detail}"
        for invariant in invariants.invariants()
        if invariant.name in names
        for violation in invariant.find(timezone.now())
    ]


def test_a_queue_without_limits_sends_its_work() -> None:
    workunits(an_app(), 2, queue=a_queue())
    [client] = clients(1)
    assert client.ask_for_work(7200) == ["upper_0_0", "upper_1_0"]
    assert not QueueSlot.objects.exists()


def test_a_limit_holds_for_all_hosts_together() -> None:
    queue = a_queue(max_in_progress=3)
    workunits(an_app(), 8, queue=queue)
    first, second, third = clients(3)
    assert len(first.ask_for_work(7200)) == 2
    assert len(second.ask_for_work(7200)) == 1
    reply = third.ask(cpu_req_secs=1)
    assert reply.results == ()
    assert "Queue lane has reached its limit of 3 tasks in progress" in reply.messages[-1].text
    assert in_progress(queue) == 3 == QueueSlot.objects.filter(result__isnull=False).count()
    assert not violations()


def test_a_reported_result_frees_its_slot() -> None:
    queue = a_queue(max_in_progress=1)
    workunits(an_app(), 2, queue=queue)
    first, second = clients(2)
    [name] = first.ask_for_work()
    assert second.ask_for_work() == []
    first.report(name)
    assert second.ask_for_work() == ["upper_1_0"]
    assert not violations()


def test_a_request_that_reports_gets_the_slot_that_it_frees() -> None:
    workunits(an_app(), 2, queue=a_queue(max_in_progress=1))
    [client] = clients(1)
    client.ask_for_work()
    client.held = []
    failed = messages.ReportedResult(name="upper_0_0", state=3)
    reply = client.ask(cpu_req_secs=1, results=(failed,))
    assert [result.name for result in reply.results] == ["upper_1_0"]
    assert not violations()


def test_a_result_that_times_out_frees_its_slot_and_a_late_report_takes_none() -> None:
    queue = a_queue(max_in_progress=1)
    workunits(an_app(), 2, queue=queue)
    first, second = clients(2)
    [late] = first.ask_for_work()
    now = timezone.now()
    timeout_checker.run_pass(now=now + timedelta(days=8), limit=100)
    assert Result.objects.get(name=late).outcome == 4
    assert len(second.ask_for_work()) == 1
    first.report(late)
    assert in_progress(queue) == 1
    assert QueueSlot.objects.get().result.name == "upper_1_0"
    assert not violations()


def test_an_orphan_that_is_never_acknowledged_frees_its_slot() -> None:
    queue = a_queue(max_in_progress=1)
    workunits(an_app(ack_timeout=timedelta(minutes=5)), 2, queue=queue)
    [client] = clients(1)
    client.ask_for_work()
    timeout_checker.run_pass(now=timezone.now() + timedelta(minutes=6), limit=100)
    assert in_progress(queue) == 0
    assert QueueSlot.objects.get().result_id is None
    assert not violations()


def test_an_acknowledged_result_is_no_orphan_and_keeps_its_slot() -> None:
    """The client lists the result at its next contact, within the time of the app."""
    queue = a_queue(max_in_progress=1)
    workunits(an_app(ack_timeout=timedelta(minutes=5)), 2, queue=queue)
    [client] = clients(1)
    [name] = client.ask_for_work()
    client.ask()
    assert Result.objects.get(name=name).acknowledged_at is not None
    timeout_checker.run_pass(now=timezone.now() + timedelta(minutes=6), limit=100)
    assert in_progress(queue) == 1
    assert QueueSlot.objects.get().result.name == name


def test_an_orphan_with_an_infinite_deadline_frees_its_slot_and_may_report_late() -> None:
    queue = a_queue(max_in_progress=1, trusted=True)
    workunits(an_app(ack_timeout=timedelta(minutes=5)), 2, queue=queue, delay_bound=FOREVER)
    first, second = clients(2)
    [orphan] = first.ask_for_work()
    assert second.ask_for_work() == []
    timeout_checker.run_pass(now=timezone.now() + timedelta(minutes=6), limit=100)
    assert Result.objects.get(name=orphan).outcome == 4
    assert second.ask_for_work() == ["upper_1_0"]
    first.report(orphan)
    assert Result.objects.get(name=orphan).outcome == 1
    assert in_progress(queue) == 1
    assert not violations()


def test_a_detached_host_frees_its_slots() -> None:
    queue = a_queue(max_in_progress=2)
    workunits(an_app(), 3, queue=queue)
    [client] = clients(1)
    assert len(client.ask_for_work(4000)) == 2
    again = ScriptedClient(key=client.key, name=client.name)
    again.ask()
    assert again.hostid == client.hostid
    assert in_progress(queue) == 0
    assert not QueueSlot.objects.filter(result__isnull=False).exists()
    assert not violations()


def test_a_limit_of_zero_stops_a_queue_with_a_message() -> None:
    workunits(an_app(), 1, queue=a_queue(max_in_progress=0))
    [client] = clients(1)
    reply = client.ask(cpu_req_secs=1)
    assert (reply.results, reply.messages[-1].text) == ((), "Queue lane is stopped")


def test_a_disabled_queue_sends_nothing_before_its_time() -> None:
    until = timezone.now() + timedelta(hours=1)
    queue = a_queue(disabled_until=until)
    workunits(an_app(), 1, queue=queue)
    [client] = clients(1)
    reply = client.ask(cpu_req_secs=1)
    assert f"Queue lane is disabled until {until:%Y-%m-%d %H:%M} UTC" == reply.messages[-1].text
    named_queues.change(
        queue, now=timezone.now(), disabled_until=timezone.now() - timedelta(seconds=1)
    )
    assert client.ask_for_work() == ["upper_0_0"]


def test_lists_allow_and_deny_hosts_and_accounts() -> None:
    app = an_app()
    first, second, third = clients(3)
    hosts = [Host.objects.get(pk=client.hostid) for client in (first, second, third)]
    queue = a_queue(denied_hosts=[hosts[0].pk], denied_accounts=[hosts[1].account_id])
    workunits(app, 6, queue=queue)
    assert first.ask_for_work() == second.ask_for_work() == []
    assert len(third.ask_for_work()) == 1
    named_queues.change(
        queue,
        now=timezone.now(),
        allowed_hosts=[hosts[0].pk],
        allowed_accounts=[hosts[1].account_id],
    )
    assert len(first.ask_for_work()) == len(second.ask_for_work()) == 1
    reply = third.ask(cpu_req_secs=1)
    assert reply.messages[-1].text == "Queue lane does not serve this computer"


@pytest.mark.parametrize(
    ("queues", "expected"),
    [
        ({}, ["upper_0_0", "upper_1_0", "upper_2_0"]),
        ({"active_queues": ("lab",)}, ["upper_1_0"]),
        ({"ignored_queues": ("lab",)}, ["upper_0_0", "upper_2_0"]),
        # The list of active queues prevails.
        ({"active_queues": ("lab",), "ignored_queues": ("lab", "rest")}, ["upper_1_0"]),
        ({"active_queues": ("none",)}, []),
        # A client cannot open a queue that does not serve it.
        ({"active_queues": ("closed",)}, []),
    ],
)
def test_a_client_accepts_only_work_of_its_queues(
    queues: dict[str, tuple[str, ...]], expected: list[str]
) -> None:
    app = an_app()
    workunits(app, 1)
    workunits(app, 1, queue=a_queue("lab"))
    workunits(app, 1, queue=a_queue("rest"))
    [client] = clients(1)
    workunits(app, 1, queue=a_queue("closed", denied_hosts=[client.hostid]))
    reply = client.ask(cpu_req_secs=9 * 3600, **queues)
    assert sorted(result.name for result in reply.results) == expected


def test_a_client_reads_why_its_own_settings_exclude_a_queue() -> None:
    workunits(an_app(), 1, queue=a_queue("lab"))
    [client] = clients(1)
    reply = client.ask(cpu_req_secs=3600, ignored_queues=("lab",))
    assert "This client's settings exclude work of queue lab" in reply.messages[-1].text


def test_a_full_queue_leaves_other_work_to_the_host() -> None:
    app = an_app()
    workunits(app, 4, queue=a_queue(max_in_progress=1), priority=100)
    workunits(app, 4)
    [client] = clients(1)
    names = client.ask_for_work(3 * 3600 + 1)
    assert names == ["upper_0_0", "upper_4_0", "upper_5_0", "upper_6_0"]


@pytest.mark.parametrize(
    ("order", "expected"),
    [("fifo", [0, 1, 2, 3]), ("lifo", [3, 2, 1, 0]), ("priority", [2, 0, 1, 3])],
)
def test_work_is_sent_in_the_order_of_its_queue(order: str, expected: list[int]) -> None:
    app, queue = an_app(), a_queue(order=order)
    workunits(app, 2, queue=queue)
    workunits(app, 1, queue=queue, priority=7)
    workunits(app, 1, queue=queue)
    [client] = clients(1)
    sent = [client.ask_for_work()[0] for _ in range(4)]
    assert sent == [f"upper_{number}_0" for number in expected]


def test_the_order_of_a_queue_may_change_while_work_waits() -> None:
    queue = a_queue(order="fifo")
    workunits(an_app(), 4, queue=queue)
    [client] = clients(1)
    assert client.ask_for_work() == ["upper_0_0"]
    named_queues.change(queue, now=timezone.now(), order="lifo")
    assert client.ask_for_work() == ["upper_3_0"]


@pytest.mark.parametrize("order", ["fifo", "lifo"])
def test_a_long_queue_is_read_page_by_page_in_order(
    order: str, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first page holds work for another kind of computer alone."""
    settings.PROJECT = replace(settings.PROJECT, candidates_per_page=4)
    app, queue = an_app(), a_queue(order=order)
    if order == "lifo":
        workunits(app, 1, queue=queue)
    workunits(app, 30, queue=queue, rsc_memory_bound=1e15)
    if order == "fifo":
        workunits(app, 1, queue=queue)
    [client] = clients(1)
    assert client.ask_for_work() == ["upper_30_0" if order == "fifo" else "upper_0_0"]


def test_higher_priority_groups_come_first() -> None:
    app = an_app()
    workunits(app, 1, priority=1000)
    workunits(app, 1, queue=a_queue("low", priority_group=-1), priority=2000)
    workunits(app, 1, queue=a_queue("high", priority_group=5, order="fifo"))
    [client] = clients(1)
    sent = [client.ask_for_work()[0] for _ in range(3)]
    assert sent == ["upper_2_0", "upper_0_0", "upper_1_0"]


def test_ramp_limits_bound_each_claim() -> None:
    workunits(an_app(), 9, queue=a_queue(max_new_per_host=2))
    [client] = clients(1)
    assert [len(client.ask_for_work(6 * 3600)) for _ in range(2)] == [2, 2]


def test_a_ramp_limit_holds_for_all_hosts_of_a_claim_together() -> None:
    workunits(an_app(), 9, queue=a_queue(max_new_per_claim=3))
    assert sorted(map(len, ask_together(clients(3), seconds=2 * 3600))) == [0, 1, 2]
    assert [len(names) for names in ask_together(clients(1), seconds=9 * 3600)] == [3]


@pytest.mark.parametrize("limit", [None, 9])
def test_a_ramp_limit_counts_what_the_same_batch_has_sent_before(
    limit: int | None, other: Any
) -> None:
    """The second host's workunit is locked, so that it is searched again after the first claim."""
    app = an_app()
    queue = a_queue(max_new_per_claim=2, max_in_progress=limit, priority_group=1)
    workunits(app, 6, queue=queue)
    workunits(app, 1)
    other.execute("SELECT FROM workunit WHERE name = 'upper_6' FOR NO KEY UPDATE")
    assert ask_together(clients(2), seconds=2 * 3600) == [["upper_0_0", "upper_1_0"], []]
    assert in_progress(queue) == 2
    other.rollback()
    assert not violations()


def test_hosts_of_one_claim_share_the_free_slots() -> None:
    queue = a_queue(max_in_progress=4)
    workunits(an_app(), 9, queue=queue)
    assert sum(map(len, ask_together(clients(3), seconds=2 * 3600))) == 4
    assert in_progress(queue) == 4
    assert not violations()


def test_each_result_of_a_workunit_takes_a_slot() -> None:
    queue = a_queue(max_in_progress=3)
    workunits(an_app(), 2, results=2, queue=queue)
    asked = ask_together(clients(3), seconds=7200)
    assert sorted(name for names in asked for name in names) == [
        "upper_0_0",
        "upper_0_1",
        "upper_1_0",
    ]
    assert in_progress(queue) == 3
    assert not violations()


def test_the_maximum_of_a_host_holds_beside_the_limits_of_queues() -> None:
    queue = a_queue(max_in_progress=9)
    workunits(an_app(), 9, queue=queue)
    [client] = clients(1)
    denials.limit(client.hostid, 2, now=timezone.now())
    assert len(client.ask_for_work(6 * 3600)) == 2
    assert client.ask_for_work(3600) == []
    denials.limit(client.hostid, 0, now=timezone.now())
    client.report(client.held[0])
    assert client.ask_for_work(3600) == []
    denials.limit(client.hostid, None, now=timezone.now())
    assert len(client.ask_for_work(3600)) == 1
    assert not violations()


def test_work_of_a_full_lane_that_is_only_spare_takes_a_slot() -> None:
    """While another transaction holds the chosen workunits, the spare ones are sent."""
    app, queue = an_app(), a_queue(max_in_progress=1, priority_group=-1)
    plain = workunits(app, 2)
    workunits(app, 2, queue=queue)
    first, second = clients(2)
    with transaction.atomic():
        held = Workunit.objects.filter(pk__in=[workunit.pk for workunit in plain])
        list(held.select_for_update(no_key=True).order_by("pk"))
        assert other_thread(first.ask_for_work) == ["upper_2_0"]
        assert other_thread(second.ask_for_work) == []
    assert in_progress(queue) == 1
    assert not violations()


def ask_together(hosts: list[ScriptedClient], *, seconds: float) -> list[list[str]]:
    """Send requests for work that the server answers in one transaction; return the names."""
    calls = [conversation.Call(host.request(cpu_req_secs=seconds), "127.0.0.1") for host in hosts]
    answers = conversation.answer_all(calls, config=django_settings.PROJECT, now=timezone.now())
    return [[result.name for result in answer.results] for answer in answers]


def test_a_lower_limit_interrupts_no_result_and_sends_nothing_until_below_it() -> None:
    queue = a_queue(max_in_progress=4)
    workunits(an_app(), 9, queue=queue)
    [client] = clients(1)
    names = client.ask_for_work(4 * 3600)
    assert len(names) == 4
    named_queues.change(queue, now=timezone.now(), max_in_progress=2)
    assert in_progress(queue) == 4
    for name in names[:2]:
        client.report(name)
        assert client.ask_for_work() == []
    assert in_progress(queue) == 2
    client.report(names[2])
    assert len(client.ask_for_work(4 * 3600)) == 1
    assert in_progress(queue) == 2 == QueueSlot.objects.count()
    assert not violations()


def test_a_higher_limit_opens_a_full_queue() -> None:
    queue = a_queue(max_in_progress=1)
    workunits(an_app(), 9, queue=queue)
    [client] = clients(1)
    assert len(client.ask_for_work(4 * 3600)) == 1
    named_queues.change(queue, now=timezone.now(), max_in_progress=3)
    assert len(client.ask_for_work(4 * 3600)) == 2
    assert not violations()


def test_a_limit_counts_results_that_were_sent_without_one() -> None:
    queue = a_queue()
    workunits(an_app(), 9, queue=queue)
    [client] = clients(1)
    names = client.ask_for_work(2 * 3600)
    assert len(names) == 2
    named_queues.change(queue, now=timezone.now(), max_in_progress=3)
    assert not violations()
    assert len(client.ask_for_work(4 * 3600)) == 1
    named_queues.change(queue, now=timezone.now(), max_in_progress=None)
    client.report(names[0])
    assert len(client.ask_for_work(2 * 3600)) == 2
    named_queues.change(queue, now=timezone.now(), max_in_progress=1)
    assert client.ask_for_work() == []
    assert in_progress(queue) == 4
    assert not violations()


# At once


def test_the_maximum_in_progress_is_counted_from_the_ledger() -> None:
    queue = a_queue(max_in_progress=3)
    workunits(an_app(), 5, queue=queue)
    first, second = clients(2)
    names = first.ask_for_work(2 * 3600)
    assert (len(names), most_in_progress(queue)) == (2, 2)
    first.report(*names)
    assert len(second.ask_for_work(2 * 3600)) == 2
    assert most_in_progress(queue) == 2
    assert len(first.ask_for_work(2 * 3600)) == 1
    assert most_in_progress(queue) == 3


@pytest.mark.lengthy
@pytest.mark.parametrize("order", ["fifo", "lifo", "priority"])
def test_sixteen_claimers_never_exceed_a_limit_and_keep_the_order(order: str) -> None:
    queue = a_queue(max_in_progress=5, order=order)
    workunits(an_app(), 400, queue=queue)
    log = storm(clients(16), rounds=12, queue=queue)
    assert max(log.in_progress) == 5
    assert most_in_progress(queue) == 5
    assert len(log.claims) >= 30
    assert not passed_over(log.claims, is_lifo=order == "lifo")
    assert not violations()


@dataclass
class Claim:
    """A claim with work: the times around its RPC, and the numbers of its workunits."""

    began: float
    ended: float
    numbers: list[int]


@dataclass
class Log:
    claims: list[Claim]
    in_progress: list[int]


def storm(
    hosts: list[ScriptedClient],
    *,
    queue: Queue,
    rounds: int = 1_000_000,
    claims: int = 1_000_000,
    seconds: float = 7200,
) -> Log:
    """Let all hosts claim and report at once, while another thread counts what is in progress.

    Each host asks `rounds` times, or until there were `claims` claims with work.
    """
    log, barrier, running = Log([], []), Barrier(len(hosts)), [True]

    def work(client: ScriptedClient) -> None:
        barrier.wait()
        for _ in range(rounds):
            if len(log.claims) >= claims:
                break
            began = perf_counter()
            names = client.ask_for_work(seconds)
            ended = perf_counter()
            if names:
                numbers = [int(name.split("_")[1]) for name in names]
                log.claims.append(Claim(began, ended, numbers))
                client.report(*names, upload=None, state=3)
        connections.close_all()

    def watch() -> None:
        while running[0]:
            log.in_progress.append(in_progress(queue))
            sleep(0.002)
        connections.close_all()

    threads = [Thread(target=work, args=(client,)) for client in hosts]
    watcher = Thread(target=watch)
    watcher.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=1200)
    running[0] = False
    watcher.join(timeout=10)
    return log


def passed_over(claims: list[Claim], *, is_lifo: bool = False) -> list[tuple[int, Claim]]:
    """Return the workunits that a claim passed over, although no other claim held them.

    These precede a workunit of the claim in the order of the queue, and the claim that got them
    began after the end of this one.
    """
    sign = -1 if is_lifo else 1
    claim_of = {number * sign: each for each in claims for number in each.numbers}
    waiting = sorted(claim_of)
    skipped: list[tuple[int, Claim]] = []
    began = [claim_of[number].began for number in waiting]
    for each in claims:
        last = max(number * sign for number in each.numbers)
        skipped += [
            (number, each)
            for number, start in zip(waiting[: bisect_left(waiting, last)], began, strict=False)
            if start > each.ended
        ]
    return skipped


def test_a_claim_that_judged_by_an_older_limit_sends_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue = a_queue()
    workunits(an_app(), 3, queue=queue)
    [client] = clients(1)
    once(
        monkeypatch,
        queue_claims,
        "lock",
        lambda: other_thread(named_queues.change, queue, now=timezone.now(), max_in_progress=0),
    )
    assert client.ask_for_work() == []
    assert in_progress(queue) == 0


def test_a_change_of_a_limit_waits_for_running_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = a_queue()
    workunits(an_app(), 3, queue=queue)
    [client] = clients(1)
    changes: list[Thread] = []

    def begin_change() -> None:
        changes.append(
            Thread(
                target=in_thread,
                args=(named_queues.change, queue),
                kwargs={"max_in_progress": 1, "now": timezone.now()},
            )
        )
        changes[0].start()
        sleep(0.2)
        assert changes[0].is_alive()

    once(monkeypatch, claim, "commit", begin_change)
    assert len(client.ask_for_work()) == 1
    changes[0].join(timeout=10)
    assert QueueSlot.objects.get().result.name == "upper_0_0"
    assert client.ask_for_work() == []
    assert not violations()


def test_a_claim_skips_a_queue_that_is_being_changed() -> None:
    app, queue = an_app(), a_queue()
    workunits(app, 1, queue=queue, priority=5)
    workunits(app, 1)
    [client] = clients(1)
    with transaction.atomic():
        slots.lock_queue(queue.pk)
        assert other_thread(client.ask_for_work) == ["upper_1_0"]
    assert client.ask_for_work() == ["upper_0_0"]


def test_a_claim_skips_slots_that_another_claim_holds() -> None:
    queue = a_queue(max_in_progress=2)
    workunits(an_app(), 3, queue=queue)
    [client] = clients(1)
    with transaction.atomic():
        facts = slots.all_queues()
        assert len(slots.lock_free({queue.pk: 1}, facts)[queue.pk]) == 1
        assert len(other_thread(client.ask_for_work, 7200)) == 1
    assert len(client.ask_for_work(7200)) == 1
    assert not violations()


def once(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, act: Callable[[], Any]) -> None:
    """Call `act` before the first call of a function."""
    function, pending = getattr(module, name), deque([act])

    def overtaken(*args: Any, **kwargs: Any) -> Any:
        if pending:
            pending.popleft()()
        return function(*args, **kwargs)

    monkeypatch.setattr(module, name, overtaken)


def in_thread(act: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    try:
        return act(*args, **kwargs)
    finally:
        connections.close_all()


def other_thread(act: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function on another connection; return its answer."""
    answers: list[Any] = []
    thread = Thread(target=lambda: answers.append(in_thread(act, *args, **kwargs)))
    thread.start()
    thread.join(timeout=30)
    return answers[0]


# Costs


def test_a_queue_without_limits_costs_a_claim_no_further_statement() -> None:
    app = an_app()
    workunits(app, 3)
    first, second, third = clients(3)
    third.ask()
    without_any_queue = len(rpc_statements(third.ask_for_work))
    workunits(app, 2, queue=(queue := a_queue(order="fifo", priority_group=1)))
    first.ask()
    with_queue = len(rpc_statements(first.ask_for_work))
    assert in_progress(queue) == 1
    Queue.objects.filter(pk=queue.pk).update(priority_group=-1)
    second.ask()
    without_queue = len(rpc_statements(second.ask_for_work))
    assert in_progress(queue) == 1
    assert with_queue == without_queue == without_any_queue


def test_a_limit_costs_a_claim_three_statements_for_any_number_of_results() -> None:
    app = an_app()
    workunits(app, 20)
    client, _ = clients(2)
    client.ask()
    without_limit = len(rpc_statements(client.ask_for_work))
    for number in range(3):
        queue = a_queue(f"lane{number}", max_in_progress=9, priority_group=1)
        workunits(app, 3, queue=queue)
    client.ask()
    with_limit = rpc_statements(lambda: client.ask_for_work(9 * 3600))
    assert len(with_limit) == without_limit + 3
    assert QueueSlot.objects.filter(result__isnull=False).count() == 9


def test_a_nearly_full_queue_is_not_read_to_its_end_for_spare_results(settings: Any) -> None:
    """A claim may send one result; the cost is that of one page, however long the queue is."""
    settings.PROJECT = replace(settings.PROJECT, candidates_per_page=4)
    app, queue = an_app(), a_queue(max_in_progress=1, order="fifo")
    workunits(app, 2, queue=queue)
    client, other = clients(2)
    other.ask()
    short = len(rpc_statements(client.ask_for_work))
    client.report(client.held[0])
    workunits(app, 60, queue=queue)
    assert len(rpc_statements(other.ask_for_work)) == short


def test_balancing_without_waiting_leaves_a_locked_queue_alone() -> None:
    queue = a_queue(max_in_progress=2)
    with transaction.atomic():
        slots.lock_queue(queue.pk)
        assert other_thread(lambda: slots.lock_queue(queue.pk, waits=False)) is False
    with transaction.atomic():
        assert slots.lock_queue(queue.pk, waits=False)
