"""When a member can request the foundership of a team, and assume it [pure]."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

#: The time in which a founder answers a request for the foundership; that of BOINC.
ANSWER_WITHIN: Final = timedelta(days=60)
#: A request replaces an unanswered one after this time, so that one member cannot block the others.
REQUEST_VALID_FOR: Final = timedelta(days=90)


class Step(StrEnum):
    """The next step to the foundership for a member who is not the founder."""

    TAKE = "take"
    REQUEST = "request"
    WAIT = "wait"
    ASSUME = "assume"
    NOTHING = "nothing"


def requestable_at(requested_at: datetime | None, *, is_open: bool) -> datetime | None:
    """Return when the next request is possible after the last one; None means at any time.

    `is_open` is whether the last request is unanswered.
    """
    if requested_at is None:
        return None
    return requested_at + (REQUEST_VALID_FOR if is_open else ANSWER_WITHIN)


def assumable_at(requested_at: datetime) -> datetime:
    """Return when the member with this unanswered request may assume the foundership."""
    return requested_at + ANSWER_WITHIN


def next_step(
    *,
    founder_id: int | None,
    requested_by_id: int | None,
    requested_at: datetime | None,
    account_id: int,
    now: datetime,
) -> Step:
    """Return the step that a member can take; TAKE if the team has no founder."""
    if founder_id is None:
        return Step.TAKE
    if requested_by_id == account_id and requested_at is not None:
        return Step.ASSUME if now >= assumable_at(requested_at) else Step.WAIT
    possible_at = requestable_at(requested_at, is_open=requested_by_id is not None)
    return Step.REQUEST if possible_at is None or now >= possible_at else Step.NOTHING
