"""Sticky files and trickles between the server and an unmodified BOINC client."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from scheduler.models import FileRequest
from tests.story.test_stock_replies import ask_until

pytestmark = pytest.mark.stock_client

#: The reported fraction done: a number that a client would not compute by itself.
FRACTION = 0.4375


def of_the_project(client):
    """Return the client's folder for the project."""
    [folder] = (client.folder / "projects").iterdir()
    return folder


def is_done(project, kind):
    """Return whether the file request of this kind is done; fail if it failed."""
    state = "SELECT state FROM file_request WHERE kind = %s"
    [row] = project.sql(state, kind)
    assert row["state"] != FileRequest.State.FAILED, project.log()
    return row["state"] == FileRequest.State.DONE


def test_host_file_is_put_on_a_client_fetched_from_it_and_deleted(our_project, stock_client):
    project = our_project
    client = stock_client(project, "alice")
    client.attach()
    ask_until(client, lambda: project.count("SELECT count(*) FROM host"), what="known", every=1)
    [host] = project.sql("SELECT id FROM host")
    path = project.folder / "table"
    path.write_text("".join(f"{n} {n * n}\n" for n in range(5000)))

    # The client fetches the file and lists it
    said = json.loads(project.manage("host_file", "put", host["id"], path, "--json"))
    name = said["name"]
    ask_until(client, lambda: is_done(project, FileRequest.Kind.PUT), what="it lists it", every=1)

    theirs = of_the_project(client) / name
    assert theirs.read_bytes() == path.read_bytes()
    assert f"Finished download of {name}" in client.messages()

    # The client sends the file, without computing anything
    project.manage("host_file", "get", host["id"], name)
    ask_until(client, lambda: is_done(project, FileRequest.Kind.GET), what="it sent it", every=1)

    assert f"Finished upload of {name}" in client.messages()
    found = json.loads(project.manage("host_file", "list", host["id"], "--json"))["requests"]
    [sent] = [one for one in found if one["asked"] == "get"]
    assert Path(sent["path"]).read_bytes() == path.read_bytes()
    assert "Starting task" not in client.messages()
    ask_until(client, lambda: "host_file" not in client.tasks(), what="it is over", every=1)
    assert theirs.exists(), "it stays, for it is sticky"

    # The client deletes the file and does not list it any more
    project.manage("host_file", "delete", host["id"], name)
    done = FileRequest.Kind.DELETE
    ask_until(client, lambda: is_done(project, done), what="it lists it no more", every=1)

    assert not theirs.exists()
    assert name not in (client.folder / "client_state.xml").read_text()
    assert "0 violations" in project.fsck()


def say_up(client, result, text):
    """Write a trickle up to a file, as BOINC's library does; the client sends it."""
    folder = of_the_project(client)
    unfinished = folder / "unfinished"
    unfinished.write_text(text)
    unfinished.rename(folder / f"trickle_up_{result}_{int(time.time())}.xml")


def test_running_result_and_server_exchange_trickles(our_project, stock_client):
    project = our_project
    client = stock_client(project, "alice")
    client.attach()
    project.submit({"long": "2\n3\n"}, seconds=300)
    ask_until(client, lambda: "EXECUTING" in client.tasks(), what="it runs", every=1)
    [result] = project.sql("SELECT * FROM result")
    assert result["fraction_done"] != FRACTION

    # A trickle up is stored, handled, and acknowledged
    said = f"<variety>progress</variety>\n<fraction_done>{FRACTION}</fraction_done>\n"
    say_up(client, result["name"], said)
    fraction = "SELECT fraction_done FROM result"
    ask_until(
        client,
        lambda: project.sql(fraction)[0]["fraction_done"] == FRACTION,
        what="the progress is stored",
        every=1,
    )

    folder = of_the_project(client)
    ask_until(client, lambda: not list(folder.glob("trickle_up*")), what="acknowledged", every=1)
    [up] = project.sql("SELECT * FROM trickle_up")
    assert up["variety"] == "progress"

    # A trickle down is a file in the program's slot
    project.manage("trickle", "send", result["name"], "<precision>low</precision>")
    slots = client.folder / "slots"
    ask_until(
        client,
        lambda: list(slots.glob("*/trickle_down_*")),
        what="the trickle down arrived",
        every=1,
    )

    [heard] = slots.glob("*/trickle_down_*")
    assert "<precision>low</precision>" in heard.read_text()
    [down] = project.sql("SELECT * FROM trickle_down")
    assert down["sent_at"] is not None
    listed = project.manage("trickle", "list", result["name"])
    assert "down" in listed
    assert "up" in listed
    assert "0 violations" in project.fsck()
