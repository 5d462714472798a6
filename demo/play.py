"""The play on the stage: work is submitted, watched to its end, and judged."""

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

BELOW = 2300
SHAPE = sample.Shape(
    exponents_per_workunit=19,
    min_quorum=2,
    seconds_per_exponent=0.04,
    delay_bound=timedelta(minutes=10),
)

#: After so many seconds something hangs, and we say what.
DEADLINE = 120.0
LOOK_EVERY = 0.1
BOB_IS_AWAY = 1.5
EXPLAINED = 3


@dataclass(slots=True)
class Play:
    """What is shown, and what is remembered for the end."""

    stage: Stage
    console: Console
    exponents: list[int] = field(default_factory=lambda: sample.primes(below=BELOW))
    names: tuple[str, ...] = ()
    chronicle: Chronicle = field(init=False)
    killed_at: float | None = None
    is_back: bool = False
    successes_before: int = 0

    def submit(self) -> None:
        """Publish the app, submit the exponents."""
        now = timezone.now()
        sample.suit_a_small_pool(sample.publish(now=now))
        now = timezone.now()
        self.chronicle = Chronicle(began_at=now, min_quorum=SHAPE.min_quorum)
        self.names = sample.submit_exponents(self.exponents, SHAPE, now=now).names
        self.console.print(
            f"{len(self.exponents)} prime exponents in {len(self.names)} workunits, "
            f"quorum {SHAPE.min_quorum}"
        )

    def watch(self) -> None:
        """Show what happens until all is done; raises StageError if it takes too long."""
        give_up_at = time.monotonic() + DEADLINE
        while unfinished := verdict.unfinished(self.names):
            self._tell_news()
            self._trouble_bob()
            if broken := self.stage.broken():
                raise StageError(broken)
            if time.monotonic() > give_up_at:
                raise StageError(self._why(unfinished))
            time.sleep(LOOK_EVERY)
        self._tell_news()

    def conclude(self) -> bool:
        """Judge everything that must be true, and say it; False if anything is not."""
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

    def _tell_news(self) -> None:
        for line in self.chronicle.news():
            self._say(line)

    def _say(self, line: Line) -> None:
        self.console.print(Text(str(line), style=line.style))

    def _remark(self, subject: str, text: str) -> None:
        seconds = (timezone.now() - self.chronicle.began_at).total_seconds()
        self._say(Line(seconds, subject, text, BAD))

    def _trouble_bob(self) -> None:
        """Kill a client in the midst of its work, and start it again a moment later."""
        if self.killed_at is None:
            results = Result.objects.filter(account__name=BOB.name)
            successes = results.filter(outcome=Outcome.SUCCESS).count()
            if successes and results.filter(server_state=ServerState.IN_PROGRESS).exists():
                self.stage.kill(BOB)
                self.killed_at, self.successes_before = time.monotonic(), successes
                self._remark(BOB.name, "his client is killed (SIGKILL)")
        elif not self.is_back and time.monotonic() > self.killed_at + BOB_IS_AWAY:
            self.stage.run(BOB)
            self.is_back = True
            self._remark(BOB.name, "his client is started again")

    def _why(self, unfinished: list[str]) -> str:
        asked = unfinished[:EXPLAINED]
        said = "\n".join(self.stage.manage("explain", name).stdout.strip() for name in asked)
        return (
            f"after {DEADLINE:.0f} s {len(unfinished)} of {len(self.names)} workunits are not "
            f"finished.\n{said}\nHint: the logs are in {VAR}."
        )


def _table(earned: list[verdict.Earnings]) -> Table:
    table = Table("volunteer", box=None, pad_edge=False)
    for heading in ("valid", "invalid", "credit"):
        table.add_column(heading, justify="right")
    for one in earned:
        table.add_row(one.name, str(one.valid), str(one.invalid), f"{one.credit:.2f}")
    return table
