"""Daemons under Celery: one queue each, and a schedule that keeps queues short."""

from __future__ import annotations

import logging

import pytest
from kombu.exceptions import OperationalError

from daemons.registry import BY_NAME
from project import celery as wiring
from project.celery import MAX_QUEUE_LENGTH, Timetable


@pytest.fixture
def app(monkeypatch):
    """The project's Celery app with an in-memory broker."""
    monkeypatch.setitem(wiring.app.conf, "broker_url", "memory://localhost")
    monkeypatch.setitem(wiring.app.conf, "broker_read_url", "memory://localhost")
    monkeypatch.setitem(wiring.app.conf, "broker_write_url", "memory://localhost")
    wiring.app.finalize()
    wiring.app.loader.import_default_modules()
    with wiring.app.connection_for_write() as connection:
        for name in BY_NAME:
            wiring.app.amqp.queues[name](connection.default_channel).declare()
            connection.default_channel.queue_purge(name)
    return wiring.app


@pytest.fixture
def timetable(app):
    table = Timetable(app, schedule={})
    yield table
    table.close()


def test_every_daemon_has_a_queue_and_a_schedule_entry(app):
    assert set(app.amqp.queues) == BY_NAME.keys()
    assert app.conf.beat_schedule.keys() == BY_NAME.keys()
    for name, entry in app.conf.beat_schedule.items():
        assert entry["options"]["queue"] == name
        queue = app.amqp.queues[name]
        assert (queue.exchange.name, queue.routing_key) == ("", name)
        assert queue.message_ttl == BY_NAME[name].pause


def test_worker_prefetches_one_message_and_stores_no_result(app):
    task = app.tasks["daemons.run_pass"]
    assert app.conf.worker_prefetch_multiplier == 1
    assert (task.ignore_result, task.acks_late, task.time_limit) == (
        True,
        False,
        wiring.HARD_LIMIT_SECONDS,
    )
    assert app.conf.broker_connection_max_retries is None


def test_queue_without_a_worker_stays_within_the_maximum_length(timetable):
    entry = timetable.schedule["transitioner"]
    for _ in range(3 * MAX_QUEUE_LENGTH):
        timetable.apply_entry(entry)
    assert timetable._waiting("transitioner") == MAX_QUEUE_LENGTH
    assert timetable._waiting("validator") == 0


def test_beat_logs_broker_loss_once_and_recovery_once(timetable, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    entry = timetable.schedule["transitioner"]
    with monkeypatch.context() as patch:

        def away(queue):
            raise OperationalError("connection\nrefused")

        patch.setattr(timetable, "_waiting", away)
        for _ in range(3):
            timetable.apply_entry(entry)
    for _ in range(2):
        timetable.apply_entry(entry)
    assert [record.message for record in caplog.records] == [
        "broker_unreachable",
        "broker_recovered",
    ]
    assert caplog.records[0].reason == "connection refused"
