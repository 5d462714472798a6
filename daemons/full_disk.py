"""Says that the disk is full when that begins, and that it has room when it has."""

from __future__ import annotations

import logging
from collections.abc import Collection
from time import monotonic

log = logging.getLogger(__name__)

#: How soon a disk that stays full is spoken of again; seconds.
AGAIN_AFTER = 3600.0


class FullDisk:
    """What one process knows of it: the apps whose answers found no room and still wait."""

    def __init__(self) -> None:
        self._apps: set[int] = set()
        self._began = self._said_at = 0.0
        self._put_off = 0

    def meets(self, apps: Collection[int], *, workunits: int, reason: str) -> None:
        """So many workunits of these apps (ids) were put off, for there was no room."""
        moment = monotonic()
        if not self._apps:
            self._began, self._put_off = moment, 0
        if not self._apps or moment - self._said_at >= AGAIN_AFTER:
            log.error("disk is full", extra={"workunits": workunits, "reason": reason})
            self._said_at = moment
        self._apps.update(apps)
        self._put_off += workunits

    def leaves(self, apps: Collection[int]) -> None:
        """Answers of these apps (ids) were kept, and none of theirs was put off."""
        if self._apps and self._apps.issubset(apps):
            seconds = round(monotonic() - self._began, 3)
            log.info("disk has room", extra={"seconds": seconds, "put_off": self._put_off})
        self._apps.difference_update(apps)
