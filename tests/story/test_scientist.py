"""The scientist's client, from Python and from a shell, with computing volunteers."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import sysconfig
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

import scientist
from scheduler.rights import SCOPES
from scientist import Project, WorkunitFailed, as_completed
from tests.story import proxy
from tests.story.project import ROOT
from tests.story.volunteers import PASSWORD

pytestmark = [pytest.mark.story, pytest.mark.lengthy]

EMAIL = "ada@example.org"


@pytest.fixture
def served(make_project):
    """Start a project; return it and the API token of a superuser."""
    project = make_project(PURGE_AFTER="3600")
    project.start()
    project.manage("create_account", EMAIL, "--name", "Ada", "--password", PASSWORD, "--staff")
    said = project.manage(
        *("token", "create", EMAIL, "--json"),
        *(word for scope in SCOPES for word in ("--scope", scope)),
    )
    return project, re.search(r"mh_[\w-]+", said)[0]


def a_program(folder: Path, lines: str) -> Path:
    folder.mkdir()
    path = folder / "run.sh"
    path.write_text(f"#!/bin/sh\n{lines}\n")
    path.chmod(0o755)
    return folder


def shell(words, environment, **options):
    return subprocess.run(
        [sys.executable, "-m", "scientist", *map(str, words)],
        env=os.environ | {"PYTHONPATH": str(ROOT / "client")} | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
        **options,
    )


def test_futures_return_the_outputs_computed_by_volunteers(served, our_client, tmp_path):
    project, token = served
    with Project(project.url, token) as mine:
        source = a_program(
            tmp_path / "sums", 'grep -q bad "$1" && exit 7; awk \'{s+=$1} END {print s}\' "$1"'
        )
        mine.create_app("sums", kind="script", workunit_defaults={"max_error_results": 0})
        assert {one.app for one in mine.publish("sums", source)} == {"sums"}
        our_client(project, "volunteer").start()

        numbers = range(1, 13)
        inputs = [(f"n{n}", "".join(f"{one}\n" for one in range(1, n + 1))) for n in numbers]
        futures = mine.map("sums", [*inputs, ("broken", "bad\n")], deadline="1h", fpops=1e9)
        told = []
        futures[3].add_done_callback(lambda future: told.append(future.result()))
        over = [future.name for future in as_completed(futures, timeout=60)]

        assert sorted(over) == sorted(futures.names)
        assert [int(one.result(0)) for one in futures[:12]] == [n * (n + 1) // 2 for n in numbers]
        assert told == [b"10\n"]
        with pytest.raises(WorkunitFailed, match="_broken failed: TOO_MANY_ERROR_RESULTS"):
            futures[12].result(0)

        with mine.batch("by hand", app="sums", into=tmp_path / "out") as draft:
            kept = draft.submit(b"40\n2\n", fpops=1e9)
            never = draft.submit(b"1\n", start_after="2099-01-01T00:00:00Z", fpops=1e9)
        assert kept.result(40).read_bytes() == b"42\n"
        assert never.cancel()
        with pytest.raises(CancelledError):
            never.result(0)
        assert mine.find_batch("by hand").progress().done == 1


def test_interrupted_submission_and_upload_are_retried_without_duplicates(served, stage, tmp_path):
    project, token = served
    project.publish()
    between = proxy.Proxy(project.port)
    between.start()
    stage.callback(between.close)
    # The workunits are committed, and the reply is cut.
    between.faults.append(proxy.Fault("POST /api/v1/workunits", received=10))
    (tmp_path / "long").write_bytes(os.urandom(300_000))
    between.faults.append(proxy.Fault("PUT /api/v1/files", sent=100_000))
    environment = {"MANYHANDS_URL": f"http://127.0.0.1:{between.port}/", "MANYHANDS_TOKEN": token}
    words = ["submit", "mersenne", "--count", "500", "--input", tmp_path / "long", "--json"]
    done = shell(words, environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["count"] == 500
    assert project.count("SELECT count(*) FROM workunit") == 500
    assert [one.times for one in between.faults] == [0, 0]


def test_submitting_100_000_generated_workunits_uses_constant_memory(served):
    project, token = served
    project.publish()
    with Project(project.url, token) as mine:
        mine.map("mersenne", (f"--seed {seed}" for seed in range(1_000)))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        futures = mine.map("mersenne", (f"--seed {seed}" for seed in range(100_000)))
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert len(futures) == 100_000
    assert project.count("SELECT count(*) FROM workunit") == 101_000
    assert grown < 80_000  # kilobytes; the names alone have 20 000


def test_client_package_installs_the_volunteer_and_scientist_programs(tmp_path):
    new = tmp_path / "new"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", new], check=True)
    # The dependencies are already installed for this Python, so pip needs no network.
    libraries = sysconfig.get_path("purelib")
    source = tmp_path / "client"
    subprocess.run(["cp", "-r", ROOT / "client", source], check=True)
    environment = os.environ | {"PYTHONPATH": libraries}
    words = ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run(
        [new / "bin" / "python", *words, source], check=True, env=environment, timeout=90
    )
    for program in ("volunteer", "scientist"):
        done = subprocess.run(
            [new / "bin" / program, "--version"],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == f"{program} {scientist.__version__}\n"
