"""A day of TDF: an archive by HTTP, rounds after failures and time-outs, expiry."""

from __future__ import annotations

import io
import re
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from scheduler.rights import SCOPES
from scientist import Project
from tests.story.volunteers import PASSWORD

pytestmark = [pytest.mark.story, pytest.mark.lengthy, pytest.mark.early]

EMAIL = "ada@example.org"
#: Its input is a word that decides what happens, and the numbers of the rounds in which it happens.
RUN_SH = """#!/bin/sh
word=$1
shift
for round; do
  case "$word:$MANYHANDS_RESULT" in
  fail:*_"$round") echo "no route to host in round $round" >&2 ;;
  hang:*_"$round") sleep 120 ;;
  esac
done
cat pages/answer
"""
#: A time zone far from UTC, in which the submission gives its times.
FAR = timezone(timedelta(hours=5, minutes=30))


@contextmanager
def a_site(path: str, content: bytes) -> Iterator[tuple[str, list[str]]]:
    """Serve one file by HTTP; yield its URL, and the list of the requested paths."""
    requested: list[str] = []

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requested.append(self.path)
            self.send_response(200 if self.path == path else 404)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}{path}", requested
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def archive(files: dict[str, str]) -> bytes:
    """Return a .tar.gz with these files (name -> content)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as packed:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            packed.addfile(info, io.BytesIO(text.encode()))
    return buffer.getvalue()


class Day:
    """The tasks of the day: workunits of the app crawler, and their rounds in the API."""

    def __init__(self, project: Any, mine: Project) -> None:
        self.project, self.mine = project, mine
        self.ids: dict[str, int] = {}

    def submit(self, **tasks: dict[str, Any]) -> None:
        """Submit tasks by name; each has an `input`, and fields of a workunit."""
        inputs = [
            {"name": name, "command_line": task.pop("input"), "rsc_fpops_est": 1e9, **task}
            for name, task in tasks.items()
        ]
        batch = self.mine.submit("crawler", inputs)
        self.ids |= {row.name: row.id for row in self.mine.workunits(batch=batch.id)}

    def rounds(self, name: str) -> dict[str, Any]:
        return dict(self.mine.transport.get(f"workunits/{self.ids[name]}/rounds"))

    def wait(self, state: str, *names: str, within: float = 60) -> None:
        self.project.wait(
            lambda: all(self.rounds(name)["state"] == state for name in names),
            within=within,
            what=f"{', '.join(names)}: {state}",
        )

    def counters(self, name: str) -> tuple[int, int, int]:
        shown = self.rounds(name)
        return shown["round"], shown["fails"], shown["timeouts"]

    def times(self, name: str, *keys: str) -> list[float]:
        """Return the times of these states; fails if one is missing, or if another time exists."""
        timeline = self.rounds(name)["timeline"]
        assert {key for key, value in timeline.items() if isinstance(value, float)} == set(keys)
        return [timeline[key] for key in keys]


@pytest.fixture
def day(make_project, tmp_path) -> Iterator[Day]:
    """Start a project that has fetched the program crawler, whose site then disappears."""
    project = make_project(PURGE_AFTER="3600", IMPORT_HOSTS="127.0.0.1")
    project.start()
    project.manage("create_account", EMAIL, "--name", "Ada", "--password", PASSWORD, "--staff")
    scopes = [word for scope in SCOPES for word in ("--scope", scope)]
    token = re.search(r"mh_[\w-]+", project.manage("token", "create", EMAIL, "--json", *scopes))[0]
    program = archive({"run.sh": RUN_SH, "pages/answer": "a page\n"})
    with Project(project.url, token) as mine:
        mine.create_app("crawler", kind="script", success_rule="empty_stderr")
        with a_site("/crawler-1.tar.gz", program) as (url, requested):
            for _ in range(2):
                mine.publish("crawler", url, version="1.23")
            assert requested == ["/crawler-1.tar.gz"], "fetched by the server, once"
        versions = mine.transport.pages("apps/crawler/versions")
        assert {row["source_url"] for row in versions} == {url}
        project.sql(
            "UPDATE app SET one_result_per = 'nothing', grace = '0', retry_same_account_after = '0'"
        )
        yield Day(project, mine)


def test_a_day_in_the_life_of_tdf(day, our_client):
    project = day.project
    alice, bob = our_client(project, "alice"), our_client(project, "bob")

    # open -> expired: no worker is there before end_before
    end = datetime.now(FAR) + timedelta(seconds=6)
    day.submit(missed={"input": "page", "end_before": end.isoformat()})
    day.wait("archived", "missed")
    opened, expired, archived = day.times("missed", "0:open", "0:expired", "0:archived")
    assert opened < end.timestamp() <= expired <= archived

    # running -> timed_out and running -> open: alice is killed with two tasks
    hang = {"input": "hang 0", "delay_bound_seconds": 20}
    day.submit(lost={**hang, "max_timeouts": 0}, found={**hang, "max_timeouts": 1})
    alice.start(slots=2)
    day.wait("running", "lost", "found")
    alice.kill()
    day.wait("archived", "lost")
    assert day.counters("lost") == (0, 0, 1)
    times = day.times("lost", "0:open", "0:running", "0:timed_out", "0:archived")
    assert times == sorted(times)
    assert times[2] - times[1] >= 20
    day.wait("open", "found")
    assert day.counters("found") == (1, 0, 1)

    # executed -> open, failed, succeeded; a task for later
    start = datetime.now(FAR) + timedelta(seconds=20)
    day.submit(
        page={"input": "page"},
        again={"input": "fail 0", "max_fails": 1},
        failed={"input": "fail 0 1 2", "max_fails": 1},
        later={"input": "page", "start_after": start.isoformat()},
    )
    reason = f"must not start before {start.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    assert reason in project.manage("explain", "later")
    bob.start(slots=2)
    day.wait("archived", "found", "page", "again", "failed", "later")
    assert [day.counters(name) for name in ("found", "page", "again", "failed", "later")] == [
        *((1, 0, 1), (0, 0, 0), (1, 1, 0), (1, 2, 0), (0, 0, 0))
    ]
    check_rounds(day, start)

    # running -> expired: the client of bob drops the task at its next contact
    end = datetime.now(FAR) + timedelta(seconds=16)
    day.submit(dropped={"input": "hang 0", "end_before": end.isoformat()})
    day.wait("running", "dropped", within=15)
    day.wait("archived", "dropped")
    [_, started, expired, _] = day.times(
        "dropped", "0:open", "0:running", "0:expired", "0:archived"
    )
    assert started < end.timestamp() <= expired
    project.wait(
        lambda: project.sql("SELECT FROM result WHERE name = 'dropped_0' AND server_state = 5"),
        within=30,
        what="bob has dropped the task",
    )
    assert "0 violations" in project.fsck()


def check_rounds(day: Day, start: datetime) -> None:
    """Check the times and texts of tasks that ended by failures or successes."""
    keys = ("0:open", "0:running", "0:executed", "1:open", "1:running", "1:executed")
    for name, end in (("again", "1:succeeded"), ("failed", "1:failed")):
        times = day.times(name, *keys, end, "1:archived")
        assert times == sorted(times)
    times = day.times("found", *keys[:2], *keys[3:], "1:succeeded", "1:archived")
    assert times == sorted(times)
    assert day.rounds("later")["timeline"]["0:running"] >= start.timestamp()
    again, failed = day.rounds("again")["timeline"], day.rounds("failed")["timeline"]
    assert (again["0:error"], again["1:error"]) == ("no route to host in round 0", "")
    assert again["1:output"] == "a page\n"
    assert failed["1:error"] == "no route to host in round 1"
    log = day.rounds("again")["log"].splitlines()
    times = [line[: len("2026-01-01 00:00:00.000")] for line in log]
    assert times == sorted(times)
    failure = next(line for line in log if "CLIENT_ERROR" in line)
    assert " again_0 result: " in failure
