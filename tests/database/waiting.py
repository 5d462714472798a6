"""Waits until another session of the test database waits for a lock."""

from __future__ import annotations

import pytest
from django.db import connection


def wait_until_blocked() -> None:
    """Return once a session of this database waits for a lock; fail after 20 seconds."""
    for _ in range(2000):
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_stat_clear_snapshot()")
            cursor.execute(
                "SELECT count(*), pg_sleep(0.01) FROM pg_stat_activity"
                " WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
            if cursor.fetchone()[0]:
                return
    pytest.fail("No session waits for a lock.")
