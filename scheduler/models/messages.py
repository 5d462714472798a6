"""The tables of trickles, usage samples and file requests."""

from __future__ import annotations

from django.db import models


class TrickleUp(models.Model):
    """A message from a running result; clients repeat it until the server acknowledges it."""

    result_id = models.BigIntegerField()
    host = models.ForeignKey("scheduler.Host", models.CASCADE, related_name="+")
    app = models.ForeignKey("scheduler.App", models.CASCADE, related_name="+", db_index=False)
    variety = models.CharField(max_length=254, blank=True, default="")
    text = models.TextField(blank=True, default="")
    said_at = models.DateTimeField()
    received_at = models.DateTimeField()
    handled_at = models.DateTimeField(null=True, blank=True)
    handle_after = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "trickle_up"
        constraints = [
            models.UniqueConstraint(
                fields=["result_id", "variety", "said_at"], name="trickle_up_is_kept_once"
            ),
        ]
        indexes = [
            models.Index(
                fields=["id"], condition=models.Q(handled_at__isnull=True), name="claim_trickles"
            ),
        ]
        verbose_name_plural = "trickles up"

    def __str__(self) -> str:
        return f"{self.variety or 'trickle'} of result {self.result_id}"


class TrickleDown(models.Model):
    """A message for a running result, sent with the next reply to the host."""

    host = models.ForeignKey("scheduler.Host", models.CASCADE, related_name="+", db_index=False)
    result_id = models.BigIntegerField()
    result_name = models.CharField(max_length=220)
    text = models.TextField()
    created_at = models.DateTimeField()
    sent_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "trickle_down"
        indexes = [
            models.Index(
                fields=["host", "id"],
                condition=models.Q(sent_at__isnull=True),
                name="read_trickles_down",
            ),
            models.Index(fields=["result_id"], name="trickles_down_of_result"),
        ]
        verbose_name_plural = "trickles down"

    def __str__(self) -> str:
        return f"for {self.result_name}"


class UsageSample(models.Model):
    """The resource usage of a running result at one time; the table is append-only.

    Times are in seconds; `fraction_done` and `gpu_usage` are fractions of 1.
    """

    result_id = models.BigIntegerField()
    at = models.DateTimeField()
    fraction_done = models.FloatField(null=True, blank=True)
    cpu_time = models.FloatField(null=True, blank=True)
    elapsed_time = models.FloatField(null=True, blank=True)
    memory_bytes = models.FloatField(null=True, blank=True)
    gpu_usage = models.FloatField(null=True, blank=True)

    class Meta:
        db_table = "usage_sample"
        indexes = [models.Index(fields=["result_id", "at"], name="usage_of_result")]

    def __str__(self) -> str:
        return f"usage of result {self.result_id}"


class FileRequest(models.Model):
    """A request to send a sticky file to a host, fetch it from the host, or delete it there."""

    class Kind(models.IntegerChoices):
        PUT = 1
        GET = 2
        DELETE = 3

    class State(models.IntegerChoices):
        WAITING = 0
        SENT = 1
        DONE = 2
        FAILED = 3

    host = models.ForeignKey("scheduler.Host", models.CASCADE, related_name="file_requests")
    kind = models.SmallIntegerField(choices=Kind.choices)
    state = models.SmallIntegerField(choices=State.choices, default=State.WAITING)
    file_name = models.CharField(max_length=250)
    file = models.ForeignKey(
        "scheduler.File", models.PROTECT, null=True, blank=True, related_name="+"
    )
    created_at = models.DateTimeField()
    sent_at = models.DateTimeField(null=True, blank=True)
    done_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "file_request"
        indexes = [
            models.Index(
                fields=["host", "id"],
                condition=models.Q(state__lt=2),
                name="read_file_requests",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} {self.file_name}"
