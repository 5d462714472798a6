"""`python -m demo.trust_show`: plays two stories of trust, says what came of them."""

from __future__ import annotations

import os
import shutil
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from project.embedded_postgres import EmbeddedPostgres

if TYPE_CHECKING:
    from demo.trust import Play, Scenario, Standing

VAR = Path(__file__).resolve().parent.parent / "var" / "demo-trust"

SETTINGS = {
    "DJANGO_SETTINGS_MODULE": "project.settings",
    "VAR_DIR": str(VAR),
    "PROJECT_NAME": "Manyhands demo of trust",
    "GUARD_TRIGGER": "true",
    "CHANCE_KEY": "a fixed key: every run draws the same lots",
    "LOG_LEVEL": "ERROR",
}

WHAT_IT_MEANS = """
What replication can find, and what it cannot:
  found      a wrong answer that meets a right one: both are doubted, a third host decides, and who
             lied loses trust, quota and credit. A trusted host is checked once in as many results
             as it had right in a row, so that no trust is for ever.
  not found  the same wrong answer from two hosts that are given the same workunit: to the server
             that is agreement. It needs two accounts, chance, and the same lie; a larger quorum
             makes it rarer, a validator that checks the answer itself ends it (docs/trust.md)."""


def main() -> int:
    """Play both; 0 if everything is as it must be."""
    console = Console(soft_wrap=True, highlight=False)
    database = EmbeddedPostgres(VAR)
    database.stop()
    with suppress(FileNotFoundError):
        shutil.rmtree(VAR)
    os.environ.pop("DATABASE_URL", None)
    os.environ.update(SETTINGS)
    began = time.monotonic()
    try:
        holds = _play_all(console)
    except KeyboardInterrupt:
        console.print("demo: interrupted")
        return 130
    finally:
        database.stop()
    verdict = "All of it is true" if holds else "Not everything is as it must be"
    console.print(f"\n{verdict}, after {time.monotonic() - began:.0f} s.")
    return 0 if holds else 1


def _play_all(console: Console) -> bool:
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)
    from demo import trust

    holds = True
    for scenario in (trust.APART, trust.TOGETHER):
        play = _play(scenario, console)
        console.print(_table(play.standing()))
        tenths = "  ".join(f"{number:.1f}" for number in play.replicas_by_tenth())
        console.print(f"results per workunit, by tenth of the work: {tenths}")
        for holds_true, sentence in _findings(play):
            mark, style = ("✓", "green") if holds_true else ("✗", "bold red")
            console.print(Text(f"{mark} {sentence}", style=style))
            holds = holds and holds_true
        console.print()
    console.print(Text(WHAT_IT_MEANS.strip("\n")))
    return holds


def _play(scenario: Scenario, console: Console) -> Play:
    from demo.trust import MONDAY, Play

    console.print(Text(scenario.title, style="bold"))
    play = Play(scenario)
    play.begin()
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    with bar:
        shown = bar.add_task("workunits finished", total=scenario.workunits)
        for finished in play.hours():
            bar.update(shown, completed=finished)
    days = (play.now - MONDAY).days
    console.print(
        f"{scenario.workunits} workunits, {len(play.actors)} hosts, {days} simulated days"
    )
    return play


def _table(standing: list[Standing]) -> Table:
    table = Table("host", "conduct", box=None, pad_edge=False)
    for heading in ("sent", "valid", "invalid", "alone", "per day", "in a row", "credit"):
        table.add_column(heading, justify="right", no_wrap=True)
    for one in standing:
        table.add_row(
            one.name,
            one.behaviour,
            *map(str, (one.sent, one.valid, one.invalid, one.alone, one.quota, one.in_a_row)),
            f"{one.credit:.0f}",
        )
    return table


def _findings(play: Play) -> list[tuple[bool, str]]:
    """What must be true at the end of a story, and whether it is."""
    from demo import trust

    standing = play.standing()
    bad = [
        one for one in standing if one.behaviour.startswith("answers") or "never" in one.behaviour
    ]
    good = [one for one in standing if one.behaviour == "right"]
    tenths = play.replicas_by_tenth()
    wrong = play.lies_believed()
    unlike = [one.name for one in standing if one.credit != one.entered]
    findings = [
        (
            all(one.quota <= trust.DAILY_QUOTA // 4 for one in bad),
            "the quotas of the bad hosts have shrunk: "
            + ", ".join(f"{one.name} {one.quota} a day" for one in bad),
        ),
        (
            all(one.alone > one.sent / 3 for one in good),
            "most of the good hosts' results are believed alone: "
            + ", ".join(f"{one.name} {one.alone} of {one.sent}" for one in good),
        ),
        (
            tenths[-1] < tenths[0],
            f"replicas per workunit fell from {tenths[0]:.1f} to {tenths[-1]:.1f}",
        ),
        (not unlike, "every host's credit is the sum of its entries in the ledger"),
        (play.without_answer() == 0, "every workunit has an answer"),
    ]
    total = play.scenario.workunits
    if play.scenario is trust.APART:
        findings.append((not wrong, f"all {total} answers are right"))
    else:
        ways = ", ".join(f"{count} {how}" for how, count in wrong.items()) or "none"
        lies = sum(one.invalid for one in bad)
        findings.append((True, f"wrong answers believed: {ways}; lies found out: {lies}"))
    findings.append((_fsck_is_clean(), "fsck finds nothing"))
    return findings


def _fsck_is_clean() -> bool:
    """Whether every invariant holds; fsck itself says which does not."""
    from django.core.management import CommandError, call_command

    try:
        call_command("fsck", verbosity=0)
    except CommandError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
