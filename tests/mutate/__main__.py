"""`python -m tests.mutate`: switches each rule off; one of its tests must fail.

With `--lineage`, it does so only for the rows of docs/lineage.md: each switch that a row names is
turned off, and one of the row's tests must fail when it is run alone.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue

import django
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from tests.mutate.lineage import Row, read_rows
from tests.mutate.plugin import VARIABLE
from tests.mutate.switching import Both, Code, Sql, Switch
from tests.mutate.warm import WarmPytest

ROOT = Path(__file__).resolve().parent.parent.parent
#: The maximum duration of one run of tests with a rule switched off.
LONGEST = 120.0
#: The maximum duration of everything, on 2 cores.
LIMIT_MINUTES = 30.0
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
_FAILURES, _UNUSABLE, _TOO_SLOW = 1, 2, 3
#: The number of slowest rules that are shown, because their tests should be faster.
_SLOWEST = 10
_QUIET = ("-q", "--no-header", "--tb=line")


@dataclass(frozen=True, slots=True)
class Attempt:
    """A rule to switch off, and runs of tests, each in a process of its own.

    The rule is caught if a test fails in one of the runs; runs after that one are left out.
    """

    title: str
    rule: str
    runs: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an attempt: the test that failed, or the output if none did.

    `was_run` is False if the time limit passed before the end of its runs.  `seconds` is the
    duration of its runs.
    """

    title: str
    caught_by: str
    said: str = ""
    was_run: bool = True
    seconds: float = 0.0

    @property
    def is_caught(self) -> bool:
        """Return whether a test failed."""
        return bool(self.caught_by)


def main() -> int:
    """Run the tests of each switched-off rule; return 0 if a test failed for each, else 1."""
    given = _options()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    from tests.mutate.switches import SWITCHES

    if given.check:
        return _check([one for one in SWITCHES if given.only.lower() in one.rule.lower()])
    attempts = _attempts(SWITCHES, only=given.only, lineage=given.lineage)
    console = Console(soft_wrap=True, highlight=False)
    began = time.monotonic()
    deadline = began + given.minutes * 60
    tests = sorted({test for attempt in attempts for run in attempt.runs for test in run})
    if not given.skip_baseline:
        try:
            output = _baseline(tests, deadline)
        except subprocess.TimeoutExpired:
            console.print("The tests with every rule on took longer than the time limit.")
            untried = [Outcome(attempt.title, "", was_run=False) for attempt in attempts]
            return _report(
                untried, console, seconds=time.monotonic() - began, minutes=given.minutes
            )
        if output:
            console.print(output)
            console.print(
                "These tests fail with every rule on. Hint: fix them first.", style="bold red"
            )
            return _UNUSABLE
    outcomes = _try_all(attempts, console, given.workers, deadline)
    console.print(_table([one for one in outcomes if one.was_run]))
    return _report(outcomes, console, seconds=time.monotonic() - began, minutes=given.minutes)


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(prog="make mutate", description=__doc__)
    options.add_argument(
        "--only",
        default="",
        help="only rules whose text contains this; with --lineage only this row (B5) or seed (B)",
    )
    options.add_argument(
        "--lineage", action="store_true", help="only the rows of docs/lineage.md, tests run alone"
    )
    options.add_argument(
        "--check", action="store_true", help="check only that every switch fits the code"
    )
    options.add_argument("--workers", type=int, default=2, help="number of parallel processes (2)")
    options.add_argument(
        "--minutes", type=float, default=LIMIT_MINUTES, help="time limit of everything (30)"
    )
    options.add_argument(
        "--skip-baseline", action="store_true", help="do not run the tests with every rule on first"
    )
    return options.parse_args()


def _attempts(switches: Sequence[Switch], *, only: str, lineage: bool) -> list[Attempt]:
    """Return what to try: all rules and rows, or only the rows of the lineage."""
    if lineage:
        rows = [row for row in read_rows() if only in {"", row.number, row.seed}]
        if not rows:
            print(
                f"{only} is neither a row nor a design of docs/lineage.md. "
                "Hint: name a row as B5, or a design: B, T2, T, E or D.",
                file=sys.stderr,
            )
            sys.exit(2)
        return row_attempts(rows)
    chosen = [one for one in switches if only.lower() in one.rule.lower()]
    attempts = [Attempt(one.rule, one.rule, (one.tests,)) for one in chosen]
    if only:
        return attempts
    return attempts + [one for one in row_attempts(read_rows()) if not _is_tried(one, switches)]


def row_attempts(rows: Sequence[Row]) -> list[Attempt]:
    """Return an attempt for each switch of each row; each test of the row is run alone."""
    return [
        Attempt(f"{row.number}: {rule}", rule, tuple((test,) for test in row.tests))
        for row in rows
        for rule in row.switches
    ]


def _is_tried(attempt: Attempt, switches: Sequence[Switch]) -> bool:
    """Return whether the table of rules has the same switch with one of the same tests alone."""
    return any(one.rule == attempt.rule and one.tests in attempt.runs for one in switches)


def _check(switches: list[Switch]) -> int:
    """Switch each rule off in its own process, without tests; return 0 if all switches fit."""
    django.setup()
    unfit = 0
    for switch in switches:
        _import_code(switch.off)
        child = os.fork()
        if child == 0:
            try:
                switch.off.off()
            except Exception as error:  # noqa: BLE001 - whatever it is, the table is out of date
                print(f"{switch.rule}: {error!r}", flush=True)
                os._exit(1)
            os._exit(0)
        unfit += os.waitpid(child, 0)[1] != 0
        missing = [test for test in switch.tests if not _exists(test)]
        if missing:
            print(f"{switch.rule}: no {', '.join(missing)}")
        unfit += bool(missing)
    print(f"{len(switches)} switches, {unfit} do not fit.")
    return 1 if unfit else 0


def _import_code(off: Code | Sql | Both) -> None:
    """Import the module of a switch, so that the process of the switch need not do so."""
    if isinstance(off, Both):
        _import_code(off.one)
        _import_code(off.other)
    elif isinstance(off, Code):
        with suppress(ImportError):
            import_module(off.where.partition(":")[0])


def _exists(test: str) -> bool:
    """Return whether a test file, or `file::test`, exists."""
    path, _, name = test.partition("::")
    name = name.rpartition("::")[2]
    return (ROOT / path).is_file() and (not name or f"def {name}(" in (ROOT / path).read_text())


def _baseline(tests: list[str], deadline: float) -> str:
    """Run the tests with every rule on; return the output if some fail, else "".

    Raises `subprocess.TimeoutExpired` at the deadline.
    """
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *_QUIET, *tests, "-n", "2"],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=max(1.0, deadline - time.monotonic()),
    )
    return "" if done.returncode == 0 else done.stdout[-3000:]


def _try_all(
    attempts: Sequence[Attempt], console: Console, workers: int, deadline: float
) -> list[Outcome]:
    """Make all attempts, `workers` at a time; those after the deadline are not run."""
    bar = Progress(
        TextColumn("rules switched off"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    outcomes: list[Outcome] = []
    idle: SimpleQueue[WarmPytest] = SimpleQueue()
    for _worker in range(workers):
        idle.put(WarmPytest())

    def outcome_of(attempt: Attempt) -> Outcome:
        warm = idle.get()
        began = time.monotonic()
        try:
            outcome = _try(attempt, warm, deadline)
            return replace(outcome, seconds=time.monotonic() - began)
        finally:
            idle.put(warm)

    with bar, ThreadPoolExecutor(workers) as pool:
        shown = bar.add_task("", total=len(attempts))
        for outcome in pool.map(outcome_of, attempts):
            outcomes.append(outcome)
            bar.advance(shown)
    for _worker in range(workers):
        idle.get().close()
    return outcomes


def _try(attempt: Attempt, warm: WarmPytest, deadline: float) -> Outcome:
    said = ""
    for tests in attempt.runs:
        seconds = min(LONGEST, deadline - time.monotonic())
        if seconds <= 0:
            return Outcome(attempt.title, "", was_run=False)
        words = ["-x", "-p", "tests.mutate.plugin", "-p", "no:cacheprovider", *tests]
        status, output = warm.run([*_QUIET, *words], {VARIABLE: attempt.rule}, seconds=seconds)
        if status is None and seconds < LONGEST:
            return Outcome(attempt.title, "", was_run=False)
        failed = _FAILED.search(output)
        if status == _FAILURES and failed:
            return Outcome(attempt.title, failed[1])
        said += f"No test failed in {seconds:.0f} s.\n" if status is None else output[-3000:]
    return Outcome(attempt.title, "", said or "There is no test.")


def _table(outcomes: list[Outcome]) -> Table:
    table = Table("rule that was switched off", "caught by", "seconds", box=None, pad_edge=False)
    for one in outcomes:
        caught_by = escape(one.caught_by) or "[bold red]no test[/]"
        table.add_row(escape(one.title), caught_by, f"{one.seconds:.1f}")
    return table


def _report(outcomes: list[Outcome], console: Console, *, seconds: float, minutes: float) -> int:
    """Print the rules that escaped or were not tried, and the sums; return the exit status."""
    escaped = [one for one in outcomes if one.was_run and not one.is_caught]
    skipped = [one.title for one in outcomes if not one.was_run]
    for one in escaped:
        console.print(f"\n[bold red]escaped: {escape(one.title)}[/]")
        console.print(one.said, markup=False)
    console.print(
        f"{len(outcomes) - len(skipped)} rules switched off, {len(outcomes) - len(escaped) - len(skipped)} "
        f"caught, {len(escaped)} escaped ({seconds:.0f} s)."
    )
    slowest = sorted(outcomes, key=lambda one: one.seconds, reverse=True)[:_SLOWEST]
    console.print(
        "The slowest:",
        *(f"{one.seconds:.1f} s  {one.title}" for one in slowest),
        sep="\n  ",
        markup=False,
    )
    if skipped:
        console.print("\nNot tried:", *skipped, sep="\n  ", markup=False)
        console.print(
            f"{len(skipped)} rules were not tried within {minutes:g} minutes. Hint: name faster "
            "tests in the table, or try some rules with --only.",
            style="bold red",
        )
        return _TOO_SLOW
    return 1 if escaped else 0


if __name__ == "__main__":
    sys.exit(main())
