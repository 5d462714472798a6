"""`python -m tests.mutate`: switches each rule off; one of its tests must fail."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import django
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from tests.mutate.plugin import VARIABLE
from tests.mutate.switching import Switch

ROOT = Path(__file__).resolve().parent.parent.parent
LONGEST = 120.0
LONGEST_OF_ALL = 1800.0
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
_FAILURES, _UNUSABLE = 1, 2


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result for one rule: the test that failed, or the output if none did."""

    rule: str
    caught_by: str
    said: str = ""

    @property
    def is_caught(self) -> bool:
        """Return whether a test failed."""
        return bool(self.caught_by)


def main() -> int:
    """Run the tests of each switched-off rule; return 0 if a test failed for each, else 1."""
    given = _options()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    from tests.mutate.switches import SWITCHES

    chosen = [one for one in SWITCHES if given.only.lower() in one.rule.lower()]
    if given.check:
        return _check(chosen)
    console = Console(soft_wrap=True, highlight=False)
    began = time.monotonic()
    if not given.skip_baseline and (
        said := _baseline(sorted({t for s in chosen for t in s.tests}))
    ):
        console.print(said)
        console.print(
            "These tests fail with every rule on. Hint: fix them first.", style="bold red"
        )
        return _UNUSABLE
    bar = Progress(
        TextColumn("rules switched off"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    outcomes: list[Outcome] = []
    with bar, ThreadPoolExecutor(given.workers) as pool:
        shown = bar.add_task("", total=len(chosen))
        for outcome in pool.map(lambda one: _try(one.rule, one.tests), chosen):
            outcomes.append(outcome)
            bar.advance(shown)
    console.print(_table(outcomes))
    escaped = [one for one in outcomes if not one.is_caught]
    for one in escaped:
        console.print(f"\n[bold red]escaped: {one.rule}[/]\n{one.said}")
    seconds = time.monotonic() - began
    console.print(
        f"{len(outcomes)} rules switched off, {len(outcomes) - len(escaped)} caught, "
        f"{len(escaped)} escaped ({seconds:.0f} s)."
    )
    return 1 if escaped else 0


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(prog="make mutate", description=__doc__)
    options.add_argument("--only", default="", help="only rules whose text contains this")
    options.add_argument(
        "--check", action="store_true", help="check only that every switch fits the code"
    )
    options.add_argument("--workers", type=int, default=2, help="number of parallel processes (2)")
    options.add_argument(
        "--skip-baseline", action="store_true", help="do not run the tests with every rule on first"
    )
    return options.parse_args()


def _check(switches: list[Switch]) -> int:
    """Switch each rule off in its own process, without tests; return 0 if all switches fit."""
    django.setup()
    unfit = 0
    for switch in switches:
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


def _exists(test: str) -> bool:
    """Return whether a test file, or `file::test`, exists."""
    path, _, name = test.partition("::")
    return (ROOT / path).is_file() and (not name or f"def {name}(" in (ROOT / path).read_text())


def _baseline(tests: list[str]) -> str:
    """Run the tests with every rule on; return the output if some fail, else ""."""
    done = _pytest([*tests, "-n", "2"], {}, within=LONGEST_OF_ALL)
    return "" if done.returncode == 0 else done.stdout[-3000:]


def _try(rule: str, tests: tuple[str, ...]) -> Outcome:
    words = ["-x", "-p", "tests.mutate.plugin", "-p", "no:cacheprovider", *tests]
    try:
        done = _pytest(words, {VARIABLE: rule})
    except subprocess.TimeoutExpired:
        return Outcome(rule, "", f"Nothing was noticed in {LONGEST:.0f} s.")
    said = done.stdout[-1500:] + done.stderr[-1500:]
    failed = _FAILED.search(done.stdout)
    if done.returncode == _FAILURES and failed:
        return Outcome(rule, failed[1])
    return Outcome(rule, "", said)


def _pytest(
    words: list[str], environment: dict[str, str], *, within: float = LONGEST
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=line", *words],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=within,
    )


def _table(outcomes: list[Outcome]) -> Table:
    table = Table("rule that was switched off", "noticed by", box=None, pad_edge=False)
    for one in outcomes:
        table.add_row(one.rule, one.caught_by or "[bold red]nobody[/]")
    return table


if __name__ == "__main__":
    sys.exit(main())
