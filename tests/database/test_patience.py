"""A database that says nothing keeps nobody waiting."""

from __future__ import annotations

import threading

import psycopg
import pytest
from django.db import InterfaceError, OperationalError, connection

from project.children import wait_until
from scheduler.boinc import patience
from scheduler.boinc.patience import Patience

pytestmark = pytest.mark.django_db(transaction=True)


def silent():
    raise psycopg.OperationalError("timed out")


def ask(one, query, said):
    """Ask in a thread, over a connection of its own; what comes of it is put into `said`."""

    def run():
        try:
            with one.waiting(), connection.cursor() as cursor:
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
    """Who waits at all waits too long, and nobody looks but the test."""
    monkeypatch.setattr(patience, "LONGEST", -1.0)
    monkeypatch.setattr(patience, "EVERY", 600.0)


def until_it_waits(one):
    assert wait_until(lambda: bool(one._waiting), within=30)


def test_who_waits_for_a_silent_database_is_told_and_who_comes_next_at_once(impatient):
    one, said = Patience(silent), []
    thread = ask(one, "SELECT pg_sleep(60)", said)
    until_it_waits(one)

    one.look()
    thread.join(30)

    assert isinstance(said[0], OperationalError)
    assert str(one.cause_of(said[0])) == "The database does not answer."
    with pytest.raises(OperationalError, match="does not answer"), one.waiting():
        pass

    # It answers again
    one._trial = lambda: None
    one.look()
    thread = ask(one, "SELECT 1", said)
    thread.join(30)
    assert said[1] == (1,)


def test_who_waits_for_a_slow_database_goes_on_waiting(impatient):
    one, said = Patience(), []
    thread = ask(one, "SELECT 1 FROM pg_sleep(1)", said)
    until_it_waits(one)

    one.look()
    thread.join(30)

    assert said == [(1,)]


def test_nobody_tries_a_database_that_answers_soon(monkeypatch):
    tried = []
    one, said = Patience(lambda: tried.append(True)), []

    ask(one, "SELECT 1", said).join(30)
    one.look()

    assert (said, tried) == ([(1,)], [])
