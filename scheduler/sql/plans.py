"""Has a connection's statements planned anew when the tables have grown.

A web process keeps one plan for each statement (decision 7), a daemon one for each that it ran some
ten times.  One made while a table was empty, as PostgreSQL knew after a VACUUM, reads an index from
end to end where it should look something up: there, both cost nothing.  It would stay until
somebody analyses the tables, through a whole bulk load.  So a connection asks now and then how long
the tables are, and forgets its plans when one has become several times as long as it was when they
were made.
"""

from __future__ import annotations

from time import monotonic
from typing import Final
from weakref import WeakKeyDictionary

from django.db import connection
from psycopg import Connection

from scheduler.sql import fetch

#: How often a connection asks, in seconds; up to this, a plan that became bad is borne with.
ASKED_EVERY: Final = 1.0
#: How many times as long a table is when plans are made anew; below so many bytes none is long.
GROWN: Final = 2
SHORT: Final = 4 * 8192

Sizes = dict[str, int]
#: By connection, whose server keeps the plans: when it asked, and how long the tables were at least
#: since its plans were made.  PostgreSQL makes some anew by itself, at any moment.
_seen: WeakKeyDictionary[Connection, tuple[float, Sizes]] = WeakKeyDictionary()


def renew() -> None:
    """Have this connection's plans forgotten if a table has grown much; asks once a second."""
    connection.ensure_connection()
    asked_at, before = _seen.get(connection.connection, (0.0, {}))
    if before and monotonic() - asked_at < ASKED_EVERY:
        return
    now = {row["name"]: max(SHORT, row["bytes"]) for row in fetch("sql/read_table_sizes", {})}
    if any(nbytes >= GROWN * before.get(name, nbytes) for name, nbytes in now.items()):
        with connection.cursor() as cursor:
            cursor.execute("DISCARD PLANS")
        before = now
    least = {name: min(nbytes, before.get(name, nbytes)) for name, nbytes in now.items()}
    _seen[connection.connection] = (monotonic(), least)
