"""Discards a connection's query plans when the tables have grown.

A web process keeps one plan for each statement (decision 7).  A daemon keeps one for each statement
that it has run about ten times.  A plan that was made for an empty table (after a VACUUM) may scan
a whole index instead of looking up a row, because both have the same cost on an empty table.  Such
a plan would be used until the tables are analyzed, for example during a whole bulk load.  So each
connection checks the sizes of the tables once a second, and discards its plans when a table is at
least `GROWTH_FACTOR` times as large as when the plans were made.
"""

from __future__ import annotations

from time import monotonic
from typing import Final
from weakref import WeakKeyDictionary

from django.db import connection
from psycopg import Connection

from scheduler.sql import fetch

#: The interval between checks of a connection: the maximum time for which a bad plan is used.
CHECK_INTERVAL_SECONDS: Final = 1.0
#: Plans are discarded when a table has grown by this factor; smaller tables count as having
#: `MIN_TABLE_BYTES`.
GROWTH_FACTOR: Final = 2
MIN_TABLE_BYTES: Final = 4 * 8192

Sizes = dict[str, int]
#: By connection: the time of the last check, and the minimum size of each table since the plans
#: were made.  The minimum is used because PostgreSQL may replace some plans itself at any time.
_seen: WeakKeyDictionary[Connection, tuple[float, Sizes]] = WeakKeyDictionary()


def renew() -> None:
    """Discard this connection's plans if a table has grown by `GROWTH_FACTOR` or more.

    The sizes are read at most once in `CHECK_INTERVAL_SECONDS`.
    """
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
