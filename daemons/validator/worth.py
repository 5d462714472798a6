"""Says what the valid results of workunits just decided are worth."""

from __future__ import annotations

from dataclasses import replace
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

Pairs = dict[tuple[int, int], adaptive.Known]


def appraise(judged: Sequence[Judged]) -> list[Judged]:
    """Set the pay of new answers: what was paid before (a revalidation), or by the app's rule.

    Only the adaptive rule reads anything, by one statement; the other rules were judged with the
    results.  Late results are paid what the canonical one was, and are left as they are.
    """
    new = [one for one in judged if one.canonical is not None and one.valid]
    known = _read_known([one for one in new if one.workunit.credit_rule == ADAPTIVE])
    pays = {one.workunit.id: _pay(one, known) for one in new}
    return [
        one
        if pays.get(one.workunit.id, one.pay) == one.pay
        else replace(one, pay=pays[one.workunit.id])
        for one in judged
    ]


def _pay(one: Judged, known: Mapping[tuple[int, int], adaptive.Known]) -> Decimal | None:
    # Entries are never changed: a workunit that is judged anew pays all what it paid some.
    before = max((success.granted_credit for success in one.valid), default=Decimal(0))
    if before > 0:
        return before
    if one.workunit.credit_rule != ADAPTIVE:
        return one.pay
    workunit = one.workunit
    estimated = adaptive.estimate(workunit.rsc_fpops_est, min_avg_pfc=workunit.min_avg_pfc)
    claims = [
        adaptive.claim(
            effort_of(success),
            known.get((success.host_id or 0, success.app_version_id or 0)),
            estimated=estimated,
            rsc_fpops_bound=workunit.rsc_fpops_bound,
            host_scale_check=workunit.host_scale_check,
        )
        for success in one.valid
    ]
    return adaptive.amount(claims, estimated=estimated, rsc_fpops_bound=workunit.rsc_fpops_bound)


def effort_of(success: Success) -> Effort:
    """What a valid result says it took."""
    return Effort(success.elapsed_time, success.cpu_time, success.flops_estimate)


def _read_known(judged: Sequence[Judged]) -> Pairs:
    pairs = sorted(
        {
            (success.host_id, success.app_version_id)
            for one in judged
            for success in one.valid
            if success.host_id is not None and success.app_version_id is not None
        }
    )
    if not pairs:
        return {}
    rows = sql.fetch(
        "read_scales",
        {
            "host_ids": [host for host, _ in pairs],
            "app_version_ids": [version for _, version in pairs],
        },
        PACKAGE,
    )
    return {(row.pop("host_id"), row.pop("app_version_id")): adaptive.Known(**row) for row in rows}
