"""A day of Disbatch: queues with limits, an orphan, a schedule and the balance."""

from __future__ import annotations

import hashlib
import re
import urllib.parse
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from scheduler.boinc.wire import messages
from scheduler.lifecycle import Because
from scheduler.rights import SCOPES
from scientist import Project
from tests.story.volunteers import PASSWORD

pytestmark = [pytest.mark.story, pytest.mark.lengthy, pytest.mark.early]

EMAIL = "ada@example.org"
LINUX = "x86_64-pc-linux-gnu"
#: A runner: its status is its argument plus 70.
PROGRAM = """#!/bin/sh
sleep 0.5
printf '{"status": 7%s, "stdout": "answer of %s", "stderr": "careful"}' "$1" "$1"
"""
BUSY = """
    SELECT q.name, max(busy) AS most FROM queue AS q, LATERAL (
        SELECT count(*) AS busy FROM result AS r JOIN workunit AS w ON w.id = r.workunit_id
        WHERE w.queue_id = q.id AND r.server_state = 4
    ) AS counted GROUP BY q.name
"""
OVER = """
    SELECT count(*) FROM workunit AS w JOIN queue AS q ON q.id = w.queue_id
    WHERE q.name = %s AND w.assimilate_state = 2
"""


def test_day_with_two_queues_an_orphan_and_a_limit_that_the_clock_changes(  # noqa: PLR0915  a day
    make_project, our_client, tmp_path: Path
):
    project = make_project(PURGE_AFTER="3600")
    project.start()
    project.manage("create_account", EMAIL, "--name", "Ada", "--password", PASSWORD, "--staff")
    scopes = [word for scope in SCOPES for word in ("--scope", scope)]
    token = re.search(r"mh_[\w-]+", project.manage("token", "create", EMAIL, "--json", *scopes))[0]
    source = tmp_path / "runner"
    source.mkdir()
    (source / "run.sh").write_text(PROGRAM)
    (source / "run.sh").chmod(0o755)
    with Project(project.url, token) as mine:
        mine.create_app("runner", kind="script", success_rule="runner")
        mine.publish("runner", source)
        project.sql("UPDATE app SET retry_same_account_after = '0', one_result_per = 'nothing'")
        opens = [{"at": f"* {datetime.now(UTC):%H:%M}", "max_in_progress": 1}]
        day = {"name": "day", "max_in_progress": 0, "order": "fifo", "schedule": opens}
        mine.transport.post("queues", day)
        mine.transport.post("queues", {"name": "night", "max_in_progress": 0})
        for queue in ("day", "night"):
            csv = {"csv": "n\n1\n2\n3"}
            template = {
                "name": f"{queue}_{{document.n}}",
                "command_line": "{document.n}",
                "queue": queue,
                "outputs": ["out"],
            }
            assert mine.submit_from_query("runner", csv, template, batch=queue)["count"] == 3

        project.wait(lambda: _limit(project, "day") == 1, within=60, what="the schedule opens day")
        _an_orphan(project)
        volunteer = our_client(project, "volunteer")
        volunteer.start(slots=2)
        most: dict[str, int] = {}

        def day_is_over() -> bool:
            for row in project.sql(BUSY):
                most[row["name"]] = max(most.get(row["name"], 0), row["most"])
            return project.count(OVER, "day") == 3

        project.wait(day_is_over, within=60, what="the queue day is computed")
        assert most["day"] == 1, "never more than its limit"
        assert most["night"] == 0, "stopped"
        assert project.count(OVER, "night") == 0

        switch = datetime.now(UTC) + timedelta(seconds=70)
        before = switch - timedelta(minutes=2)
        times = {f"* {before:%H:%M}": 0, f"* {switch:%H:%M}": 2}
        mine.transport.patch("balance", {"queues": [["night"]], "max_tasks": times})
        assert _limit(project, "night") == 0
        project.wait(
            lambda: _limit(project, "night") == 2, within=150, what="the clock opens night"
        )
        # Otherwise the client waits for the end of its back-off, which grew while night was closed.
        volunteer.command("update")
        project.wait(
            lambda: project.count(OVER, "night") == 3, within=60, what="the queue night is computed"
        )
        found = list(mine.search("results", '{"app_status": {"gte": 71}}'))
        assert sorted(row["app_status"] for row in found) == [71, 71, 72, 72, 73, 73]
        shown = mine.transport.get(f"results/{found[0]['id']}")
        assert shown["stdout"].startswith("answer of ")
        assert (shown["stdio"], "careful" in shown["stderr"]) == ("inline", True)
    assert "0 violations" in project.fsck()


def _limit(project, queue: str) -> int | None:
    [row] = project.sql("SELECT max_in_progress FROM queue WHERE name = %s", queue)
    return row["max_in_progress"]


def _an_orphan(project) -> None:
    """Claim a result as a client that ends right after the reply; wait until it is given up.

    The slot of the queue is free again, and the workunit gets another result.
    """
    project.sql("UPDATE app SET ack_timeout = '1 second'")
    email = "lost@example.org"
    digest = hashlib.md5(f"secret{email}".encode()).hexdigest()
    query = {"email_addr": email, "passwd_hash": digest, "user_name": "lost"}
    url = f"{project.url}create_account.php?{urllib.parse.urlencode(query)}"
    with urllib.request.urlopen(url, timeout=30) as reply:
        key = re.search(rb"<authenticator>(.*?)</authenticator>", reply.read())[1].decode()
    request = messages.SchedulerRequest(
        authenticator=key,
        core_client_major_version=7,
        core_client_minor_version=20,
        core_client_release=5,
        platform_name=LINUX,
        cpu_req_secs=1e6,
        work_req_seconds=1e6,
        cpu_req_instances=4.0,
        host_info=messages.HostInfo(
            domain_name="lost", p_ncpus=4, p_fpops=1e9, m_nbytes=8e9, d_total=1e12, d_free=1e11
        ),
    )
    unsent = "SELECT count(*) FROM result WHERE server_state = 2"
    project.wait(lambda: project.count(unsent) == 6, within=30, what="results")
    claimed = [result.wu_name for result in project.ask(request).results]
    assert claimed == ["day_1"], "one of the queue day, the oldest; none of the queue night"
    project.wait(
        lambda: project.count("SELECT count(*) FROM result WHERE outcome = 4"),
        within=30,
        what="the orphan is found",
    )
    [move] = project.sql("SELECT because FROM ledger_entry WHERE axis = 1 AND target = 54")
    assert move["because"] == Because.NEVER_ACKNOWLEDGED
    project.sql("UPDATE app SET ack_timeout = NULL")
