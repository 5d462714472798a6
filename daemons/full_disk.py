"""Logs when the disk becomes full, and when files can be written again."""

from __future__ import annotations

import logging
from collections.abc import Collection
from time import monotonic

log = logging.getLogger(__name__)

#: The interval between log messages while the disk stays full; seconds.
LOG_INTERVAL_SECONDS = 3600.0


class FullDisk:
    """Tracks, for one process, the apps whose files cannot be written because the disk is full."""

    def __init__(self) -> None:
        self._apps: set[int] = set()
        self._began = self._logged_at = 0.0
        self._put_off = 0

    def record_full(self, apps: Collection[int], *, workunits: int, reason: str) -> None:
        """Record that workunits were postponed because the disk is full.

        `apps` contains the ids of their apps, and `workunits` is the number of workunits.  This is
        logged at most once per `LOG_INTERVAL_SECONDS` while the disk stays full.
        """
        moment = monotonic()
        if not self._apps:
            self._began, self._put_off = moment, 0
        if not self._apps or moment - self._logged_at >= LOG_INTERVAL_SECONDS:
            log.error("disk_full", extra={"workunits": workunits, "reason": reason})
            self._logged_at = moment
        self._apps.update(apps)
        self._put_off += workunits

    def record_kept(self, apps: Collection[int]) -> None:
        """Record that files were written; log this if no affected app remains.

        `apps` contains the ids of the apps to which the files belong.
        """
        if self._apps and self._apps.issubset(apps):
            seconds = round(monotonic() - self._began, 3)
            log.info("disk_has_room", extra={"seconds": seconds, "put_off": self._put_off})
        self._apps.difference_update(apps)
