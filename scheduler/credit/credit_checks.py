"""Carries out requested comparisons of sums of credit; describes differences."""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic
from typing import Final

from scheduler.credit import recompute_credit
from scheduler.credit.recompute_credit import Difference, Scope
from scheduler.health.checks.check_runs import Checker, Step
from scheduler.health.checks.statement_limit import NotChecked, limited
from scheduler.health.rules import check_findings
from scheduler.health.rules.check_findings import Finding, Unchecked, cleaned

#: The maximum number of differences of each kind that are stored: as many as the command prints.
MAX_ROWS: Final = 50
#: A step begins no further batch of owners after this time; the other chores wait for it.
STEP_SECONDS: Final = 1.0
_HINT: Final = "Hint: `manage.py recompute_credit --apply` corrects these sums."


def findings(differences: Iterable[Difference]) -> list[Finding]:
    """Return a finding for each kind of total that has differences."""
    by_kind: dict[str, list[Difference]] = {}
    for difference in differences:
        by_kind.setdefault(difference.kind, []).append(difference)
    return [_finding(kind, rows) for kind, rows in by_kind.items()]


def _finding(kind: str, differences: list[Difference]) -> Finding:
    rows = ((row.name, f"total {row.kept}, entries {row.entered}") for row in differences)
    return Finding.of(
        kind, _sentence(kind), rows, count=len(differences), hint=_HINT, max_rows=MAX_ROWS
    )


def _sentence(kind: str) -> str:
    return f"Each sum of credit of {kind} equals the sum of its entries."


def _step(kind: str, after_id: int) -> Step:
    """Compare batches of owners for `STEP_SECONDS`, at least one.

    A batch whose comparison takes too long is skipped.
    """
    if kind not in recompute_credit.kind_names():
        reason = "The present release has no such sums."
        return Step(skipped=1, unchecked=Unchecked(kind, _sentence(kind), reason))
    until = monotonic() + STEP_SECONDS
    checked, skipped, unchecked = 0, 0, None
    differences: list[Difference] = []
    while ids := recompute_credit.next_owners(kind, after_id):
        try:
            with limited():
                differences += recompute_credit.compare_owners(kind, ids)
            checked += len(ids)
        except NotChecked as refusal:
            skipped += len(ids)
            reason = cleaned(f"Numbers {ids[0]} to {ids[-1]}: {refusal}")
            batch = Unchecked(kind, _sentence(kind), reason, len(ids))
            [unchecked] = check_findings.merged_unchecked([unchecked] if unchecked else [], batch)
        after_id = ids[-1]
        if monotonic() >= until:
            break
    return Step(
        checked=checked,
        skipped=skipped,
        finding=_finding(kind, differences) if differences else None,
        unchecked=unchecked,
        after_id=after_id if ids else None,
    )


CHECKER = Checker(
    parts=recompute_credit.kind_names,
    count=lambda: recompute_credit.count_owners(Scope()),
    step=_step,
    max_rows=MAX_ROWS,
)
