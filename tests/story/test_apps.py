"""Our client computes scripts, commands and containers by the rules of their apps."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from scheduler.lifecycle import Outcome
from tests.story.project import Project
from tests.story.volunteers import OurClient

# The same xdist group, so that both tests use one project.
pytestmark = [pytest.mark.story, pytest.mark.lengthy, pytest.mark.xdist_group("apps")]

IMAGE = "docker.io/library/alpine@sha256:" + "0a" * 32
OUT = [{"max_nbytes": 10_000}]
RUN_SH = """#!/bin/sh
# Sums the numbers of its input, by a program of its own.
. ./lib/say
awk '{ sum += $1 } END { print sum }' "$1"
say "$MANYHANDS_WORKUNIT" >"$MANYHANDS_OUTPUT.log"
"""

#: A fake podman: records its arguments and runs the command in the folder to be mounted.
PODMAN = """#!/bin/sh
if [ "$1" = version ]; then echo 4.3.1; exit; fi
[ "$1" = run ] || exit 0
echo "$@" >>"$(dirname "$0")/said"
while [ "$1" != "$IMAGE" ]; do shift; done
shift
exec "$@"
""".replace("$IMAGE", IMAGE)


def archive(path: Path, files: dict[str, str]) -> Path:
    """Write a .tar.bz2 with these files (name -> content); return its path."""
    with tarfile.open(path, "w:bz2") as packed:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            packed.addfile(info, io.BytesIO(text.encode()))
    return path


def one_at_a_time(app: str) -> dict[str, object]:
    """Return workunit parameters that allow one result, so that an error is final."""
    return {"app": app, "max_total_results": 1, "max_error_results": 0, "max_success_results": 1}


def answer(project: Project, app: str, name: str, output: str = "out") -> str:
    """Wait until a workunit is assimilated; return the content of its output."""
    path = project.folder / "var" / "results" / app / name / output
    project.wait(path.exists, within=60, what=f"{name} of {app} is assimilated")
    return path.read_text()


def outcome(project: Project, name: str) -> tuple[int, str]:
    """Wait for a workunit's only result; return its outcome and stderr."""
    query = """SELECT r.outcome, r.stderr FROM result AS r JOIN workunit AS w
               ON w.id = r.workunit_id WHERE w.name = %s AND r.outcome <> 0"""
    project.wait(lambda: project.sql(query, name), within=60, what=f"{name} is reported")
    [row] = project.sql(query, name)
    return row["outcome"], row["stderr"]


@pytest.fixture(scope="module")
def project(shared_project, tmp_path_factory) -> Project:
    """Publish the script app `sum`, the command app `sh` and the container app `box`."""
    made = shared_project
    program = archive(
        tmp_path_factory.mktemp("program") / "sum.tar.bz2",
        {"run.sh": RUN_SH, "lib/say": "say() { echo said $1; }\n"},
    )
    new = ["--create-app", "--kind"]
    made.manage("publish_app", "sum", "1.00", "-", program, *new, "script")
    made.manage("publish_app", "sh", "1.00", *new, "command", "--success-rule", "both")
    made.manage("publish_app", "box", "1.00", "-", "--image", IMAGE, *new, "container")
    return made


def with_podman(client: OurClient, folder: Path) -> Path:
    """Put the fake podman into a client's PATH; return the file with its recorded arguments."""
    folder.mkdir()
    (folder / "podman").write_text(PODMAN)
    (folder / "podman").chmod(0o755)
    client.environment["PATH"] = f"{folder}:/usr/local/bin:/usr/bin:/bin"
    return folder / "said"


def test_our_client_computes_script_and_container_apps(project, our_client, tmp_path):
    box = "sh -c 'cat in; pwd | wc -l'"
    [summed], [boxed] = project.submit_kinds(
        [
            {"app": "sum", "text": "1\n2\n39", "outputs": [*OUT, {"open_name": "out.log"}]},
            {"app": "box", "text": "in the box", "outputs": OUT, "command_line": box},
        ]
    )
    client = our_client(project, "ada")
    notes = with_podman(client, tmp_path / "bin")

    client.start()

    assert answer(project, "sum", summed) == "42\n"
    assert answer(project, "sum", summed, "out.log") == f"said {summed}\n"
    assert answer(project, "box", boxed) == "in the box\n1\n"
    said = notes.read_text()
    assert "--network none --read-only" in said
    assert f"{IMAGE} sh -c cat in; pwd | wc -l" in said
    assert "0 violations" in project.fsck()
    assert client.stop() == 0


def test_program_error_is_reported_as_client_error_with_its_cause_in_stderr(project, our_client):
    once = one_at_a_time("sh") | {"text": "", "outputs": OUT}
    table = {"text": "5", "outputs": [*OUT, {"open_name": "table"}]}
    sort = "sort < in | tr 'ab' \"AB\""
    [sorted_], [loud], [wrong], [lacking] = project.submit_kinds(
        [
            {"app": "sh", "text": "b\na", "outputs": OUT, "command_line": sort},
            {**once, "command_line": "echo 1; echo no >&2"},
            {**once, "command_line": "exit 7"},
            {**one_at_a_time("sum"), **table},
        ]
    )
    client = our_client(project, "eve")

    client.start()

    assert answer(project, "sh", sorted_) == "A\nB\n"
    for name, words in (
        (loud, "no\nmanyhands: The program wrote to its stderr"),
        (wrong, "manyhands: The program exited with 7."),
        (lacking, "manyhands: The program has not written table. Hint"),
    ):
        found, stderr = outcome(project, name)
        assert found == Outcome.CLIENT_ERROR
        assert words in stderr
    assert "0 violations" in project.fsck()
    assert client.stop() == 0
