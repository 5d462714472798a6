"""BOINC's wrapper behaves the same under a stock client and under ours."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path

import pytest

from scheduler.lifecycle import Outcome
from tests.machine import boinc_wrapper
from tests.story.project import LINUX
from tests.story.test_stock_programs import Pair, keep_in_memory, number

pytestmark = [pytest.mark.stock_client, pytest.mark.xdist_group("stock programs")]

VERSION = """<version>
<file><physical_name>wrap_1.00</physical_name><main_program/></file>
<file><physical_name>wrap_job_1.xml</physical_name><logical_name>job.xml</logical_name></file>
<file><physical_name>wrap_worker_1</physical_name><logical_name>worker</logical_name></file>
<is_wrapper/>
</version>
"""
JOB = """<job_desc>
<task>
<application>worker</application>
<stdin_filename>in</stdin_filename>
<stdout_filename>out</stdout_filename>
<command_line>120</command_line>
</task>
</job_desc>
"""
#: Steps of 0.1 s, counted in a file of the slot.
WORKER = """#!/bin/sh
step=0
while [ $step -lt $1 ]; do step=$((step + 1)); echo $step > steps; sleep 0.1; done
tr a-z A-Z
"""
#: Seconds of running time between two trickles. The worker runs for at least 12 seconds.
TRICKLE_SECONDS = 4


def publish(project, folder: Path) -> None:
    """Publish the wrapper with a job file and a shell script as its worker."""
    tree = folder / "wrap"
    tree.mkdir()
    shutil.copy(boinc_wrapper(), tree / "wrap_1.00")
    (tree / "wrap_job_1.xml").write_text(JOB)
    (tree / "wrap_worker_1").write_text(WORKER)
    for name in ("wrap_1.00", "wrap_worker_1"):
        (tree / name).chmod(0o755)
    (tree / "version.xml").write_text(VERSION)
    project.manage("publish_app", "wrap", "1.00", LINUX, tree, "--create-app")


def assert_trickles_came(project, results) -> None:
    """Check that each result sent at least two trickles, and no more than its run time allows."""
    trickles = project.sql("SELECT result_id, variety, text FROM trickle_up ORDER BY id")
    assert {row["variety"] for row in trickles} == {"cpu_time"}
    assert all(re.search(r"<cpu_time>[\d.]+</cpu_time>", row["text"]) for row in trickles)
    for result in results:
        count = sum(row["result_id"] == result["id"] for row in trickles)
        assert 2 <= count <= result["elapsed_time"] / TRICKLE_SECONDS + 1, (count, result)


def test_boinc_wrapper_behaves_the_same_under_stock_client_and_ours(
    make_project, stock_client, our_client, tmp_path
):
    boinc_wrapper()
    project = make_project(PURGE_AFTER="3600")
    project.start()
    publish(project, tmp_path)
    submission = {
        "app": "wrap",
        "text": "by the wrapper",
        "outputs": [{"max_nbytes": 1000}],
        "min_quorum": 2,
        "command_line": f"--trickle {TRICKLE_SECONDS}",
    }
    [[name]] = project.submit_kinds([submission])
    pair = Pair(project, stock_client(project, "alice"), our_client(project, "bob"))
    keep_in_memory(pair.stock)
    pair.stock.attach()
    pair.wait(lambda: number(pair.stock, "steps"), "the stock client computes")
    pair.ours.start()
    pair.wait_for_more("steps", [9, 9])

    # The wrapper stops its worker itself.
    pair.order("suspend")
    time.sleep(4)
    before = pair.numbers("steps")
    time.sleep(2)
    assert pair.numbers("steps") == before
    pair.order("resume")
    pair.wait_for_more("steps", before)

    over = "SELECT count(*) FROM result WHERE outcome <> 0"
    pair.wait(lambda: project.count(over) == 2, "both are reported")
    results = project.sql("SELECT * FROM result ORDER BY id")
    assert [(row["outcome"], row["exit_status"]) for row in results] == [(Outcome.SUCCESS, 0)] * 2
    assert len({row["account_id"] for row in results}) == 2
    assert all(re.search(r"wrapper \(\d", row["stderr"]) for row in results)
    assert all("Can't set up shared mem" not in row["stderr"] for row in results)

    assert_trickles_came(project, results)
    answer = project.folder / "var" / "results" / "wrap" / name / "out"
    pair.wait(answer.exists, "the outputs agree and are assimilated")
    assert answer.read_text() == "BY THE WRAPPER\n"
    assert "0 violations" in project.fsck()
