"""Limits the time of searches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from django.db import OperationalError, connection, transaction
from psycopg.errors import QueryCanceled

from scheduler.api.http.problems import Problem

#: The maximum duration of the statement of a list with a filter.
TIMEOUT_SECONDS: Final = 5


@contextmanager
def time_limit() -> Iterator[None]:
    """Limit the duration of each statement of the block; raises `Problem` (422)."""
    try:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute(f"SET LOCAL statement_timeout = '{TIMEOUT_SECONDS}s'")
            yield
    except OperationalError as error:
        if not isinstance(error.__cause__, QueryCanceled):
            raise
        hint = "add a condition on id, name, batch or created_at, or ask for a smaller page."
        msg = f"The search took longer than {TIMEOUT_SECONDS} seconds."
        raise Problem(422, "search_too_slow", msg, hint=hint) from None
