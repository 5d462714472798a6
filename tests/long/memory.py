"""Measures the peak memory of each process of the server."""

from __future__ import annotations

import threading
from contextlib import suppress

import psutil

#: The limit for each process, in bytes.
MOST = 150_000_000
EVERY = 0.1


class Watch:
    """Samples the resident memory of processes and their children by role, in a thread."""

    def __init__(self, roots):
        self._roots = roots
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self.peaks = {}

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def check(self):
        """Check that every process stayed below `MOST` bytes."""
        assert self.peaks, "nothing was sampled"
        greedy = {role: peak for role, peak in self.peaks.items() if peak >= MOST}
        assert not greedy, f"more than {MOST >> 20} MB: {greedy}"

    def sentence(self):
        """Return the peaks in megabytes as text, largest first."""
        ranked = sorted(self.peaks.items(), key=lambda one: -one[1])
        return "memory, MB: " + ", ".join(f"{role} {peak / 1e6:.0f}" for role, peak in ranked)

    def _sample(self):
        is_over = False
        while not is_over:
            is_over = self._stop.wait(EVERY)
            for role, pid in self._roots():
                with suppress(psutil.Error):
                    self._look(role, psutil.Process(pid))

    def _look(self, role, root):
        self._note(role, root)
        for below in root.children(recursive=True):
            with suppress(psutil.Error):
                self._note(f"{role}'s child", below)

    def _note(self, role, process):
        self.peaks[role] = max(self.peaks.get(role, 0), process.memory_info().rss)
