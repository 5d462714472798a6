"""Counts the outcomes of scheduler RPCs, once per batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from scheduler import metrics
from scheduler.dispatch.facts import Work
from scheduler.dispatch.rules.fit import RefusalReason
from scheduler.hosts import identity
from scheduler.metrics import RpcOutcome

#: The outcome of an RPC whose caller is refused, by the exception.
CALLER_OUTCOMES: Final[Mapping[type[identity.CallerRefused], RpcOutcome]] = {
    identity.UnknownKey: RpcOutcome.UNKNOWN_KEY,
    identity.HostDenied: RpcOutcome.HOST_DENIED,
    identity.TooManyHosts: RpcOutcome.TOO_MANY_HOSTS,
    identity.HostBusy: RpcOutcome.HOST_BUSY,
}
_WORK_REFUSALS: Final = {
    reason.value: metrics.WORK_REFUSALS.labels(reason.value) for reason in RefusalReason
}


def count_batch(
    *, answered: int, refusals: Iterable[RpcOutcome], works: Sequence[Work], reported: int
) -> None:
    """Count the RPCs of a committed batch.

    `answered` is the number of RPCs that were not refused, `works` what was sent to them, and
    `reported` the number of acknowledged results.
    """
    if answered:
        metrics.RPCS[RpcOutcome.ANSWERED].inc(answered)
    for outcome in refusals:
        metrics.RPCS[outcome].inc()
    if reported:
        metrics.RESULTS_REPORTED.inc(reported)
    sent = 0
    for work in works:
        sent += len(work.sent)
        if work.asked_for_work:
            metrics.WORK_REQUESTS[bool(work.sent)].inc()
        for reason, count in work.refused.items():
            _WORK_REFUSALS[reason].inc(count)
    if sent:
        metrics.RESULTS_SENT.inc(sent)
