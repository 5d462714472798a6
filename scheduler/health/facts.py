"""The dataclass of a daemon's passes [pure]."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class PassCounts:
    """Numbers of passes of a daemon, of examined rows, and the seconds in passes."""

    passes: int = 0
    failed_passes: int = 0
    examined_rows: int = 0
    busy_seconds: float = 0.0
