"""A graph of 200 workunits with a failing branch is computed and drawn."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from scheduler.rights import SCOPES
from scientist import Project
from tests.long.truth import SENT_EARLY
from tests.story.project import ROOT
from tests.story.volunteers import PASSWORD

pytestmark = [pytest.mark.story, pytest.mark.lengthy]

EMAIL = "ada@example.org"
BRANCHES, FAILING = 66, 13
#: Bits of the error mask.
TOO_MANY_ERRORS, DEPENDENCY_FAILED = 2, 256
#: The results of the failing workunit's command end with this status.
PROGRAM = """#!/bin/sh
test "$1" = fail && exit 7
echo "$1"
"""


def diamond():
    """Return a root, branches of three workunits in a row, and an end that joins them."""
    graph = [{"name": "root", "command_line": "root"}]
    for n in range(BRANCHES):
        for name, parent in (("split", "root"), ("work", f"split_{n}"), ("check", f"work_{n}")):
            fails = (name, n) == ("work", FAILING)
            word = "fail" if fails else f"{name}_{n}"
            graph.append({"name": f"{name}_{n}", "command_line": word, "after": [parent]})
    checks = [f"check_{n}" for n in range(BRANCHES)]
    return [*graph, {"name": "end", "command_line": "end", "after": checks}]


def test_diamond_of_200_workunits_with_a_failing_branch(make_project, our_client, tmp_path):
    project = make_project(PURGE_AFTER="3600")
    project.start()
    project.manage("create_account", EMAIL, "--name", "Ada", "--password", PASSWORD, "--staff")
    scopes = [word for scope in SCOPES for word in ("--scope", scope)]
    said = project.manage("token", "create", EMAIL, "--json", *scopes)
    token = re.search(r"mh_[\w-]+", said)[0]
    publish(project, token, tmp_path / "steps")
    graph = diamond()
    assert len(graph) == 200
    (tmp_path / "film.json").write_text(json.dumps({"workunits": graph[::-1]}))

    def scientist(*words):
        done = subprocess.run(
            [sys.executable, "-m", "scientist", *map(str, words)],
            env=os.environ
            | {"PYTHONPATH": str(ROOT / "client")}
            | {"MANYHANDS_URL": project.url, "MANYHANDS_TOKEN": token},
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    scientist("submit", "steps", "--dag", "film.json", "--batch", "film")
    for name in ("one", "two"):
        our_client(project, name).start(slots=4)
    open_workunits = (
        "SELECT count(*) FROM workunit WHERE canonical_result_id IS NULL AND error_mask = 0"
    )
    project.wait(lambda: not project.count(open_workunits), within=180, what="the end of the graph")

    ends = {local(row["name"]): row for row in project.sql("SELECT * FROM workunit")}
    assert set(ends) == {entry["name"] for entry in graph}
    failed = {name: row["error_mask"] for name, row in ends.items() if row["error_mask"]}
    failing, cancelled = f"work_{FAILING}", {f"check_{FAILING}", "end"}
    assert failed == {failing: TOO_MANY_ERRORS} | dict.fromkeys(cancelled, DEPENDENCY_FAILED)
    assert project.sql(SENT_EARLY) == []
    sent = "SELECT count(*) FROM result WHERE workunit_id = ANY(%s)"
    assert project.count(sent, [ends[name]["id"] for name in cancelled]) == 0

    scientist("show", "film", "--graph", "film.svg")
    drawing = ET.parse(tmp_path / "film.svg").getroot()
    titles = [one.text for one in drawing.iter("{http://www.w3.org/2000/svg}title")]
    assert len(titles) == 200
    words = [title.partition(";")[0].partition(": ") for title in titles]
    assert {local(name) for name, _, word in words if word == "failed"} == {failing}
    assert {local(name) for name, _, word in words if word == "dependency failed"} == cancelled
    assert "0 violations" in project.fsck()


def local(name):
    """Return the name of a workunit in the file of the graph."""
    return name.partition("_")[2]


def publish(project, token, folder: Path) -> None:
    folder.mkdir()
    path = folder / "run.sh"
    path.write_text(PROGRAM)
    path.chmod(0o755)
    with Project(project.url, token) as mine:
        defaults = {"max_error_results": 0, "rsc_fpops_est": 1e9}
        mine.create_app("steps", kind="script", workunit_defaults=defaults)
        mine.publish("steps", folder)
