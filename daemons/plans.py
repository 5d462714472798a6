"""Plans a daemon's statements anew now and then, for the tables as they are.

PostgreSQL keeps the plan of a prepared statement until somebody analyses its tables.  A daemon that
looked ten times at an empty project would read its tables whole ever after, also when a million
workunits have come in a minute.
"""

from __future__ import annotations

from time import monotonic
from typing import Final

from django.db import connection

#: Plans are kept for so many seconds: a plan costs about as much as a short pass.
KEPT_FOR: Final = 10.0

_renewed_at = 0.0


def renew() -> None:
    """Have PostgreSQL forget the plans of this connection, if they are older than `KEPT_FOR`."""
    global _renewed_at  # noqa: PLW0603 - a process drives its daemons over one connection
    if monotonic() - _renewed_at < KEPT_FOR:
        return
    _renewed_at = monotonic()
    with connection.cursor() as cursor:
        cursor.execute("DISCARD PLANS")
