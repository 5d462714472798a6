"""Ten thousand hosts that return at once after an outage are all served."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter

import pytest

from scheduler.boinc.scheduler_rpc import BUSY
from scheduler.boinc.wire import replies, requests
from tests.long.stand import Stand
from tests.long.volunteers import Volunteer

#: Divisor of the delays that hosts wait before they return.
HASTE = 20.0
SERVED_WITHIN = 400.0
CLONE = """
INSERT INTO host
SELECT (jsonb_populate_record(h, jsonb_build_object('id', h.id + g, 'host_cpid', 'cpid ' || g))).*
FROM host AS h, generate_series(1, %s) AS g WHERE h.id = %s
"""


@pytest.mark.long
def test_ten_thousand_hosts_that_return_at_once_are_all_served(tmp_path, proof):
    stampede(tmp_path, proof, hosts=10_000, lines=400)


@pytest.mark.lengthy
@pytest.mark.story
def test_five_hundred_hosts_that_return_at_once_are_all_served(tmp_path, proof):
    stampede(tmp_path, proof, hosts=500, lines=100)


def stampede(folder, proof, *, hosts, lines):
    # Half as many waiting RPCs as threads are allowed, so that some hosts are turned away.
    stand = Stand(folder / "project", REQUEST_DELAY="7", MAX_WAITING_RPCS="4", BUSY_DELAY="60")
    try:
        stand.set_up("counted")
        stand.start_role("server")
        stand.await_up()
        first = Volunteer(key="", name="first", port=stand.port)
        first.attach()
        first.converse(seconds=0.0, report=())
        first.hang_up()
        stand.sql(CLONE, hosts, first.hostid)
        herd = Herd(
            stand.port, first, range(first.hostid + 1, first.hostid + 1 + hosts), proof.seed()
        )
        with stand.watch_memory() as memory:
            began = time.monotonic()
            asyncio.run(asyncio.wait_for(herd.run(lines), SERVED_WITHIN))
            took = time.monotonic() - began
        assert herd.served == hosts
        assert set(herd.said) <= {200}
        check_delays(herd)
        memory.check()
        troubles = [line for line in stand.events() if '"error"' in line]
        assert not troubles, troubles[:3]
        proof.count(hosts=hosts, violations=0)
        proof.note(f"{hosts} hosts over {lines} connections served in {took:.0f} s; deferred")
        proof.note(f"{len(herd.delays)} times, by {spread(herd.delays)}; {memory.sentence()}")
    finally:
        stand.close()


def check_delays(herd):
    """Check that the delays of refused hosts differ."""
    if len(herd.delays) > 20:
        assert len(set(herd.delays)) > len(herd.delays) / 2
        assert min(herd.delays) >= 1


def spread(delays):
    return f"{min(delays):.0f} to {max(delays):.0f} s" if delays else "nothing"


class Herd:
    """Simulated hosts, each of which sends RPCs until it is served once."""

    def __init__(self, port, like, ids, seed):
        self.port, self.like = port, like
        self.rng = random.Random(seed)
        self.waiting = list(ids)
        self.rng.shuffle(self.waiting)
        self.served = 0
        self.said = Counter()
        self.delays = []

    async def run(self, lines):
        """Run all hosts over `lines` concurrent connections."""
        await asyncio.gather(*(self._line() for _ in range(lines)))

    async def _line(self):
        reader = writer = None
        while self.waiting:
            host = self.waiting.pop()
            delay = 1.0
            while delay:
                if writer is None:
                    reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                try:
                    delay = await self._ask(reader, writer, host)
                except (OSError, asyncio.IncompleteReadError):
                    # The server may close an idle connection, as HTTP allows.
                    writer.close()
                    writer = None
                await asyncio.sleep(delay / HASTE)
        if writer is not None:
            writer.close()
            await writer.wait_closed()

    async def _ask(self, reader, writer, host):
        """Send an RPC of a host; return the delay in seconds if it was refused, else 0."""
        self.like.hostid = host
        body = requests.encode_request(self.like.request(rpc_seqno=7, cpu_req_secs=100.0))
        head = f"POST /cgi/scheduler HTTP/1.1\r\nHost: here\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        said = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        self.said[int(said.split()[1])] += 1
        length = int(said.partition("content-length:")[2].split()[0])
        reply = replies.decode_reply(await reader.readexactly(length))
        if any(message.text == BUSY for message in reply.messages):
            self.delays.append(reply.request_delay)
            return reply.request_delay
        assert reply.request_delay == 7, reply
        self.served += 1
        return 0.0
