"""Choices and CHECK constraints of state columns, generated from the law."""

from __future__ import annotations

from enum import IntEnum

from django.db import models


def choices(states: type[IntEnum]) -> list[tuple[int, str]]:
    """Return the choices of a state column, with the names from the law."""
    return [(state.value, state.name) for state in states]


def named(column: str, states: type[IntEnum], *, table: str) -> models.CheckConstraint:
    """Return a CHECK constraint that a column contains a code of the law."""
    return models.CheckConstraint(
        condition=models.Q(**{f"{column}__in": [state.value for state in states]}),
        name=f"{table}_{column}_is_named_by_the_law",
    )
