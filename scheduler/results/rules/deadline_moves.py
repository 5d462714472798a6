"""Computes how far outages of the server move deadlines [pure]."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True, slots=True, order=True)
class Span:
    began_at: datetime
    ended_at: datetime

    @property
    def length(self) -> timedelta:
        return self.ended_at - self.began_at


def uncovered(span: Span, others: Iterable[Span]) -> tuple[Span, ...]:
    """Return the parts of `span` that `others` do not cover, in order of time."""
    left, began = [], span.began_at
    for other in sorted(others):
        if other.began_at > began:
            left.append(Span(began, min(other.began_at, span.ended_at)))
        began = max(began, other.ended_at)
    left.append(Span(began, span.ended_at))
    return tuple(part for part in left if part.length > timedelta(0))


def moved_deadline(deadline: datetime, *, sent_at: datetime, outages: Sequence[Span]) -> datetime:
    """Return the deadline of a result sent at `sent_at`, moved by the outages after that time.

    A host that had an hour left when an outage began has an hour left when the outage ends.  A
    deadline within an outage moves past the end of the outage.  If the moved deadline is in the
    next outage, that outage moves it again.
    """
    for outage in sorted(outages):
        if outage.began_at < deadline:
            since = max(outage.began_at, sent_at)
            deadline += max(outage.ended_at - since, timedelta(0))
    return deadline


def is_silent(last_sign: datetime | None, *, now: datetime, outage_after: timedelta) -> bool:
    """Return whether the web processes' heartbeat is overdue; False if `last_sign` is None."""
    return last_sign is not None and now - last_sign > outage_after
