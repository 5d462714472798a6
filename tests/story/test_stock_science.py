"""Exit codes, limits and outputs of programs under an unmodified BOINC client.

These are the single-program scenarios of BOINC's old end-to-end suite, see docs/scenarios.md.
"""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from scheduler.lifecycle import Outcome, ServerState
from tests.story.project import LINUX, Project
from tests.story.test_stock_replies import ask_until
from tests.story.volunteers import StockClient

pytestmark = [pytest.mark.stock_client, pytest.mark.xdist_group("science")]

ACTOR = Path(__file__).with_name("actor.py")
#: BOINC's exit codes for exceeded limits (lib/error_numbers.h).
EXIT_DISK_LIMIT_EXCEEDED = 196
EXIT_ABORTED_VIA_GUI = 203
ERR_FILE_TOO_BIG = -131


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    """Return a project with the app `actor`, and an attached client, for all scenarios."""
    project = Project(tmp_path_factory.mktemp("science") / "project", PURGE_AFTER="3600")
    try:
        project.start()
        project.manage("publish_app", "actor", "1.00", LINUX, ACTOR, "--create-app")
        # With this API version clients use a mapped file instead of a shared-memory segment.
        project.sql("UPDATE app_version SET api_version = '7.20.5'")
        client = StockClient(project, "alice")
        try:
            client.start()
            client.attach()
            yield project, client
        finally:
            client.close()
        assert "0 violations" in project.fsck()
    finally:
        project.close()


def play(stage, deeds, *, files=None, outputs=None, count=1, meanwhile=None, within=120, **numbers):
    """Submit commands of `actor`; return the rows of the results, once all are over."""
    project, client = stage
    names = project.submit_workunits(
        "actor",
        "\n".join(deeds),
        files=files or {},
        outputs=outputs or [{}],
        count=count,
        max_total_results=1,
        max_error_results=0,
        max_success_results=1,
        **numbers,
    )
    query = """SELECT result.* FROM result JOIN workunit ON workunit.id = workunit_id
               WHERE workunit.name = ANY(%s) ORDER BY result.id"""

    def over():
        if meanwhile is not None:
            meanwhile()
        rows = project.sql(query, names)
        return rows and all(row["server_state"] == ServerState.OVER for row in rows)

    ask_until(client, over, what=f"{deeds} are done", within=within, every=1)
    return project.sql(query, names)


def assimilated(stage, row, name="out"):
    """Return an output of the workunit of this result."""
    project, _client = stage
    [workunit] = project.sql("SELECT name FROM workunit WHERE id = %s", row["workunit_id"])
    path = project.folder / "var" / "results" / "actor" / workunit["name"] / name
    project.wait(path.exists, within=30, what="it is assimilated")
    return path.read_text()


def test_program_reads_two_input_files_and_writes_one_output(stage):
    files = {"one": "Ein Hut, ", "two": "ein Stock.\n"}

    [row] = play(stage, ["upper one", "upper two", "upper one"], files=files)

    assert row["outcome"] == Outcome.SUCCESS
    assert assimilated(stage, row) == "EIN HUT, EIN STOCK.\nEIN HUT, "


def test_all_results_of_many_short_programs_succeed(stage):
    rows = play(stage, ["write 10"], count=12)

    assert len(rows) == 12
    assert {row["outcome"] for row in rows} == {Outcome.SUCCESS}
    assert {assimilated(stage, row) for row in rows} == {"x" * 10}


def test_stderr_of_a_program_is_stored_with_its_result(stage):
    [row] = play(stage, ["say the lamp burns low: 5 < 7 & so on", "write 1"])

    assert row["outcome"] == Outcome.SUCCESS
    assert "the lamp burns low: 5 < 7 & so on" in row["stderr"]


def test_exit_code_of_a_program_is_stored_with_its_result(stage):
    [row] = play(stage, ["say about to leave", "exit 19"])

    assert row["outcome"] == Outcome.CLIENT_ERROR
    assert row["exit_status"] == 19
    assert "about to leave" in row["stderr"]
    assert "exited with code 19" in row["stderr"]


def test_program_killed_by_a_signal_is_a_client_error_with_the_signal_number(stage):
    [row] = play(stage, [f"die {int(signal.SIGSEGV)}"])

    assert row["outcome"] == Outcome.CLIENT_ERROR
    assert "process got signal 11" in row["stderr"]
    assert row["exit_status"] == signal.SIGSEGV


def test_output_over_max_nbytes_is_a_client_error_and_is_not_uploaded(stage):
    project, _client = stage

    [row] = play(stage, ["write 5000"], outputs=[{"max_nbytes": 1000}])

    assert row["outcome"] == Outcome.CLIENT_ERROR
    assert str(ERR_FILE_TOO_BIG) in row["stderr"]
    assert not list((project.folder / "var" / "upload").rglob(f"{row['name']}_*"))


def test_program_over_its_disk_bound_is_stopped(stage):
    # The client checks every 300 s (client/app_control.cpp, check_rsc_limits_exceeded).
    [row] = play(stage, ["write 3000000", "nap 600"], rsc_disk_bound=1e6, within=400)

    assert row["outcome"] == Outcome.CLIENT_ERROR
    assert row["exit_status"] == EXIT_DISK_LIMIT_EXCEEDED


def test_result_aborted_by_the_volunteer_is_reported_as_a_client_error(stage):
    project, client = stage

    def abort():
        for name in re.findall(r"^ +name: (\S+)", client.tasks(), re.MULTILINE):
            if "EXECUTING" in client.tasks():
                client.command("--task", project.url, name, "abort")

    [row] = play(stage, ["nap 600"], meanwhile=abort)

    assert row["exit_status"] == EXIT_ABORTED_VIA_GUI
    assert row["outcome"] == Outcome.CLIENT_ERROR
    [workunit] = project.sql("SELECT * FROM workunit WHERE id = %s", row["workunit_id"])
    assert workunit["canonical_result_id"] is None


def test_program_reads_user_app_and_result_names_from_init_data(stage):
    [row] = play(
        stage,
        [f"facts {name}" for name in ("user_name", "app_name", "result_name", "rsc_fpops_est")],
        rsc_fpops_est=2.5e9,
    )

    assert assimilated(stage, row).splitlines() == [
        "user_name alice",
        "app_name actor",
        f"result_name {row['name']}",
        "rsc_fpops_est 2500000000.000000",
    ]


def test_cpu_time_is_counted_across_a_client_restart(stage):
    _project, client = stage
    restarted = []

    def restart():
        notes = list((client.folder / "slots").glob("*/burnt"))
        if not restarted and notes and float(notes[0].read_text()) > 1:
            client.stop()
            client.start()
            restarted.append(True)

    [row] = play(stage, ["burn 8", "write 1"], meanwhile=restart)

    assert restarted, row["stderr"]
    assert row["outcome"] == Outcome.SUCCESS
    assert row["cpu_time"] == pytest.approx(8, abs=1), "what it burnt before counts, once"
    assert row["elapsed_time"] >= 3


def test_sticky_input_and_output_files_are_kept_on_the_client(stage):
    _project, client = stage
    files = {"one": "bread\n"}

    [row] = play(stage, ["upper one"], files=files, outputs=[{"sticky": True}], sticky=True)

    text = assimilated(stage, row)
    assert text == "BREAD\n"
    [folder] = (client.folder / "projects").iterdir()

    def only_they_stay():
        state = (client.folder / "client_state.xml").read_text()
        return row["name"] not in client.tasks() and "<sticky/>" in state

    ask_until(client, only_they_stay, what="the result is forgotten", every=1)
    kept = {path.read_text(errors="replace") for path in folder.iterdir() if path.is_file()}
    assert {"bread\n", "BREAD\n"} <= kept
