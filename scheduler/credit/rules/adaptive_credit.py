"""Computes BOINC's adaptive credit, which limits excessive claims [pure].

Source: PROTOCOL 9.6.  A claim is a number of operations: elapsed seconds times the peak speed of
the devices used.  For each app version and each host, the server stores the average ratio of a
claim to the scientist's estimate.  Each claim is scaled by the averages of its host and version.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING

from scheduler.credit.rules.credit import CENT, COBBLESTONE, MAX_GRANTED, USUAL_FLOPS, Effort

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: BOINC's placeholder for the speed of a host without a benchmark.
UNMEASURED_FLOPS = 1e9
#: The minimum numbers of samples of a host and its app version for scaling the host's claims.
MIN_HOST_SAMPLES = 10
MIN_VERSION_SAMPLES = 100
#: The maximum factor for the claims of a host.
MAX_HOST_SCALE = 10.0
#: The number of consecutive valid results that `App.host_scale_check` requires.
MIN_CONSECUTIVE_VALID = 10
#: The minimum and maximum plausible ratio of claim and estimate; other ratios are ignored.
SANE_RATIOS = (1e-4, 1e4)


@dataclass(frozen=True, slots=True)
class Averages:
    """The averages of a result's app version, over all hosts and on the result's host.

    An average is the number of claimed operations per estimated operation.  `version_scale` is 0
    until it is computed.
    """

    version_samples: float = 0.0
    version_average: float = 0.0
    version_scale: float = 0.0
    host_samples: float = 0.0
    host_average: float = 0.0
    consecutive_valid: int = 0


@dataclass(frozen=True, slots=True)
class Claim:
    """The scaled claim of a valid result; `is_normal` is True if both scales were applied."""

    operations: float
    is_normal: bool


@dataclass(frozen=True, slots=True)
class VersionAverage:
    """An app version's average; `on_gpu` is True if the version uses a GPU."""

    id: int
    on_gpu: bool
    samples: float
    average: float


def raw_operations(effort: Effort) -> float:
    """Return elapsed seconds times peak speed; 0 if the product is not finite and positive.

    `USUAL_FLOPS` is the assumed speed of a host without a benchmark.
    """
    flops = USUAL_FLOPS if _is_unmeasured(effort) else effort.flops_estimate
    operations = effort.elapsed_time * flops
    return operations if isfinite(operations) and operations > 0 else 0.0


def sample(effort: Effort, rsc_fpops_est: float, *, is_outlier: bool) -> float | None:
    """Return the ratio of a result's claim to its estimate, for the averages.

    Returns None for an outlier, for a host without a benchmark and for an implausible ratio.
    """
    if is_outlier or _is_unmeasured(effort):
        return None
    ratio = raw_operations(effort) / rsc_fpops_est
    least, most = SANE_RATIOS
    return ratio if least <= ratio <= most else None


def _is_unmeasured(effort: Effort) -> bool:
    return effort.flops_estimate <= 0 or effort.flops_estimate == UNMEASURED_FLOPS


def estimate(rsc_fpops_est: float, *, min_avg_pfc: float) -> float:
    """Return the expected number of operations of a workunit.

    This is the scientist's estimate times the app's `min_avg_pfc`, if that is positive.
    """
    return rsc_fpops_est * (min_avg_pfc if min_avg_pfc > 0 else 1.0)


def host_scale(averages: Averages, *, host_scale_check: bool) -> float | None:
    """Return the factor for a host's claims, or None if its claims cannot be scaled.

    Scaling requires enough samples, positive averages and, with `host_scale_check`, at least
    `MIN_CONSECUTIVE_VALID` consecutive valid results.
    """
    if averages.host_samples < MIN_HOST_SAMPLES or averages.version_samples < MIN_VERSION_SAMPLES:
        return None
    if averages.host_average <= 0 or averages.version_average <= 0:
        return None
    if host_scale_check and averages.consecutive_valid < MIN_CONSECUTIVE_VALID:
        return None
    return min(MAX_HOST_SCALE, averages.version_average / averages.host_average)


def claim(
    effort: Effort,
    averages: Averages | None,
    *,
    estimated: float,
    rsc_fpops_bound: float,
    host_scale_check: bool = False,
) -> Claim:
    """Return a result's scaled claim; `averages` is None if its version and host have no records.

    The claim is `estimated` if `averages` is None, as for a volunteer's own program, or if the
    result has no elapsed time.  The claim is at most `rsc_fpops_bound`.
    """
    raw = raw_operations(effort)
    if averages is None or raw <= 0:
        return Claim(min(estimated, rsc_fpops_bound), is_normal=False)
    scale = host_scale(averages, host_scale_check=host_scale_check)
    is_normal = scale is not None and averages.version_scale > 0
    operations = raw * (averages.version_scale or 1.0) * (1.0 if scale is None else scale)
    return Claim(min(operations, rsc_fpops_bound), is_normal=is_normal)


def pegged_average(operations: Sequence[float], estimated: float) -> float:
    """Return the weighted mean of claims; claims far from the estimate have less weight.

    Without a positive estimate, all claims have the same weight.

    >>> round(pegged_average([1.0, 1.0, 100.0], 1.0), 2)
    1.05
    """
    if estimated <= 0:
        return sum(operations) / len(operations)
    weights = [1 / (0.1 * estimated + abs(estimated - claimed)) for claimed in operations]
    mean = sum(weight * claimed for weight, claimed in zip(weights, operations, strict=True)) / sum(
        weights
    )
    # The product of a weight and a tiny number may round to 0, so that the mean is out of range.
    return min(max(mean, min(operations)), max(operations))


def amount(claims: Sequence[Claim], *, estimated: float, rsc_fpops_bound: float) -> Decimal:
    """Return the credit of each valid result of a workunit, which is equal for all results.

    Only normal claims are used if there are two or more.  Otherwise all claims are used, and a
    normal claim has double weight.
    """
    normal = [claim.operations for claim in claims if claim.is_normal]
    if len(normal) > 1:
        operations = pegged_average(normal, estimated)
    else:
        weighted = [claim.operations for claim in claims if not claim.is_normal] + 2 * normal
        operations = pegged_average(weighted, estimated) if weighted else 0.0
    credit = min(max(0.0, operations), rsc_fpops_bound) * COBBLESTONE
    return Decimal(min(credit, MAX_GRANTED)).quantize(CENT)


def version_scales(versions: Iterable[VersionAverage]) -> tuple[Mapping[int, float], float | None]:
    """Return the scales of an app's versions by version id, and the app's ``min_avg_pfc``.

    ``min_avg_pfc`` is the lower of the mean averages of CPU versions and of GPU versions.  The
    scale of a version is ``min_avg_pfc`` divided by the version's average.  A version with few
    samples has no scale.  ``min_avg_pfc`` is None if no version has enough samples.
    """
    judged = [v for v in versions if v.samples > MIN_VERSION_SAMPLES and v.average > 0]
    least = min(
        (
            _weighted_mean([v for v in judged if v.on_gpu is on_gpu])
            for on_gpu in {v.on_gpu for v in judged}
        ),
        default=None,
    )
    if least is None:
        return {}, None
    return {version.id: least / version.average for version in judged}, least


def _weighted_mean(versions: Sequence[VersionAverage]) -> float:
    samples = sum(version.samples for version in versions)
    return sum(version.average * version.samples for version in versions) / samples
