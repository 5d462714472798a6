"""The history of a workunit over the API, while our client computes it."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from scheduler.rights import SCOPES
from scientist import Project
from tests.story.volunteers import PASSWORD

pytestmark = [pytest.mark.story, pytest.mark.lengthy]

EMAIL = "ada@example.org"
#: Fails in round 0.  In round 1, it uses the processor for a second and runs for five.
PROGRAM = """#!/bin/sh
if cat init_data.xml ../init_data.xml 2>/dev/null | grep -q '_0</result_name>'; then
  echo 'no luck' >&2
  exit 3
fi
timeout 1 sh -c 'while :; do :; done'
sleep 4
echo done
"""


def has_run_again(read, address: str) -> bool:
    """Return whether the second round has a sample of a program that has run."""
    if read(f"{address}/history")["retry_count"] != 2:
        return False
    samples = read(f"{address}/current_history")["samples"]
    # A client can send its first sample in the moment of the start.
    return bool(samples) and samples[-1]["elapsed_seconds"] > 0


def test_history_has_the_rounds_and_the_usage_of_a_running_program(
    make_project, our_client, tmp_path: Path
):
    project = make_project(PURGE_AFTER="3600")
    project.start()
    project.manage("create_account", EMAIL, "--name", "Ada", "--password", PASSWORD, "--staff")
    scopes = [word for scope in SCOPES for word in ("--scope", scope)]
    token = re.search(r"mh_[\w-]+", project.manage("token", "create", EMAIL, "--json", *scopes))[0]

    def read(path: str) -> Any:
        request = urllib.request.Request(
            f"{project.url}api/v1/{path}", headers={"Authorization": f"Bearer {token}"}
        )
        with urllib.request.urlopen(request, timeout=30) as reply:
            return json.load(reply)

    source = tmp_path / "rounds"
    source.mkdir()
    (source / "run.sh").write_text(PROGRAM)
    (source / "run.sh").chmod(0o755)
    with Project(project.url, token) as mine:
        mine.create_app("rounds", kind="script", workunit_defaults={"requested_cpus": 2})
        mine.publish("rounds", source)
        project.sql("UPDATE app SET retry_same_account_after = '0'")
        our_client(project, "volunteer").start(slots=2, usage_interval=1)
        batch = mine.submit("rounds", ["x"], fpops=1e9, max_fails=1, until="2099-01-01T00:00:00Z")
        [workunit] = read(f"workunits?batch={batch.id}")["results"]
        address = f"workunits/{workunit['id']}"

        project.wait(
            lambda: has_run_again(read, address),
            within=60,
            what="a usage sample of the second round",
        )
        running = read(f"{address}/current_history")
        assert (running["round"], running["state"]) == (1, "IN_PROGRESS")
        assert running["memory_usage"][0] > 100_000
        assert running["samples"][-1]["elapsed_seconds"] > 0

        project.wait(
            lambda: read(f"{address}/rounds")["state"] == "archived", within=60, what="the end"
        )
    shown = read(f"{address}/rounds")
    assert (shown["round"], shown["fails"], shown["timeouts"]) == (1, 1, 0)
    times = shown["timeline"]
    states = (
        "0:open",
        "0:running",
        "0:executed",
        "1:open",
        "1:running",
        "1:executed",
        "1:archived",
    )
    assert [times[key] for key in states] == sorted(times[key] for key in states)
    assert (times["0:error"], times["1:error"]) == ("no luck", "")
    assert times["1:output"] == "done\n"
    assert read(f"{address}/statistics")["errors"] == 1
    assert "0 violations" in project.fsck()
