"""How far deadlines move when volunteers could not reach the server [pure]."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A time from one moment to a later one."""

    began_at: datetime
    ended_at: datetime

    @property
    def length(self) -> timedelta:
        """How long it lasted."""
        return self.ended_at - self.began_at


def overlap(one: Span, other: Span) -> timedelta:
    """For how long two spans went on at the same time; zero if they never did."""
    began, ended = max(one.began_at, other.began_at), min(one.ended_at, other.ended_at)
    return max(ended - began, timedelta(0))


def uncovered(span: Span, others: Iterable[Span]) -> tuple[Span, ...]:
    """What of a span no other span covers, in order: nobody is given the same hour twice."""
    left, began = [], span.began_at
    for other in sorted(others):
        if other.began_at > began:
            left.append(Span(began, min(other.began_at, span.ended_at)))
        began = max(began, other.ended_at)
    left.append(Span(began, span.ended_at))
    return tuple(part for part in left if part.length > timedelta(0))


def moved(deadline: datetime, *, sent_at: datetime, outages: Sequence[Span]) -> datetime:
    """The deadline of what was sent at `sent_at`, later by as long as the server was away since.

    Who had an hour left when an outage began has one when it ends: a deadline within an outage
    moves past its end, and one that moves into the next outage moves by that one, too.
    """
    for outage in sorted(outages):
        if outage.began_at < deadline:
            since = max(outage.began_at, sent_at)
            deadline += max(outage.ended_at - since, timedelta(0))
    return deadline


def is_silent(last_sign: datetime | None, *, now: datetime, outage_after: timedelta) -> bool:
    """Whether the web processes are away now; not if there has never been a sign of them."""
    return last_sign is not None and now - last_sign > outage_after
