"""The table of event kinds: each is registered beside what it changes [pure]."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING

from volunteer.events import Command, Event
from volunteer.records import State

if TYPE_CHECKING:
    from volunteer.config import Rules

Step = tuple[State, list[Command]]


@singledispatch
def apply(event: Event, state: State, rules: Rules) -> Step:
    """Write one kind of event into the state."""
    del state, rules
    message = f"The client does not know the event {event!r}."
    raise TypeError(message)
