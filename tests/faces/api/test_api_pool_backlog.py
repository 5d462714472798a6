"""One request to acquire work reads a limited number of unsent results."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from scheduler import sql
from scheduler.dispatch import search
from scheduler.lifecycle import ServerState
from scheduler.models import Queue, Result
from scheduler.pool import acquisition, claims, host_tokens
from scheduler.queues import named_queues
from tests.database.passes import statements_of
from tests.faces.apis import Program
from tests.scripted_client import a_client
from tests.work import an_app, workunits

pytestmark = pytest.mark.django_db(transaction=True)

#: The limit of rows in these tests, and the results of each queue.
MAX_ROWS = 200
QUEUE_LENGTH = 150


@pytest.fixture(autouse=True)
def _few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acquisition, "MAX_ROWS", MAX_ROWS)
    monkeypatch.setattr(claims, "_RETRY_DELAYS_SECONDS", (0.0, 0.0, 0.0, 0.0, 0.0))


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of rows that each page has, over all its streams."""
    lengths: list[int] = []
    fetch_rows = sql.fetch_rows

    def counting(name: str, params: dict[str, Any]) -> list[tuple[Any, ...]]:
        rows = fetch_rows(name, params)
        if name == "pool/read_acquirable":
            # The last row of each stream is always returned; its position is the number of rows.
            ordered = sorted((stream, position) for stream, position, *_ in rows)
            lengths.append(sum(dict(ordered).values()))
        return rows

    monkeypatch.setattr(sql, "fetch_rows", counting)
    return lengths


def a_queue(name: str) -> Queue:
    return named_queues.create(name=name, trusted=True, now=timezone.now())


def a_worker() -> Program:
    client = a_client(email="worker@example.org", name="worker")
    client.ask()
    _token, text = host_tokens.enroll(client.hostid, now=timezone.now())
    program = Program(text)
    program.send("get", "/pool")
    return program


def a_backlog(queue_count: int, **fields: Any) -> None:
    app = an_app()
    for number in range(queue_count):
        workunits(app, QUEUE_LENGTH, queue=a_queue(f"queue {number}"), **fields)


def test_limits_that_no_result_meets_do_not_read_the_whole_backlog(pages: list[int]) -> None:
    program = a_worker()
    a_backlog(8)
    answer = program.send("post", "/pool/acquire", {"count": 64, "max_memory_bytes": 0})
    assert (answer.status_code, answer.json()["reason"]) == (409, "unfit")
    assert f"none of the first {MAX_ROWS} unsent results" in answer.json()["detail"]
    assert "the others were not read" in answer.json()["detail"]
    assert sum(pages) == MAX_ROWS


@pytest.mark.parametrize("misfit", [{"rsc_memory_bound": 1e15}, {"requested_cpus": 1000.0}])
def test_statements_do_not_depend_on_the_length_of_the_backlog(
    pages: list[int], misfit: dict[str, Any]
) -> None:
    program = a_worker()
    a_backlog(2, **misfit)

    def acquire() -> None:
        assert program.send("post", "/pool/acquire", {}).status_code == 409

    few = statements_of(acquire)
    assert sum(pages) == MAX_ROWS
    pages.clear()
    workunits(an_app("lower"), 1000, queue=Queue.objects.get(name="queue 1"), **misfit)
    workunits(an_app("third"), 1000, queue=a_queue("queue 2"), **misfit)
    assert statements_of(acquire) <= few
    assert sum(pages) <= MAX_ROWS


def test_more_streams_than_rows_are_read_up_to_the_limit(
    pages: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acquisition, "MAX_ROWS", 3)
    program = a_worker()
    a_backlog(5, requested_cpus=1000.0)
    answer = program.send("post", "/pool/acquire", {})
    assert "none of the first 3 unsent results" in answer.json()["detail"]
    assert pages == [3]


def test_reply_has_the_number_of_results_that_were_read() -> None:
    program = a_worker()
    a_backlog(1, requested_cpus=1000.0)
    body = {"count": 2}
    assert program.send("post", "/pool/acquire", body).json() == {
        "results": [],
        "results_read": QUEUE_LENGTH,
        "all_read": True,
    }
    workunits(an_app("lower"), 1, queue=Queue.objects.get())
    a_second = workunits(an_app("third"), QUEUE_LENGTH, queue=a_queue("other"), priority=-1)
    reply = program.send("post", "/pool/acquire", body).json()
    assert [row["name"] for row in reply["results"]][1:] == [f"{a_second[0].name}_0"]
    assert not reply["all_read"]
    assert 0 < reply["results_read"] <= MAX_ROWS


def test_results_that_the_host_can_never_run_are_judged_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judged: list[int] = []
    find_beyond = search.find_beyond

    def counting(searches: list[search.Search], **options: Any) -> None:
        judged.extend(id_ for each in searches[0].candidates.values() for id_ in each)
        find_beyond(searches, **options)

    monkeypatch.setattr(search, "find_beyond", counting)
    program = a_worker()
    a_backlog(1, requested_cpus=1000.0)
    assert program.send("post", "/pool/acquire", {}).json()["results"] == []
    assert len(judged) == len(set(judged)) == QUEUE_LENGTH


def test_attempts_of_one_request_share_the_limit(
    pages: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claims that lose against other transactions do not read the same results without end."""
    monkeypatch.setattr(claims, "_claim", lambda *_search, **_now: [])
    program = a_worker()
    a_backlog(1, requested_cpus=1000.0)
    workunits(an_app("lower"), 1, queue=Queue.objects.get(), priority=-1)
    reply = program.send("post", "/pool/acquire", {}).json()
    assert reply["results"] == []
    assert sum(pages) <= MAX_ROWS
    assert not Result.objects.exclude(server_state=ServerState.UNSENT).exists()
