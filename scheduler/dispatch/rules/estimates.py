"""How fast a host is, how much of it may be used, how long a result takes [pure]."""

from __future__ import annotations

from scheduler.hosts.facts import HostDescription, HostFacts, Preferences, VersionFacts

#: A host that does not say its memory is taken to have this much (PROTOCOL 10.1).
UNKNOWN_MEMORY_BYTES = 64e6
#: What BOINC leaves free of a disk when the volunteer does not say.
MIN_FREE_DISK_BYTES = 1e9
GIGABYTE = 1e9
#: So many results must have been seen before the measured speed counts (PROTOCOL 10.2).
ENOUGH_SAMPLES = 10
#: So many on all hosts together, before the peak is corrected by what they made of it.
ENOUGH_SAMPLES_OF_ALL = 100
#: A measured speed is believed up to so many times the benchmark.
MOST_TIMES_BENCHMARK = 250.0
MAX_CPUS = 64
#: How far luck may move the speed of a version that was never measured on a host.
LUCK = 0.1


def usable_cpus(host: HostDescription, prefs: Preferences) -> int:
    """How many CPUs the volunteer lends: at least 1, at most 64.

    >>> usable_cpus(HostDescription(p_ncpus=8), Preferences(max_ncpus_pct=50))
    4
    """
    share = prefs.max_ncpus_pct / 100 if 0 < prefs.max_ncpus_pct < 100 else 1.0  # noqa: PLR2004 - percent
    return max(1, min(MAX_CPUS, int(max(1, host.p_ncpus) * share)))


def usable_memory(host: HostDescription, prefs: Preferences) -> float:
    """How many bytes of memory a result may use (PROTOCOL 10.1)."""
    if host.m_nbytes <= 0:
        return UNKNOWN_MEMORY_BYTES
    busy, idle = prefs.ram_max_used_busy_pct, prefs.ram_max_used_idle_pct
    if busy > 0 and idle > 0:
        return host.m_nbytes * max(busy, idle) / 100
    return host.m_nbytes


def usable_disk(host: HostDescription, prefs: Preferences) -> float:
    """How many bytes of disk new results may use: the strictest of three limits (PROTOCOL 10.1)."""
    keep_free = (
        prefs.disk_min_free_gb * GIGABYTE if prefs.disk_min_free_gb > 0 else MIN_FREE_DISK_BYTES
    )
    limits = [host.d_free - keep_free]
    if prefs.disk_max_used_pct > 0:
        limits.append(host.d_total * prefs.disk_max_used_pct / 100 - prefs.boinc_disk_used_bytes)
    if prefs.disk_max_used_gb > 0:
        limits.append(prefs.disk_max_used_gb * GIGABYTE - prefs.boinc_disk_used_bytes)
    return max(0.0, min(limits))


def active_fraction(host: HostDescription) -> float:
    """The share of the time in which this host computes, kept within 0.1 and 1."""
    return min(1.0, max(0.1, host.on_frac * host.active_frac))


def gpu_active_fraction(host: HostDescription) -> float:
    """The share of the time in which this host lets its GPUs compute, within 0.1 and 1."""
    return min(1.0, max(0.1, host.on_frac * host.gpu_active_frac))


def active_share(host: HostFacts, *, on_gpu: bool) -> float:
    """The share of the time in which a host runs a version, by whether it uses a GPU."""
    return host.gpu_active_fraction if on_gpu else host.active_fraction


def flops(version: VersionFacts, fpops: float) -> float:
    """The speed, in FLOPS, at which a version is expected to run on a host (PROTOCOL 10.2).

    Measured on this host once enough results are known (`et_avg` is seconds per floating-point
    operation estimated), else by what all hosts make of its peak, else what its plan class
    projects, else the benchmark times the CPUs used.
    """
    benchmark = version.projected_flops or max(1e6, fpops) * version.avg_ncpus
    if version.et_n > ENOUGH_SAMPLES and version.et_avg > 0:
        return min(1 / version.et_avg, MOST_TIMES_BENCHMARK * benchmark)
    if version.pfc_n > ENOUGH_SAMPLES_OF_ALL and version.pfc_avg > 0:
        peak = version.peak_flops or benchmark
        return min(peak / version.pfc_avg, MOST_TIMES_BENCHMARK * benchmark)
    return benchmark


def promise(version: VersionFacts, fpops: float, *, luck: float) -> float:
    """The speed by which versions are compared: the expected one, moved by luck from 0 to 1.

    The less is known of a version on this host, the more luck does: one whose speed was estimated
    a little too low is tried as well, and measured.  Source: BOINC's random factor of versions.
    """
    return flops(version, fpops) * (1 + LUCK * (2 * luck - 1) / max(1.0, version.et_n))
