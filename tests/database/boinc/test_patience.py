"""A thread does not wait for a database that does not answer."""

from __future__ import annotations

import threading

import psycopg
import pytest
from django.db import InterfaceError, OperationalError, connection

from daemons.management.processes import wait_until
from scheduler.boinc import database_outages
from scheduler.boinc.database_outages import DatabaseWatchdog

pytestmark = pytest.mark.django_db(transaction=True)


def silent():
    raise psycopg.OperationalError("timed out")


def ask(one, query, said):
    """Run a query in a thread with its own connection; append its row or error to `said`."""

    def run():
        try:
            with one.watching(), connection.cursor() as cursor:
                cursor.execute(query)
                said.append(cursor.fetchone())
        except (OperationalError, InterfaceError) as error:
            said.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


@pytest.fixture
def impatient(monkeypatch):
    """Every wait exceeds its time limit at once, and only the test calls `check`."""
    monkeypatch.setattr(database_outages, "TIMEOUT_SECONDS", -1.0)
    monkeypatch.setattr(database_outages, "CHECK_SECONDS", 600.0)


@pytest.fixture
def ends_sleeping_sessions():
    """End sessions that still sleep: `CREATE INDEX CONCURRENTLY` of another test waits for them."""
    yield
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event = 'PgSleep'"
        )


def until_it_waits(one):
    assert wait_until(lambda: bool(one._watched), within=30)


def test_queries_fail_while_the_database_does_not_answer(impatient, ends_sleeping_sessions):
    one, said = DatabaseWatchdog(silent), []
    thread = ask(one, "SELECT pg_sleep(60)", said)
    until_it_waits(one)

    one.check()
    thread.join(30)

    assert isinstance(said[0], OperationalError)
    assert str(one.cause_of(said[0])) == "The database does not answer."
    with pytest.raises(OperationalError, match="does not answer"), one.watching():
        pass

    # The database answers again.
    one._probe = lambda: None
    one.check()
    thread = ask(one, "SELECT 1", said)
    thread.join(30)
    assert said[1] == (1,)


def test_query_continues_on_a_slow_database(impatient):
    one, said = DatabaseWatchdog(), []
    thread = ask(one, "SELECT 1 FROM pg_sleep(1)", said)
    until_it_waits(one)

    one.check()
    thread.join(30)

    assert said == [(1,)]


def test_database_that_answers_soon_is_not_probed(monkeypatch):
    tried = []
    one, said = DatabaseWatchdog(lambda: tried.append(True)), []

    ask(one, "SELECT 1", said).join(30)
    one.check()

    assert (said, tried) == ([(1,)], [])
