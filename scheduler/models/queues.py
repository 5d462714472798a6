"""The tables of queues: their settings, their slots and their schedules."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q

#: The largest limit of a queue.  A queue has one row of `QueueSlot` per permitted result.
MAX_SLOTS = 100_000


class Queue(models.Model):
    """A named queue of workunits, with an order, hosts, and a limit on the results in progress.

    In `max_in_progress`, NULL means no limit, and 0 stops the queue.  Queues of a higher
    `priority_group` are served first; work without a queue is in group 0.  The lists contain ids of
    hosts and accounts.  The lists of denied hosts and accounts apply only if both lists of allowed
    hosts and accounts are empty.  `max_new_per_claim` and `max_new_per_host` limit the results that
    one claim sends, to all hosts and to each host.  Workunits of a `trusted` queue may have an
    infinite deadline.  `scheduled_at` is the last time of the schedule that was applied.
    `balance_group` is the place of the queue in `QueueBalance`, 0 for the group that is served
    first; NULL means that the queue has a limit of its own.
    """

    name = models.CharField(max_length=100, unique=True)
    app = models.ForeignKey(
        "scheduler.App", models.PROTECT, null=True, blank=True, related_name="queues"
    )
    max_in_progress = models.IntegerField(null=True, blank=True)
    order = models.CharField(
        max_length=8,
        choices=[("priority", "priority"), ("fifo", "fifo"), ("lifo", "lifo")],
        default="priority",
    )
    priority_group = models.SmallIntegerField(default=0, db_default=0)
    disabled_until = models.DateTimeField(null=True, blank=True)
    allowed_hosts = models.JSONField(default=list, db_default=[], blank=True)
    denied_hosts = models.JSONField(default=list, db_default=[], blank=True)
    allowed_accounts = models.JSONField(default=list, db_default=[], blank=True)
    denied_accounts = models.JSONField(default=list, db_default=[], blank=True)
    max_new_per_claim = models.IntegerField(null=True, blank=True)
    max_new_per_host = models.IntegerField(null=True, blank=True)
    trusted = models.BooleanField(default=False, db_default=False)
    time_zone = models.CharField(max_length=64, default="UTC", db_default="UTC")
    scheduled_at = models.DateTimeField(null=True, blank=True)
    balance_group = models.SmallIntegerField(null=True, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        db_table = "queue"
        constraints = [
            models.CheckConstraint(
                condition=Q(max_in_progress__isnull=True)
                | Q(max_in_progress__gte=0, max_in_progress__lte=MAX_SLOTS),
                name="queue_limit_is_in_range",
            ),
            models.CheckConstraint(
                condition=(Q(max_new_per_claim__isnull=True) | Q(max_new_per_claim__gte=1))
                & (Q(max_new_per_host__isnull=True) | Q(max_new_per_host__gte=1)),
                name="queue_ramp_limits_are_positive",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class QueueBalance(models.Model):
    """The maximum number of results in progress that several queues share; at most one row.

    `max_tasks` maps times of the week, such as `* 07:00`, to the maximum from this time on.  Before
    `disabled_until`, the limits of the queues are not changed.  `Queue.balance_group` names the
    queues.
    """

    max_tasks = models.JSONField(default=dict)
    time_zone = models.CharField(max_length=64, default="UTC", db_default="UTC")
    disabled_until = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "queue_balance"
        constraints = [
            models.CheckConstraint(condition=Q(id=1), name="queue_balance_is_one"),
        ]

    def __str__(self) -> str:
        return "balance of queues"


class QueueSlot(models.Model):
    """The permission for one result in progress of a queue with a limit.

    A slot is free if `result` is NULL.  A slot whose `number` exceeds the queue's limit remains
    from a higher limit; while there is one, no result of the queue is sent.
    """

    queue = models.ForeignKey(Queue, models.CASCADE, related_name="slots", db_index=False)
    number = models.IntegerField()
    # No constraint, because it would cost the purger a look-up per result; fsck checks it.
    result = models.ForeignKey(
        "scheduler.Result",
        models.DO_NOTHING,
        null=True,
        blank=True,
        related_name="+",
        db_constraint=False,
        db_index=False,
    )

    class Meta:
        db_table = "queue_slot"
        constraints = [
            models.UniqueConstraint(fields=["queue", "number"], name="queue_slot_has_its_number"),
            models.UniqueConstraint(
                fields=["result"],
                condition=Q(result__isnull=False),
                name="queue_slot_is_one_per_result",
            ),
        ]
        indexes = [
            models.Index(
                fields=["queue", "number"],
                condition=Q(result__isnull=True),
                name="lock_slots",
            ),
        ]

    def __str__(self) -> str:
        return f"slot {self.number}"


class QueueSchedule(models.Model):
    """A change of a queue's limit at a time of the week, in the time zone of the queue.

    `weekday` is 0 for Sunday to 6 for Saturday; NULL means every day.  `minute` is the minute of
    the day.
    """

    queue = models.ForeignKey(Queue, models.CASCADE, related_name="schedules", db_index=False)
    weekday = models.SmallIntegerField(null=True, blank=True)
    minute = models.SmallIntegerField()
    max_in_progress = models.IntegerField(null=True, blank=True)

    class Meta:
        db_table = "queue_schedule"
        ordering = (F("weekday").asc(nulls_first=True), "minute")
        constraints = [
            models.UniqueConstraint(
                fields=["queue", "weekday", "minute"],
                nulls_distinct=False,
                name="queue_schedule_has_its_time",
            ),
            models.CheckConstraint(
                condition=(Q(weekday__isnull=True) | Q(weekday__gte=0, weekday__lte=6))
                & Q(minute__gte=0, minute__lt=24 * 60)
                & (
                    Q(max_in_progress__isnull=True)
                    | Q(max_in_progress__gte=0, max_in_progress__lte=MAX_SLOTS)
                ),
                name="queue_schedule_is_in_range",
            ),
        ]

    def __str__(self) -> str:
        day = "*" if self.weekday is None else str(self.weekday)
        return f"{day} {self.minute // 60:02}:{self.minute % 60:02}"
