"""Computes the pay for valid results of workunits with a new canonical result."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from scheduler import sql
from scheduler.credit.rules import adaptive_credit as adaptive
from scheduler.credit.rules.credit import Effort

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from daemons.validator.comparing import Judged, Success

PACKAGE = "daemons.sql"
ADAPTIVE = "adaptive"

Pairs = dict[tuple[int, int], adaptive.Averages]


def appraise(judged: Sequence[Judged]) -> list[Judged]:
    """Return the outcomes, with the pay set for workunits that have a new canonical result.

    A revalidation pays the amount that was paid before.  The adaptive rule is applied here, because
    it reads averages from the database; the other rules were applied when the results were judged.
    Late results get the same pay as the canonical result.
    """
    new = [entry for entry in judged if entry.canonical is not None and entry.valid]
    averages = _read_averages([entry for entry in new if entry.workunit.credit_rule == ADAPTIVE])
    pays = {entry.workunit.id: _pay(entry, averages) for entry in new}
    return [
        entry
        if pays.get(entry.workunit.id, entry.pay) == entry.pay
        else entry._replace(pay=pays[entry.workunit.id])
        for entry in judged
    ]


def _pay(entry: Judged, averages: Mapping[tuple[int, int], adaptive.Averages]) -> Decimal | None:
    # Credit entries are never changed, so a revalidation pays the amount that was paid before.
    before = max((success.granted_credit for success in entry.valid), default=Decimal(0))
    if before > 0:
        return before
    if entry.workunit.credit_rule != ADAPTIVE:
        return entry.pay
    workunit = entry.workunit
    estimated = adaptive.estimate(workunit.rsc_fpops_est, min_avg_pfc=workunit.min_avg_pfc)
    claims = [
        adaptive.claim(
            effort_of(success),
            averages.get((success.host_id or 0, success.app_version_id or 0)),
            estimated=estimated,
            rsc_fpops_bound=workunit.rsc_fpops_bound,
            host_scale_check=workunit.host_scale_check,
        )
        for success in entry.valid
    ]
    return adaptive.amount(claims, estimated=estimated, rsc_fpops_bound=workunit.rsc_fpops_bound)


def effort_of(success: Success) -> Effort:
    """Return a result's reported times and speed."""
    return Effort(success.elapsed_time, success.cpu_time, success.flops_estimate)


def _read_averages(judged: Sequence[Judged]) -> Pairs:
    pairs = sorted(
        {
            (success.host_id, success.app_version_id)
            for entry in judged
            for success in entry.valid
            if success.host_id is not None and success.app_version_id is not None
        }
    )
    if not pairs:
        return {}
    params = {
        "host_ids": [host for host, _ in pairs],
        "app_version_ids": [version for _, version in pairs],
    }
    rows = sql.fetch("read_scales", params, PACKAGE)
    return {
        (row.pop("host_id"), row.pop("app_version_id")): adaptive.Averages(**row) for row in rows
    }
