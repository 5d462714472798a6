"""A worker is blocked only by a lock of another worker, not of another program."""

from __future__ import annotations

import os
import signal

import pytest
from django.db import connection, transaction

from tests.database.waiting import wait_until_blocked
from tests.long.stepping import PATIENCE, Worker, is_blocked

pytestmark = pytest.mark.django_db(transaction=True)

LOCK = "LOCK TABLE app IN EXCLUSIVE MODE"


@pytest.fixture
def workers():
    crew = [Worker(_lock) for _ in range(2)]
    for worker in crew:
        worker.start()
    yield crew
    for worker in crew:
        os.kill(worker.pid, signal.SIGKILL)
        worker.stop()


def _lock(_take_turn):
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(LOCK)
        cursor.execute("SELECT 1")


def begin(worker):
    """Let a worker ask for the lock; it stops again once it has the lock."""
    worker.begin()
    assert worker.has_stopped(PATIENCE)
    worker.go_on()


def test_worker_that_waits_for_a_lock_of_another_worker_is_blocked(workers):
    first, second = workers
    begin(first)
    assert first.has_stopped(PATIENCE)
    begin(second)
    wait_until_blocked()
    assert not second.has_stopped(0)
    assert is_blocked(second, workers)


def test_worker_that_waits_for_a_lock_of_another_program_is_not_blocked(workers, other):
    """Autovacuum truncates a table under such a lock, and releases it by itself."""
    first, _second = workers
    other.execute(LOCK)
    begin(first)
    wait_until_blocked()
    assert not first.has_stopped(0)
    assert not is_blocked(first, workers)
    other.rollback()
    assert first.has_stopped(PATIENCE)
