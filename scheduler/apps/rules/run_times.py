"""Derives quantiles of run times, and which estimates and bounds would fit [pure]."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from math import floor
from typing import Final, NamedTuple

#: The quantiles that are shown, in percent.
PERCENTS: Final = (5, 25, 50, 75, 95)
_MEDIAN, _HIGH = PERCENTS.index(50), PERCENTS.index(95)
#: With fewer runs, the estimate is not judged.
MIN_RUNS: Final = 20
#: A bound that fits is this multiple of the 95 % quantile: clients abort results at the bound, and
#: the slowest computer may be much slower than its benchmark.
BOUND_FACTOR: Final = 10
#: An estimate fits if the median is within this factor of it.
_FITTING_FACTOR: Final = 2
#: A bound is tight if the 95 % quantile is above this share of it, and loose if it is below.
_TIGHT, _LOOSE = 0.5, 0.01
_NO_DECIMALS_FROM: Final = 100


class Run(NamedTuple):
    """A successful result: its times in seconds, its speed, and its workunit's estimate and bound.

    `flops_estimate` is the speed in floating-point operations per second that the server assumed
    when it sent the result.
    """

    app_version_id: int | None
    received_at: datetime | None
    elapsed_time: float
    cpu_time: float
    flops_estimate: float
    rsc_fpops_est: float
    rsc_fpops_bound: float

    @property
    def operations(self) -> float:
        """The estimated operations: the assumed speed times the run time."""
        return self.flops_estimate * self.elapsed_time


def quantiles(values: Sequence[float]) -> tuple[float, ...]:
    """Return the quantiles of `PERCENTS`, interpolated between the nearest two values.

    >>> quantiles([3.0, 1.0, 2.0, 5.0, 4.0])
    (1.2, 2.0, 3.0, 4.0, 4.8)
    """
    ordered = sorted(values)
    return tuple(_quantile(ordered, percent) for percent in PERCENTS)


def _quantile(ordered: Sequence[float], percent: int) -> float:
    place = (len(ordered) - 1) * percent / 100
    below = floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def scientific(value: float) -> str:
    """Return a number with two digits, as it can be submitted.

    >>> scientific(3.24e12), scientific(1e10)
    ('3.2e12', '1e10')
    """
    digits, _, exponent = f"{value:.1e}".partition("e")
    return f"{digits.removesuffix('.0')}e{int(exponent)}"


def _plain(value: float) -> str:
    """Return a number with three digits, without an exponent.

    >>> _plain(15.62), _plain(0.051234), _plain(41000.3)
    ('15.6', '0.0512', '41,000')
    """
    return f"{value:,.0f}" if value >= _NO_DECIMALS_FROM else f"{value:.3g}"


def advice(runs: Sequence[Run]) -> tuple[str, ...]:
    """Return sentences that compare the runs with the estimates and bounds of their workunits."""
    measured = [run for run in runs if run.operations > 0]
    if len(measured) < MIN_RUNS:
        counted = f"{len(measured)} of these results have a run time and a speed."
        return (f"{counted} At least {MIN_RUNS} are needed to judge estimates and bounds.",)
    return (*_about_estimate(measured), *_about_bound(measured))


def _about_estimate(runs: Sequence[Run]) -> Iterator[str]:
    ratio = quantiles([run.operations / run.rsc_fpops_est for run in runs])[_MEDIAN]
    estimates = sorted(run.rsc_fpops_est for run in runs)
    is_one = estimates[0] == estimates[-1]
    if is_one:
        reference = f"the estimate (rsc_fpops_est) of {scientific(estimates[0])}"
    else:
        reference = "the estimates (rsc_fpops_est) of their workunits"
    yield f"The median is {_plain(ratio)} times {reference}."
    if 1 / _FITTING_FACTOR <= ratio <= _FITTING_FACTOR:
        yield "The estimate fits." if is_one else "The estimates fit."
    elif is_one:
        yield f"An estimate of {scientific(estimates[0] * ratio)} would fit."
    else:
        yield f"Estimates that are {_plain(ratio)} times as large would fit."


def _about_bound(runs: Sequence[Run]) -> Iterator[str]:
    used = quantiles([run.operations / run.rsc_fpops_bound for run in runs])[_HIGH]
    estimates = {run.rsc_fpops_est for run in runs}
    if len(estimates) == 1:
        high = quantiles([run.operations for run in runs])[_HIGH]
        fitting = f"A bound of {scientific(BOUND_FACTOR * high)} would fit"
    else:
        high = quantiles([run.operations / run.rsc_fpops_est for run in runs])[_HIGH]
        fitting = f"Bounds of {_plain(BOUND_FACTOR * high)} times the present estimates would fit"
    fitting += f": {BOUND_FACTOR} times what 95 % of the results need."
    share = f"{_plain(100 * used)} % of their bound (rsc_fpops_bound)"
    if used > _TIGHT:
        yield (
            f"The bound is tight: one result in 20 needs more than {share}, and clients abort "
            f"results that reach it. {fitting}"
        )
    elif used < _LOOSE:
        yield (
            f"The bound is loose: 95 % of the results need less than {share}, so that a program "
            f"that hangs is aborted late. {fitting}"
        )
    else:
        yield f"The bound fits: 95 % of the results need less than {share}."
