"""Hosts of the trusted pool browse, claim and acquire work, and report its usage."""

from __future__ import annotations

from datetime import datetime, timedelta
from threading import Barrier, Thread
from typing import Any

import pytest
from django.db import connections
from django.utils import timezone

from daemons import transitioner
from scheduler.api.pool import endpoints
from scheduler.dispatch import search
from scheduler.health import invariants
from scheduler.lifecycle import Outcome, ServerState
from scheduler.models import (
    Host,
    LedgerEntry,
    Queue,
    QueueSlot,
    Result,
    UsageSample,
    Workunit,
)
from scheduler.people import submitters
from scheduler.pool import acquisition, host_tokens
from scheduler.queues import named_queues
from scheduler.work import control
from tests.database.passes import statements_of
from tests.faces.apis import ALL_SCOPES, Program, a_program
from tests.rows import an_account
from tests.scripted_client import ScriptedClient, a_client
from tests.work import an_app, workunits

pytestmark = pytest.mark.django_db(transaction=True)


def a_queue(name: str = "lab", *, trusted: bool = True, **facts: Any) -> Queue:
    return named_queues.create(name=name, trusted=trusted, now=timezone.now(), **facts)


def a_worker(name: str = "worker-A", **fields: Any) -> tuple[ScriptedClient, Program]:
    """Return the client of an enrolled host, and an API client with its token."""
    client = a_client(email=f"{name}@example.org", name=name, **fields)
    client.ask()
    _token, text = host_tokens.enroll(client.hostid, now=timezone.now())
    return client, Program(text)


def listed(program: Program, query: str = "") -> list[dict[str, Any]]:
    answer = program.send("get", f"/pool/results{query}")
    assert answer.status_code == 200, answer.content
    rows: list[dict[str, Any]] = answer.json()["results"]
    return rows


def claim(program: Program, result_id: int) -> Any:
    return program.send("post", f"/pool/results/{result_id}/claim")


def test_available_results_are_listed_with_the_requested_fields() -> None:
    queue = a_queue()
    workunits(an_app(), 2, queue=queue, max_termination_time=timedelta(seconds=3))
    _client, program = a_worker()
    first = listed(program)[0]
    assert first.keys() == {"id", "max_termination_time", "requested_resources"}
    assert first["max_termination_time"] == 3.0
    assert first["requested_resources"]["memory_bytes"] == 5e8
    assert listed(program, "?fields=_id,name") == [
        {"id": result.pk, "name": result.name} for result in Result.objects.order_by("pk")
    ]
    answer = program.send("get", "/pool/results?fields=id,password")
    assert answer.status_code == 400
    assert "There is no field 'password'" in answer.json()["errors"][0]["detail"]


def test_list_is_filtered_and_has_a_limit() -> None:
    queue = a_queue()
    workunits(an_app(), 2, queue=queue, rsc_memory_bound=1e9)
    workunits(an_app("lower"), 1, queue=a_queue("other"))
    _client, program = a_worker()
    assert len(listed(program)) == 3
    assert len(listed(program, "?queue=lab")) == 2
    assert len(listed(program, "?app=lower")) == 1
    assert len(listed(program, "?max_memory_bytes=6e8")) == 1
    assert len(listed(program, "?limit=1")) == 1
    assert listed(program, "?queue=none") == []
    assert program.send("get", "/pool/results?limit=0").status_code == 400


def test_work_outside_of_trusted_queues_is_neither_listed_nor_claimed() -> None:
    workunits(an_app(), 1)
    workunits(an_app("lower"), 1, queue=a_queue("open", trusted=False))
    _client, program = a_worker()
    other, _rival = a_worker("worker-B")
    workunits(an_app("other"), 1, queue=a_queue("theirs", allowed_hosts=[other.hostid]))
    assert listed(program) == []
    for result in Result.objects.all():
        answer = claim(program, result.pk)
        assert answer.status_code == 404, answer.content
    assert claim(program, 10**9).status_code == 404


def test_claimed_result_reaches_the_client_by_its_next_rpc() -> None:
    workunits(an_app(), 3, queue=a_queue())
    client, program = a_worker()
    wanted = listed(program, "?fields=id,name")[1]
    answer = claim(program, wanted["id"])
    assert answer.status_code == 200, answer.content
    assert answer.json()["name"] == wanted["name"]
    result = Result.objects.get(pk=wanted["id"])
    assert (result.server_state, result.host_id) == (ServerState.IN_PROGRESS, client.hostid)
    assert client.ask_for_work(1.0) == [wanted["name"]]
    moves = LedgerEntry.objects.filter(result_id=result.pk).order_by("pk")
    assert [str(entry.because) for entry in moves][-2:] == ["3", "4"]  # SENT, RESENT
    client.report(wanted["name"])
    result.refresh_from_db()
    assert result.server_state == ServerState.OVER


def test_claimed_results_are_listed_until_they_are_reported() -> None:
    workunits(an_app(), 2, queue=a_queue())
    client, program = a_worker()
    assert program.send("get", "/pool/claimed").json() == {"results": []}
    ids = [row["id"] for row in listed(program)]
    claimed = [claim(program, result_id).json() for result_id in ids]
    assert program.send("get", "/pool/claimed").json()["results"] == claimed[::-1]
    client.ask_for_work(1.0)
    client.report(claimed[1]["name"])
    assert program.send("get", "/pool/claimed").json()["results"] == claimed[:1]


def test_repeated_claim_succeeds_and_a_rivals_claim_is_refused() -> None:
    workunits(an_app(), 1, queue=a_queue())
    _client, program = a_worker()
    _other, rival = a_worker("worker-B")
    result_id = listed(program)[0]["id"]
    assert claim(program, result_id).status_code == 200
    assert claim(program, result_id).status_code == 200
    refused = claim(rival, result_id)
    assert (refused.status_code, refused.json()["reason"]) == (409, "claimed")
    assert LedgerEntry.objects.filter(because=3, result_id=result_id).count() == 1


def test_claim_of_a_cancelled_workunit_is_refused() -> None:
    [workunit] = workunits(an_app(), 1, queue=a_queue())
    _client, program = a_worker()
    result_id = listed(program)[0]["id"]
    control.cancel(ids=[workunit.pk], now=timezone.now())
    refused = claim(program, result_id)
    assert (refused.status_code, refused.json()["reason"]) == (409, "cancelled")
    assert listed(program) == []
    transitioner.run_pass(now=timezone.now(), limit=100)
    assert claim(program, result_id).json()["reason"] == "cancelled"
    assert listed(program) == []


def test_held_work_and_work_that_does_not_fit_are_refused_with_a_reason() -> None:
    app = an_app()
    [held] = workunits(app, 1, queue=a_queue())
    [large] = workunits(app, 1, queue=a_queue("large"), rsc_memory_bound=1e15)
    _client, program = a_worker()
    control.hold(ids=[held.pk], now=timezone.now())
    answer = claim(program, held.results.get().pk)
    assert (answer.status_code, answer.json()["reason"]) == (409, "unavailable")
    answer = claim(program, large.results.get().pk)
    assert (answer.status_code, answer.json()["reason"]) == (409, "unfit")
    assert "RAM" in answer.json()["detail"]


def test_a_claim_takes_a_slot_and_respects_the_limit_of_the_queue() -> None:
    workunits(an_app(), 2, queue=a_queue(max_in_progress=1))
    _client, program = a_worker()
    first, second = (row["id"] for row in listed(program))
    assert claim(program, first).status_code == 200
    assert QueueSlot.objects.get().result_id == first
    assert claim(program, second).status_code == 409
    assert not [
        violation
        for invariant in invariants.invariants()
        if invariant.name.startswith("queue_slots")
        for violation in invariant.find(timezone.now())
    ]


def test_the_limit_of_a_host_holds_for_claims() -> None:
    workunits(an_app(), 2, queue=a_queue())
    client, program = a_worker()
    Host.objects.filter(pk=client.hostid).update(max_in_progress=1)
    first, second = (row["id"] for row in listed(program))
    assert claim(program, first).status_code == 200
    assert (claim(program, second).json()["reason"]) == "unfit"


def test_one_of_two_racing_hosts_gets_each_result() -> None:
    workunits(an_app(), 6, queue=a_queue())
    programs = [a_worker(f"worker-{n}")[1] for n in range(3)]
    ids = [row["id"] for row in listed(programs[0])]
    statuses: dict[int, list[int]] = {result_id: [] for result_id in ids}
    barrier = Barrier(len(programs))

    def race(program: Program) -> None:
        try:
            for result_id in ids:
                barrier.wait(20)
                answer = claim(program, result_id)
                statuses[result_id].append(answer.status_code)
                if answer.status_code != 200:
                    assert answer.json()["reason"] in {"claimed", "unavailable"}
        finally:
            connections.close_all()

    threads = [Thread(target=race, args=(program,)) for program in programs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert all(sorted(each) == [200, 409, 409] for each in statuses.values()), statuses
    assert LedgerEntry.objects.filter(because=3, result_id__in=ids).count() == 6


def test_acquire_claims_what_the_server_selects() -> None:
    workunits(an_app(), 3, queue=a_queue())
    workunits(an_app("lower"), 1, queue=a_queue("other"))
    client, program = a_worker()
    answer = program.send("post", "/pool/acquire", {"count": 2, "app": "upper"})
    assert answer.status_code == 200, answer.content
    names = [row["name"] for row in answer.json()["results"]]
    assert names == ["upper_0_0", "upper_1_0"]
    assert client.ask_for_work(1.0) == names
    answer = program.send("post", "/pool/acquire", {"app": "none"})
    assert answer.json() == {"results": [], "results_read": 0, "all_read": True}
    assert program.send("post", "/pool/acquire", {"count": 0}).status_code == 400


def acquired(program: Program, **body: Any) -> list[str]:
    answer = program.send("post", "/pool/acquire", body)
    assert answer.status_code == 200, answer.content
    return [row["name"] for row in answer.json()["results"]]


def test_work_behind_a_full_queue_is_acquired() -> None:
    app = an_app()
    full, free = a_queue("full", max_in_progress=1), a_queue("free")
    workunits(app, 8, queue=full)
    [last] = workunits(app, 1, queue=free)
    _client, program = a_worker()
    first = acquired(program)
    _other, rival = a_worker("worker-B")
    assert len(acquired(rival)) == 1
    assert len(first) == 1
    assert Result.objects.get(workunit=last).server_state == ServerState.IN_PROGRESS
    assert acquired(rival, count=5) == []


def test_work_behind_replicas_for_other_accounts_is_acquired(monkeypatch) -> None:
    app = an_app(one_result_per="account", retry_same_account_after=timedelta(days=1))
    queue = a_queue(order="fifo")
    workunits(app, 70, results=2, queue=queue)
    _client, program = a_worker()
    got = [name for _ in range(7) for name in acquired(program, count=10)]
    assert len({name.rpartition("_")[0] for name in got}) == 70
    # A host never gets two results of a workunit at a time, so these have ended.
    ended = {"server_state": ServerState.OVER, "outcome": Outcome.SUCCESS}
    Result.objects.filter(name__in=got).update(**ended, received_at=timezone.now())
    [last] = workunits(app, 1, queue=queue)
    judged, find_beyond = set(), search.find_beyond

    def record(searches: Any, **options: Any) -> None:
        judged.update(id_ for one in searches for page in one.candidates.values() for id_ in page)
        find_beyond(searches, **options)

    monkeypatch.setattr(search, "find_beyond", record)
    assert acquired(program, count=3) == [f"{last.name}_0"]
    assert judged == {Result.objects.get(workunit=last).pk}, "replicas are left out unread"


def test_a_failed_result_bars_its_workunit_until_the_time_of_the_app_has_passed() -> None:
    app = an_app(one_result_per="host", retry_same_account_after=timedelta(hours=1))
    [workunit] = workunits(app, 1, results=2, queue=a_queue())
    client, program = a_worker()
    [first] = acquired(program)
    assert acquired(program) == []
    ended = {"server_state": ServerState.OVER, "outcome": Outcome.CLIENT_ERROR}
    times = {"received_at": timezone.now() - timedelta(hours=2)}
    Result.objects.filter(name=first).update(**ended, **times)
    assert acquired(program) == [f"{workunit.name}_1"]
    assert client.hostid == Result.objects.get(name=f"{workunit.name}_1").host_id


@pytest.mark.parametrize("order", ["fifo", "lifo", "priority"])
@pytest.mark.parametrize(
    "misfit", [{"rsc_memory_bound": 1e15}, {"rsc_disk_bound": 1e18}, {"requested_cpus": 1000.0}]
)
def test_work_behind_work_that_does_not_fit_is_acquired(order: str, misfit: Any) -> None:
    app, queue = an_app(), a_queue(order=order)
    fitting = [] if order != "lifo" else workunits(app, 1, queue=queue)
    workunits(app, 90, queue=queue, **misfit)
    fitting = fitting or workunits(app, 1, queue=queue)
    _client, program = a_worker()
    assert acquired(program, count=2) == [f"{fitting[0].name}_0"]


def test_limits_hold_for_acquired_work_behind_other_work() -> None:
    app, queue = an_app(), a_queue()
    workunits(app, 70, queue=queue, rsc_fpops_est=2e12, requested_cpus=1.0)
    [small] = workunits(app, 1, queue=queue, rsc_fpops_est=1e9, requested_cpus=1.0)
    _client, program = a_worker()
    limits = {"max_fpops": 1e10, "max_cpus": 1.0, "max_gpus": 0.0, "max_memory_bytes": 1e9}
    assert acquired(program, max_memory_bytes=1.0) == []
    assert acquired(program, max_disk_bytes=1.0) == []
    assert acquired(program, max_cpus=0.5) == []
    assert acquired(program, batch="none") == []
    assert acquired(program, count=2, **limits) == [f"{small.name}_0"]


@pytest.mark.parametrize(
    ("order", "wanted"), [("fifo", [0, 1, 2]), ("lifo", [39, 38, 37]), ("priority", [30, 0, 1])]
)
def test_acquired_results_follow_the_order_of_the_queue(order: str, wanted: list[int]) -> None:
    made = workunits(an_app(), 40, queue=a_queue(order=order))
    Workunit.objects.filter(pk=made[30].pk).update(priority=5)
    Result.objects.filter(workunit=made[30]).update(priority=5)
    _client, program = a_worker()
    got = [name for _ in range(3) for name in acquired(program)]
    assert got == [f"{made[number].name}_0" for number in wanted]


def test_queues_of_a_higher_priority_group_come_first() -> None:
    app = an_app()
    workunits(app, 40, queue=a_queue("usual"))
    urgent = workunits(app, 2, queue=a_queue("urgent", priority_group=1))
    _client, program = a_worker()
    got = acquired(program, count=3)
    assert {f"{workunit.name}_0" for workunit in urgent} < set(got)
    assert len(got) == 3


def test_the_pages_of_one_request_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acquisition, "MAX_PAGES", 2)
    monkeypatch.setattr(acquisition, "MAX_PAGE_ROWS", 64)
    app, queue = an_app(), a_queue()
    workunits(app, 128, queue=queue, requested_cpus=1000.0)
    [small] = workunits(app, 1, queue=queue, requested_cpus=1.0)
    _client, program = a_worker()
    refused = program.send("post", "/pool/acquire", {})
    assert (refused.status_code, refused.json()["reason"]) == (409, "unfit")
    assert "none of the first 128 unsent results" in refused.json()["detail"]
    assert "name another queue or app" in refused.json()["hint"]
    assert acquired(program, app="none") == []
    # The list has no such limit.
    assert listed(program, "?max_cpus=8&fields=name") == [{"name": f"{small.name}_0"}]
    monkeypatch.setattr(acquisition, "MAX_PAGES", 3)
    assert acquired(program) == [f"{small.name}_0"]


def test_a_page_takes_a_constant_number_of_statements() -> None:
    app = an_app()
    queues = [a_queue(f"q{number}", order="fifo") for number in range(3)]
    _client, program = a_worker()
    workunits(app, 10, queue=queues[0])
    program.send("get", "/pool")
    few = statements_of(lambda: acquired(program))
    for queue in queues:
        workunits(app, 70, queue=queue, requested_cpus=1000.0)
    Workunit.objects.filter(queue=queues[0], requested_cpus=0).update(requested_cpus=1000.0)
    workunits(app, 5, queue=queues[2])
    assert statements_of(lambda: acquired(program, count=5)) == few + 1


def test_a_claim_takes_a_constant_number_of_statements() -> None:
    workunits(an_app(), 60, queue=a_queue())
    _client, program = a_worker()
    program.send("get", "/pool")

    def acquire(count: int) -> None:
        answer = program.send("post", "/pool/acquire", {"count": count})
        assert len(answer.json()["results"]) == count

    few = statements_of(lambda: acquire(1))
    many = statements_of(lambda: acquire(30))
    assert many == few < 45


def test_each_kind_of_value_is_stored_at_most_once_a_second_and_changes_no_state() -> None:
    workunits(an_app(), 1, queue=a_queue())
    _client, program = a_worker()
    result_id = listed(program)[0]["id"]
    path = f"/pool/results/{result_id}"
    body = {"fraction_done": 0.25, "memory_bytes": 1e6}
    assert program.send("post", f"{path}/report_usage", body).status_code == 404
    claim(program, result_id)
    moves = LedgerEntry.objects.count()
    assert program.send("post", f"{path}/report_usage", body).json() == {"stored": True}
    later = program.send("patch", f"{path}/report_memory_usage", {"memory_bytes": 2e6})
    assert later.json() == {"stored": False}
    assert program.send("post", f"{path}/report_usage", body).json() == {"stored": False}
    sample = UsageSample.objects.get()
    assert (sample.fraction_done, sample.memory_bytes) == (0.25, 1e6)
    assert Result.objects.get().fraction_done == 0.25
    assert LedgerEntry.objects.count() == moves
    for bad in ({}, {"fraction_done": 2}, {"memory_bytes": "many"}, {"x": 1}):
        assert program.send("post", f"{path}/report_usage", bad).status_code == 400, bad


@pytest.fixture
def usage_clock(monkeypatch: pytest.MonkeyPatch) -> list[datetime]:
    """The time of the next report of usage; each report adds ten milliseconds."""
    clock = [timezone.now()]

    def now(_endpoint: endpoints.ReportUsage) -> datetime:
        clock[0] += timedelta(milliseconds=10)
        return clock[0]

    monkeypatch.setattr(endpoints.ReportUsage, "now", property(now))
    return clock


def test_the_three_reports_of_eve_are_all_stored_and_shown(usage_clock: list[datetime]) -> None:
    [workunit] = workunits(an_app(), 1, queue=a_queue())
    _client, program = a_worker()
    result_id = listed(program)[0]["id"]
    claim(program, result_id)
    path = f"/pool/results/{result_id}"
    reports = {"memory_usage": 2e6, "cpu_utilization": 1.5, "gpu_usage": 0.25}
    for name, value in reports.items():
        answer = program.send("post", f"{path}/report_{name}", {name: value})
        assert (answer.status_code, answer.json()) == (200, {"stored": True}), name
    again = program.send("patch", f"{path}/report_cpu_utilization", {"cpu_utilization": 0.5})
    assert again.json() == {"stored": False}
    # A value that was stored in this second is stored again beside one that was not.
    mixed = {"cpu_utilization": 0.75, "fraction_done": 0.5}
    stored = [program.send("post", f"{path}/report_usage", mixed).json() for _ in range(2)]
    assert stored == [{"stored": True}, {"stored": False}]
    staff = a_program(an_account("ada", is_staff=True, is_superuser=True), *ALL_SCOPES)
    shown = staff.send("get", f"/workunits/{workunit.pk}/current_history").json()
    assert shown["memory_usage"] == [2e6, None, None, None]
    assert shown["cpu_utilization"] == [None, 1.5, None, 0.75]
    assert shown["gpu_usage"] == [None, None, 0.25, None]
    assert [sample["cpu_utilization"] for sample in shown["samples"]] == [None, 1.5, None, 0.75]
    usage_clock[0] += timedelta(seconds=1)
    for name, value in reports.items():
        answer = program.send("patch", f"{path}/report_{name}", {name: value})
        assert answer.json() == {"stored": True}, name
    assert UsageSample.objects.count() == 7


@pytest.mark.parametrize(
    "body",
    [
        {"memory_usage": 1, "memory_bytes": 1},
        {"cpu_utilization": -1},
        {"cpu_utilization": 65_537},
        {"cpu_usage": 1},
    ],
)
def test_usage_that_no_computer_has_is_refused(body: dict[str, float]) -> None:
    _client, program = a_worker()
    assert program.send("post", "/pool/results/1/report_usage", body).status_code == 400


def test_cancellations_of_a_host_are_returned_with_a_cursor() -> None:
    first, second = workunits(an_app(), 2, queue=a_queue())
    _client, program = a_worker()
    program.send("post", "/pool/acquire", {"count": 2})
    before = program.send("get", "/pool/wait").json()
    assert before["aborts"] == []
    control.cancel(ids=[first.pk], now=timezone.now())
    after = program.send("get", f"/pool/wait?cursor={before['cursor']}").json()
    assert after["aborts"] == [f"{first.name}_0"]
    assert after["cursor"] != before["cursor"]
    assert second.name not in str(after)
    _other, rival = a_worker("worker-B")
    assert rival.send("get", "/pool/wait").json()["aborts"] == []
    assert program.send("get", "/pool/wait?timeout=3600").status_code == 400


def test_pool_shows_the_host_and_the_url_to_wait_at() -> None:
    client, program = a_worker()
    shown = program.send("get", "/pool").json()
    assert shown["host"] == client.hostid
    assert shown["name"] == "worker-A"
    assert shown["wait_url"].endswith("/api/v1/pool/wait")


def test_termination_time_of_the_app_applies_to_workunits_without_one() -> None:
    app = an_app(max_termination_time=timedelta(seconds=30))
    workunits(app, 1, queue=a_queue())
    _client, program = a_worker()
    assert listed(program)[0]["max_termination_time"] == 30.0


@pytest.mark.parametrize("seconds", [-1, 3601, "soon"])
def test_termination_time_is_within_bounds(seconds: object) -> None:
    an_app()
    account = an_account("ada", is_staff=True)
    submitters.allow(account, apps=None, now=timezone.now())
    body = {"app": "upper", "workunits": [{"name": "a", "max_termination_time": seconds}]}
    answer = a_program(account).send("post", "/workunits", body)
    assert answer.status_code in {400, 422}, answer.content
    assert "max_termination_time" in answer.content.decode()
    body["workunits"] = [{"name": "a", "max_termination_time": 12.5}]
    assert a_program(account).send("post", "/workunits", body).status_code == 201
    assert Workunit.objects.get().max_termination_time == timedelta(seconds=12.5)
