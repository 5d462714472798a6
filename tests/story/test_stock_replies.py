"""An unmodified BOINC client handles each kind of reply without work."""

from __future__ import annotations

import time

import pytest

from scheduler.lifecycle import Because, ErrorMask, Outcome, ServerState
from tests.story.project import Project

pytestmark = pytest.mark.stock_client

RESULTS = "SELECT * FROM result ORDER BY attempt"


def say_until(client, text, *, within=60.0, every=2.0):
    """Update the client repeatedly until its event log contains `text`."""
    give_up_at = time.monotonic() + within
    while text not in client.messages():
        assert time.monotonic() < give_up_at, client.messages()[-4000:]
        client.update()
        time.sleep(every)


def ask_until(client, is_so, *, within=60.0, every=2.0, what):
    """Update the client repeatedly until the condition `is_so` holds."""
    give_up_at = time.monotonic() + within
    while not is_so():
        assert time.monotonic() < give_up_at, f"{what}\n{client.messages()[-4000:]}"
        client.update()
        time.sleep(every)


def test_client_with_a_wrong_account_key_shows_how_to_fix_it(our_project, stock_client):
    client = stock_client(our_project, "eve")

    client.attach_with("0123456789abcdef0123456789abcdef")

    say_until(client, "Invalid or missing account key")
    assert "To fix, remove and add this project" in client.notices()
    assert our_project.count("SELECT count(*) FROM host") == 0


def test_account_lookup_with_a_wrong_password_prints_bad_password(our_project, stock_client):
    client = stock_client(our_project, "eve")
    client.attach()

    said = client._boinccmd("--lookup_account", our_project.url, client.email, "another password")

    assert "bad password" in said.stdout + said.stderr


def test_client_shows_that_no_work_is_available_and_gets_work_later(our_project, stock_client):
    client = stock_client(our_project, "alice")
    client.attach()
    say_until(client, "Project has no tasks available")

    our_project.submit({"a": "13\n"})

    ask_until(
        client,
        lambda: our_project.sql("SELECT 1 FROM ledger_entry WHERE axis = 6 AND target = 2"),
        what="the workunit is assimilated",
    )


def test_client_finishes_sample_work_of_the_serve_command(make_project, stock_client):
    project = make_project()
    project.start("--sample-work")
    client = stock_client(project, "alice")
    client.attach()

    ask_until(
        client,
        lambda: project.sql("SELECT 1 FROM ledger_entry WHERE axis = 6 AND target = 2"),
        what="a workunit is assimilated",
    )

    answers = list((project.folder / "var" / "results" / "mersenne").glob("*/out"))
    assert answers
    assert all("composite" in answer.read_text() for answer in answers)


def test_running_result_of_a_cancelled_workunit_is_aborted_on_the_client(
    make_project, stock_client
):
    project = make_project(PURGE_AFTER="3600")
    project.start()
    project.publish()
    client = stock_client(project, "alice")
    client.attach()
    [name] = project.submit({"long": "2\n3\n"}, seconds=300)
    ask_until(client, lambda: "EXECUTING" in client.tasks(), what="it runs")

    project.manage("cancel_work", name)

    ask_until(
        client,
        lambda: project.sql(RESULTS)[0]["server_state"] == ServerState.OVER,
        what="the abort is reported",
    )
    [result] = project.sql(RESULTS)
    assert result["outcome"] == Outcome.CLIENT_ERROR
    assert result["exit_status"] == 202, "aborted by project"
    ask_until(client, lambda: name not in client.tasks(), what="the client forgets it")
    [workunit] = project.sql("SELECT error_mask FROM workunit")
    assert workunit["error_mask"] == ErrorMask.CANCELLED
    project.wait(
        lambda: project.sql("SELECT 1 FROM workunit WHERE assimilate_state = 2"),
        within=10,
        what="handed to the science as failed",
    )
    assert "0 violations" in project.fsck()


def test_result_lost_by_the_client_is_resent(our_project, stock_client):
    client = stock_client(our_project, "alice")
    client.attach()
    our_project.submit({"slow": "2\n3\n5\n7\n"}, seconds=2)
    ask_until(client, lambda: "EXECUTING" in client.tasks(), what="it runs")

    client.command("--project", our_project.url, "reset")

    say_until(client, "Resent lost task")
    resent = "SELECT count(*) FROM ledger_entry WHERE because = %s"
    assert our_project.count(resent, Because.RESENT) == 1
    ask_until(
        client,
        lambda: our_project.sql("SELECT 1 FROM ledger_entry WHERE axis = 6 AND target = 2"),
        what="the workunit is assimilated",
    )
    assert "0 violations" in our_project.fsck()


@pytest.fixture
def project_with_a_database_of_its_own(make_project) -> Project:
    """Start a project with DATABASE_URL, so that `serve` does not restart a stopped database."""
    project = make_project()
    project.database.ensure_running()
    where = project.database.conninfo()
    project.environment["DATABASE_URL"] = (
        f"postgresql://{where['user']}:{where['password']}@/{where['dbname']}"
        f"?host={where['host']}&port={where['port']}"
    )
    project.start()
    project.publish()
    return project


def test_client_waits_while_the_database_is_down_and_then_finishes_its_work(
    project_with_a_database_of_its_own, stock_client
):
    project = project_with_a_database_of_its_own
    client = stock_client(project, "alice")
    client.attach()
    project.submit({"slow": "2\n3\n5\n7\n"}, seconds=2)
    ask_until(client, lambda: "EXECUTING" in client.tasks(), what="it runs")

    project.database.stop()
    say_until(client, "Reason: project is down")
    project.database.ensure_running()

    ask_until(
        client,
        lambda: project.sql("SELECT 1 FROM ledger_entry WHERE axis = 6 AND target = 2"),
        what="the workunit is assimilated",
        within=90,
    )
    assert "0 violations" in project.fsck()


def test_client_uploads_and_reports_after_a_server_outage(our_project, stock_client):
    client = stock_client(our_project, "alice")
    client.attach()
    our_project.submit({"slow": "2\n3\n5\n7\n"}, seconds=1)
    ask_until(client, lambda: "EXECUTING" in client.tasks(), what="it runs")

    assert our_project.stop() == 0, our_project.log()
    say_until(client, "Temporarily failed upload", every=1.0)
    our_project.start()

    def finished():
        retry_transfers(client)
        return our_project.sql("SELECT 1 FROM ledger_entry WHERE axis = 6 AND target = 2")

    ask_until(client, finished, what="the workunit is assimilated", within=90)
    assert "0 violations" in our_project.fsck()


def retry_transfers(client):
    """Make the client retry all file transfers immediately."""
    for line in client.command("--get_file_transfers").splitlines():
        if line.strip().startswith("name:"):
            name = line.split("name:", 1)[1].strip()
            client._boinccmd("--file_transfer", client.project.url, name, "retry")


def test_client_accepts_a_rotated_code_sign_key_and_verifies_programs_with_it(
    our_project, stock_client
):
    client = stock_client(our_project, "alice")
    client.attach()
    say_until(client, "Project has no tasks available")

    our_project.manage("rotate_key", "code-sign")
    our_project.submit({"a": "13\n"})

    ask_until(
        client,
        lambda: our_project.sql("SELECT 1 FROM ledger_entry WHERE axis = 6 AND target = 2"),
        what="the workunit is assimilated",
    )
    assert "doesn't validate" not in client.messages()
    assert our_project.count("SELECT count(*) FROM ledger_entry WHERE because = 6") == 0
