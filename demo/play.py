"""Runs the steps of the demonstration: submits work, waits, checks the results."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import timedelta

from django.db import connection
from django.utils import timezone
from rich.console import Console
from rich.table import Table
from rich.text import Text

from demo import sample, verdict
from demo.chronicle import BAD, GOOD, Chronicle, Line
from demo.stage import BOB, MALLORY, VAR, VOLUNTEERS, Stage, StageError
from scheduler.lifecycle import Outcome, ServerState
from scheduler.models import Result

EXPONENT_LIMIT = 2300
SHAPE = sample.Shape(
    exponents_per_workunit=19,
    min_quorum=2,
    seconds_per_exponent=0.04,
    delay_bound=timedelta(minutes=10),
)

#: The demonstration fails if work is unfinished after this time.
TIMEOUT_SECONDS = 120.0
POLL_SECONDS = 0.1
DOWNTIME_SECONDS = 1.5
MAX_EXPLAINED = 3


@dataclass(slots=True)
class Demonstration:
    """One run of the demonstration, with the facts that are checked at the end."""

    stage: Stage
    console: Console
    exponents: list[int] = field(default_factory=lambda: sample.primes(below=EXPONENT_LIMIT))
    names: tuple[str, ...] = ()
    chronicle: Chronicle = field(init=False)
    killed_at: float | None = None
    is_restarted: bool = False
    successes_before: int = 0

    def submit(self) -> None:
        """Publish the app, submit the exponents."""
        now = timezone.now()
        sample.configure_for_few_hosts(sample.publish(now=now))
        now = timezone.now()
        self.chronicle = Chronicle(began_at=now, min_quorum=SHAPE.min_quorum)
        self.names = sample.submit_exponents(self.exponents, SHAPE, now=now).names
        self.console.print(
            f"{len(self.exponents)} prime exponents in {len(self.names)} workunits, "
            f"quorum {SHAPE.min_quorum}"
        )

    def watch(self) -> None:
        """Print events until all work is finished; raises StageError after the timeout."""
        give_up_at = time.monotonic() + TIMEOUT_SECONDS
        while unfinished := verdict.unfinished(self.names):
            self._print_new_lines()
            self._kill_and_restart_bob()
            if broken := self.stage.broken():
                raise StageError(broken)
            if time.monotonic() > give_up_at:
                raise StageError(self._timeout_message(unfinished))
            time.sleep(POLL_SECONDS)
        self._print_new_lines()

    def conclude(self) -> bool:
        """Print every check; return False if one failed."""
        earned = verdict.earnings([volunteer.name for volunteer in VOLUNTEERS])
        fsck = self.stage.manage("fsck")
        findings = [
            *verdict.about_primes(verdict.read_answers(VAR / "results"), self.exponents),
            *verdict.about_the_liar(MALLORY.name),
            *verdict.about_the_killed(BOB.name, self.successes_before),
            *verdict.about_credit(earned),
            verdict.Finding(fsck.stdout.strip(), fsck.returncode == 0),
        ]
        connection.close()
        self.console.print()
        self.console.print(_table(earned))
        for finding in findings:
            mark, style = ("✓", GOOD) if finding.holds else ("✗", BAD)
            self.console.print(Text(f"{mark} {finding.sentence}", style=style))
        return all(finding.holds for finding in findings)

    def _print_new_lines(self) -> None:
        for line in self.chronicle.new_lines():
            self._print_line(line)

    def _print_line(self, line: Line) -> None:
        self.console.print(Text(str(line), style=line.style))

    def _remark(self, subject: str, text: str) -> None:
        seconds = (timezone.now() - self.chronicle.began_at).total_seconds()
        self._print_line(Line(seconds, subject, text, BAD))

    def _kill_and_restart_bob(self) -> None:
        """Kill a client while it computes, and start it again after `DOWNTIME_SECONDS`."""
        if self.killed_at is None:
            results = Result.objects.filter(account__name=BOB.name)
            successes = results.filter(outcome=Outcome.SUCCESS).count()
            if successes and results.filter(server_state=ServerState.IN_PROGRESS).exists():
                self.stage.kill(BOB)
                self.killed_at, self.successes_before = time.monotonic(), successes
                self._remark(BOB.name, "client killed (SIGKILL)")
        elif not self.is_restarted and time.monotonic() > self.killed_at + DOWNTIME_SECONDS:
            self.stage.run(BOB)
            self.is_restarted = True
            self._remark(BOB.name, "client started again")

    def _timeout_message(self, unfinished: list[str]) -> str:
        names = unfinished[:MAX_EXPLAINED]
        explanations = "\n".join(
            self.stage.manage("explain", name).stdout.strip() for name in names
        )
        return (
            f"after {TIMEOUT_SECONDS:.0f} s {len(unfinished)} of {len(self.names)} workunits are "
            f"unfinished.\n{explanations}\nHint: the logs are in {VAR}."
        )


def _table(earned: list[verdict.Earnings]) -> Table:
    table = Table("volunteer", box=None, pad_edge=False)
    for heading in ("valid", "invalid", "credit"):
        table.add_column(heading, justify="right")
    for earnings in earned:
        table.add_row(
            earnings.name, str(earnings.valid), str(earnings.invalid), f"{earnings.credit:.2f}"
        )
    return table
