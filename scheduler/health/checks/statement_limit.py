"""Limits the duration of the statements of requested checks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from django.db import DatabaseError, connection, transaction
from psycopg.errors import QueryCanceled

#: The time limit of each statement.  Meanwhile, the housekeeper does no other chore, such as the
#: delivery of mail.  An invariant that needs longer can be checked in a shell, without a limit.
TIME_LIMIT = timedelta(seconds=60)
_CANCELLED = "It was cancelled: a statement of a requested check may take at most {:g} seconds."


class NotChecked(Exception):
    """A statement took too long, or the database refused it."""


@contextmanager
def limited() -> Iterator[None]:
    """Run the statements of the block in a savepoint, each for at most `TIME_LIMIT`.

    The caller has opened a transaction.  Raises `NotChecked` if a statement fails; the transaction
    can then continue.  Raises Django's error if the connection is lost.
    """
    milliseconds = max(1, round(TIME_LIMIT.total_seconds() * 1000))
    try:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT set_config('statement_timeout', %s, TRUE)", [f"{milliseconds}ms"]
                )
            yield
    except DatabaseError as error:
        if transaction.get_rollback():
            raise
        raise NotChecked(_reason(error)) from error


def _reason(error: DatabaseError) -> str:
    if isinstance(error.__cause__, QueryCanceled):
        return _CANCELLED.format(TIME_LIMIT.total_seconds())
    return f"The database refused the statement: {first_line(error)}"


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, without the statement."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
