"""The app's success rule decides whether a report counts as a success."""

from __future__ import annotations

import pytest

from scheduler.hosts.facts import Report
from scheduler.lifecycle import Outcome
from scheduler.results.rules import reports

QUIET = "<stderr_txt>\n</stderr_txt>\n"
LOUD = "<message>\nprocess exited with code 3</message>\n<stderr_txt>\ncareful\n</stderr_txt>\n"
NOISY = """<core_client_version>7.20.5</core_client_version>
<message>
process exited with code 3 (0x3, -253)</message>
<stderr_txt>
manyhands: before: careful
12:00:01 (4711): wrapper (8.1.26018): starting
12:00:01 (4711): wrapper: running worker ()
12:00:09 (4711): worker exited; CPU time 7.5
12:00:09 (4711): called boinc_finish(0)

</stderr_txt>
"""


def judged(
    rule: str, state: int, code: int, stderr: str = QUIET, *, launched: bool, complete: bool = True
) -> bool:
    report = Report(name="x", client_state=state, exit_status=code, stderr=stderr)
    found = reports.outcome(report, rule=rule, launched=launched, complete=complete)
    return found is Outcome.SUCCESS


@pytest.mark.parametrize("launched", [True, False])
@pytest.mark.parametrize(
    ("rule", "code", "stderr", "good"),
    [
        ("exit_code", 0, QUIET, True),
        ("exit_code", 0, LOUD, True),
        ("empty_stderr", 0, QUIET, True),
        ("empty_stderr", 0, NOISY, True),
        ("empty_stderr", 0, LOUD, False),
        ("both", 0, QUIET, True),
        ("both", 0, NOISY, True),
        ("both", 0, LOUD, False),
        ("validator", 0, LOUD, True),
    ],
)
def test_exit_code_0_is_a_success_only_if_the_rule_accepts_its_stderr(
    rule: str, code: int, stderr: str, *, good: bool, launched: bool
) -> None:
    assert judged(rule, 5, code, stderr, launched=launched) is good


@pytest.mark.parametrize(
    ("rule", "stderr", "good"),
    [
        ("exit_code", QUIET, False),
        ("empty_stderr", QUIET, True),
        ("empty_stderr", NOISY, True),
        ("empty_stderr", LOUD, False),
        ("both", QUIET, False),
        ("validator", LOUD, True),
    ],
)
def test_nonzero_exit_code_is_judged_by_the_rule_but_an_error_from_a_launcher(
    rule: str, stderr: str, *, good: bool
) -> None:
    assert judged(rule, 3, 3, stderr, launched=False) is good
    assert not judged(rule, 3, 3, stderr, launched=True), "a launcher knows the rule"


@pytest.mark.parametrize("rule", ["exit_code", "empty_stderr", "both", "validator"])
@pytest.mark.parametrize(
    ("state", "code"), [(6, 197), (6, 202), (7, -187), (1, -186), (3, -185), (3, -226)]
)
def test_result_that_did_not_end_by_itself_is_never_a_success(
    rule: str, state: int, code: int
) -> None:
    assert not judged(rule, state, code, launched=False)
    assert not judged(rule, state, code, launched=True)


def test_incomplete_outputs_are_an_error_unless_the_rule_is_exit_code() -> None:
    assert not judged("empty_stderr", 3, 3, launched=False, complete=False)
    assert not judged("validator", 3, 3, launched=False, complete=False)
    assert not judged("validator", 5, 0, launched=True, complete=False)
    assert judged("exit_code", 5, 0, launched=True, complete=False), "the validator misses them"


@pytest.mark.parametrize(
    ("said", "own"),
    [
        ("", ""),
        ("<stderr_txt>\n a\n</stderr_txt>\n<message>upload failure: x</message>", "a"),
        ("our client says it bare\n", "our client says it bare"),
        ("<message>aborted</message>", ""),
        ("<stderr_txt>\nx manyhands: y\n</stderr_txt>", "x manyhands: y"),
        ("<stderr_txt>\n<stderr_txt>in</stderr_txt>\n</stderr_txt>", "<stderr_txt>in</stderr_txt>"),
    ],
)
def test_own_stderr_returns_only_what_the_program_wrote(said: str, own: str) -> None:
    assert reports.own_stderr(said) == own
