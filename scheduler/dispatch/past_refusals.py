"""Stores which hosts were refused which workunits for a lasting reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from scheduler import sql
from scheduler.dispatch.catalog import Catalog
from scheduler.dispatch.facts import Candidate, HostFacts, Work
from scheduler.dispatch.rules.fit import RefusalReason

#: The maximum number of refusals stored per host in one RPC, one per workunit.
MAX_REFUSALS_PER_RPC = 16
#: The row of a repeated refusal is updated at most once in this time.
REWRITE_INTERVAL = timedelta(hours=1)
#: A refusal for one of these reasons is confirmed at once if no version of the app can ever fit.
_OF_VERSIONS = frozenset({RefusalReason.NO_VERSION.value, RefusalReason.PLAN_CLASS.value})


def remember(
    works: Iterable[tuple[HostFacts, Sequence[str], Work]], *, catalog: Catalog, now: datetime
) -> None:
    """Store lasting refusals; `rules.sendability` decides by them when to give up a result.

    Each item of `works` is a host, its platforms and the outcome of its work request.
    """
    rows = [
        (host, platforms, *refusal)
        for host, platforms, work in works
        for refusal in _last_refusals(work)
    ]
    if not rows:
        return
    hosts, _, candidates, reasons, sentences = zip(*rows, strict=True)
    sql.execute(
        "dispatch/remember_refusals",
        {
            "workunit_ids": [candidate.workunit_id for candidate in candidates],
            "host_ids": [host.id for host in hosts],
            "app_ids": [candidate.app_id for candidate in candidates],
            "reasons": list(reasons),
            "sentences": list(sentences),
            "at_once": [
                reason in _OF_VERSIONS
                and catalog.never_fits(candidate.app_id, host.machine, platforms)
                for host, platforms, candidate, reason, _ in rows
            ],
            "again_before": now - REWRITE_INTERVAL,
            "now": now,
        },
    )


def _last_refusals(work: Work) -> list[tuple[Candidate, str, str]]:
    """Return the last lasting refusal of each workunit, at most `MAX_REFUSALS_PER_RPC` in all."""
    by_workunit = {refusal[0].workunit_id: refusal for refusal in work.lasting}
    return list(by_workunit.values())[:MAX_REFUSALS_PER_RPC]
