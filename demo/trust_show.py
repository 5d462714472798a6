"""`python -m demo.trust_show`: runs two simulations of trust and prints results."""

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
    from demo.trust import HostSummary, Scenario, Simulation

VAR = Path(__file__).resolve().parent.parent / "var" / "demo-trust"

SETTINGS = {
    "DJANGO_SETTINGS_MODULE": "project.settings",
    "VAR_DIR": str(VAR),
    "PROJECT_NAME": "Manyhands demo of trust",
    "GUARD_TRIGGER": "true",
    "CHANCE_KEY": "a fixed key: every run makes the same random draws",
    "LOG_LEVEL": "ERROR",
}

WHAT_IT_MEANS = """
Wrong answers that replication detects, and those that it does not:
  detected      a wrong answer that is compared with a right one: both are inconclusive, a third
                host decides, and the host with the wrong answer loses trust, quota and credit. A
                trusted host is checked once in as many results as it has consecutive valid ones,
                so trust never becomes permanent.
  not detected  the same wrong answer from two hosts with the same workunit: for the server they
                agree. It needs two accounts, chance, and the same wrong answer; a larger quorum
                makes it rarer, a validator that checks the answer prevents it (docs/trust.md)."""


def main() -> int:
    """Run both simulations; return 0 if all checks passed."""
    console = Console(soft_wrap=True, highlight=False)
    database = EmbeddedPostgres(VAR)
    database.stop()
    with suppress(FileNotFoundError):
        shutil.rmtree(VAR)
    os.environ.pop("DATABASE_URL", None)
    os.environ.update(SETTINGS)
    began = time.monotonic()
    try:
        holds = _run_all(console)
    except KeyboardInterrupt:
        console.print("demo: interrupted")
        return 130
    finally:
        database.stop()
    verdict = "All checks passed" if holds else "Some checks failed"
    console.print(f"\n{verdict} after {time.monotonic() - began:.0f} s.")
    return 0 if holds else 1


def _run_all(console: Console) -> bool:
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)
    from demo import trust

    holds = True
    for scenario in (trust.APART, trust.TOGETHER):
        simulation = _run(scenario, console)
        console.print(_table(simulation.host_summaries()))
        tenths = "  ".join(f"{number:.1f}" for number in simulation.replicas_by_tenth())
        console.print(f"results per workunit, by tenth of the work: {tenths}")
        for holds_true, sentence in _findings(simulation):
            mark, style = ("✓", "green") if holds_true else ("✗", "bold red")
            console.print(Text(f"{mark} {sentence}", style=style))
            holds = holds and holds_true
        console.print()
    console.print(Text(WHAT_IT_MEANS.strip("\n")))
    return holds


def _run(scenario: Scenario, console: Console) -> Simulation:
    from demo.trust import MONDAY, Simulation

    console.print(Text(scenario.title, style="bold"))
    simulation = Simulation(scenario)
    simulation.begin()
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
        for finished in simulation.hours():
            bar.update(shown, completed=finished)
    days = (simulation.now - MONDAY).days
    console.print(
        f"{scenario.workunits} workunits, {len(simulation.hosts)} hosts, {days} simulated days"
    )
    return simulation


def _table(hosts: list[HostSummary]) -> Table:
    table = Table("host", "conduct", box=None, pad_edge=False)
    for heading in ("sent", "valid", "invalid", "alone", "per day", "in a row", "credit"):
        table.add_column(heading, justify="right", no_wrap=True)
    for host in hosts:
        table.add_row(
            host.name,
            host.behavior,
            *map(str, (host.sent, host.valid, host.invalid, host.alone, host.quota, host.in_a_row)),
            f"{host.credit:.0f}",
        )
    return table


def _findings(simulation: Simulation) -> list[tuple[bool, str]]:
    """Return the checks at the end of a simulation: whether each is true, and its text."""
    from demo import trust

    hosts = simulation.host_summaries()
    bad = [
        host for host in hosts if host.behavior.startswith("answers") or "never" in host.behavior
    ]
    good = [host for host in hosts if host.behavior == "right"]
    tenths = simulation.replicas_by_tenth()
    accepted = simulation.accepted_wrong_answers()
    mismatched = [host.name for host in hosts if host.credit != host.entered]
    findings = [
        (
            all(host.quota <= trust.DAILY_QUOTA // 4 for host in bad),
            "the quotas of the bad hosts were reduced: "
            + ", ".join(f"{host.name} {host.quota} a day" for host in bad),
        ),
        (
            all(host.alone > host.sent / 3 for host in good),
            "most of the good hosts' results are accepted without replication: "
            + ", ".join(f"{host.name} {host.alone} of {host.sent}" for host in good),
        ),
        (
            tenths[-1] < tenths[0],
            f"replicas per workunit fell from {tenths[0]:.1f} to {tenths[-1]:.1f}",
        ),
        (not mismatched, "every host's credit is the sum of its entries in the ledger"),
        (simulation.without_answer() == 0, "every workunit has an answer"),
    ]
    total = simulation.scenario.workunits
    if simulation.scenario is trust.APART:
        findings.append((not accepted, f"all {total} answers are right"))
    else:
        counts = ", ".join(f"{count} {reason}" for reason, count in accepted.items()) or "none"
        detected = sum(host.invalid for host in bad)
        findings.append(
            (True, f"wrong answers accepted: {counts}; wrong answers detected: {detected}")
        )
    findings.append((_fsck_is_clean(), "fsck finds nothing"))
    return findings


def _fsck_is_clean() -> bool:
    """Return whether every invariant holds; fsck prints those that do not."""
    from django.core.management import CommandError, call_command

    try:
        call_command("fsck", verbosity=0)
    except CommandError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
