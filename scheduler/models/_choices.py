"""Makes choices and CHECK constraints of state columns from `lifecycle`."""

from __future__ import annotations

from enum import IntEnum

from django.db import models


def choices(states: type[IntEnum]) -> list[tuple[int, str]]:
    """Return the members of a state enum as Django choices."""
    return [(state.value, state.name) for state in states]


def named(column: str, states: type[IntEnum], *, table: str) -> models.CheckConstraint:
    """Return a CHECK constraint that limits a column to the values of a state enum."""
    return models.CheckConstraint(
        condition=models.Q(**{f"{column}__in": [state.value for state in states]}),
        name=f"{table}_{column}_is_named_by_the_law",
    )
