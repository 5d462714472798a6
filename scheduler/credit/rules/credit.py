"""Computes the credit of valid results, and running averages [pure].

Source: PROTOCOL 9.6.  Credit is counted in cobblestones: 200 for a day of one thousand million
floating-point operations per second.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from math import exp, isfinite, log
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

#: Credit per floating-point operation.
COBBLESTONE = 200 / 86_400e9
#: The assumed speed, in operations per second, of a host that reports no speed.
USUAL_FLOPS = 4.3e9
#: The half-life of recent averages.
HALF_LIFE_SECONDS = 7 * 86_400
DAY_SECONDS = 86_400
#: The maximum credit for one result; higher claims are implausible (PROTOCOL 9.6).
MAX_GRANTED = 7.3e7
#: The unit to which amounts are rounded.
CENT = Decimal("0.000001")
_MOMENT_DAYS = 1e-6


class Effort(NamedTuple):
    """The reported cost of a valid result, in seconds and in operations per second."""

    elapsed_time: float
    cpu_time: float
    flops_estimate: float


def amount(
    rule: str,
    efforts: Sequence[Effort],
    *,
    fixed: Decimal,
    rsc_fpops_bound: float,
) -> Decimal:
    """Return the credit of each valid result under the rule ``fixed``, ``runtime`` or ``none``.

    The amount is never negative.  The rule ``runtime`` gives the `low_average` of the claims, at
    most the credit of `rsc_fpops_bound` operations.  `adaptive_credit` has the rule ``adaptive``.
    """
    if rule == "fixed":
        return max(fixed, Decimal(0))
    if rule != "runtime":
        return Decimal(0)
    # A result with no measurable time claims 0; only the other claims are used.
    claims = [claim for claim in map(_claim, efforts) if claim > 0]
    cap = min(rsc_fpops_bound * COBBLESTONE, MAX_GRANTED)
    return Decimal(min(low_average(claims), cap)).quantize(CENT)


def low_average(claims: Iterable[float]) -> float:
    """Return the mean of all claims except the highest, which may be excessive.

    A single claim is returned unchanged.  Without claims, the mean is 0.

    >>> low_average([1.0, 3.0, 100.0])
    2.0
    """
    ordered = sorted(claims)
    kept = ordered[:-1] or ordered
    return sum(kept) / len(kept) if kept else 0.0


def _claim(effort: Effort) -> float:
    seconds = effort.elapsed_time if effort.elapsed_time > 0 else effort.cpu_time
    flops = effort.flops_estimate if effort.flops_estimate > 0 else USUAL_FLOPS
    claim = seconds * flops * COBBLESTONE
    return claim if isfinite(claim) else 0.0


def recent_average(
    average: float,
    averaged_at: datetime | None,
    granted: float,
    *,
    work_began_at: datetime,
    now: datetime,
) -> float:
    """Return the recent credit per day; earlier credit loses half its weight every seven days.

    `average` is the value at `averaged_at`.  For the first grant, `averaged_at` is None, and the
    credit is divided by the days since `work_began_at`.
    """
    if averaged_at is None:
        seconds = max(1.0, (now - work_began_at).total_seconds())
        return granted * DAY_SECONDS / seconds
    elapsed = max(0.0, (now - averaged_at).total_seconds())
    weight = exp(-elapsed * log(2) / HALF_LIFE_SECONDS)
    days = elapsed / DAY_SECONDS
    per_day = log(2) * DAY_SECONDS / HALF_LIFE_SECONDS
    # For grants at nearly the same time, use the limit of the quotient, which would be 0 / 0.
    if days > _MOMENT_DAYS:
        per_day = (1 - weight) / days
    return average * weight + granted * per_day


@dataclass(frozen=True, slots=True)
class Averaging:
    """The parameters of a running average.

    The average is the plain mean of the first `threshold` samples.  After that, each new sample has
    the weight `weight`.  A sample is capped at `limit` times the average, so that one outlier does
    not distort the average.
    """

    threshold: int
    weight: float
    limit: float = 10.0


#: BOINC's parameters for the average of an app version on one host, and on all hosts.
OF_HOST = Averaging(threshold=20, weight=0.01)
OF_VERSION = Averaging(threshold=100, weight=0.001)


def running_average(
    average: float, samples: float, sample: float, averaging: Averaging = OF_HOST
) -> tuple[float, float]:
    """Return the average and the number of samples after one more sample.

    >>> running_average(2.0, 1, 4.0)
    (3.0, 2)
    """
    if samples > 0 and average > 0:
        sample = min(sample, averaging.limit * average)
    if samples < averaging.threshold:
        return (average * samples + sample) / (samples + 1), samples + 1
    return average + averaging.weight * (sample - average), samples + 1
