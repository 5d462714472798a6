"""Decides whether a report is accepted, its outcome and its times [pure]."""

from __future__ import annotations

import re
from datetime import datetime

from scheduler.hosts.facts import Report
from scheduler.lifecycle import Axis, ClientState, Outcome, ResultState, sources
from scheduler.results.rules.runner_reports import FAILED_STATUS

#: Result states in which a report is accepted; in others it is acknowledged and ignored (trap 10).
OPEN_TO_REPORTS = frozenset(
    sources(Axis.RESULT, ResultState.SUCCESS) + sources(Axis.RESULT, ResultState.CLIENT_ERROR)
)

#: Success rules of an app (docs/apps.md).
EXIT_CODE, EMPTY_STDERR, BOTH, VALIDATOR = "exit_code", "empty_stderr", "both", "validator"
RUNNER = "runner"

#: The element that contains the program's stderr, and the elements with the client's own messages.
_STDERR = re.compile(r"<stderr_txt>\n?(.*)</stderr_txt>", re.DOTALL)
_MESSAGE = re.compile(r"<message>.*?</message>", re.DOTALL)
#: Lines that the launcher, BOINC's library or BOINC's wrapper writes, not the scientist's program.
_NOISE = re.compile(
    r"^(?:manyhands(?:-runner)?: .*"
    r"|\d\d:\d\d:\d\d \(\d+\): (?:called boinc_finish.*|wrapper.*|.* exited; .*))$",
    re.MULTILINE,
)


def outcome(
    report: Report,
    *,
    rule: str = EXIT_CODE,
    launched: bool = False,
    complete: bool = True,
    app_status: int | None = None,
) -> Outcome:
    """Return the outcome of a reported result by the app's success rule.

    The conditions of a success are, by `rule`:

    - `exit_code`: the client uploaded the outputs, and the program exited with 0 (trap 6);
    - `empty_stderr`: the program itself exited, with any status, all required outputs are uploaded,
      and the program wrote nothing to its stderr;
    - `both`: the condition of `exit_code`, and the program wrote nothing to its stderr;
    - `validator`: the program itself exited, with any status, and all required outputs are
      uploaded; the validator then decides;
    - `runner`: the condition of `exit_code`, and `app_status`, the status that the program
      reported, is not 2 (failed).

    If `launched` is True, a launcher ran the program.  A launcher applies the rule itself and exits
    with 0 if the rule is met, so that its exit status must be 0.  `complete` is True if all
    required outputs are uploaded; the client does not check this after an error of the program.
    """
    is_success = report.client_state == ClientState.FILES_UPLOADED and report.exit_status == 0
    if rule in {EMPTY_STDERR, VALIDATOR} and not launched:
        is_success = is_success or _ended_by_itself(report, complete=complete)
    if rule in {EMPTY_STDERR, BOTH}:
        is_success = is_success and not own_stderr(report.stderr)
    if rule == RUNNER:
        is_success = is_success and app_status not in {None, FAILED_STATUS}
    if rule == VALIDATOR:
        is_success = is_success and complete
    return Outcome.SUCCESS if is_success else Outcome.CLIENT_ERROR


def _ended_by_itself(report: Report, *, complete: bool) -> bool:
    """Return whether the program itself exited, and all required outputs are uploaded.

    A negative exit status is set by the client, not by the program.
    """
    return report.exit_status >= 0 and (
        report.client_state == ClientState.FILES_UPLOADED
        or (report.client_state == ClientState.COMPUTE_ERROR and complete)
    )


def own_stderr(reported: str) -> str:
    r"""Return the part of a reported stderr that the program itself wrote.

    >>> own_stderr("<message>code 3</message><stderr_txt>\nmanyhands: so\nmine\n</stderr_txt>")
    'mine'
    """
    match = _STDERR.search(reported)
    text = match[1] if match else _MESSAGE.sub("", reported)
    return _NOISE.sub("", text).strip()


#: The exit status of a result that the project aborted.
EXIT_ABORTED_BY_PROJECT = 202


def is_the_hosts_fault(report: Report) -> bool:
    """Return whether a failed result counts against the host (PROTOCOL 9.2).

    A result that the project aborted does not count.
    """
    return report.exit_status != EXIT_ABORTED_BY_PROJECT


def recorded_status(report: Report) -> int:
    """Return the exit status to store: of a program that ended after SIGTERM, its own."""
    if report.exit_status == EXIT_ABORTED_BY_PROJECT and report.terminated_status is not None:
        return report.terminated_status
    return report.exit_status


def is_taken(*, state: int, owner: int | None, reporter: int) -> bool:
    """Return whether a report of a result in `state` is accepted from the account `reporter`."""
    return state in OPEN_TO_REPORTS and owner == reporter


def sane_times(
    report: Report, *, ncpus: int, sent_at: datetime | None, now: datetime
) -> tuple[float, float]:
    """Return plausible CPU and elapsed seconds (PROTOCOL 9.7).

    Scripts report no CPU time, and short runs report no elapsed time (trap 17).  The elapsed time
    is limited to the time since the result was sent, by the server's clock.  If `sent_at` is in the
    future, the server's clock was set back, and the elapsed time is not limited.  The CPU time is
    limited to the elapsed time multiplied by `ncpus`.
    """
    cpu, elapsed = max(0.0, report.cpu_time), max(0.0, report.elapsed_time)
    if elapsed == 0 or (ncpus == 1 and elapsed < cpu):
        elapsed = cpu
    if sent_at is not None and sent_at <= now:
        elapsed = min(elapsed, (now - sent_at).total_seconds())
    return min(cpu, elapsed * ncpus), elapsed
