"""The settings of a queue, as dispatch and schedules use them [pure]."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

#: The `delay_bound` that stands for an infinite one; finite ones are a hundred years at most.
FOREVER = timedelta(days=36_600)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFacts:
    """The settings of a queue; `models.Queue` describes them.

    `version` identifies the version of the row: it differs after each change of the queue.
    """

    id: int
    name: str
    version: int = 0
    app_id: int | None = None
    max_in_progress: int | None = None
    order: str = "priority"
    priority_group: int = 0
    disabled_until: datetime | None = None
    allowed_hosts: Collection[int] = ()
    denied_hosts: Collection[int] = ()
    allowed_accounts: Collection[int] = ()
    denied_accounts: Collection[int] = ()
    max_new_per_claim: int | None = None
    max_new_per_host: int | None = None

    @property
    def is_capped(self) -> bool:
        return self.max_in_progress is not None


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """The results of a queue that wait and that are in progress, each counted up to `max_counted`.

    `oldest_at` is when the oldest workunit with an unsent result was created; None without one.
    """

    unsent: int
    in_progress: int
    max_counted: int
    oldest_at: datetime | None


@dataclass(frozen=True, slots=True, order=True)
class ScheduleEntry:
    """A change of a queue's limit at a minute of the day, on a weekday or (None) on every day.

    Weekdays are 0 for Sunday to 6 for Saturday.  `max_in_progress` None means no limit.
    """

    weekday: int | None
    minute: int
    max_in_progress: int | None

    def __str__(self) -> str:
        day = "*" if self.weekday is None else str(self.weekday)
        return f"{day} {self.minute // 60:02}:{self.minute % 60:02}"
