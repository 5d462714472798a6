"""Calls the handler that a module has registered for the type of an event."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING

from volunteer.events import Command, Event
from volunteer.records import State

if TYPE_CHECKING:
    from volunteer.config import Rules

Step = tuple[State, list[Command]]


@singledispatch
def apply(event: Event, _state: State, _rules: Rules) -> Step:
    """Return the state after an event, and the commands to execute.

    Raises TypeError if no handler is registered for the type of the event.
    """
    raise TypeError(f"Unknown event: {event!r}.")
