"""A day in the life of TDF2: files in, lists claimed, a worker killed, files out."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from tests.story.project import Project

pytestmark = [pytest.mark.story, pytest.mark.lengthy]

SUBMITTER = "scientist@example.org"
#: The fields of each task: expected_duration, max_fails, cmd.  The leases are long enough for a
#: busy machine; the test waits for the one of the first list.
TASKS = {
    1: (2, 5, "echo 'A'; sleep 1; echo 'B'"),
    2: (4, 5, "sleep 5; echo C"),
    3: (6, 1, "echo D; echo 'no such file' >&2"),
    4: (6, 5, "echo E"),
    5: (2, 5, "echo F"),
}


def put_task(folder: Path, place: str, number: int, *, until: int) -> str:
    expected, max_fails, cmd = TASKS[number]
    fields = [f"{number}_0", 1448978600 + number, until, expected, max_fails, 0, cmd]
    text = "".join(f"{value}\n" for value in fields)
    target = folder / place / f"{number}_0.task"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    return text


def a_project(make_project) -> Project:
    project = make_project(COMMAND_APPS="true", BUNDLE_LEASE_FACTOR="3")
    project.start()
    project.manage("publish_app", "sh", "1.00", "--create-app", "--kind", "command")
    project.sql(
        "UPDATE app SET success_rule = 'empty_stderr', one_result_per = 'nothing', grace = '0',"
        " retry_same_account_after = '0'"
    )
    project.manage("create_account", SUBMITTER, "--name", "scientist", "--password", "secret 12")
    return project


def exported(project: Project, folder: Path) -> dict[str, str]:
    """Export the batch; return the content of each file by its path."""
    project.manage("export_tdf2", folder, "--batch", "day")
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_text() for path in files}


def test_a_day_in_the_life_of_tdf2(make_project, our_client, tmp_path):
    project, tree = a_project(make_project), tmp_path / "in"
    alice, bob = our_client(project, "alice"), our_client(project, "bob")

    # Files in: a list of two tasks, two new tasks, and a new task whose time has passed
    until = int(time.time()) + 7200
    texts = {number: put_task(tree, "open/1448978601", number, until=until) for number in (1, 2)}
    texts |= {number: put_task(tree, "new", number, until=until) for number in (3, 4)}
    put_task(tree, "", 5, until=1448985809)
    words = ["import_tdf2", tree, "--app", "sh", "--submitter", SUBMITTER, "--batch", "day"]
    assert "Imported 5 tasks" in project.manage(*words, "--bundle-size", "2")
    assert "Imported 0 tasks" in project.manage(*words, "--bundle-size", "2")
    lists = "SELECT * FROM bundle ORDER BY created_at, id"
    project.wait(lambda: project.sql(lists)[0]["is_ready"], within=20, what="a ready list")
    before = exported(project, tmp_path / "before")
    assert {before[f"open/1448978601/{n}_0.task"] for n in (1, 2)} == {texts[1], texts[2]}

    # A worker claims the list as a whole, reports its first task early, and is killed
    alice.start(slots=1)
    project.wait(
        lambda: project.sql(
            "SELECT FROM result WHERE name = '1_0' AND received_at IS NOT NULL"
            " AND EXISTS (SELECT FROM result AS r WHERE r.name = '2_0' AND r.server_state = 4)"
        ),
        within=40,
        what="the first task is reported, the second runs",
    )
    alice.kill()
    [first, *_] = project.sql(lists)
    assert (first["state"], first["claims"]) == (2, 1)

    # Its lease passes: the list is opened again, with the second task only; another worker runs it
    project.wait(
        lambda: project.sql("SELECT FROM result WHERE name = '2_1'"),
        within=40,
        what="the list is opened again",
    )
    assert not project.sql("SELECT FROM result WHERE name = '1_1'")
    bob.start(slots=1)
    project.wait(
        lambda: project.count("SELECT count(*) FROM workunit WHERE assimilate_state = 2") == 5,
        within=60,
        what="all tasks are finished",
    )
    project.wait(
        lambda: all(row["state"] == 3 for row in project.sql(lists)), within=10, what="lists closed"
    )
    [first, *_] = project.sql(lists)
    assert first["claims"] >= 2

    # Files out, exactly as the format says
    check_files(exported(project, tmp_path / "after"), texts)
    assert "0 violations" in project.fsck()


def check_files(files: dict[str, str], texts: dict[int, str]) -> None:
    """Compare exported files; `texts` are the task files that were imported."""
    assert sorted(files) == [
        "completed_archive/1_0.out",
        "completed_archive/1_0.task",
        "completed_archive/2_0.out",
        "completed_archive/2_0.task",
        "completed_archive/4_0.out",
        "completed_archive/4_0.task",
        "failed_archive/3_0.err",
        "failed_archive/3_0.task",
        "failed_count/3_1.err",
        "failed_count/3_1.task",
        "failed_time/5_0.task",
    ]
    assert files["completed_archive/1_0.out"] == "A\nB\n"
    assert files["completed_archive/2_0.out"] == "C\n"
    assert files["failed_archive/3_0.err"] == "no such file\n"
    for number in (1, 2, 4):
        text = files[f"completed_archive/{number}_0.task"]
        assert text.startswith(texts[number])
        worker, started, ended = text.removeprefix(texts[number]).splitlines()
        assert re.fullmatch(r"\S+", worker)
        assert int(started) <= int(ended) <= time.time()
    assert len(files["failed_time/5_0.task"].splitlines()) == 7
