"""Discards a connection's query plans when the tables have grown.

A web process keeps one plan for each statement (decision 7), a daemon one for each that it ran some
ten times.  A plan made while a table was empty (as PostgreSQL knew after a VACUUM) scans a whole
index where it should look a row up: on an empty table, both cost nothing.  Such a plan would stay
until the tables are analyzed, through a whole bulk load.  So each connection reads the sizes of the
tables from time to time, and discards its plans when one has become several times as large as when
they were made.
"""

from __future__ import annotations

from time import monotonic
from typing import Final
from weakref import WeakKeyDictionary

from django.db import connection
from psycopg import Connection

from scheduler.sql import fetch

#: The interval between checks of a connection; a bad plan is used for at most this long.
CHECK_INTERVAL_SECONDS: Final = 1.0
#: Plans are discarded when a table has grown by this factor; tables smaller than the second value
#: count as having that size.
GROWTH_FACTOR: Final = 2
MIN_TABLE_BYTES: Final = 4 * 8192

Sizes = dict[str, int]
#: By connection, whose server process keeps the plans: the time of the last check, and the least
#: table sizes since its plans were made (PostgreSQL may replace some plans itself at any time).
_seen: WeakKeyDictionary[Connection, tuple[float, Sizes]] = WeakKeyDictionary()


def renew() -> None:
    """Discard this connection's plans if a table has grown a lot; checks once a second."""
    connection.ensure_connection()
    checked_at, before = _seen.get(connection.connection, (0.0, {}))
    if before and monotonic() - checked_at < CHECK_INTERVAL_SECONDS:
        return
    now = {
        row["name"]: max(MIN_TABLE_BYTES, row["bytes"]) for row in fetch("sql/read_table_sizes", {})
    }
    if any(nbytes >= GROWTH_FACTOR * before.get(name, nbytes) for name, nbytes in now.items()):
        with connection.cursor() as cursor:
            cursor.execute("DISCARD PLANS")
        before = now
    least = {name: min(nbytes, before.get(name, nbytes)) for name, nbytes in now.items()}
    _seen[connection.connection] = (monotonic(), least)
