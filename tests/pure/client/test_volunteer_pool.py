"""The client in a pool: cancellations, claims, sleeps and named workers."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import parse_qsl, urlsplit

import pytest

from daemons.management.processes import wait_until
from tests.pure.client.test_volunteer_state import RULES, URL, Client, a_reply
from volunteer import cli, events, workers
from volunteer.config import Rules
from volunteer.intake import MAX_EARLY_ABORTS
from volunteer.journal import Journal, load_state
from volunteer.pool import (
    LIST_SECONDS,
    MAX_LISTED,
    MAX_PAGES,
    RESTART_SECONDS,
    PoolAwayError,
    PoolError,
    PoolLink,
    PoolWatcher,
    UsageReporter,
    retry_seconds,
)
from volunteer.records import Phase, Project, State
from volunteer.runner import Runner
from volunteer.sandbox import Confinement, Program, Sandbox
from volunteer.state import MAX_REQUESTS_FOR_CLAIMED
from volunteer.transport import Response, UnreachableError
from volunteer.verdicts import ABORTED_BY_PROJECT
from volunteer.wire.messages import Account, Message, Reply
from volunteer.wire.replies import decode_reply

POOL = replace(RULES, pool=True, slots=1, buffer_seconds=0.0)


def test_cancellation_kills_after_the_termination_time_of_the_workunit() -> None:
    client = Client()
    reply = a_reply("r")
    [workunit] = reply.workunits
    client.happens(
        events.ReplyReceived,
        reply=replace(reply, workunits=(replace(workunit, max_termination_time=3.0),)),
    )
    client.tick()
    for name in ("app_1", "r_in"):
        client.happens(events.DownloadFinished, name=name)
    client.tick()
    client.happens(events.ProcessStarted, result="r", pid=17, pid_started=1)
    said = client.happens(events.AbortsReceived, names=("r", "unknown"))
    assert events.Kill(URL, "r", 3.0) in said
    assert client.happens(events.AbortsReceived, names=("r",)) == []


def test_cancellation_that_arrives_before_its_result_aborts_the_result() -> None:
    client = Client()
    client.tick()
    assert client.happens(events.AbortsReceived, names=("r", "other")) == []
    commands = client.happens(events.ReplyReceived, reply=a_reply("r"))
    assert events.Print("r aborted: the project no longer needs it") in commands
    assert client.result().phase == Phase.REPORTABLE
    verdict = client.result().verdict
    assert verdict is not None
    assert verdict.exit_status == ABORTED_BY_PROJECT
    # An abort is not an error of this computer, and the name of a received result is forgotten.
    assert client.project.errors == 0
    assert client.project.early_aborts == ("other",)
    assert "Run" not in client.kinds(10.0)


def test_cancellation_of_another_result_does_not_abort_a_received_one() -> None:
    client = Client()
    client.tick()
    client.happens(events.AbortsReceived, names=("other",))
    client.happens(events.ReplyReceived, reply=a_reply("r"))
    assert client.result().phase == Phase.FETCHING
    assert client.result().verdict is None


def test_early_cancellations_are_limited_and_repeated_ones_are_kept_once() -> None:
    client = Client()
    names = tuple(f"r_{number}" for number in range(MAX_EARLY_ABORTS))
    client.happens(events.AbortsReceived, names=names)
    client.happens(events.AbortsReceived, names=("new", *names[:2]))
    kept = client.project.early_aborts
    assert len(kept) == MAX_EARLY_ABORTS
    assert kept[-3:] == ("new", "r_0", "r_1")
    assert "r_2" not in kept


def test_early_cancellations_are_not_saved(tmp_path: Path) -> None:
    # After a restart the first answer of the pool has all cancellations.
    client = Client()
    client.happens(events.AbortsReceived, names=("r",))
    Journal(tmp_path).save(client.state)
    assert load_state(tmp_path).projects[URL].early_aborts == ()


def test_program_that_is_being_started_at_the_cancellation_is_killed() -> None:
    client = Client()
    client.gets("r")
    for name in ("app_1", "r_in"):
        client.happens(events.DownloadFinished, name=name)
    assert "Run" in [type(command).__name__ for command in client.tick()]
    # The agent has started the program, but its state machine has not processed the start.
    client.happens(events.AbortsReceived, names=("r",))
    commands = client.happens(events.ProcessStarted, result="r", pid=17, pid_started=1)
    assert [type(each).__name__ for each in commands] == ["Print", "Kill"]
    client.happens(events.ProcessExited, result="r", signal=15)
    verdict = client.result().verdict
    assert verdict is not None
    assert (verdict.exit_status, verdict.terminated_status) == (ABORTED_BY_PROJECT, 143)
    assert client.result().phase == Phase.REPORTABLE


def test_result_that_has_finished_before_the_cancellation_is_reported_as_usual() -> None:
    client = Client().with_running("r")
    output = events.Output("r_out", 5, "md5")
    client.happens(events.ProcessExited, result="r", outputs=(output,))
    assert client.happens(events.AbortsReceived, names=("r",)) == []
    verdict = client.result().verdict
    assert client.result().phase == Phase.UPLOADING
    assert verdict is None or verdict.exit_status == 0


@pytest.mark.parametrize(
    ("code", "signal", "status"), [(7, 0, 7), (0, 0, 0), (0, 15, 143), (0, 9, None)]
)
def test_exit_status_is_reported_if_sigterm_worked(
    code: int, signal: int, status: int | None
) -> None:
    client = Client().with_running("r")
    client.happens(events.AbortsReceived, names=("r",))
    client.happens(events.ProcessExited, result="r", code=code, signal=signal)
    verdict = client.result().verdict
    assert verdict is not None
    assert (verdict.exit_status, verdict.terminated_status) == (ABORTED_BY_PROJECT, status)
    assert client.result().phase == Phase.REPORTABLE


@pytest.mark.parametrize(
    ("sent", "seconds"), [("", 10.0), ("2.5", 2.5), ("-1", 0.0), ("1e9", 3600.0), ("x", 10.0)]
)
def test_termination_time_from_the_server_is_limited(sent: str, seconds: float) -> None:
    element = f"<max_termination_time>{sent}</max_termination_time>" if sent else ""
    body = f"<scheduler_reply><workunit><name>w</name>{element}</workunit></scheduler_reply>"
    [workunit] = decode_reply(body.encode()).workunits
    assert workunit.max_termination_time == seconds


@pytest.mark.parametrize(
    ("trap", "grace", "code", "signal"),
    [("trap 'exit 7' TERM", 60.0, 7, 0), ("trap '' TERM", 0.4, 0, 9)],
)
def test_sigterm_then_sigkill_to_the_process_group(
    tmp_path: Path, trap: str, grace: float, code: int, signal: int
) -> None:
    runner = Runner(Sandbox(Confinement.OFF))
    shell = tmp_path / "p.sh"
    loop = "while :; do sleep 0.05; done"
    shell.write_text(f"#!/bin/sh\n(sleep 77) &\n{trap}\n: > {tmp_path}/trapped\n{loop}\n")
    shell.chmod(0o755)
    confined = Program(tmp_path, tmp_path, tmp_path)
    runner.start((URL, "r"), confined, shell, "")
    assert wait_until((tmp_path / "trapped").exists, within=10)
    began = time.monotonic()
    runner.stop((URL, "r"), "<abort/>", grace)
    ended = []
    while not ended and time.monotonic() < began + 10:
        ended = runner.collect()
        time.sleep(0.02)
    assert [(each.code, each.signal) for each in ended] == [(code, signal)]
    assert signal == 0 or time.monotonic() - began >= grace


def test_sleep_after_no_process_claimed_replaces_the_back_off() -> None:
    client = Client(POOL)
    client.tick()
    client.happens(events.ReplyReceived, reply=Reply(request_delay=60.0))
    assert client.project.work_retry_at == client.now + 2.0
    assert client.kinds(1.9) == []
    assert client.kinds(0.2) == ["Ask"]


def test_sleep_after_a_success_and_after_a_failure() -> None:
    client = Client(POOL).with_running("r")
    assert client.project.next_contact_at <= client.now + 0.1
    client.happens(events.ProcessExited, result="r", code=3)
    assert client.project.work_retry_at == client.now + 0.5


def test_delays_of_the_project_hold_outside_of_a_pool() -> None:
    client = Client()
    client.tick()
    client.happens(events.ReplyReceived, reply=Reply(request_delay=60.0))
    assert client.project.next_contact_at == client.now + 60.0
    assert client.project.work_retry_at > client.now + 100.0


def test_worker_claims_one_result_and_then_asks_for_it() -> None:
    client = Client(replace(POOL, claims=True))
    [claim] = client.tick()
    assert claim == events.ClaimWork(URL, 1.0, 0.0)
    assert client.kinds(0.1) == []  # the claim is under way
    client.happens(events.WorkClaimed, name="r")
    [ask] = client.tick()
    assert isinstance(ask, events.Ask)
    assert ask.work_seconds > 0
    client.gets("r")
    assert client.project.claimed == ""


def a_worker_with_a_claim() -> Client:
    client = Client(replace(POOL, claims=True))
    client.tick()
    client.happens(events.WorkClaimed, name="r")
    assert client.kinds() == ["Ask"]
    return client


def test_claimed_result_is_requested_again_after_a_reply_without_it() -> None:
    client = a_worker_with_a_claim()
    client.happens(events.ReplyReceived, reply=Reply())
    assert client.kinds(1.9) == []
    [ask] = client.tick(0.2)
    assert isinstance(ask, events.Ask)
    assert ask.work_seconds > 0
    client.gets("r")
    assert client.project.claimed == ""


def test_claimed_result_that_never_arrives_is_given_up() -> None:
    client = a_worker_with_a_claim()
    for _ in range(MAX_REQUESTS_FOR_CLAIMED - 1):
        client.happens(events.ReplyReceived, reply=Reply())
        assert client.kinds(2.1) == ["Ask"]
    client.happens(events.ReplyReceived, reply=Reply())
    assert client.kinds(2.1) == ["ClaimWork"]


#: A reply to a request that was carried out; a refusal has no account.
ACCEPTED = Reply(hostid=7, account=Account(userid=1))


def asks(client: Client, after: float) -> bool:
    return "Ask" in client.kinds(after)


def a_busy_worker(rules: Rules) -> Client:
    """Return a client with one processor whose result is being downloaded."""
    client = Client(rules)
    client.tick()
    client.happens(events.ReplyReceived, reply=a_reply("r"))
    assert not asks(client, rules.acknowledge_seconds - 5)
    return client


def test_a_worker_acknowledges_a_received_result_during_a_long_download() -> None:
    client = a_busy_worker(POOL)
    assert asks(client, 5.0)
    client.happens(events.ReplyReceived, reply=ACCEPTED)
    assert client.result().phase == Phase.FETCHING
    assert not asks(client, 3600.0), "the result is acknowledged once"


def test_an_acknowledgement_that_fails_is_repeated_within_the_time_of_the_server() -> None:
    client = a_busy_worker(POOL)
    assert asks(client, 5.0)
    client.happens(events.RequestFailed, reason="no route")
    assert not asks(client, 50.0)
    assert asks(client, 10.0)
    client.happens(events.ReplyReceived, reply=Reply(is_down=True))
    assert asks(client, 120.0)
    client.happens(events.ReplyReceived, reply=ACCEPTED)
    assert not asks(client, 3600.0)


def test_a_refusal_acknowledges_nothing_and_its_delay_is_kept() -> None:
    client = a_busy_worker(POOL)
    assert asks(client, 5.0)
    busy = Reply(request_delay=30.0, messages=(Message("Another request is being answered"),))
    client.happens(events.ReplyReceived, reply=busy)
    assert not asks(client, 29.0)
    assert asks(client, 1.0)
    client.happens(events.ReplyReceived, reply=ACCEPTED)
    assert not asks(client, 3600.0)


def test_outside_of_a_pool_no_contact_is_made_to_acknowledge_results() -> None:
    client = a_busy_worker(replace(POOL, pool=False))
    assert not asks(client, 3600.0)


def test_worker_sleeps_when_nothing_was_claimed() -> None:
    client = Client(replace(POOL, claims=True))
    client.tick()
    client.happens(events.WorkClaimed)
    assert client.kinds(1.9) == []
    assert client.kinds(0.2) == ["ClaimWork"]


def test_claimed_result_is_requested_again_after_a_reply_with_another_result() -> None:
    client = a_worker_with_a_claim()
    client.gets("other")
    assert client.project.claimed == "r"
    assert "Ask" in client.kinds(2.1)
    client.gets("r")
    assert client.project.claimed == ""
    assert client.project.work_failures == 0


def test_claimed_result_that_never_arrives_is_given_up_although_other_work_arrives() -> None:
    client = a_worker_with_a_claim()
    for number in range(MAX_REQUESTS_FOR_CLAIMED - 1):
        client.gets(f"other{number}")
        assert client.project.claimed == "r"
        assert "Ask" in client.kinds(2.1)
    client.gets("last")
    assert client.project.claimed == ""


class FakeTransport:
    """Returns planned responses, and keeps the requests."""

    def __init__(self, *responses: tuple[int, object]) -> None:
        self.responses = [Response(status, json.dumps(body).encode()) for status, body in responses]
        self.requests: list[str] = []
        self.bodies: list[bytes] = []

    def get(self, url: str, **_: object) -> Response:
        self.requests.append(f"GET {url}")
        return self.responses.pop(0)

    def post_json(self, url: str, content: bytes, **_: object) -> Response:
        self.requests.append(f"POST {url}")
        self.bodies.append(content)
        return self.responses.pop(0)


#: The answer to a successful claim.
CLAIMED = {"id": 4, "name": "r", "report_deadline": "2030-01-01T00:00:00Z"}


def a_link(*responses: tuple[int, object]) -> tuple[PoolLink, FakeTransport]:
    transport = FakeTransport(*responses)
    return PoolLink(URL, "mh_host_x", transport), transport  # type: ignore[arg-type]


def a_listing_link(*responses: tuple[int, object]) -> tuple[PoolLink, FakeTransport]:
    """Return a link that uses the list, because the server has found no result that fits."""
    return a_link((409, {"reason": "unfit"}), *responses)


def test_after_a_lost_race_the_next_result_is_claimed() -> None:
    rows = {"results": [{"id": 3}, {"id": 4}, {"id": 5}]}
    link, transport = a_listing_link((200, rows), (409, {"reason": "claimed"}), (200, CLAIMED))
    assert link.claim(cpus=2.0, memory_bytes=1e9) == "r"
    assert [request.rpartition("/pool")[2] for request in transport.requests[2:]] == [
        "/results/3/claim",
        "/results/4/claim",
    ]
    assert "max_memory_bytes=1000000000.0" in transport.requests[1]


def a_page(first: int, count: int) -> dict[str, object]:
    return {"results": [{"id": number} for number in range(first, first + count)]}


def queries(transport: FakeTransport) -> list[dict[str, str]]:
    """Return the query of each listing."""
    listings = [request for request in transport.requests if "/results?" in request]
    return [dict(parse_qsl(urlsplit(request).query)) for request in listings]


def test_after_a_page_of_results_that_it_cannot_claim_the_next_page_is_read() -> None:
    refusals = [(409, {"reason": "unfit"})] * MAX_LISTED
    link, transport = a_listing_link(
        (200, a_page(1, MAX_LISTED)), *refusals, (200, a_page(90, 2)), (200, CLAIMED)
    )
    assert link.claim(cpus=2.0, memory_bytes=0.0) == "r"
    assert [query["after"] for query in queries(transport)] == ["0", str(MAX_LISTED)]
    assert transport.requests[-1].endswith("/results/90/claim")


def test_the_next_call_goes_on_where_the_last_one_ended() -> None:
    pages = [
        answer
        for number in range(MAX_PAGES)
        for answer in (
            (200, a_page(1 + number * MAX_LISTED, MAX_LISTED)),
            *[(409, {"reason": "unfit"})] * MAX_LISTED,
        )
    ]
    last = MAX_PAGES * MAX_LISTED
    link, transport = a_listing_link(
        *pages, (200, a_page(last + 1, 1)), (409, {}), (200, a_page(1, 1)), (200, CLAIMED)
    )
    assert link.claim(cpus=1.0, memory_bytes=0.0) == ""
    assert len(queries(transport)) == MAX_PAGES
    # A short page is the last one; the call after it begins with the oldest results again.
    assert link.claim(cpus=1.0, memory_bytes=0.0) == ""
    assert queries(transport)[-1]["after"] == str(last)
    assert link.claim(cpus=1.0, memory_bytes=0.0) == "r"
    assert queries(transport)[-1]["after"] == "0"


@pytest.mark.parametrize(("seconds", "after"), [(0.0, "4"), (RESTART_SECONDS + 1, "0")])
def test_refused_results_are_tried_again_a_minute_later(seconds: float, after: str) -> None:
    responses = [(200, a_page(3, 2)), (409, {"reason": "unfit"}), (200, CLAIMED)]
    link, transport = a_listing_link(*responses, (200, a_page(5, 0)))
    link.position.began -= seconds
    assert link.claim(cpus=1.0, memory_bytes=0.0) == "r"
    assert link.claim(cpus=1.0, memory_bytes=0.0) == ""
    assert queries(transport)[-1]["after"] == after


def test_a_long_list_is_read_to_its_end_without_a_successful_claim() -> None:
    refusals = [(409, {"reason": "unfit"})] * MAX_LISTED
    link, transport = a_listing_link((200, a_page(1, MAX_LISTED)), *refusals, (200, a_page(90, 0)))
    link.position.began -= RESTART_SECONDS + 1
    assert link.claim(cpus=1.0, memory_bytes=0.0) == ""
    assert queries(transport)[-1]["after"] == str(MAX_LISTED)


def test_a_worker_that_is_busy_on_the_server_tries_no_further_result() -> None:
    link, transport = a_listing_link(
        (200, a_page(1, 3)), (409, {"reason": "busy"}), (200, a_page(1, 1)), (200, CLAIMED)
    )
    assert link.claim(cpus=1.0, memory_bytes=0.0) == ""
    assert link.claim(cpus=1.0, memory_bytes=0.0) == "r"
    assert [query["after"] for query in queries(transport)] == ["0", "0"]


def test_a_claim_sends_the_limits_that_the_worker_knows() -> None:
    link, transport = a_listing_link((200, a_page(1, 0)), (200, a_page(1, 0)))
    link.claim(cpus=2.0, memory_bytes=1e9, disk_bytes=5e9)
    link.claim(cpus=0.5, memory_bytes=0.0)
    first, second = queries(transport)
    assert first["max_gpus"] == second["max_gpus"] == "0"
    assert (first["max_cpus"], second["max_cpus"]) == ("2.0", "1.0")
    assert (first["max_memory_bytes"], first["max_disk_bytes"]) == ("1000000000.0", "5000000000.0")
    assert "max_memory_bytes" not in second
    assert "max_disk_bytes" not in second


def test_the_server_selects_a_result_within_the_limits_of_the_worker() -> None:
    link, transport = a_link((200, {"results": [CLAIMED]}), (200, {"results": []}))
    assert link.claim(cpus=2.0, memory_bytes=1e9, disk_bytes=5e9) == "r"
    assert link.claim(cpus=0.5, memory_bytes=0.0) == ""
    assert paths(transport) == ["/acquire", "/acquire"]
    assert [json.loads(body) for body in transport.bodies] == [
        {"max_cpus": 2.0, "max_gpus": 0, "max_memory_bytes": 1e9, "max_disk_bytes": 5e9},
        {"max_cpus": 1.0, "max_gpus": 0},
    ]


def test_the_server_selects_again_a_minute_after_it_found_no_result_that_fits() -> None:
    link, transport = a_listing_link((200, a_page(1, 1)), (200, CLAIMED), (200, a_page(1, 0)))
    assert link.claim(cpus=1.0, memory_bytes=0.0) == "r"
    assert link.claim(cpus=1.0, memory_bytes=0.0) == ""
    assert paths(transport).count("/acquire") == 1
    link.position.list_until -= LIST_SECONDS
    transport.responses += a_link((200, {"results": [CLAIMED]}))[1].responses
    assert link.claim(cpus=1.0, memory_bytes=0.0) == "r"
    assert paths(transport)[-1] == "/acquire"


def test_a_worker_that_is_busy_on_the_server_does_not_use_the_list() -> None:
    link, transport = a_link((409, {"reason": "busy"}), (200, {"results": [CLAIMED]}))
    assert link.claim(cpus=1.0, memory_bytes=0.0) == ""
    assert link.claim(cpus=1.0, memory_bytes=0.0) == "r"
    assert paths(transport) == ["/acquire", "/acquire"]


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (404, {}, "HTTP 404 .*ask for a token"),
        (401, {}, "HTTP 401 .*ask for a token"),
        (429, {}, "HTTP 429 .*too many requests"),
        (503, {}, "HTTP 503"),
        (409, {"reason": "other"}, "HTTP 409"),
        (409, [], "HTTP 409"),
        (200, [], "not an object"),
        (200, {}, "no list of results"),
        (200, {"results": 3}, "no list of results"),
        (200, {"results": [3]}, "no name"),
        (200, {"results": [{"name": ""}]}, "no name"),
        (200, {"results": [{"name": "x" * 301}]}, "no name"),
    ],
)
def test_another_answer_than_a_selected_result_is_an_error(
    status: int, body: object, reason: str
) -> None:
    link, transport = a_link((status, body))
    with pytest.raises(PoolError, match=reason):
        link.claim(cpus=1.0, memory_bytes=0.0)
    assert paths(transport) == ["/acquire"]


@pytest.mark.parametrize("body", [[], {}, {"results": 3}, {"results": []}])
def test_answer_without_results_claims_nothing(body: object) -> None:
    link, _ = a_listing_link((200, body))
    if isinstance(body, dict):
        assert link.claim(cpus=1.0, memory_bytes=0.0) == ""
    else:
        with pytest.raises(PoolError):
            link.claim(cpus=1.0, memory_bytes=0.0)


@pytest.mark.parametrize("body", [[], {}, {"name": 3}, {"name": ""}, {"name": "x" * 301}])
def test_claim_that_is_answered_without_a_name_is_an_error(body: object) -> None:
    link, _ = a_listing_link((200, a_page(1, 1)), (200, body))
    with pytest.raises(PoolError, match="no name"):
        link.claim(cpus=1.0, memory_bytes=0.0)


@pytest.mark.parametrize(
    ("url", "is_accepted"),
    [
        ("http://project.example:8001/api/v1/pool/wait", True),
        ("https://project.example/wait", True),
        ("http://elsewhere.example/wait", False),
        ("ftp://project.example/wait", False),
        (17, False),
    ],
)
def test_token_is_sent_only_to_the_host_of_the_project(url: object, is_accepted: bool) -> None:
    link, _ = a_link((200, {"wait_url": url}))
    if is_accepted:
        assert link.wait_url() == url
    else:
        with pytest.raises(PoolError, match="another address"):
            link.wait_url()


def paths(transport: FakeTransport) -> list[str]:
    return [request.rpartition("/pool")[2] for request in transport.requests]


def test_usage_is_reported_by_the_ids_of_results() -> None:
    claimed = {"results": [{"id": 3, "name": "a_0"}, {"id": 4, "name": "b_0"}, 5, {"id": "x"}]}
    link, transport = a_link((200, claimed), (200, {}), (200, {}), (404, {}))
    link.report({"a_0": {"fraction_done": 1.5, "memory_bytes": 4096}})
    link.report({"a_0": {"cpu_time": 2.0}, "b_0": {"cpu_time": 1.0}})
    reports = ["/results/3/report_usage", "/results/3/report_usage", "/results/4/report_usage"]
    assert paths(transport) == ["/claimed", *reports]
    assert [json.loads(body) for body in transport.bodies] == [
        {"fraction_done": 1.0, "memory_bytes": 4096},
        {"cpu_time": 2.0},
        {"cpu_time": 1.0},
    ]
    # The server has ended b_0; its id is looked up again, and nothing is reported without an id.
    transport.responses += a_link((200, {"results": []}))[1].responses
    link.report({"b_0": {"cpu_time": 3.0}})
    assert paths(transport)[4:] == ["/claimed"]


def test_a_report_that_fails_is_lost_and_the_next_one_is_sent() -> None:
    claimed = {"results": [{"id": 3, "name": "a_0"}]}
    link, transport = a_link((503, {}), (200, claimed), (200, {}))
    reporter = UsageReporter(link)
    for count in (1, 3):
        reporter.report({"a_0": {"cpu_time": 1.0}})
        until = time.monotonic() + 10
        while len(transport.requests) < count and time.monotonic() < until:
            time.sleep(0.01)
        with reporter._is_busy:  # the thread has ended
            pass
    assert paths(transport) == ["/claimed", "/claimed", "/results/3/report_usage"]


def watched(*responses: tuple[int, object], seconds: float) -> tuple[list[object], list[str]]:
    """Run a watcher for some seconds; return its events and its lines."""
    link, transport = a_link(*responses)
    heard: list[object] = []
    lines: list[str] = []
    display = SimpleNamespace(print_line=lambda text, _now: lines.append(text))
    watcher = PoolWatcher(link, heard.append, display, lambda: 0.0)  # type: ignore[arg-type]
    watcher.start()
    until = time.monotonic() + seconds
    while transport.responses and time.monotonic() < until:
        time.sleep(0.02)
    watcher.stop()
    return heard, lines


def test_cancellations_arrive_soon_after_an_outage_of_the_long_poll() -> None:
    here = {"wait_url": f"{URL}api/v1/pool/wait"}
    answer = {"cursor": "c", "aborts": ["r_0"]}
    heard, lines = watched(
        (502, {}), (200, here), (503, {}), (200, here), (200, answer), (502, {}), seconds=15.0
    )
    assert heard == [events.AbortsReceived(0.0, project=URL, names=("r_0",))]
    assert lines[0] == f"{URL}: no cancellations from the pool: HTTP 502"
    assert f"{URL}: cancellations from the pool arrive again" in lines


@pytest.mark.parametrize(
    ("error", "longest"),
    [
        (UnreachableError("refused"), 5.0),
        (PoolAwayError("HTTP 503"), 5.0),
        (PoolError("HTTP 401"), 60.0),
    ],
)
def test_an_outage_is_retried_sooner_than_a_refusal(
    error: PoolError | UnreachableError, longest: float
) -> None:
    assert retry_seconds(error, 1) == 1.0
    assert retry_seconds(error, 20) == longest


def test_a_named_worker_has_its_own_folder_and_the_projects_of_the_computer(tmp_path: Path) -> None:
    Journal(tmp_path).save(State("cpid").with_project(Project(URL, "key")))
    first = workers.prepare_folder(tmp_path, "worker-A")
    second = workers.prepare_folder(tmp_path, "worker-B")
    assert first != second
    states = [load_state(folder) for folder in (first, second)]
    assert [state.projects[URL].key for state in states] == ["key", "key"]
    assert len({state.host_cpid for state in states}) == 2
    assert states[0].projects[URL].hostid == 0
    for name in ("", "../x", "a/b", "x" * 101):
        with pytest.raises(workers.BadWorkerError):
            workers.prepare_folder(tmp_path, name)


def test_names_of_output_files_follow_the_template_and_stay_in_the_folder() -> None:
    name = workers.file_name(
        "results/$worker-$taskId-$round-$program.out",
        worker="worker-A",
        task="../../etc/passwd",
        result="w_12",
        program="app",
    )
    assert name == "results/worker-A-_.._etc_passwd-12-app.out"
    with pytest.raises(workers.BadWorkerError, match="variables are"):
        workers.checked_template("$task.out")
    assert workers.checked_template("$taskId.err") == "$taskId.err"


def test_settings_of_tdf_are_read(tmp_path: Path) -> None:
    path = tmp_path / "worker.cfg"
    path.write_text("[worker]\ntask_output_filename=out/$taskId\nsleep_after_failure=0.7\n")
    assert workers.read_settings(path) == {
        "stdout_name": "out/$taskId",
        "sleep_after_failure": "0.7",
    }
    path.write_text("[worker]\nsleep=1\n")
    with pytest.raises(workers.BadWorkerError, match="no setting 'sleep'"):
        workers.read_settings(path)
    with pytest.raises(workers.BadWorkerError, match="cannot be read"):
        workers.read_settings(tmp_path / "none")


@pytest.mark.parametrize("when", ["success", "failure", "no-process-claimed"])
@pytest.mark.parametrize("seconds", [0.0, 3.0])
def test_option_that_is_given_has_precedence_over_the_file(
    tmp_path: Path, when: str, seconds: float
) -> None:
    setting = f"sleep_after_{when.replace('-', '_')}"
    path = tmp_path / "worker.cfg"
    path.write_text(f"[worker]\n{setting}=0.7\nclaim=yes\n")
    for words, value in (([], 0.7), ([f"--sleep-after-{when}", str(seconds)], seconds)):
        options = cli.parser().parse_args(["run", "--config", str(path), *words])
        cli.apply_settings(options)
        assert getattr(cli.rules_from(options, tmp_path), setting) == value
        assert options.claim is True
