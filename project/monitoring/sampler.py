"""Samples the database pool and the resources of a web process, every few seconds."""

from __future__ import annotations

import os
import resource
import threading
from contextlib import suppress
from typing import Final

from django.db import connections

from scheduler import metrics

INTERVAL_SECONDS: Final = 5.0


def start(every: float = INTERVAL_SECONDS) -> threading.Event:
    """Sample every `every` seconds from a thread, until the returned event is set."""
    stop = threading.Event()
    sampler = Sampler()

    def sample_until_stopped() -> None:
        while True:
            sampler.sample()
            if stop.wait(every):
                return

    threading.Thread(target=sample_until_stopped, name="metrics", daemon=True).start()
    return stop


class Sampler:
    """Stores the state of this process in the gauges of `scheduler.metrics`."""

    def __init__(self) -> None:
        self._cpu_seconds = 0.0

    def sample(self) -> None:
        self._sample_pool()
        usage = resource.getrusage(resource.RUSAGE_SELF)
        cpu_seconds = usage.ru_utime + usage.ru_stime
        metrics.CPU_SECONDS.inc(max(0.0, cpu_seconds - self._cpu_seconds))
        self._cpu_seconds = cpu_seconds
        with suppress(OSError, IndexError, ValueError):  # systems without /proc
            with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - no path is built
                pages = int(file.read().split()[1])
            metrics.MEMORY_BYTES.set(pages * os.sysconf("SC_PAGE_SIZE"))
            metrics.OPEN_FILES.set(len(os.listdir("/proc/self/fd")))  # noqa: PTH208 - the same

    @staticmethod
    def _sample_pool() -> None:
        # None without DATABASE_POOL; Django's types do not have the attribute.
        pool = getattr(connections["default"], "pool", None)
        if pool is None:
            return
        stats = pool.get_stats()
        metrics.POOL_SIZE.set(stats.get("pool_size", 0))
        metrics.POOL_IDLE.set(stats.get("pool_available", 0))
        metrics.POOL_MAX.set(stats.get("pool_max", 0))
        metrics.POOL_WAITING.set(stats.get("requests_waiting", 0))
