"""Preferences and actions of volunteers, with an unmodified BOINC client.

These are scenarios of BOINC's old end-to-end suite, see docs/scenarios.md.
"""

from __future__ import annotations

import re
import time

import pytest

from scheduler.lifecycle import ServerState
from tests.story.project import Project
from tests.story.test_stock_replies import ask_until, say_until
from tests.story.volunteers import PASSWORD, PREFERENCES

pytestmark = pytest.mark.stock_client

GLOBAL = """\
<global_preferences>
  <mod_time>{mod_time}</mod_time>
  <idle_time_to_run>17.5</idle_time_to_run>
</global_preferences>
"""
#: The `rsc_fpops_est` that a client without benchmarks estimates at 100 s.
HUNDRED_SECONDS = "1e11"


def held(client):
    """Return the number of the client's results."""
    return len(re.findall(r"^ +name: \S+", client.tasks(), re.MULTILINE))


def test_global_preferences_of_one_host_are_copied_to_other_hosts_of_the_account(
    our_project, stock_client
):
    first = stock_client(our_project, "alice")
    key = first.attach()
    ask_until(first, lambda: our_project.count("SELECT count(*) FROM host"), what="known", every=1)
    first.stop()
    (first.folder / "global_prefs.xml").write_text(GLOBAL.format(mod_time=1_700_000_000))
    first.start()
    stored = "SELECT global_prefs FROM account WHERE name = 'alice'"
    ask_until(
        first,
        lambda: "17.5" in our_project.sql(stored)[0]["global_prefs"],
        what="the project keeps them",
        every=1,
    )

    second = stock_client(our_project, "bob")
    second.attach_with(key)
    theirs = second.folder / "global_prefs.xml"
    ask_until(second, theirs.exists, what="the other computer has them", every=1)

    assert "<idle_time_to_run>17.5</idle_time_to_run>" in theirs.read_text()


def buffer_of(client, days):
    """Set the client's work buffer to this number of days."""
    text = re.sub(r"(<work_buf_min_days>)[^<]*", rf"\g<1>{days}", PREFERENCES)
    (client.folder / "global_prefs_override.xml").write_text(text)
    client.command("--read_global_prefs_override")


def test_client_gets_as_much_work_as_its_work_buffer_requests(our_project, stock_client):
    project = our_project
    client = stock_client(project, "alice")
    buffer_of(client, 0)
    project.submit({f"n{n}": "13\n" for n in range(60)}, seconds=300, fpops=HUNDRED_SECONDS)

    # Without a buffer: work for three minutes on two CPUs, BOINC's minimum
    client.attach()
    ask_until(client, lambda: held(client), what="it computes", every=1)
    say_until(client, "Not requesting tasks: don't need", every=1)
    least = held(client)
    assert 2 <= least <= 6

    # With a buffer of 864 seconds for each CPU
    buffer_of(client, 0.01)
    client.update()
    say_until(client, "Starting scheduler request", every=1)
    ask_until(client, lambda: held(client) > least, what="it has some in store", every=1)
    say_until(client, "Not requesting tasks: don't need", every=1)
    assert least < held(client) <= 30

    # With a buffer for all the work
    buffer_of(client, 0.1)
    ask_until(client, lambda: held(client) == 60, what="it has all", every=1, within=120)
    sent = project.count(
        "SELECT count(*) FROM result WHERE server_state = %s", ServerState.IN_PROGRESS
    )
    assert sent == 60
    assert "0 violations" in project.fsck()


def test_a_client_computes_for_two_projects(our_project, stock_client, stage, tmp_path):
    other = Project(tmp_path / "other")
    stage.callback(other.close)
    other.start()
    other.publish()
    # Submit before the client attaches: it backs off from a project without work.
    for project in (our_project, other):
        project.submit({"a": "13\n", "b": "17\n"})
    client = stock_client(our_project, "alice")
    client.attach()
    made = other.manage(
        "create_account", "alice@example.org", "--name", "alice", "--password", PASSWORD
    )
    [key] = re.findall(r"\b[0-9a-f_]{32,}\b", made)
    # Attach to the projects one at a time, as the client requires.
    hosts = "SELECT count(*) FROM host"
    ask_until(client, lambda: our_project.count(hosts), what="attached to the first", every=1)
    client.command("--project_attach", other.url, key)

    # Update the projects one at a time: of two simultaneous updates the client runs only the later.
    assimilated = "SELECT count(*) FROM ledger_entry WHERE axis = 6 AND target = 2"
    for project in (other, our_project):
        give_up_at = time.monotonic() + 60
        while project.count(assimilated) < 2:
            assert time.monotonic() < give_up_at, client.messages()[-4000:]
            client.command("--project", project.url, "update")
            time.sleep(1)

    for project in (our_project, other):
        assert "0 violations" in project.fsck()
