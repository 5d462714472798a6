"""Estimates the speed and usable resources of a host, and run times.

This module uses no database, files or clock.
"""

from __future__ import annotations

from scheduler.dispatch.facts import HostFacts, VersionFacts
from scheduler.hosts.facts import HostDescription, Preferences

#: Assumed memory of a host that does not report it (PROTOCOL 10.1).
UNKNOWN_MEMORY_BYTES = 64e6
#: Disk space that BOINC leaves free if the volunteer sets no preference.
MIN_FREE_DISK_BYTES = 1e9
GIGABYTE = 1e9
#: The speed measured on a host is used after more than this many results (PROTOCOL 10.2).
MIN_SAMPLES = 10
#: The peak speed is corrected after more than this many results on all hosts together.
MIN_SAMPLES_OF_ALL = 100
#: The measured speed is capped at this multiple of the benchmark.
MAX_BENCHMARK_RATIO = 250.0
MAX_CPUS = 64
#: The share by which a random number may change the speed of a version not measured on a host.
LUCK = 0.1


def usable_cpus(host: HostDescription, prefs: Preferences) -> int:
    """Return the number of CPUs that the volunteer allows: at least 1, at most 64.

    >>> usable_cpus(HostDescription(p_ncpus=8), Preferences(max_ncpus_pct=50))
    4
    """
    share = prefs.max_ncpus_pct / 100 if 0 < prefs.max_ncpus_pct < 100 else 1.0  # noqa: PLR2004 - percent
    return max(1, min(MAX_CPUS, int(max(1, host.p_ncpus) * share)))


def usable_memory(host: HostDescription, prefs: Preferences) -> float:
    """Return the bytes of memory that a result may use (PROTOCOL 10.1)."""
    if host.m_nbytes <= 0:
        return UNKNOWN_MEMORY_BYTES
    busy, idle = prefs.ram_max_used_busy_pct, prefs.ram_max_used_idle_pct
    if busy > 0 and idle > 0:
        return host.m_nbytes * max(busy, idle) / 100
    return host.m_nbytes


def usable_disk(host: HostDescription, prefs: Preferences) -> float:
    """Return the least of three limits on the disk for new results, in bytes (PROTOCOL 10.1)."""
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
    """Return the share of the time in which this host computes, kept within 0.1 and 1."""
    return min(1.0, max(0.1, host.on_frac * host.active_frac))


def gpu_active_fraction(host: HostDescription) -> float:
    """Return the share of the time in which this host's GPUs compute, kept within 0.1 and 1."""
    return min(1.0, max(0.1, host.on_frac * host.gpu_active_frac))


def active_share(host: HostFacts, *, on_gpu: bool) -> float:
    """Return the share of the time in which a host runs a version on its CPUs or GPUs."""
    return host.gpu_active_fraction if on_gpu else host.active_fraction


def flops(version: VersionFacts, fpops: float) -> float:
    """Return the expected speed of a version on a host, in FLOPS (PROTOCOL 10.2).

    The measured speed is used if this host has reported more than `MIN_SAMPLES` results (`et_avg`
    is seconds per estimated floating-point operation); else the peak speed, corrected by the
    results of all hosts; else the projected speed of the plan class; else the benchmark times the
    CPUs used.
    """
    benchmark = version.projected_flops or max(1e6, fpops) * version.avg_ncpus
    if version.et_n > MIN_SAMPLES and version.et_avg > 0:
        return min(1 / version.et_avg, MAX_BENCHMARK_RATIO * benchmark)
    if version.pfc_n > MIN_SAMPLES_OF_ALL and version.pfc_avg > 0:
        peak = version.peak_flops or benchmark
        return min(peak / version.pfc_avg, MAX_BENCHMARK_RATIO * benchmark)
    return benchmark


def promise(version: VersionFacts, fpops: float, *, luck: float) -> float:
    """Return the speed by which versions are compared: the expected speed, changed at random.

    `luck` is a random number from 0 to 1.  The change is larger if this host has reported fewer
    results of the version, so that a version whose speed was estimated too low is also tried and
    measured.  Source: BOINC's random factor of versions.
    """
    return flops(version, fpops) * (1 + LUCK * (2 * luck - 1) / max(1.0, version.et_n))
