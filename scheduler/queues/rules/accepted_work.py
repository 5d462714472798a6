"""Decides which workunits a queue accepts, by their app and their deadline [pure]."""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

from scheduler.queues.facts import FOREVER


class Admission(NamedTuple):
    """The fields of a queue that decide which workunits it accepts.

    `app` is the id or the name of the only app, as the caller compares it; None means every app.
    `fsck` has the same rule in SQL (`queues_accept_their_work`).
    """

    app: int | str | None
    trusted: bool

    def accepts(self, *, app: int | str, delay_bound: timedelta) -> bool:
        """Return whether a workunit of this app, with this deadline, can be in the queue."""
        return self.accepts_app(app) and self.accepts_deadline(delay_bound)

    def accepts_app(self, app: int | str) -> bool:
        return self.app in (None, app)

    def accepts_deadline(self, delay_bound: timedelta) -> bool:
        """Return whether a deadline is finite, or may be infinite.

        Results of volunteers must time out some day; the hosts of a trusted queue belong to the
        lab.
        """
        return self.trusted or delay_bound != FOREVER


#: The admission of work without a queue.
WITHOUT_QUEUE = Admission(app=None, trusted=False)
