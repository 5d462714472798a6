"""The tables of news, trickles, usage samples, file requests and the outbox."""

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

    Times are in seconds; `fraction_done` and `gpu_usage` are fractions of 1.  `cpu_utilization` is
    the number of CPUs in use, if the host reported it; otherwise it follows from the times.
    """

    result_id = models.BigIntegerField()
    at = models.DateTimeField()
    fraction_done = models.FloatField(null=True, blank=True)
    cpu_time = models.FloatField(null=True, blank=True)
    elapsed_time = models.FloatField(null=True, blank=True)
    memory_bytes = models.FloatField(null=True, blank=True)
    gpu_usage = models.FloatField(null=True, blank=True)
    cpu_utilization = models.FloatField(null=True, blank=True)

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


class OutboxMessage(models.Model):
    """A message to a person or to another server, which the housekeeper delivers.

    The transaction that causes the message inserts the row.  A row has exactly one of the three
    times: `next_attempt_at` while it waits, `sent_at` when it was delivered, and `parked_at` when
    too many attempts failed.  The text can contain a secret, such as a link that resets a password:
    it is not shown in the admin, and it is erased when the message was sent.
    """

    class Kind(models.IntegerChoices):
        """The channel of a message; a webhook's URL is in the settings, not in the row."""

        MAIL = 1
        WEBHOOK = 2

    kind = models.SmallIntegerField(choices=Kind.choices, default=Kind.MAIL)
    recipient = models.CharField(max_length=254)
    subject = models.CharField(max_length=200)
    text = models.TextField(blank=True, default="")
    created_at = models.DateTimeField()
    attempts = models.IntegerField(default=0)
    next_attempt_at = models.DateTimeField(null=True, blank=True)
    sent_at = models.DateTimeField(null=True, blank=True)
    parked_at = models.DateTimeField(null=True, blank=True)
    last_error = models.CharField(max_length=500, blank=True, default="")
    # The letter of which this is a copy, and the page that withdraws the consent to letters.  The
    # address contains a secret, and is erased with the text.
    letter = models.ForeignKey(
        "scheduler.Letter", models.CASCADE, null=True, blank=True, related_name="+", db_index=False
    )
    unsubscribe_url = models.CharField(max_length=500, blank=True, default="", db_default="")

    class Meta:
        db_table = "outbox_message"
        verbose_name = "message"
        verbose_name_plural = "outbox"
        constraints = [
            models.CheckConstraint(
                condition=models.Q(
                    next_attempt_at__isnull=False, sent_at__isnull=True, parked_at__isnull=True
                )
                | models.Q(
                    next_attempt_at__isnull=True, sent_at__isnull=False, parked_at__isnull=True
                )
                | models.Q(
                    next_attempt_at__isnull=True, sent_at__isnull=True, parked_at__isnull=False
                ),
                name="outbox_message_has_one_state",
            ),
            models.CheckConstraint(
                condition=models.Q(sent_at__isnull=True) | models.Q(text=""),
                name="outbox_message_forgets_sent_text",
            ),
            # A line break in a header would start another header.
            models.CheckConstraint(
                condition=~models.Q(recipient__regex="[[:cntrl:]]")
                & ~models.Q(subject__regex="[[:cntrl:]]"),
                name="outbox_message_headers_are_lines",
            ),
        ]
        indexes = [
            models.Index(
                fields=["next_attempt_at", "id"],
                condition=models.Q(next_attempt_at__isnull=False),
                name="claim_messages",
            ),
            models.Index(
                fields=["id"],
                condition=models.Q(parked_at__isnull=False),
                name="parked_messages",
            ),
            models.Index(
                fields=["letter"],
                condition=models.Q(letter__isnull=False, sent_at__isnull=True),
                name="unsent_copies_of_letters",
            ),
            # The search of the administration.
            models.Index(fields=["recipient"], name="messages_by_recipient"),
        ]

    def __str__(self) -> str:
        return f"{self.id} to {self.recipient}"


class News(models.Model):
    """A piece of news that volunteers read in the feeds, until it is withdrawn."""

    title = models.CharField(max_length=255)
    # Plain text; an empty line separates paragraphs.
    text = models.TextField()
    author = models.ForeignKey(
        "scheduler.Account", models.SET_NULL, null=True, blank=True, related_name="+"
    )
    published_at = models.DateTimeField()
    # The time of the last change of title or text.
    changed_at = models.DateTimeField(null=True, blank=True)
    withdrawn_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "news"
        verbose_name_plural = "news"
        indexes = [
            models.Index(
                fields=["-published_at"],
                condition=models.Q(withdrawn_at__isnull=True),
                name="read_news",
            ),
            models.Index(
                fields=["-id"],
                condition=models.Q(withdrawn_at__isnull=True),
                name="list_news",
            ),
        ]

    def __str__(self) -> str:
        return self.title
