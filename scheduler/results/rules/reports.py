"""What a report makes of a result [pure]."""

from __future__ import annotations

import re
from datetime import datetime

from scheduler.hosts.facts import Report
from scheduler.lifecycle import Axis, ClientState, Outcome, ResultState, sources

#: A report is taken from these states; from any other it is acknowledged and ignored (trap 10).
OPEN_TO_REPORTS = frozenset(
    sources(Axis.RESULT, ResultState.SUCCESS) + sources(Axis.RESULT, ResultState.CLIENT_ERROR)
)

#: Rules of an app for what makes a report a success (docs/apps.md).
EXIT_CODE, EMPTY_STDERR, BOTH, VALIDATOR = "exit_code", "empty_stderr", "both", "validator"

#: What the client puts around a program's stderr, and says itself.
_STDERR = re.compile(r"<stderr_txt>\n?(.*)</stderr_txt>", re.DOTALL)
_MESSAGE = re.compile(r"<message>.*?</message>", re.DOTALL)
#: Lines that no program of a scientist wrote: the launcher's, and BOINC's library's and wrapper's.
_NOISE = re.compile(
    r"^(?:manyhands: .*"
    r"|\d\d:\d\d:\d\d \(\d+\): (?:called boinc_finish.*|wrapper.*|.* exited; .*))$",
    re.MULTILINE,
)


def outcome(
    report: Report, *, rule: str = EXIT_CODE, launched: bool = False, complete: bool = True
) -> Outcome:
    """What a report makes of a result, by the app's rule for success.

    `exit_code`: all outputs uploaded, and the program exited with 0 (trap 6).  `empty_stderr`: it
    wrote nothing to its stderr, however it exited; `both`: both.  `validator`: every output that
    must come is here (`complete`), and the validator judges.  A launcher (`launched`) knows the
    rule and exits with 0 if it holds; of any other program that exited with an error, the client
    has not looked whether its outputs are complete.
    """
    well = report.client_state == ClientState.FILES_UPLOADED and report.exit_status == 0
    if rule in {EMPTY_STDERR, VALIDATOR} and not launched:
        well = well or _ended_by_itself(report, complete=complete)
    if rule in {EMPTY_STDERR, BOTH}:
        well = well and not own_stderr(report.stderr)
    if rule == VALIDATOR:
        well = well and complete
    return Outcome.SUCCESS if well else Outcome.CLIENT_ERROR


def _ended_by_itself(report: Report, *, complete: bool) -> bool:
    """Whether a program ended, and left all that it should; negative codes are the client's own."""
    return report.exit_status >= 0 and (
        report.client_state == ClientState.FILES_UPLOADED
        or (report.client_state == ClientState.COMPUTE_ERROR and complete)
    )


def own_stderr(said: str) -> str:
    r"""What the program itself wrote to its stderr, of what a client reports of it.

    >>> own_stderr("<message>code 3</message><stderr_txt>\nmanyhands: so\nmine\n</stderr_txt>")
    'mine'
    """
    found = _STDERR.search(said)
    text = found[1] if found else _MESSAGE.sub("", said)
    return _NOISE.sub("", text).strip()


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
