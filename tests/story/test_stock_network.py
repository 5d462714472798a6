"""An unmodified BOINC client recovers when its connection to the project fails.

These are the failure scenarios of BOINC's old end-to-end suite, see docs/scenarios.md.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scheduler.lifecycle import Outcome, ServerState
from tests.story.project import LINUX, Project
from tests.story.proxy import Fault, Proxy
from tests.story.test_stock_replies import ask_until, retry_transfers, say_until

pytestmark = pytest.mark.stock_client

ACTOR = Path(__file__).with_name("actor.py")
SCHEDULER = "/cgi/scheduler"
UPLOAD = "/upload/"
DOWNLOAD = "/download/"
#: Size of a file whose transfer can be interrupted; bytes.
LONG = 400_000


@pytest.fixture
def stage_with_proxy(stage, tmp_path, stock_client):
    """Start a project behind a proxy; return the project, the proxy and a stock client."""
    proxy = Proxy(target=0)
    project = Project(
        tmp_path / "project", MASTER_URL=f"http://127.0.0.1:{proxy.port}/", PURGE_AFTER="3600"
    )
    proxy.target = project.port
    project.url = project.environment["MASTER_URL"]
    stage.callback(project.close)
    stage.callback(proxy.close)
    proxy.start()
    project.start()
    project.manage("publish_app", "actor", "1.00", LINUX, ACTOR, "--create-app")
    return project, proxy, stock_client(project, "alice")


def submit(project, deeds, **more):
    """Submit a workunit with these commands of `actor`; it has one result. Return its name."""
    [name] = project.submit_workunits(
        "actor",
        "\n".join(deeds),
        files=more.pop("files", {}),
        outputs=[{"max_nbytes": 1e6}],
        max_total_results=1,
        max_error_results=0,
        max_success_results=1,
        **more,
    )
    return name


def finish(project, client):
    """Update the client until the only result is over; return its row."""

    def over():
        retry_transfers(client)
        return project.count(
            "SELECT count(*) FROM result WHERE server_state = %s", ServerState.OVER
        )

    ask_until(client, over, what="the result is over", within=120, every=1)
    [row] = project.sql("SELECT * FROM result")
    assert "0 violations" in project.fsck()
    return row


def output(project, name):
    """Wait until a workunit is assimilated; return its output."""
    path = project.folder / "var" / "results" / "actor" / name / "out"
    project.wait(path.exists, within=30, what="it is assimilated")
    return path.read_bytes()


def test_client_retries_a_failed_scheduler_request(stage_with_proxy):
    project, proxy, client = stage_with_proxy
    faults = [Fault(SCHEDULER), Fault(SCHEDULER, status="500 Internal Server Error")]
    proxy.faults += faults
    name = submit(project, ["write 10"])
    client.attach()

    row = finish(project, client)

    assert row["outcome"] == Outcome.SUCCESS
    assert not any(fault.times for fault in faults)
    assert "Scheduler request failed" in client.messages()
    assert output(project, name) == b"x" * 10


def test_report_repeated_after_a_lost_reply_is_credited_once(stage_with_proxy):
    project, proxy, client = stage_with_proxy
    submit(project, ["nap 8", "write 10"])
    client.attach()
    ask_until(client, lambda: "EXECUTING" in client.tasks(), what="it runs", every=1)

    def reported():
        return project.count("SELECT count(*) FROM result WHERE received_at IS NOT NULL")

    # All replies are lost until the server has the report
    proxy.faults.append(lost := Fault(SCHEDULER, times=1000, received=50))
    ask_until(client, reported, what="the server has the report", every=1)
    say_until(client, "No start tag in scheduler reply", every=1)
    lost.times = 0
    row = finish(project, client)

    assert row["outcome"] == Outcome.SUCCESS
    ask_until(client, lambda: row["name"] not in client.tasks(), what="it is acknowledged", every=1)
    assert project.count("SELECT count(*) FROM result") == 1
    assert project.count("SELECT count(*) FROM credit_entry") == 1


def test_client_retries_a_failed_master_page_download(stage_with_proxy):
    project, proxy, client = stage_with_proxy
    # After the account was created, because this also needs the connection.
    url = project.url
    client.command("--create_account", url, client.email, "a long password", "alice")
    found = client.command("--lookup_account", url, client.email, "a long password")
    [key] = re.findall(r"account key: (\w+)", found)
    proxy.faults += [Fault("GET / "), Fault("GET / ", status="503 Service Unavailable")]
    submit(project, ["write 10"])
    client.attach_with(key)

    row = finish(project, client)

    assert row["outcome"] == Outcome.SUCCESS
    assert len([one for one in proxy.seen("GET / ") if one.fault is None]) >= 1
    assert len([one for one in proxy.seen("GET / ") if one.fault is not None]) == 2
    assert "Master file download failed" in client.messages() or (
        "Couldn't connect" in client.messages() or "master file" in client.messages().lower()
    )


def test_client_retries_failed_input_downloads(stage_with_proxy):
    project, proxy, client = stage_with_proxy
    faults = [
        Fault(DOWNLOAD, times=2),
        Fault(DOWNLOAD, times=2, status="503 Service Unavailable"),
    ]
    proxy.faults += faults
    files = {"one": "a\n", "two": "b\n", "three": "c\n"}
    name = submit(project, ["upper one", "upper two", "upper three"], files=files)
    client.attach()

    row = finish(project, client)

    assert row["outcome"] == Outcome.SUCCESS
    assert not any(fault.times for fault in faults)
    assert "Temporarily failed download" in client.messages()
    assert output(project, name) == b"A\nB\nC\n"


def test_interrupted_download_resumes_at_its_offset(stage_with_proxy):
    project, proxy, client = stage_with_proxy
    text = "".join(f"{number:09}\n" for number in range(LONG // 10))
    name = submit(project, ["upper one"], files={"one": text})
    [row] = project.sql("SELECT * FROM file WHERE nbytes = %s", LONG)
    path = f"/{row['name']} "
    proxy.faults.append(Fault(path, received=LONG // 2))
    client.attach()

    over = finish(project, client)

    assert over["outcome"] == Outcome.SUCCESS
    asked = [one.header("range") for one in proxy.seen(path)]
    assert asked[0] == ""
    found = re.fullmatch(r"bytes=(\d+)-", asked[1])
    assert found, asked
    assert 0 < int(found[1]) <= LONG // 2
    assert output(project, name) == text.upper().encode()


def test_interrupted_upload_resumes_at_its_offset(stage_with_proxy):
    project, proxy, client = stage_with_proxy
    name = submit(project, [f"write {LONG}"])
    proxy.faults.append(Fault(UPLOAD, sent=LONG // 2))
    client.attach()

    row = finish(project, client)

    assert row["outcome"] == Outcome.SUCCESS
    sent = [one.length for one in proxy.seen(UPLOAD) if one.length > 1000]
    assert sent[0] > LONG
    assert sent[-1] < LONG, f"the second half alone was sent: {sent}"
    assert output(project, name) == b"x" * LONG


def test_failed_upload_is_retried_until_it_succeeds(stage_with_proxy):
    project, proxy, client = stage_with_proxy
    faults = [Fault(UPLOAD), Fault(UPLOAD, status="500 Internal Server Error")]
    proxy.faults += [*faults, Fault(UPLOAD, received=20)]
    name = submit(project, ["write 10"])
    client.attach()
    say_until(client, "Temporarily failed upload", every=1)

    row = finish(project, client)

    assert row["outcome"] == Outcome.SUCCESS
    assert not any(fault.times for fault in proxy.faults)
    assert output(project, name) == b"x" * 10
