"""Every entry in the table of rules that can be switched off fits the code.

The rows of docs/lineage.md are read from lists, and the time limit of all runs is kept.
"""

from __future__ import annotations

import subprocess
import sys
from time import monotonic

import tests.mutate.__main__ as mutation
from tests.house.tracked import ROOT
from tests.mutate import warm
from tests.mutate.lineage import Row, read_rows


def mutate(*words):
    return subprocess.run(
        [sys.executable, "-m", "tests.mutate", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_every_entry_of_the_mutation_table_matches_the_code():
    done = mutate("--check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 do not fit" in done.stdout


def test_runs_after_the_time_limit_are_reported_as_a_failure():
    done = mutate(
        "--lineage", "--only", "B1", "--skip-baseline", "--minutes", "0", "--workers", "1"
    )
    assert done.returncode == 3, done.stdout + done.stderr
    assert "0 rules switched off, 0 caught, 0 escaped" in done.stdout
    (row,) = (row for row in read_rows() if row.number == "B1")
    for rule in row.switches:
        assert f"\n  B1: {rule}\n" in done.stdout
    assert f"{len(row.switches)} rules were not tried within 0 minutes. Hint:" in done.stdout


def test_run_that_the_time_limit_ends_counts_as_not_tried():
    class Slow:
        def run(self, *_words, **_options):
            return None, ""

    attempt = mutation.Attempt("B1: a rule", "a rule", (("tests/a.py",),))
    cut_off = mutation._try(attempt, Slow(), deadline=monotonic() + 5)
    assert not cut_off.was_run
    hanging = mutation._try(attempt, Slow(), deadline=monotonic() + 1000)
    assert (hanging.was_run, hanging.is_caught) == (True, False)


def test_failed_test_with_a_long_id_is_recognized():
    output = f"before\nFAILED tests/a.py::test_b[{'[' * 30_000}]\n1 failed in 1.31s\n"

    class Failing:
        def run(self, *_words, **_options):
            return 1, warm.shortened(output)

    attempt = mutation.Attempt("B1: a rule", "a rule", (("tests/a.py",),))
    outcome = mutation._try(attempt, Failing(), deadline=monotonic() + 1000)
    assert outcome.caught_by.startswith("tests/a.py::test_b[[[")


def test_tests_that_take_longer_than_the_time_limit_are_reported_with_all_rules(
    monkeypatch, capsys
):
    def run(command, **options):
        raise subprocess.TimeoutExpired(command, options["timeout"])

    monkeypatch.setattr(mutation.subprocess, "run", run)
    monkeypatch.setattr(sys, "argv", ["mutate", "--lineage", "--only", "B2"])
    assert mutation.main() == 3
    printed = capsys.readouterr().out
    assert "The tests with every rule on took longer than the time limit." in printed
    assert "B2: A result does not time out before its deadline" in printed


def test_unknown_row_of_the_lineage_is_refused():
    done = mutate("--lineage", "--only", "B99")
    assert done.returncode == 2
    assert "B99 is neither a row nor a design of docs/lineage.md" in done.stderr


def test_rows_of_the_lineage_are_read_with_their_switches():
    page = """
- **B5** `scheduler.a:b`,
  `scheduler/c.sql`
  `tests/d.py::test_e`
  switch: The limit of `x` is kept
  switch: A long name that is continued
  on the next line
- **T2-25** no rule: a picture, and
  nothing else.
"""
    assert read_rows(page) == [
        Row(
            "B5",
            code=("scheduler.a:b", "scheduler/c.sql"),
            tests=("tests/d.py::test_e",),
            switches=(
                "The limit of `x` is kept",
                "A long name that is continued on the next line",
            ),
        ),
        Row("T2-25", reason="a picture, and nothing else."),
    ]
    assert [row.seed for row in read_rows(page)] == ["B", "T2"]
