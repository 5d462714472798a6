"""Makes sessions of the test database wait for each other's locks."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest
from django.db import connection

from scheduler.models import Host, Result
from tests.conftest import NOON


def wait_until_blocked() -> None:
    """Return once a session of this database waits for a lock of another; fail after 20 seconds.

    Autovacuum is not a session: neither its own waits nor waits for its locks count.
    """
    for _ in range(2000):
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_stat_clear_snapshot()")
            cursor.execute(
                "WITH session AS (SELECT pid FROM pg_stat_activity WHERE datname ="
                " current_database() AND backend_type = 'client backend')"
                " SELECT count(*), pg_sleep(0.01) FROM session WHERE pg_blocking_pids(pid)"
                " && ARRAY (SELECT pid FROM session)"
            )
            if cursor.fetchone()[0]:
                return
    pytest.fail("No session waits for a lock.")


def change_during_claim(other: Any, result: Result, host: Host, change: Callable[[], Any]) -> Any:
    """Call `change` while another connection claims a result; return what it returns.

    `change` must wait for the lock on the workunit, which the claim holds.
    """
    outcomes: list[Any] = []

    def run() -> None:
        try:
            outcomes.append(change())
        finally:
            connection.close()

    other.execute("SELECT FROM workunit WHERE id = %s FOR NO KEY UPDATE", [result.workunit_id])
    thread = Thread(target=run)
    thread.start()
    wait_until_blocked()
    other.execute(
        "UPDATE result SET server_state = 4, host_id = %s, account_id = %s, sent_at = %s,"
        " report_deadline = %s WHERE id = %s",
        [host.pk, host.account_id, NOON, NOON, result.pk],
    )
    other.commit()
    thread.join(20)
    [outcome] = outcomes
    return outcome
