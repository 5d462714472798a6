"""Requests that are too long get a valid reply, and are not held in memory."""

from __future__ import annotations

import socket
import time

import pytest

from scheduler.boinc.wire import messages, replies, requests
from tests.long.stand import Stand
from tests.long.volunteers import Volunteer

pytestmark = [pytest.mark.story, pytest.mark.lengthy]

MEGABYTE = 1 << 20
LENGTH = 100 * MEGABYTE
#: Maximum growth of a web process by a refused request; bytes.
GROWTH = 12 * MEGABYTE
HEAD = "POST /cgi/scheduler HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/xml\r\n"


@pytest.fixture(scope="module")
def stand(tmp_path_factory):
    """A web server and a transitioner."""
    made = Stand(tmp_path_factory.mktemp("huge") / "project", MAX_RESULTS_PER_RPC="1000")
    try:
        made.set_up("counted")
        made.start_role("server")
        made.start_role("transitioner")
        made.await_up()
        warm_up(made)
        yield made
    finally:
        made.close()


def warm_up(stand):
    """Send RPCs until the memory of the web processes is stable, with all modules loaded."""
    client = Volunteer(key="", name="first", port=stand.port)
    client.attach()
    sizes = [0]

    def is_steady():
        client.converse(seconds=0.0, report=())
        client.hang_up()  # a new connection may reach another web process
        sizes.append(largest(stand))
        return len(sizes) > 10 and sizes[-1] - sizes[-10] < MEGABYTE

    stand.wait(is_steady, within=60, what="the web processes grow no more")


@pytest.mark.parametrize("is_chunked", [False, True], ids=["Content-Length", "chunked"])
def test_request_of_100_megabytes_gets_a_message_and_a_delay_and_uses_little_memory(
    stand, proof, is_chunked
):
    before = largest(stand)
    with stand.watch_memory() as memory:
        began = time.monotonic()
        answer = post_at_length(stand.port, is_chunked=is_chunked)
        took = time.monotonic() - began

    reply = replies.decode_reply(answer)
    assert "longer than 32 MB" in reply.messages[0].text
    assert reply.request_delay == 3600
    grown = memory.peaks["server's child"] - before
    assert grown < GROWTH, f"{grown >> 20} MB"
    memory.check()
    assert took < 10
    proof.note(f"answered after {took:.1f} s; the web process grew by {grown >> 20} MB")


def largest(stand):
    return max(process.memory_info().rss for process in stand.web_workers())


def post_at_length(port, *, is_chunked):
    """Send 100 MB and return the body of the reply, which may arrive before all is sent."""
    head = (
        "Transfer-Encoding: chunked\r\n\r\n" if is_chunked else f"Content-Length: {LENGTH}\r\n\r\n"
    )
    piece = b"<scheduler_request>" + b" " * (MEGABYTE - 19)
    if is_chunked:
        piece = b"%x\r\n%b\r\n" % (MEGABYTE, piece)
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as line:
        line.sendall((HEAD + head).encode())
        try:
            for _ in range(LENGTH // MEGABYTE):
                line.sendall(piece)
            line.sendall(b"0\r\n\r\n" if is_chunked else b"")
        except (BrokenPipeError, ConnectionResetError):
            pass  # the server has replied and closed the connection
        while b"</scheduler_reply>" not in answer:
            more = line.recv(65536)
            assert more, answer
            answer += more
    assert answer.startswith(b"HTTP/1.1 200"), answer[:200]
    return answer.partition(b"\r\n\r\n")[2]


REPORTS, REAL, MOST = 100_000, 2500, 2000


def test_report_of_100_000_results_is_acknowledged_2000_at_a_time(stand, proof):
    client = Volunteer(key="", name="hoarder", ncpus=64, disk_free=1e14, port=stand.port)
    client.attach()
    stand.submit_many("counted", REAL)
    unsent = "SELECT count(*) FROM result WHERE server_state = 2"
    stand.wait(lambda: stand.count(unsent) == REAL, within=30, what="results to send")
    client.hang_up()
    client.converse(seconds=1e9, report=())
    assert len(client.work) == REAL
    real = sorted(client.work)
    names = [*real, *(f"nobody_knows_{number}" for number in range(REPORTS - REAL))]
    slowest = 0.0
    with stand.watch_memory() as memory:
        for time_ in (1, 2):
            began = time.monotonic()
            reply = say(client, names)
            slowest = max(slowest, time.monotonic() - began)
            assert sorted(reply.result_acks) == sorted(names[:MOST]), f"time {time_}"
            assert reply.results == (), "what is not acknowledged yet is not lost"
            names = names[MOST:]
    client.hang_up()

    taken = stand.count("SELECT count(*) FROM result WHERE server_state = 5 AND outcome = 1")
    assert taken == REAL
    memory.check()
    assert slowest < 20
    proof.note(f"100 000 reports: an RPC takes {slowest:.1f} s at most; {memory.sentence()}")


def say(client, names):
    """Report results of these names in an RPC that lists no other results; return the reply."""
    client.rpc_seqno += 1
    message = client.request(
        results=tuple(messages.ReportedResult(name=name, state=5) for name in names),
        other_results=(),
    )
    body = requests.encode_request(message)
    assert len(body) < 32 * MEGABYTE, f"{len(body)} bytes"
    return replies.decode_reply(client._send("POST", "/cgi/scheduler", body))
