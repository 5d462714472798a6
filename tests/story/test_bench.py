"""A small run of the benchmark, with a real server, all daemons and all checks."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.story.project import ROOT

pytestmark = [pytest.mark.story, pytest.mark.lengthy, pytest.mark.early, pytest.mark.needs("cc")]


def test_bench_runs_its_rpcs_and_its_pipeline_and_writes_figures_without_failures(tmp_path):
    words = ["--tiny", "--only", "rpc", "pipeline", "--json", str(tmp_path / "figures.json")]
    done = subprocess.run(
        [sys.executable, "-m", "bench", *words],
        cwd=ROOT,
        env={**os.environ, "BENCH_FOLDER": str(tmp_path / "bench")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    kept = json.loads((tmp_path / "figures.json").read_text())
    figures = {figure["key"]: figure for figure in kept["figures"]}
    assert {"pgbench_select", "pgbench_update", "pipeline", "memory"} <= figures.keys()
    assert figures["rpc_1_hosts_4"]["value"] > 0
    assert figures["pipeline"]["count"] == figures["pipeline_held"]["count"] == 40
    assert figures["held_share"]["value"] > 0
    assert {"server", "transitioner", "validator"} <= {one["name"] for one in kept["processes"]}
    assert "pipeline: submit to files deleted" in done.stdout


def test_pages_take_the_same_number_of_statements_with_more_rows(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "bench.pages", "--results", "3000", "--visits", "1"],
        cwd=ROOT,
        env={**os.environ, "BENCH_FOLDER": str(tmp_path / "bench")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    # On a busy machine, a page may take longer than the maximum.
    failures = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    assert [line for line in failures if " ms, more than " not in line] == []
    assert "Pages with 3,000 results, 150 computers, 75 accounts" in done.stdout
    for name in ("/teams/", "/account/results/", "/admin/scheduler/result/(newest)"):
        assert f" {name} " in done.stdout
