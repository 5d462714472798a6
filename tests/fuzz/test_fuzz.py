"""Mutated requests cause no traceback, no unexpected 5xx and no invalid state.

``make test-fuzz`` sends a million requests, 90 % in process; ``REQUESTS`` and ``SEED`` set others.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from random import randrange

import pytest

from scheduler.boinc.wire import messages
from tests.fuzz.ground import Ground
from tests.fuzz.world import World
from tests.story.project import LINUX

pytestmark = pytest.mark.fuzz

REQUESTS = int(os.environ.get("FUZZ_REQUESTS") or 20_000)
SEED = int(os.environ.get("FUZZ_SEED") or randrange(10**6))
#: The share of the requests that go over HTTP to a server process.
OVER_HTTP = 0.1


def test_mutated_requests_do_no_harm(tmp_path, capsys):
    report = Path(os.environ.get("FUZZ_REPORT", tmp_path / "fuzz.json"))
    count_http = int(REQUESTS * OVER_HTTP)
    with Ground(tmp_path / "project") as ground:
        began = time.monotonic()
        inside = ground.fuzz(SEED, REQUESTS - count_http, over_http=False)
        took_inside = time.monotonic() - began
        ground.start()
        began = time.monotonic()
        outside = ground.fuzz(SEED + 1, count_http, over_http=True)
        took_outside = time.monotonic() - began
        with capsys.disabled():
            print(f"\nfuzz: SEED={SEED}, {inside.total} in process in {took_inside:.0f} s")
            print(inside.table())
            print(f"{outside.total} over HTTP in {took_outside:.0f} s")
            print(outside.table())
        report.write_text(
            json.dumps(
                {"seed": SEED, "in_process": inside.as_json(), "over_http": outside.as_json()},
                indent=1,
            )
        )
        faults = inside.faults + outside.faults
        assert faults == [], f"SEED={SEED}\n" + "\n".join(faults[:20])
        logged = (ground.folder / "serve.log").read_text(errors="replace")
        assert "Traceback" not in logged, logged[logged.index("Traceback") - 500 :][:4000]
        assert inside.total + outside.total == REQUESTS
        a_good_host_is_served(ground)
        said = ground.fsck()
        assert "no violations" in said.lower() or "0 violations" in said, said
        assert ground.stop() == 0, ground.log()


def a_good_host_is_served(ground: Ground) -> None:
    """Check that a new host of the account gets work of a new app."""
    world = World.read(ground.world)
    ground.publish()
    ground.submit({"1": "7\n"})
    ground.wait(
        lambda: ground.count("SELECT count(*) FROM result WHERE server_state = 2"),
        within=60,
        what="there is work",
    )
    info = messages.HostInfo(
        domain_name="good", p_ncpus=4, p_fpops=1e9, m_nbytes=8e9, d_total=2e11, d_free=1e11
    )
    reply = ground.ask(
        messages.SchedulerRequest(
            authenticator=world.keys[0],
            core_client_major_version=7,
            core_client_minor_version=20,
            platform_name=LINUX,
            host_info=info,
            cpu_req_secs=1.0,
        )
    )
    assert reply.hostid, reply
    assert reply.results, reply.messages
