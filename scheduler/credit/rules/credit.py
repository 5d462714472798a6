"""What a valid result is worth, and how averages fade [pure].

Source: PROTOCOL 9.6.  Credit is counted in cobblestones: 200 for a day of one thousand million
floating-point operations per second.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from math import exp, isfinite, log
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

#: Credit per floating-point operation.
COBBLESTONE = 200 / 86_400e9
#: Operations per second taken for a host that says none.
USUAL_FLOPS = 4.3e9
#: Seconds in which a recent average fades to its half.
HALF_LIFE_SECONDS = 7 * 86_400
DAY_SECONDS = 86_400
#: More than this for one result is no computation (PROTOCOL 9.6): it is cut.
MAX_GRANTED = 7.3e7
#: What an amount is rounded to.
CENT = Decimal("0.000001")
_MOMENT_DAYS = 1e-6


@dataclass(frozen=True, slots=True)
class Effort:
    """What a valid result says it took; seconds, and operations per second."""

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
    """What each of these valid results is paid under a rule (``fixed``, ``runtime``, ``none``).

    Never below nothing.  The rule ``adaptive`` needs more facts: see `rules.adaptive_credit`.
    """
    if rule == "fixed":
        return max(fixed, Decimal(0))
    if rule != "runtime":
        return Decimal(0)
    # A result too short for the client's clock says nothing of its cost: let the others speak.
    claims = [claim for claim in map(_claim, efforts) if claim > 0]
    cap = min(rsc_fpops_bound * COBBLESTONE, MAX_GRANTED)
    return Decimal(min(low_average(claims), cap)).quantize(CENT)


def low_average(claims: Iterable[float]) -> float:
    """The mean of all but the highest: who claims too much gains nothing.

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
    """Credit per day, with half of the past forgotten every seven days.

    The first grant of all counts from the moment the work was sent.
    """
    if averaged_at is None:
        seconds = max(1.0, (now - work_began_at).total_seconds())
        return granted * DAY_SECONDS / seconds
    elapsed = max(0.0, (now - averaged_at).total_seconds())
    weight = exp(-elapsed * log(2) / HALF_LIFE_SECONDS)
    days = elapsed / DAY_SECONDS
    per_day = log(2) * DAY_SECONDS / HALF_LIFE_SECONDS
    # For a moment between grants the quotient tends to this limit, instead of 0 / 0.
    if days > _MOMENT_DAYS:
        per_day = (1 - weight) / days
    return average * weight + granted * per_day


@dataclass(frozen=True, slots=True)
class Habit:
    """How an average learns: a plain mean of the first samples, then slowly.

    A sample is cut at `limit` times the average, so that one odd moment does not spoil it.
    """

    threshold: int
    weight: float
    limit: float = 10.0


#: BOINC's averages of an app version on one host, and of an app version on all of them.
OF_HOST = Habit(threshold=20, weight=0.01)
OF_VERSION = Habit(threshold=100, weight=0.001)


def running_average(
    average: float, samples: float, sample: float, habit: Habit = OF_HOST
) -> tuple[float, float]:
    """Add a sample to an average; returns (average, samples).

    >>> running_average(2.0, 1, 4.0)
    (3.0, 2)
    """
    if samples > 0 and average > 0:
        sample = min(sample, habit.limit * average)
    if samples < habit.threshold:
        return (average * samples + sample) / (samples + 1), samples + 1
    return average + habit.weight * (sample - average), samples + 1
