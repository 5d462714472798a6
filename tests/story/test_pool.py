"""A day in the life of Eve: workers claim work and obey cancellations."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from daemons.management.processes import wait_until
from scheduler.lifecycle import ClientState, ErrorMask, Outcome
from scheduler.rights import SCOPES
from tests.story.project import LINUX, ROOT, Project
from tests.story.volunteers import PASSWORD, OurClient

pytestmark = [pytest.mark.story, pytest.mark.lengthy]

EMAIL = "eve@example.org"
#: `polite` ends with status 7 after SIGTERM, `deaf` ignores it, `quick` is done at once.
PROGRAM = """#!/bin/sh
case $1 in
  polite) trap 'exit 7' TERM ;;
  deaf) trap '' TERM ;;
  quick) echo "done"; exit 0 ;;
esac
while :; do sleep 0.1; done
"""
CANCEL_SECONDS = 2.0


class Lab:
    """A project with a trusted queue and a worker of its pool."""

    def __init__(self, project: Project, client: OurClient, folder: Path) -> None:
        self.project, self.client = project, client
        project.manage("create_account", EMAIL, "--name", "Eve", "--password", PASSWORD, "--staff")
        scopes = [word for scope in SCOPES for word in ("--scope", scope)]
        said = project.manage("token", "create", EMAIL, "--json", *scopes)
        self.token = re.search(r"mh_[\w-]+", said)[0]
        source = folder / "eve.sh"
        source.write_text(PROGRAM)
        project.manage("publish_app", "eve", "1.00", LINUX, source, "--create-app")
        project.sql("UPDATE app SET validator = 'trivial', retry_same_account_after = '0'")
        self.create_queue("lab")

    def call(self, method: str, path: str, body: Any = None, token: str = "") -> Any:
        """Call the API; return the answer."""
        request = urllib.request.Request(
            f"{self.project.url}api/v1/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {token or self.token}",
                "Content-Type": "application/json",
            },
        )
        with urllib.request.urlopen(request, timeout=30) as reply:
            return json.load(reply)

    def create_queue(self, name: str, **fields: Any) -> None:
        self.call("POST", "queues", {"name": name, "trusted": True, **fields})

    def submit(self, **workunits: dict[str, Any]) -> dict[str, int]:
        """Submit workunits by name; return their ids."""
        lines = [
            {"name": name, "outputs": [], "rsc_fpops_est": 1e9, "queue": "lab", **fields}
            for name, fields in workunits.items()
        ]
        self.call("POST", "workunits", {"app": "eve", "workunits": lines})
        rows = self.project.sql("SELECT id, name FROM workunit")
        return {row["name"]: row["id"] for row in rows}

    def enroll(self, name: str) -> str:
        """Contact the project as a worker, and enroll its host; return the host's token."""
        run = ["run", "--name", name, "--confine", "off", "--backoff-scale", "0.01"]
        self.client.command(*run, "--until-idle")
        [host] = self.project.sql("SELECT id FROM host WHERE domain_name = %s", name)
        text = json.loads(self.project.manage("pool", "enroll", host["id"], "--json"))["token"]
        (self.client.folder / "workers" / name / "pool_token").write_text(f"{text}\n")
        return str(text)

    def start(self, name: str, *options: str) -> None:
        words = ["run", "--name", name, "--slots", "3", "--confine", "off", *options]
        with (self.client.folder / "client.log").open("ab") as output:
            command = [sys.executable, ROOT / "client", "--dir", self.client.folder, *words]
            self.client.children.start(name, command, output=output)

    def log(self) -> str:
        return (self.client.folder / "client.log").read_text(errors="replace")

    def worker_of(self, result: str) -> str:
        """Return the name of the worker that has a result."""
        query = "SELECT h.domain_name FROM host h JOIN result r ON r.host_id = h.id"
        [row] = self.project.sql(f"{query} WHERE r.name = %s", result)
        return str(row["domain_name"])

    def result(self, name: str) -> dict[str, Any]:
        [row] = self.project.sql("SELECT * FROM result WHERE name = %s", name)
        return row


def test_workers_of_a_pool_claim_work_and_obey_cancellations(
    make_project, our_client, tmp_path: Path
):
    project = make_project()
    project.start()
    client = our_client(project, "lab")
    lab = Lab(project, client, tmp_path)
    workers = ("worker-A", "worker-B")
    # The long poll is a process of its own, which only a project with an enrolled host has.
    assert not listens(project.port + 1)
    tokens = {name: lab.enroll(name) for name in workers}
    check_reports_of_eve(lab)
    ids = lab.submit(
        quick={"command_line": "quick"},
        polite={"command_line": "polite", "max_termination_time": 8},
        deaf={"command_line": "deaf", "max_termination_time": 2},
        following={"command_line": "quick", "after": ["quick"]},
        waiting={"command_line": "quick", "after": ["polite"]},
        last={"command_line": "quick", "after": ["waiting"]},
    )
    names = ["--stdout-name", "results/$worker-$taskId-$round.out"]
    wait_for_pool(project)
    for name in workers:
        lab.start(name, "--claim", "--usage-interval", "1", *names)

    # Two workers on one computer claim available work, one result at a time.
    project.wait(
        lambda: all(f"{name}_0 running" in lab.log() for name in ("polite", "deaf", "following")),
        within=40,
        what="the workers run their work",
    )
    assert "Traceback" not in lab.log()
    name = lab.worker_of("quick_0")
    kept = client.folder / "workers" / name / "results" / f"{name}-quick-0.out"
    assert kept.read_text() == "done\n"

    token = tokens[lab.worker_of("polite_0")]
    check_usage_reports(lab, ids["polite"], "polite_0", token)

    # A cancellation reaches the worker by its long poll.
    seconds = cancel_and_wait(lab, ids["polite"], "polite_0")
    print(f"cancellation reached the client after {seconds:.2f} s")  # noqa: T201 - a figure
    assert seconds < CANCEL_SECONDS
    project.wait(lambda: lab.result("polite_0")["server_state"] == 5, within=10, what="a report")
    row = lab.result("polite_0")
    assert (row["outcome"], row["client_state"]) == (Outcome.CLIENT_ERROR, ClientState.ABORTED)
    assert row["exit_status"] == 7

    check_that_a_deaf_program_is_killed(lab, ids["deaf"], "deaf_0")
    check_continuations(project)

    # Cancelling again succeeds without effect.
    again = lab.call("POST", f"workunits/{ids['polite']}/cancel", {})
    assert (again["cancelled"], again["finished"]) == (0, 1)
    assert [client.children.stop(name, within=20) for name in workers] == [0, 0]
    check_that_work_is_computed_in_the_order_of_its_queue(lab, workers[0])
    assert "0 violations" in project.fsck() or "no violation" in project.fsck().lower()


def check_that_work_is_computed_in_the_order_of_its_queue(lab: Lab, name: str) -> None:
    """Check that a worker with one processor claims work in the order of the queues."""
    lab.create_queue("newest", order="lifo")
    lab.create_queue("ranked", order="priority", priority_group=1)
    fields = {"command_line": "quick"}
    newest = {f"newest_{number}": fields | {"queue": "newest"} for number in range(3)}
    ranked = {f"ranked_{n}": fields | {"queue": "ranked", "priority": n} for n in (1, 3, 2)}
    lab.submit(**newest, **ranked)
    results = "FROM result WHERE name ~ '^(newest|ranked)_'"
    wait, count = lab.project.wait, lab.project.count
    unsent = f"SELECT count(*) {results} AND server_state = 2"
    wait(lambda: count(unsent) == 6, within=20, what="unsent results")
    lab.start(name, "--claim", "--slots", "1")
    over = f"SELECT count(*) {results} AND server_state = 5"
    wait(lambda: count(over) == 6, within=40, what="the worker runs its work")
    computed = [row["name"] for row in lab.project.sql(f"SELECT name {results} ORDER BY sent_at")]
    in_order = ("ranked_3", "ranked_2", "ranked_1", "newest_2", "newest_1", "newest_0")
    assert computed == [f"{each}_0" for each in in_order]
    assert lab.client.children.stop(name, within=20) == 0


def check_that_a_deaf_program_is_killed(lab: Lab, workunit_id: int, result: str) -> None:
    """Check that a program that ignores SIGTERM is killed after its max_termination_time."""
    began = time.monotonic()
    assert cancel_and_wait(lab, workunit_id, result) < CANCEL_SECONDS
    lab.project.wait(lambda: lab.result(result)["server_state"] == 5, within=15, what="a report")
    assert time.monotonic() - began >= 2
    assert lab.result(result)["exit_status"] == 202


def check_continuations(project: Project) -> None:
    """Check that the continuations of a cancelled workunit fail; the others are done."""
    states = {
        row["name"]: (row["error_mask"], row["canonical_result_id"] is not None)
        for row in project.sql("SELECT name, error_mask, canonical_result_id FROM workunit")
    }
    assert states == {
        "quick": (0, True),
        "following": (0, True),
        "polite": (ErrorMask.CANCELLED, False),
        "deaf": (ErrorMask.CANCELLED, False),
        "waiting": (ErrorMask.DEPENDENCY_FAILED, False),
        "last": (ErrorMask.DEPENDENCY_FAILED, False),
        "reported": (0, False),
    }
    sent = "SELECT count(*) FROM result r JOIN workunit w ON w.id = r.workunit_id WHERE w.name = %s"
    assert project.count(f"{sent} AND r.sent_at IS NOT NULL", "waiting") == 0


def check_usage_reports(lab: Lab, workunit_id: int, result: str, token: str) -> None:
    """Check that the worker reports usage to the pool, more often than volunteers can."""
    result_id = lab.result(result)["id"]
    samples = "SELECT count(*) FROM usage_sample WHERE result_id = %s AND memory_bytes > 0"
    assert wait_until(lambda: lab.project.count(samples, result_id) >= 3, within=30), lab.log()
    assert lab.project.count("SELECT count(*) FROM trickle_up") == 0
    history = lab.call("GET", f"workunits/{workunit_id}/current_history")
    # Null until the memory is first measured.
    measured = [nbytes for nbytes in history["memory_usage"] if nbytes is not None]
    assert len(measured) >= 3
    assert min(measured) > 100_000
    # Another program with the token of the host can report what the worker does not measure.
    path = f"pool/results/{result_id}/report_gpu_usage"
    assert lab.call("POST", path, {"gpu_usage": 0.5}, token=token) == {"stored": True}
    history = lab.call("GET", f"workunits/{workunit_id}/current_history")
    assert 0.5 in history["gpu_usage"]


def check_reports_of_eve(lab: Lab) -> None:
    """Check that the three reports of one second are stored and shown.

    The host that claims the result runs no worker, so that only these reports are stored.
    """
    token = lab.enroll("worker-C")
    workunit_id = lab.submit(reported={"command_line": "quick"})["reported"]
    unsent = "SELECT count(*) FROM result WHERE name = 'reported_0' AND server_state = 2"
    lab.project.wait(lambda: lab.project.count(unsent) == 1, within=20, what="an unsent result")
    result_id = lab.result("reported_0")["id"]
    lab.call("POST", f"pool/results/{result_id}/claim", token=token)
    reports = {"memory_usage": 123.0, "cpu_utilization": 0.8, "gpu_usage": 0.5}
    for name, value in reports.items():
        path = f"pool/results/{result_id}/report_{name}"
        assert lab.call("POST", path, {name: value}, token=token) == {"stored": True}, name
    history = lab.call("GET", f"workunits/{workunit_id}/current_history")
    for name, value in reports.items():
        assert [number for number in history[name] if number is not None] == [value]


def listens(port: int) -> bool:
    """Return whether a process of this machine accepts connections at a port."""
    with socket.socket() as connection:
        connection.settimeout(5)
        return connection.connect_ex(("127.0.0.1", port)) == 0


def wait_for_pool(project: Project) -> None:
    """Wait until the long poll of `serve` answers."""

    def answers() -> bool:
        url = f"http://127.0.0.1:{project.port + 1}/api/v1/pool/wait"
        done = subprocess.run(
            ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", url],
            capture_output=True,
            text=True,
            check=False,
            timeout=10,
        )
        return done.stdout == "404"

    assert wait_until(answers, within=30), project.log()


def cancel_and_wait(lab: Lab, workunit_id: int, result: str) -> float:
    """Cancel a workunit; return the seconds until the client stops its program."""
    began = time.monotonic()
    lab.call("POST", f"workunits/{workunit_id}/cancel", {})
    text = f"{result} aborted: the project no longer needs it"
    assert wait_until(lambda: text in lab.log(), within=15, look_again=0.02), lab.log()
    return time.monotonic() - began
