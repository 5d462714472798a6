"""Defines the Celery app, which runs the daemons' passes by a schedule.

A message only requests a pass; the due work is in the database.  So a lost, late or repeated
message does no harm, and this configuration relies on that.
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

# On each loss of the broker, Celery warns about a setting that this module sets below.
warnings.filterwarnings("ignore", category=CPendingDeprecationWarning)

#: The maximum number of waiting messages in a queue.  If it is reached, no worker is free.
MAX_QUEUE_LENGTH = 3
#: The time limit of a pass, as a last resort.  Leases last longer, and science code has limits of
#: its own.
HARD_LIMIT_SECONDS = 3600.0
#: A child process of a worker with more memory is replaced after its task; kB.
MAX_CHILD_KB = 140_000

app = Celery("manyhands")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.update(
    timezone="UTC",
    # A pass returns no result, and the next message repeats a lost pass.  So messages are
    # acknowledged early.  Otherwise, the death of a worker would only cause a second pass.
    task_ignore_result=True,
    # Nothing is unpickled, so that other users of the broker cannot run code here.
    task_serializer="json",
    result_serializer="json",
    event_serializer="json",
    accept_content=["json"],
    task_acks_late=False,
    task_time_limit=HARD_LIMIT_SECONDS,
    worker_prefetch_multiplier=1,
    worker_max_memory_per_child=MAX_CHILD_KB,
    worker_cancel_long_running_tasks_on_connection_loss=False,
    # A database connection is used for many tasks; the task itself closes broken ones.
    CELERY_DB_REUSE_MAX=10_000,
    # Retry without limit while the broker is unavailable.
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    task_publish_retry=False,
    # Messages without a consumer must not fill the broker, or survive a restart of the broker.
    task_default_delivery_mode="transient",
    task_create_missing_queues=False,
    task_default_exchange="",
    beat_scheduler="project.celery:Timetable",
    beat_max_loop_interval=5.0,
)
app.autodiscover_tasks(["daemons"])


@app.on_after_finalize.connect
def set_timetable(sender: Celery, **_: Any) -> None:
    """Create a queue for every daemon of the registry, and schedule its passes."""
    # The import is here because the registry imports models, which need Django to be set up.
    from daemons.registry import DAEMONS, timetable  # noqa: PLC0415

    sender.conf.task_queues = [
        # The default exchange routes by the name of the queue, so it needs no bindings, which a
        # broker could lose.  RabbitMQ drops expired messages; with other brokers the workers drop
        # them, and `Timetable` limits the length of a queue.
        Queue(
            daemon.name,
            Exchange(""),
            routing_key=daemon.name,
            message_ttl=daemon.pause,
            max_length=MAX_QUEUE_LENGTH,
            durable=False,
        )
        for daemon in DAEMONS
    ]
    sender.conf.task_default_queue = DAEMONS[0].name
    sender.conf.beat_schedule = timetable()


class Timetable(Scheduler):
    """Beat's scheduler, without a schedule file.

    It sends no messages to full queues, and logs each outage of the broker once.
    """

    _is_unreachable = False

    def apply_entry(self, entry: ScheduleEntry, producer: Any = None) -> None:  # noqa: ANN401 - kombu has no types
        """Send one message, unless its queue has `MAX_QUEUE_LENGTH` waiting messages."""
        try:
            if self._waiting(entry.options["queue"]) < MAX_QUEUE_LENGTH:
                self.apply_async(entry, producer=producer, advance=False)
        except Exception as error:  # noqa: BLE001 - the next message may succeed
            self._log_unreachable(error)
        else:
            if self._is_unreachable:
                log.info("broker_recovered")
            self._is_unreachable = False

    def _waiting(self, queue: str) -> int:
        """Return the number of waiting messages in a queue; create the queue if it is missing."""
        with self.app.pool.acquire(block=True) as connection:
            bound = self.app.amqp.queues[queue](connection.default_channel)
            return int(bound.queue_declare().message_count)

    def _log_unreachable(self, error: Exception) -> None:
        if not self._is_unreachable:
            log.error("broker_unreachable", extra={"reason": " ".join(str(error).split())})
        self._is_unreachable = True


@signals.setup_logging.connect
def keep_our_logging(**_: Any) -> None:
    """Do nothing.  Celery does not change the logging if this signal has a receiver."""
