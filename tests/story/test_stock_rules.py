"""The rules that volunteers notice, with an unmodified BOINC client."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from scheduler.boinc.wire import messages
from scheduler.lifecycle import AssimilateState, ErrorMask, Outcome, ServerState
from tests.story.project import APP, LINUX, ROOT
from tests.story.test_stock_replies import ask_until, retry_transfers, say_until

pytestmark = pytest.mark.stock_client

PROGRAM = ROOT / "demo" / "mersenne.py"
NOT_AVAILABLE = "elsewhere is not available for your type of computer."
NOT_SELECTED = "No tasks are available for the applications you have selected."
TOO_OLD = "This project needs BOINC 8.0 or later. Please update your BOINC client."
CHANGED_KEY = "The project has changed its security key.  Please remove and add this project."
SHUT = "Project is temporarily shut down for maintenance"
HOSTS = "SELECT count(*) FROM host"
RESULTS = "SELECT * FROM result ORDER BY id"


def is_known(project, count=1):
    """Return whether `count` hosts have contacted the server."""
    return project.count(HOSTS) == count


def successes(project):
    """Return the number of successful results."""
    return project.count("SELECT count(*) FROM result WHERE outcome = %s", Outcome.SUCCESS)


def assimilated(project):
    """Return the number of assimilated workunits."""
    done = AssimilateState.DONE
    return project.count("SELECT count(*) FROM workunit WHERE assimilate_state = %s", done)


def held(client):
    """Return the names of the client's results."""
    return re.findall(r"^ +name: (\S+)", client.tasks(), re.MULTILINE)


def call_as_another_host(project, key):
    """Send an RPC without a work request from another host of the account; return its id."""
    request = messages.SchedulerRequest(
        authenticator=key,
        core_client_major_version=7,
        core_client_minor_version=20,
        core_client_release=5,
        platform_name=LINUX,
    )
    info = replace(request.host_info, host_cpid="f" * 32, domain_name="quiet")
    return project.ask(replace(request, host_info=info)).hostid


def memory_sentence(log):
    """Return the server's message about memory; check it against the client's own number."""
    told = re.search(rf"\] ({APP} needs 953674316\.41 MB RAM but only (\S+) MB .+ use\.)", log)
    own = re.search(r"max memory usage when idle: (\S+) MB", log)
    assert told, log[-3000:]
    assert own, log[:3000]
    assert float(told[2]) == pytest.approx(float(own[1]), rel=0.001)
    return told[1]


def test_explain_prints_the_refused_host_and_the_message_shown_by_its_client(
    make_project, stock_client
):
    project = make_project(PURGE_AFTER="3600")
    project.start()
    project.publish()
    client = stock_client(project, "alice")
    key = client.attach()
    ask_until(client, lambda: is_known(project), what="the host is known", every=1)
    assert call_as_another_host(project, key)

    [name] = project.submit({"vast": "13\n"}, memory="1e15")
    say_until(client, "MB is available for use.", every=1)

    told = memory_sentence(client.messages())
    [result] = project.sql(RESULTS)
    assert result["server_state"] == ServerState.UNSENT, "one of two hosts was refused it"
    said = project.manage("explain", result["name"])
    [row] = project.sql("SELECT * FROM refusal")
    [host] = project.sql("SELECT * FROM host WHERE id = %s", row["host_id"])
    who = re.escape(f"{host['domain_name']} #{host['id']} requested work at ")
    assert re.search(rf"{who}.* and was refused: {re.escape(told)}$", said, re.MULTILINE), said
    assert row["sentence"] == told
    assert "is given up once it was refused to 2 hosts: so far 1" in said

    # With the limit at one host, the result is given up
    assert project.stop() == 0, project.log()
    project.environment["MAX_INFEASIBLE"] = "1"
    project.start()
    project.wait(lambda: assimilated(project) == 1, within=20, what="handed over as failed")

    [result] = project.sql(RESULTS)
    assert result["server_state"] == ServerState.OVER
    assert result["outcome"] == Outcome.COULDNT_SEND
    [workunit] = project.sql("SELECT * FROM workunit")
    assert workunit["error_mask"] == ErrorMask.COULDNT_SEND
    assert workunit["canonical_result_id"] is None
    assert name not in client.tasks()
    assert "0 violations" in project.fsck()


def test_client_shows_that_its_platform_is_not_supported(make_project, stock_client):
    project = make_project(PURGE_AFTER="3600")
    project.start()
    project.manage("publish_app", "elsewhere", "1.00", "windows_x86_64", PROGRAM, "--create-app")
    project.manage("submit_work", "elsewhere")
    client = stock_client(project, "alice")
    call_as_another_host(project, client.attach())

    say_until(client, f"doesn't support computers of type {LINUX}", every=1)

    assert f"doesn't support computers of type {LINUX}" in client.notices()
    [sentence] = project.sql("SELECT sentence FROM refusal")
    assert sentence["sentence"] == NOT_AVAILABLE

    # Now another app has a version for it, and this one still has none
    project.publish()
    say_until(client, f"] {NOT_AVAILABLE}", every=1)

    [result] = project.sql(RESULTS)
    assert result["server_state"] == ServerState.UNSENT
    assert f"was refused: {NOT_AVAILABLE}" in project.manage("explain", result["name"])
    assert not held(client)
    assert "0 violations" in project.fsck()


def test_denied_host_shows_the_refusal_and_gets_work_after_it_is_allowed_again(
    make_project, stock_client
):
    project = make_project(PURGE_AFTER="3600")
    project.start()
    project.publish()
    client = stock_client(project, "alice")
    client.attach()
    ask_until(client, lambda: is_known(project), what="the host is known", every=1)
    [host] = project.sql("SELECT id FROM host")

    project.manage("host", "deny", host["id"], "--reason", "wrong results")
    project.submit({"a": "13\n"})
    say_until(client, "Not accepting requests from this host", every=1)

    assert "Not accepting requests from this host" in client.notices()
    assert not held(client)
    [result] = project.sql(RESULTS)
    assert result["server_state"] == ServerState.UNSENT

    project.manage("host", "allow", host["id"])
    ask_until(client, lambda: assimilated(project), what="it computes again", every=1)
    [result] = project.sql(RESULTS)
    assert result["host_id"] == host["id"]
    assert "0 violations" in project.fsck()


def test_client_shows_that_its_version_is_too_old_or_its_code_sign_key_is_wrong(
    make_project, stock_client
):
    project = make_project(MIN_CLIENT_VERSION="80000")
    project.start()
    project.publish()
    project.submit({"a": "13\n"})
    client = stock_client(project, "alice")
    client.attach()

    say_until(client, TOO_OLD, every=1)

    assert TOO_OLD in client.notices()
    assert not project.count(HOSTS)
    assert not held(client)

    # With a minimum version that the client satisfies, it is served
    assert project.stop() == 0, project.log()
    del project.environment["MIN_CLIENT_VERSION"]
    project.start()
    ask_until(client, lambda: is_known(project), what="the host is known", every=1)

    # And told what to do when its key was never the project's. An orderly end: killed while it
    # writes, the client would read client_state_next.xml, which has the right key, when it starts.
    say_until(client, "got 1 new tasks", every=1)
    client.stop()
    own_key_removed(client)
    client.start()
    say_until(client, CHANGED_KEY, every=1)
    assert CHANGED_KEY in client.notices()
    assert "0 violations" in project.fsck()


def own_key_removed(client):
    """Replace the client's code-sign key by a key that is not the project's."""
    path = client.folder / "client_state.xml"
    text = path.read_text()
    found = re.search(r"<code_sign_key>\s*1024\s*([0-9a-f]+)", text)
    assert found, text[:2000]
    other = found[1].translate(str.maketrans("0123456789abcdef", "123456789abcdef0"))
    path.write_text(text.replace(found[1], other))
    for spare in ("next", "prev"):
        (client.folder / f"client_state_{spare}.xml").unlink(missing_ok=True)


def test_client_keeps_its_work_during_maintenance_and_finishes_it_afterwards(
    make_project, stock_client
):
    project = make_project(PURGE_AFTER="3600")
    project.start()
    project.publish()
    client = stock_client(project, "alice")
    client.attach()
    [name] = project.submit({"slow": "2\n3\n5\n7\n"}, seconds=2)
    ask_until(client, lambda: "EXECUTING" in client.tasks(), what="it runs", every=1)

    project.manage("maintenance", "on", "--message", "New disks.")
    say_until(client, f"{SHUT}. New disks", every=1)

    assert "[sched_op] Deferring communication for 01:00:00" in client.messages()
    assert name in client.tasks(), "the client keeps its work"
    [result] = project.sql(RESULTS)
    assert result["server_state"] == ServerState.IN_PROGRESS

    project.manage("maintenance", "off")

    def finished():
        retry_transfers(client)
        return assimilated(project)

    ask_until(client, finished, what="the workunit is assimilated", every=1)
    [result] = project.sql(RESULTS)
    assert result["outcome"] == Outcome.SUCCESS
    assert "0 violations" in project.fsck()


def test_client_shows_that_its_daily_quota_is_used_up(make_project, stock_client):
    project = make_project(PURGE_AFTER="3600", DAILY_QUOTA="1")
    project.start()
    project.publish()
    client = stock_client(project, "alice")
    client.attach()
    # With quorum 2 and one host no result becomes valid, which would raise the quota
    project.submit({"a": "3\n", "b": "5\n"}, quorum=2)

    # The quota is for the whole host, not for each of its two CPUs
    say_until(client, "This computer has finished a daily quota of 1 tasks", every=1)

    ask_until(client, lambda: successes(project) == 1, what="one is done", every=1)
    states = [row["server_state"] for row in project.sql(RESULTS)]
    assert sorted(states) == [ServerState.UNSENT] * 3 + [ServerState.OVER]
    [record] = project.sql("SELECT results_today FROM host_app_version")
    assert record["results_today"] == 1

    # The next day the host gets another result
    project.sql("UPDATE host_app_version SET quota_day = quota_day - 1")
    ask_until(client, lambda: successes(project) == 2, what="another is done", every=1)
    assert client.messages().count("Starting task") == 2
    assert "0 violations" in project.fsck()


def test_client_gets_only_work_of_the_app_selected_in_its_preferences(make_project, stock_client):
    project = make_project(PURGE_AFTER="3600")
    project.start()
    project.publish()
    project.manage("publish_app", "chosen", "1.00", LINUX, PROGRAM, "--create-app")
    [chosen] = project.sql("SELECT id FROM app WHERE name = 'chosen'")
    client = stock_client(project, "alice")
    client.attach()
    ask_until(client, lambda: is_known(project), what="the host is known", every=1)
    wish = f"<app_id>{chosen['id']}</app_id>"
    project.sql("UPDATE account SET project_prefs = %s WHERE name = 'alice'", wish)

    project.submit({"a": "13\n"})
    say_until(client, f"] {NOT_SELECTED}", every=1)

    [result] = project.sql(RESULTS)
    assert result["server_state"] == ServerState.UNSENT
    assert not project.count("SELECT count(*) FROM refusal"), "a taste passes"
    path = project.folder / "chosen"
    path.write_text("7\n")
    project.manage("submit_work", "chosen", path)
    ask_until(client, lambda: assimilated(project), what="the chosen one is done", every=1)
    [done] = project.sql("SELECT app_id FROM workunit WHERE assimilate_state = 2")
    assert done["app_id"] == chosen["id"]
    assert [row["server_state"] for row in project.sql(RESULTS)] == [
        ServerState.UNSENT,
        ServerState.OVER,
    ]
    assert "0 violations" in project.fsck()
