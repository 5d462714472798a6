"""Describes the newest failed result of a workunit or a batch in one line [pure]."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from scheduler.lifecycle import Outcome
from scheduler.results.rules.reports import own_stderr

#: Limits on the stderr that is shown: number of lines, and characters of each.
MAX_LINES, MAX_LINE = 3, 200


@dataclass(frozen=True, slots=True)
class LastError:
    """A result that failed; `stderr` is the text that its client reported."""

    result: str
    outcome: int
    exit_status: int
    host: str
    at: datetime | None
    stderr: str

    @property
    def tail(self) -> tuple[str, ...]:
        """The last lines of the program's own stderr, without control characters."""
        return tail(self.stderr)

    @property
    def sentence(self) -> str:
        """A description of the failure in one line."""
        if self.outcome == Outcome.VALIDATE_ERROR:
            what = "was refused by the validator before it was compared"
        else:
            what = f"failed with exit status {self.exit_status}"
        stderr = f"; its stderr ends: {' | '.join(self.tail)}" if self.tail else ""
        return f"{self.result} {what} on {self.host}{stderr}"


def tail(stderr: str) -> tuple[str, ...]:
    r"""Return the last `MAX_LINES` lines of the program's stderr in a report, without empty lines.

    >>> tail("<message>code 17</message><stderr_txt>\nTraceback\n\nE: \x1b[1m7\n</stderr_txt>")
    ('Traceback', 'E:  [1m7')
    """
    text = own_stderr(stderr)
    lines = ["".join(c if c.isprintable() else " " for c in line) for line in text.splitlines()]
    return tuple(line.strip()[:MAX_LINE] for line in lines if line.strip())[-MAX_LINES:]
