"""Credit that no host can raise by claiming more: BOINC's adaptive scheme [pure].

Source: PROTOCOL 9.6.  A claim is a number of operations: elapsed seconds times the peak speed of
the devices used.  What an app version and a host usually claim, per operation that the scientist
estimated, is remembered in averages; each claim is divided by how much its host and its version
usually exaggerate.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING

from scheduler.credit.rules.credit import CENT, COBBLESTONE, MAX_GRANTED, USUAL_FLOPS, Effort

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: What BOINC notes for a host that was never measured: no speed at all.
UNMEASURED_FLOPS = 1e9
#: A host scales claims after so many samples of its own, and so many of its app version.
MIN_HOST_SAMPLES = 10
MIN_VERSION_SAMPLES = 100
#: A host that claims little is never raised by more than this.
MAX_HOST_SCALE = 10.0
#: So many valid results in a row, where the app asks for them (`App.host_scale_check`).
MIN_CONSECUTIVE_VALID = 10
#: A ratio of claim and estimate outside of these says nothing of a computer.
SANE_RATIOS = (1e-4, 1e4)


@dataclass(frozen=True, slots=True)
class Known:
    """What averages know of a result's app version and of its host.

    Averages are operations claimed per operation estimated.  `version_scale` is 0 until it is set.
    """

    version_samples: float = 0.0
    version_average: float = 0.0
    version_scale: float = 0.0
    host_samples: float = 0.0
    host_average: float = 0.0
    consecutive_valid: int = 0


@dataclass(frozen=True, slots=True)
class Claim:
    """The operations that a valid result stands for; normal if both scales were applied."""

    operations: float
    is_normal: bool


@dataclass(frozen=True, slots=True)
class VersionAverage:
    """What an app version's results claim on average, and whether they use a GPU."""

    id: int
    on_gpu: bool
    samples: float
    average: float


def raw_operations(effort: Effort) -> float:
    """Seconds times peak speed; 0 if that is no number."""
    flops = USUAL_FLOPS if _is_unmeasured(effort) else effort.flops_estimate
    operations = effort.elapsed_time * flops
    return operations if isfinite(operations) and operations > 0 else 0.0


def sample(effort: Effort, rsc_fpops_est: float, *, is_outlier: bool) -> float | None:
    """What a valid result teaches the averages, or None: too short, unmeasured, odd or insane."""
    if is_outlier or _is_unmeasured(effort):
        return None
    ratio = raw_operations(effort) / rsc_fpops_est
    least, most = SANE_RATIOS
    return ratio if least <= ratio <= most else None


def _is_unmeasured(effort: Effort) -> bool:
    return effort.flops_estimate <= 0 or effort.flops_estimate == UNMEASURED_FLOPS


def estimate(rsc_fpops_est: float, *, min_avg_pfc: float) -> float:
    """What a workunit should cost, by its scientist's word and what the app's results cost."""
    return rsc_fpops_est * (min_avg_pfc if min_avg_pfc > 0 else 1.0)


def host_scale(known: Known, *, host_scale_check: bool) -> float | None:
    """How much this host's claims are to be multiplied; None if too little is known."""
    if known.host_samples < MIN_HOST_SAMPLES or known.version_samples < MIN_VERSION_SAMPLES:
        return None
    if known.host_average <= 0 or known.version_average <= 0:
        return None
    if host_scale_check and known.consecutive_valid < MIN_CONSECUTIVE_VALID:
        return None
    return min(MAX_HOST_SCALE, known.version_average / known.host_average)


def claim(
    effort: Effort,
    known: Known | None,
    *,
    estimated: float,
    rsc_fpops_bound: float,
    host_scale_check: bool = False,
) -> Claim:
    """Scale a result's claim; `known` is None if nobody knows its version on its host.

    Without an app version (a volunteer's own program), or without a running time, the estimate
    stands in.  Never more than the workunit's bound.
    """
    raw = raw_operations(effort)
    if known is None or raw <= 0:
        return Claim(min(estimated, rsc_fpops_bound), is_normal=False)
    scale = host_scale(known, host_scale_check=host_scale_check)
    is_normal = scale is not None and known.version_scale > 0
    operations = raw * (known.version_scale or 1.0) * (1.0 if scale is None else scale)
    return Claim(min(operations, rsc_fpops_bound), is_normal=is_normal)


def pegged_average(operations: Sequence[float], estimated: float) -> float:
    """The mean of claims, each weighing less the farther it lies from what was estimated.

    >>> round(pegged_average([1.0, 1.0, 100.0], 1.0), 2)
    1.05
    """
    if estimated <= 0:
        return sum(operations) / len(operations)
    weights = [1 / (0.1 * estimated + abs(estimated - one)) for one in operations]
    mean = sum(w * one for w, one in zip(weights, operations, strict=True)) / sum(weights)
    # No mean lies outside, but the product of a weight and a tiny number may round to nothing.
    return min(max(mean, min(operations)), max(operations))


def amount(claims: Sequence[Claim], *, estimated: float, rsc_fpops_bound: float) -> Decimal:
    """What each valid result of a workunit is paid: all the same, never below nothing.

    Two normal claims or more speak alone; else all speak, normal ones twice as loud.
    """
    normal = [one.operations for one in claims if one.is_normal]
    if len(normal) > 1:
        operations = pegged_average(normal, estimated)
    else:
        spoken = [one.operations for one in claims if not one.is_normal] + 2 * normal
        operations = pegged_average(spoken, estimated) if spoken else 0.0
    credit = min(max(0.0, operations), rsc_fpops_bound) * COBBLESTONE
    return Decimal(min(credit, MAX_GRANTED)).quantize(CENT)


def version_scales(versions: Iterable[VersionAverage]) -> tuple[Mapping[int, float], float | None]:
    """The scale of each app version of an app, and the least cost: its ``min_avg_pfc``.

    The CPU's and the GPU's averages are compared; claims of the dearer device, and of versions that
    claim more than others do, are brought down to the least.  Versions with few samples have no
    scale; the cost is None if none has enough.
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
