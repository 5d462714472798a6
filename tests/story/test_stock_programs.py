"""A program with BOINC's library behaves the same under both clients."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from scheduler.lifecycle import Outcome
from tests import api_program
from tests.story.project import LINUX

pytestmark = [pytest.mark.stock_client, pytest.mark.xdist_group("stock programs")]

#: Time limit of each wait, in seconds.
PATIENCE = 120
#: Number of steps of 0.1 s: enough time to suspend and to quit the program.
STEPS = 150
VERSION = """<version>
<file><physical_name>{name}</physical_name><main_program/></file>
<api_version>7.20.5</api_version>
</version>
"""
#: The output; facts that differ between clients are 1 if present.
OUTPUT = f"""steps {STEPS}
standalone 0
told go on now
uploaded 0
client 1
share 1
specific 0
prefs 1
ncpus 1
"""


def number(client, name: str) -> int:
    """Return the number in a file of the client's only slot; 0 without a number or a file."""
    for path in sorted((client.folder / "slots").glob(f"*/{name}")):
        text = path.read_text().strip()
        return int(text) if text.isdecimal() else 0
    return 0


def publish(project, folder: Path) -> None:
    """Build the program and publish it with a `version.xml`, as a BOINC project does."""
    tree = folder / "api"
    tree.mkdir()
    built = api_program.build(folder)
    built.rename(tree / "api_1.00")
    (tree / "version.xml").write_text(VERSION.format(name="api_1.00"))
    project.manage("publish_app", "api", "1.00", LINUX, tree, "--create-app")


def keep_in_memory(client) -> None:
    """Make the stock client keep suspended programs in memory, as our client does."""
    preferences = client.folder / "global_prefs_override.xml"
    kept = "<leave_apps_in_memory>1</leave_apps_in_memory>\n</global_preferences>"
    preferences.write_text(preferences.read_text().replace("</global_preferences>", kept))
    client.command("--read_global_prefs_override")


class Pair:
    """A stock client and one of ours that compute the two results of one workunit."""

    def __init__(self, project, stock, ours) -> None:
        self.project, self.stock, self.ours = project, stock, ours

    def numbers(self, name: str) -> list[int]:
        return [number(self.stock, name), number(self.ours, name)]

    def wait(self, is_so: Callable[[], object], what: str) -> None:
        give_up_at = time.monotonic() + PATIENCE
        while not is_so():
            said = self.stock.messages() + self.ours.log() + self.project.log()
            assert time.monotonic() < give_up_at, f"Not so in time: {what}\n{said}"
            if "EXECUTING" not in self.stock.tasks() or number(self.stock, "steps") >= STEPS - 2:
                self.stock.update()
            time.sleep(0.5)

    def wait_for_more(self, name: str, than: list[int]) -> None:
        """Wait until the number in a file of each program exceeds the one in `than`."""

        def is_beyond() -> bool:
            return all(new > old for new, old in zip(self.numbers(name), than, strict=True))

        self.wait(is_beyond, f"{name} is more than {than}")

    def order(self, verb: str) -> None:
        """Suspend or resume both programs, by `verb`."""
        [task] = re.findall(r"^ +name: (\S+)", self.stock.tasks(), re.MULTILINE)
        self.stock.command("--task", self.project.url, task, verb)
        self.ours.command(verb, self.project.url)


def suspends_and_resumes(pair: Pair) -> None:
    pair.order("suspend")
    time.sleep(3)
    before = pair.numbers("steps")
    time.sleep(2)
    assert pair.numbers("steps") == before
    assert all(15 <= steps < STEPS for steps in before)
    pair.order("resume")
    pair.wait_for_more("steps", before)


def quits_with_its_client(pair: Pair) -> None:
    """Check that the program exits with its client, and resumes from its checkpoint."""
    for client in (pair.stock, pair.ours):
        client.stop()
    assert pair.numbers("left_in_order") == [1, 1]
    reached = pair.numbers("checkpoint")
    assert all(reached)
    for client in (pair.stock, pair.ours):
        client.start()
    pair.wait(lambda: pair.numbers("starts") == [2, 2], "both start again")
    pair.wait_for_more("checkpoint", reached)


def talks_with_its_project(pair: Pair) -> None:
    """Check trickles in both directions before the results are reported."""
    project = pair.project
    count = "SELECT count(DISTINCT result_id) FROM trickle_up"
    pair.wait(lambda: project.count(count) == 2, "both sent a trickle")
    rows = project.sql("SELECT variety, text FROM trickle_up")
    assert {row["variety"] for row in rows} == {"progress"}
    assert all("<step>3</step>" in row["text"] for row in rows)
    results = project.sql("SELECT name, outcome FROM result ORDER BY id")
    assert [row["outcome"] for row in results] == [Outcome.INIT] * 2
    for row in results:
        project.manage("trickle", "send", row["name"], "go on now")


def test_program_with_boinc_library_behaves_the_same_under_stock_client_and_ours(
    make_project, stock_client, our_client, tmp_path
):
    project = make_project(PURGE_AFTER="3600")
    project.start()
    publish(project, tmp_path)
    outputs = [{"max_nbytes": 1000}, {"open_name": "part", "max_nbytes": 1000}]
    submission = {"app": "api", "text": "", "outputs": outputs, "min_quorum": 2}
    [[name]] = project.submit_kinds([{**submission, "command_line": f"{STEPS} wait"}])
    pair = Pair(project, stock_client(project, "alice"), our_client(project, "bob"))
    keep_in_memory(pair.stock)
    pair.stock.attach()
    pair.wait(lambda: number(pair.stock, "steps"), "the stock client computes")
    pair.ours.start()
    pair.wait_for_more("steps", [14, 14])

    suspends_and_resumes(pair)
    quits_with_its_client(pair)
    talks_with_its_project(pair)

    over = "SELECT count(*) FROM result WHERE outcome <> 0"
    pair.wait(lambda: project.count(over) == 2, "both are reported")
    found = project.sql("SELECT outcome, exit_status, stderr, account_id FROM result ORDER BY id")
    assert [(row["outcome"], row["exit_status"]) for row in found] == [(Outcome.SUCCESS, 0)] * 2
    assert len({row["account_id"] for row in found}) == 2
    assert all("Can't set up shared mem" not in row["stderr"] for row in found)
    answer = project.folder / "var" / "results" / "api" / name / "out"
    pair.wait(answer.exists, "the outputs agree and are assimilated")
    assert answer.read_text() == OUTPUT
    assert (answer.parent / "part").read_text() == "the first part\n"
    assert "0 violations" in project.fsck()
