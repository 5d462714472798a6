"""The Celery app, the daemons' second driver; its timetable is the registry's.

A message says no more than "make a pass", and the tables say what there is to do.  So any message
may be lost, come late or come twice; whatever is set here follows from that.
"""

from __future__ import annotations

import logging
import os
import warnings
from typing import Any

from celery import Celery, signals
from celery.beat import ScheduleEntry, Scheduler
from celery.exceptions import CPendingDeprecationWarning
from kombu.entity import Exchange, Queue

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

log = logging.getLogger(__name__)

# Said at each loss of the broker, of a setting that is made below.
warnings.filterwarnings("ignore", category=CPendingDeprecationWarning)

#: So many messages may wait in a queue; with more, its workers are away or busy.
LONGEST_QUEUE = 3
#: The last resort against a pass that hangs, in seconds; a lease outlives it, and science code has
#: limits of its own.
HARD_LIMIT = 3600.0
#: A child of a worker that has grown beyond this makes room for a new one after its task; kB.
LARGEST_CHILD = 140_000

app = Celery("manyhands")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.update(
    timezone="UTC",
    # No pass has an answer, and one that was lost comes again with the next message: it may be
    # acknowledged before it begins, for a worker that dies would only have it made twice.
    task_ignore_result=True,
    # Other users of the broker must not be able to run code here: nothing is unpickled.
    task_serializer="json",
    result_serializer="json",
    event_serializer="json",
    accept_content=["json"],
    task_acks_late=False,
    task_time_limit=HARD_LIMIT,
    worker_prefetch_multiplier=1,
    worker_max_memory_per_child=LARGEST_CHILD,
    worker_cancel_long_running_tasks_on_connection_loss=False,
    # A connection to the database lasts for many tasks; broken ones are closed by the task itself.
    CELERY_DB_REUSE_MAX=10_000,
    # The broker may be away for as long as it likes.
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    task_publish_retry=False,
    # What nobody fetches must not fill the broker, nor outlast a restart of it.
    task_default_delivery_mode="transient",
    task_create_missing_queues=False,
    task_default_exchange="",
    beat_scheduler="project.celery:Timetable",
    beat_max_loop_interval=5.0,
)
app.autodiscover_tasks(["daemons"])


@app.on_after_finalize.connect
def set_timetable(sender: Celery, **_: Any) -> None:
    """Give every daemon of the registry a queue, and a pass at each of its pauses."""
    # Imported late: the registry knows the models, which need Django to be set up.
    from daemons.registry import DAEMONS, timetable  # noqa: PLC0415

    sender.conf.task_queues = [
        # The nameless exchange finds a queue by its name: no table that a broker could lose.
        # RabbitMQ itself drops what is overdue; elsewhere workers do, and `Timetable` counts.
        Queue(
            daemon.name,
            Exchange(""),
            routing_key=daemon.name,
            message_ttl=daemon.pause,
            max_length=LONGEST_QUEUE,
            durable=False,
        )
        for daemon in DAEMONS
    ]
    sender.conf.task_default_queue = DAEMONS[0].name
    sender.conf.beat_schedule = timetable()


class Timetable(Scheduler):
    """Beat's scheduler: keeps no file, fills no queue that nobody empties, and says things once."""

    _is_away = False

    def apply_entry(self, entry: ScheduleEntry, producer: Any = None) -> None:  # noqa: ANN401 - kombu has no types
        """Send one message, unless enough of its kind wait already."""
        try:
            if self._waiting(entry.options["queue"]) < LONGEST_QUEUE:
                self.apply_async(entry, producer=producer, advance=False)
        except Exception as error:  # noqa: BLE001 - whatever it is, the next message may go through
            self._say_away(error)
        else:
            if self._is_away:
                log.info("broker back")
            self._is_away = False

    def _waiting(self, queue: str) -> int:
        """How many messages wait in a queue, which is made if it does not exist."""
        with self.app.pool.acquire(block=True) as connection:
            bound = self.app.amqp.queues[queue](connection.default_channel)
            return int(bound.queue_declare().message_count)

    def _say_away(self, error: Exception) -> None:
        if not self._is_away:
            log.error("broker away", extra={"reason": " ".join(str(error).split())})
        self._is_away = True


@signals.setup_logging.connect
def keep_our_logging(**_: Any) -> None:
    """Leave logging as the settings have it: a receiver's presence keeps Celery's own away."""
