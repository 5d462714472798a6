"""What a report makes of a result [pure]."""

from __future__ import annotations

from datetime import datetime

from scheduler.facts.hosts import Report
from scheduler.lifecycle import Axis, ClientState, Outcome, ResultState, sources

#: A report is taken from these states; from any other it is acknowledged and ignored (trap 10).
OPEN_TO_REPORTS = frozenset(
    sources(Axis.RESULT, ResultState.SUCCESS) + sources(Axis.RESULT, ResultState.CLIENT_ERROR)
)


def outcome(report: Report) -> Outcome:
    """Success takes both: all outputs uploaded, and the program exited with 0 (trap 6)."""
    if report.client_state == ClientState.FILES_UPLOADED and report.exit_status == 0:
        return Outcome.SUCCESS
    return Outcome.CLIENT_ERROR


#: The exit status of a result that the project itself aborted.
EXIT_ABORTED_BY_PROJECT = 202


def is_the_hosts_fault(report: Report) -> bool:
    """Whether an error counts against the host: not if the project aborted it (PROTOCOL 9.2)."""
    return report.exit_status != EXIT_ABORTED_BY_PROJECT


def is_taken(*, state: int, owner: int | None, reporter: int) -> bool:
    """Whether a report counts: of a result that is open to it, by the account that was given it."""
    return state in OPEN_TO_REPORTS and owner == reporter


def sane_times(
    report: Report, *, ncpus: int, sent_at: datetime | None, now: datetime
) -> tuple[float, float]:
    """CPU and elapsed seconds that can be true (PROTOCOL 9.7).

    Scripts report no CPU time and short runs no elapsed time (trap 17); no client's clock makes a
    result take longer than the time since it was sent.  What was sent in the future was sent before
    our own clock was set back: then nobody but the client knows.
    """
    cpu, elapsed = max(0.0, report.cpu_time), max(0.0, report.elapsed_time)
    if elapsed == 0 or (ncpus == 1 and elapsed < cpu):
        elapsed = cpu
    if sent_at is not None and sent_at <= now:
        elapsed = min(elapsed, (now - sent_at).total_seconds())
    return min(cpu, elapsed * ncpus), elapsed
