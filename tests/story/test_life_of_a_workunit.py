"""The life of a workunit, from its submission to the archive, step by step."""

from __future__ import annotations

import gzip
import json

import pytest

from scheduler.lifecycle import (
    AssimilateState,
    Axis,
    FileDeleteState,
    Outcome,
    ResultState,
    ServerState,
    ValidateState,
    WorkunitState,
)
from tests.story.project import APP

pytestmark = [pytest.mark.story, pytest.mark.lengthy]

TARGETS = "SELECT axis, target FROM ledger_entry WHERE workunit_id = %s ORDER BY at, id"


def test_life_of_a_workunit_from_submission_to_archive(make_project, our_client):
    project = make_project(PURGE_AFTER="4")
    project.start()
    project.publish()
    alice, bob = our_client(project, "alice"), our_client(project, "bob")

    # A workunit is submitted
    [name] = project.submit({"small": "2\n3\n11\n13\n"}, quorum=2)
    [workunit] = project.sql("SELECT * FROM workunit WHERE name = %s", name)
    assert workunit["min_quorum"] == 2

    # The transitioner creates its results
    results = "SELECT * FROM result WHERE workunit_id = %s ORDER BY attempt"
    project.wait(
        lambda: len(project.sql(results, workunit["id"])) == 2, within=10, what="two results"
    )

    # Hosts of two accounts get one result each
    alice.start()
    project.wait(
        lambda: project.count("SELECT count(*) FROM result WHERE account_id IS NOT NULL") == 1,
        within=30,
        what="alice has a result",
    )
    bob.start()
    project.wait(
        lambda: project.count("SELECT count(DISTINCT account_id) FROM result") == 2,
        within=30,
        what="bob has the other",
    )

    # The hosts compute, upload and report
    project.wait(
        lambda: all(
            row["outcome"] == Outcome.SUCCESS for row in project.sql(results, workunit["id"])
        ),
        within=30,
        what="two successes",
    )

    # The validator finds that the results agree, and grants credit
    project.wait(
        lambda: all(
            row["validate_state"] == ValidateState.VALID
            for row in project.sql(results, workunit["id"])
        ),
        within=10,
        what="both valid",
    )
    assert project.count("SELECT count(*) FROM credit_entry") == 2
    assert project.sql("SELECT sum(amount) AS s FROM credit_entry") == project.sql(
        "SELECT sum(total_credit) AS s FROM account"
    )

    # The assimilator copies the output
    answer = project.folder / "var" / "results" / APP / name / "out"
    project.wait(answer.exists, within=10, what="the answer")
    assert [line.split()[:2] for line in answer.read_text().splitlines()] == [
        ["2", "prime"],
        ["3", "prime"],
        ["11", "composite"],
        ["13", "prime"],
    ]

    # The file deleter deletes files that are no longer needed
    project.wait(
        lambda: (Axis.WORKUNIT_FILES, FileDeleteState.DONE) in moves(project, workunit["id"]),
        within=20,
        what="inputs deleted",
    )
    project.wait(lambda: not files_below(project, "upload"), within=10, what="uploads deleted")
    assert "0 violations" in project.fsck()

    # The purger writes the workunit into the archive and deletes its rows
    project.wait(
        lambda: not project.sql("SELECT 1 FROM workunit WHERE id = %s", workunit["id"]),
        within=60,
        what="purged",
    )
    assert name in archive(project)
    assert moves(project, workunit["id"]) >= {
        (Axis.WORKUNIT, WorkunitState.OPEN),
        (Axis.RESULT, ResultState.UNSENT),
        (Axis.RESULT, ResultState.IN_PROGRESS),
        (Axis.RESULT, ResultState.SUCCESS),
        (Axis.VALIDATION, ValidateState.VALID),
        (Axis.WORKUNIT, WorkunitState.CANONICAL),
        (Axis.ASSIMILATION, AssimilateState.DONE),
        (Axis.RESULT_FILES, FileDeleteState.DONE),
        (Axis.WORKUNIT_FILES, FileDeleteState.DONE),
    }
    assert "0 violations" in project.fsck()

    # All processes stop on request
    assert alice.stop() == 0, alice.log()
    assert bob.stop() == 0, bob.log()
    assert project.stop() == 0, project.log()


def test_wrong_result_becomes_invalid_and_killed_client_resumes_its_work(make_project, our_client):
    project = make_project(PURGE_AFTER="3600")
    project.start()
    project.publish()
    names = project.submit(
        {f"{p}": f"{p}\n{p}\n" for p in (2, 3, 5, 7, 11, 13)}, quorum=2, seconds=0.5, fpops=1e10
    )
    alice, bob = our_client(project, "alice"), our_client(project, "bob")
    mallory = our_client(project, "mallory", falsifies=True)
    # The falsifying client first, because two others could finish all work before it starts.
    mallory.start()
    project.wait(
        lambda: project.count("SELECT count(*) FROM result WHERE account_id IS NOT NULL"),
        within=30,
        what="mallory has a result",
    )
    alice.start()
    bob.start()

    bobs = """SELECT count(*) FROM result JOIN account ON account.id = result.account_id
              WHERE account.name = 'bob' AND server_state = %s"""
    project.wait(
        lambda: project.count(bobs, ServerState.IN_PROGRESS), within=30, what="bob computes"
    )
    before = project.count(bobs, ServerState.OVER)
    bob.kill()
    bob.start()

    finished = "SELECT count(*) FROM workunit WHERE assimilate_state = 2 AND error_mask = 0"
    project.wait(
        lambda: project.count(finished) == len(names), within=90, what="all are assimilated"
    )
    assert project.count(bobs, ServerState.OVER) > before, bob.log()
    found = project.sql(
        """SELECT result.name, workunit_id, account.name AS who, outcome, exit_status, stderr
           FROM result JOIN account ON account.id = result.account_id
           WHERE validate_state = 2"""
    )
    assert [row["who"] for row in found] == ["mallory"], (found, bob.log())
    [invalid] = found
    valid = project.sql(
        "SELECT account_id FROM result WHERE workunit_id = %s AND validate_state = 1",
        invalid["workunit_id"],
    )
    assert len({row["account_id"] for row in valid}) == 2
    assert "0 violations" in project.fsck()


def moves(project, workunit_id):
    """Return the (axis, target state) pairs of a workunit and its results, from the ledger."""
    return {(row["axis"], row["target"]) for row in project.sql(TARGETS, workunit_id)}


def files_below(project, folder):
    """Return all files in a subfolder of VAR_DIR."""
    return [path for path in (project.folder / "var" / folder).rglob("*") if path.is_file()]


def archive(project):
    """Return the names of the workunits in the archive."""
    found = set()
    for path in (project.folder / "var" / "archive").glob("*.jsonl.gz"):
        with gzip.open(path, "rt") as lines:
            for line in lines:
                entry = json.loads(line)
                found.add((entry.get("workunit") or entry).get("name"))
    return found
