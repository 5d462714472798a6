"""Carries out requested checks of the invariants that are one statement each."""

from __future__ import annotations

from scheduler.health import invariants
from scheduler.health.checks.check_runs import Checker, Step
from scheduler.health.checks.statement_limit import NotChecked, limited
from scheduler.health.rules.check_findings import MAX_ROWS, Finding, Unchecked, cleaned


def _step(name: str, _after_id: int) -> Step:
    """Check an invariant, and return its violations; it is skipped if that is not possible."""
    if name not in invariants.statement_names():
        # The run was started by another release, or before the ledger was switched off.
        return _skipped(name, name, "It is not checked with the present release and settings.")
    invariant = invariants.of_statement(name)
    try:
        with limited():
            count, first = invariants.first_violations(name, MAX_ROWS)
    except NotChecked as refusal:
        return _skipped(name, invariant.sentence, str(refusal))
    if not count:
        return Step(checked=1)
    rows = [(row.name, row.detail) for row in first]
    finding = Finding.of(name, invariant.sentence, rows, count=count, hint=invariant.hint)
    return Step(checked=1, finding=finding)


def _skipped(name: str, sentence: str, reason: str) -> Step:
    return Step(skipped=1, unchecked=Unchecked(name, sentence, cleaned(reason)))


CHECKER = Checker(
    parts=invariants.statement_names,
    count=lambda: len(invariants.statement_names()),
    step=_step,
)
