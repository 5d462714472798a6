"""The tables of work: batches, workunits, results and their files."""

from __future__ import annotations

from datetime import timedelta

from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import F, Q

from scheduler.lifecycle import (
    NO_RESULT,
    AssimilateState,
    ClientState,
    FileDeleteState,
    Outcome,
    ReleaseState,
    ServerState,
    Target,
    ValidateState,
)
from scheduler.models._choices import choices, named
from scheduler.models.queues import Queue

#: `queues.facts.FOREVER`, which models may not import.
_FOREVER = timedelta(days=36_600)


class Batch(models.Model):
    """A group of workunits that a submitter handles together."""

    class State(models.IntegerChoices):
        """BOINC's batch states (PROTOCOL 8.2)."""

        INIT = 0
        IN_PROGRESS = 1
        COMPLETE = 2
        ABORTED = 3
        RETIRED = 4

    name = models.CharField(max_length=250)
    submitter = models.ForeignKey("scheduler.Account", models.PROTECT, related_name="batches")
    app = models.ForeignKey(
        "scheduler.App", models.PROTECT, null=True, blank=True, related_name="+"
    )
    state = models.SmallIntegerField(choices=State.choices, default=State.INIT)
    created_at = models.DateTimeField()
    expire_at = models.DateTimeField(null=True, blank=True)
    accelerate = models.BooleanField(default=False, db_default=False)
    # Whether to accelerate the tail automatically when most workunits are done.
    accelerate_tail = models.BooleanField(default=False, db_default=False)
    priority = models.IntegerField(null=True, blank=True)
    # Whether outputs are kept until the submitter retires the batch.
    keep_outputs = models.BooleanField(default=False, db_default=False)
    # The predecessor: the workunits of this batch are released when the predecessor is complete.
    # With `after_any`, they are released even if workunits of the predecessor failed.
    after = models.ForeignKey(
        "self", models.PROTECT, null=True, blank=True, related_name="followers"
    )
    after_any = models.BooleanField(default=False, db_default=False)
    # When all workunits were released, or failed, because the predecessor was over; NULL while
    # some workunits may still wait for another batch.
    let_go_at = models.DateTimeField(null=True, blank=True)
    # When the tail was accelerated, because most workunits were done.
    tail_at = models.DateTimeField(null=True, blank=True)
    completed_at = models.DateTimeField(null=True, blank=True)
    retired_at = models.DateTimeField(null=True, blank=True)
    # Numbers of submitted workunits, and of purged workunits that succeeded or failed.
    workunits_submitted = models.BigIntegerField(default=0, db_default=0)
    purged_done = models.BigIntegerField(default=0, db_default=0)
    purged_failed = models.BigIntegerField(default=0, db_default=0)
    # Results, canonical credit and estimated operations of purged workunits.
    purged_results = models.BigIntegerField(default=0, db_default=0)
    purged_credit = models.FloatField(default=0, db_default=0)
    purged_fpops = models.FloatField(default=0, db_default=0)
    meta = models.JSONField(default=dict, blank=True)
    # The number of workunits, and the sum of expected run times, of the task lists that the server
    # makes of the workunits; both are NULL if results are sent singly.
    bundle_size = models.IntegerField(null=True, blank=True)
    bundle_duration = models.DurationField(null=True, blank=True)

    class Meta:
        db_table = "batch"
        permissions = [
            ("manage_others_batches", "Can change, cancel and retry other people's work"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["submitter", "name"], name="batch_name_is_the_submitters"
            ),
        ]
        # For staff, who name a batch of any submitter in an address.
        indexes = [models.Index(fields=["name", "submitter"], name="find_batch_by_name")]
        verbose_name_plural = "batches"

    def __str__(self) -> str:
        return self.name


class BatchUsage(models.Model):
    """The resource usage of a batch's purged workunits on one day (UTC).

    A workunit counts on the day when it finished.  A result counts on the day when it was reported,
    or when it was sent if it was never reported.
    """

    batch = models.ForeignKey(Batch, models.CASCADE, related_name="usage", db_index=False)
    day = models.DateField()
    workunits = models.BigIntegerField(default=0, db_default=0)
    results = models.BigIntegerField(default=0, db_default=0)
    cpu_seconds = models.FloatField(default=0, db_default=0)
    elapsed_seconds = models.FloatField(default=0, db_default=0)
    credit = models.FloatField(default=0, db_default=0)

    class Meta:
        db_table = "batch_usage"
        constraints = [
            models.UniqueConstraint(fields=["batch", "day"], name="batch_usage_is_one_per_day"),
        ]

    def __str__(self) -> str:
        return f"batch {self.batch_id}, {self.day}"


class PurgedWorkunits(models.Model):
    """The numbers of an app's purged workunits that succeeded and failed.

    Only purgers update this table, one row per app and transaction, so that other processes never
    wait for these row locks.
    """

    app = models.OneToOneField("scheduler.App", models.CASCADE, related_name="+")
    done = models.BigIntegerField(default=0, db_default=0)
    failed = models.BigIntegerField(default=0, db_default=0)

    class Meta:
        db_table = "purged_workunits"
        verbose_name_plural = "purged workunits"

    def __str__(self) -> str:
        return f"app {self.app_id}"


class PurgedResults(models.Model):
    """The number of an app's purged results with one outcome."""

    app = models.ForeignKey("scheduler.App", models.CASCADE, related_name="+", db_index=False)
    outcome = models.SmallIntegerField(choices=choices(Outcome))
    results = models.BigIntegerField(default=0, db_default=0)

    class Meta:
        db_table = "purged_results"
        verbose_name_plural = "purged results"
        constraints = [
            models.UniqueConstraint(
                fields=["app", "outcome"], name="purged_results_are_one_per_outcome"
            ),
        ]

    def __str__(self) -> str:
        return f"app {self.app_id}, outcome {self.outcome}"


class Workunit(models.Model):
    """A unit of computation, of which several hosts may compute a result each.

    The units are BOINC's: floating-point operations for `rsc_fpops_*`, bytes for `rsc_memory_bound`
    and `rsc_disk_bound`, and bytes per second for `rsc_bandwidth_bound`.  `outputs` lists the
    output files of each result, as objects with the keys ``open_name`` and ``max_nbytes``, and with
    each flag of `NewOutput` that is true.  `transition_at` is a later time at which the
    transitioner must look at the workunit, or NULL; at that time, the timeout checker adds a
    `WorkunitWakeup`.
    """

    name = models.CharField(max_length=200)
    app = models.ForeignKey(
        "scheduler.App", models.PROTECT, related_name="workunits", db_index=False
    )
    batch = models.ForeignKey(
        Batch, models.PROTECT, null=True, blank=True, related_name="workunits", db_index=False
    )
    queue = models.ForeignKey(
        Queue, models.PROTECT, null=True, blank=True, related_name="workunits", db_index=False
    )
    command_line = models.TextField(blank=True, default="", db_default="")
    outputs = models.JSONField(default=list)
    keywords = models.CharField(max_length=254, blank=True, default="", db_default="")
    meta = models.JSONField(default=dict, blank=True)

    rsc_fpops_est = models.FloatField(default=3.6e12, db_default=3.6e12)
    rsc_fpops_bound = models.FloatField(default=8.64e13, db_default=8.64e13)
    rsc_memory_bound = models.FloatField(default=5e8, db_default=5e8)
    rsc_disk_bound = models.FloatField(default=1e9, db_default=1e9)
    rsc_bandwidth_bound = models.FloatField(default=0, db_default=0)
    # CPUs and GPUs that a result uses; 0 means those of its app version.
    requested_cpus = models.FloatField(default=0, db_default=0)
    requested_gpus = models.FloatField(default=0, db_default=0)
    # The sum of `max_nbytes` of `outputs`; 0 for workunits created before this column existed.
    output_bytes = models.BigIntegerField(default=0, db_default=0)
    delay_bound = models.DurationField(default=timedelta(days=7), db_default=timedelta(days=7))
    # The expected run time on a host, for the lease of a task list; NULL means the estimate from
    # `rsc_fpops_est`.
    expected_duration = models.DurationField(null=True, blank=True)
    # Time between SIGTERM and SIGKILL for a cancelled program; NULL means the app's.
    max_termination_time = models.DurationField(null=True, blank=True)
    min_quorum = models.IntegerField(default=1, db_default=1)
    target_nresults = models.IntegerField(default=1, db_default=1)
    max_error_results = models.IntegerField(default=3, db_default=3)
    max_total_results = models.IntegerField(default=10, db_default=10)
    max_success_results = models.IntegerField(default=6, db_default=6)
    max_timeouts = models.IntegerField(null=True, blank=True)
    priority = models.IntegerField(default=0, db_default=0)
    size_class = models.SmallIntegerField(default=-1, db_default=-1)
    hr_class = models.IntegerField(default=0, db_default=0)
    app_version_num = models.IntegerField(default=0, db_default=0)
    app_version = models.ForeignKey(
        "scheduler.AppVersion",
        models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
        db_index=False,
    )

    start_after = models.DateTimeField(null=True, blank=True)
    start_before = models.DateTimeField(null=True, blank=True)
    end_before = models.DateTimeField(null=True, blank=True)
    release_state = models.SmallIntegerField(
        choices=choices(ReleaseState),
        default=ReleaseState.RELEASED,
        db_default=ReleaseState.RELEASED,
    )
    # A negative number that the submitter or staff chose for a held workunit (seed D-18); NULL
    # while the workunit is not held, and for workunits that staff hold without a code.
    hold_code = models.SmallIntegerField(null=True, blank=True)
    # Whether the workunit only joins others: it has no results, and is complete when its
    # dependencies are met.
    is_group = models.BooleanField(default=False, db_default=False)
    # While the workunit is inactive: the number of workunits for which it waits, plus one if it
    # waits for a batch.
    pending_dependency_count = models.IntegerField(default=0, db_default=0)
    waits_for_batch = models.BooleanField(default=False, db_default=False)
    # Whether the workunit has, or had, rows of `Dependency` as a child or as a parent.  Statements
    # read that table only for such workunits.
    has_parents = models.BooleanField(default=False, db_default=False)
    has_children = models.BooleanField(default=False, db_default=False)
    # The time at which the batch failed for which the workunit waits.  The failure of a workunit is
    # read from the edges.
    dependency_failed_at = models.DateTimeField(null=True, blank=True)
    # Id of the task list (`Bundle`) with which results are sent, 0 while the workunit waits for a
    # list, and NULL if its results are sent singly.
    bundle_id = models.BigIntegerField(null=True, blank=True)
    # Id of the workunit that retries this failed workunit.
    retried_as = models.BigIntegerField(null=True, blank=True)
    # Whether the canonical outputs and the row are kept until the batch is retired.
    outputs_kept = models.BooleanField(default=False, db_default=False)
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    cancel_reason = models.CharField(max_length=200, blank=True, default="", db_default="")
    hard_to_send_at = models.DateTimeField(null=True, blank=True)
    unsendable_at = models.DateTimeField(null=True, blank=True)
    revalidate_requested_at = models.DateTimeField(null=True, blank=True)
    target_host = models.ForeignKey(
        "scheduler.Host", models.PROTECT, null=True, blank=True, related_name="+", db_index=False
    )
    target_account = models.ForeignKey(
        "scheduler.Account", models.PROTECT, null=True, blank=True, related_name="+", db_index=False
    )
    target_team = models.ForeignKey(
        "scheduler.Team", models.PROTECT, null=True, blank=True, related_name="+", db_index=False
    )
    broadcast = models.BooleanField(default=False, db_default=False)

    error_mask = models.IntegerField(default=0, db_default=0)
    need_validate = models.BooleanField(default=False, db_default=False)
    validate_after = models.DateTimeField(null=True, blank=True)
    # No constraint, because it would cost the purger a look-up per result; fsck checks it.
    # 0 (`lifecycle.NO_RESULT`) for a complete group.
    canonical_result = models.ForeignKey(
        "scheduler.Result",
        models.DO_NOTHING,
        null=True,
        blank=True,
        related_name="+",
        db_constraint=False,
        db_index=False,
    )
    canonical_credit = models.DecimalField(max_digits=20, decimal_places=6, default=0, db_default=0)
    assimilate_state = models.SmallIntegerField(
        choices=choices(AssimilateState),
        default=AssimilateState.INIT,
        db_default=AssimilateState.INIT,
    )
    assimilate_after = models.DateTimeField(null=True, blank=True)
    file_delete_state = models.SmallIntegerField(
        choices=choices(FileDeleteState),
        default=FileDeleteState.INIT,
        db_default=FileDeleteState.INIT,
    )
    file_delete_after = models.DateTimeField(null=True, blank=True)
    # Descriptions of the input files, written when the references to the files are deleted.
    past_inputs = models.JSONField(null=True, blank=True)
    transition_at = models.DateTimeField(null=True, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    lease_token = models.BigIntegerField(default=0, db_default=0)
    created_at = models.DateTimeField()
    # When the workunit was assimilated, or when a group ended.
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        # Each index has the name of the statement that uses it.
        db_table = "workunit"
        constraints = [
            # Not unique=True, because Django would then create a second index for LIKE.
            models.UniqueConstraint(fields=["name"], name="workunit_name_is_unique"),
            named("release_state", ReleaseState, table="workunit"),
            named("assimilate_state", AssimilateState, table="workunit"),
            named("file_delete_state", FileDeleteState, table="workunit"),
            models.CheckConstraint(
                condition=Q(hold_code__isnull=True)
                | (Q(hold_code__lt=0) & Q(release_state=ReleaseState.HELD)),
                name="workunit_hold_code_is_of_a_held_workunit",
            ),
            models.CheckConstraint(
                condition=Q(canonical_result__isnull=True) | Q(error_mask=0),
                name="workunit_has_an_answer_or_a_reason_not_both",
            ),
            models.CheckConstraint(
                condition=Q(assimilate_state=AssimilateState.INIT)
                | Q(canonical_result__isnull=False)
                | ~Q(error_mask=0),
                name="workunit_is_assimilated_with_an_answer_or_a_reason",
            ),
            models.CheckConstraint(
                condition=Q(canonical_result__isnull=True)
                | Q(is_group=True, canonical_result=NO_RESULT)
                | (Q(is_group=False) & ~Q(canonical_result=NO_RESULT)),
                name="workunit_is_complete_without_a_result_only_as_a_group",
            ),
            models.CheckConstraint(
                condition=Q(file_delete_state=FileDeleteState.INIT)
                | Q(assimilate_state=AssimilateState.DONE),
                name="workunit_inputs_go_after_assimilation",
            ),
            models.CheckConstraint(
                condition=Q(min_quorum__gte=1)
                & Q(target_nresults__gte=F("min_quorum"))
                & Q(max_error_results__gte=0)
                & Q(max_total_results__gte=F("target_nresults"))
                & Q(max_success_results__gte=F("target_nresults"))
                & Q(pending_dependency_count__gte=0),
                name="workunit_replication_numbers_agree",
            ),
            models.CheckConstraint(
                condition=Q(delay_bound__gt=timedelta(0))
                & Q(rsc_fpops_est__gt=0)
                & Q(rsc_fpops_bound__gt=0)
                & Q(rsc_disk_bound__gt=0)
                & Q(rsc_memory_bound__gte=0),
                name="workunit_bounds_are_positive",
            ),
        ]
        indexes = [
            models.Index(
                fields=["transition_at"],
                condition=Q(transition_at__isnull=False),
                name="wake_due_workunits",
            ),
            models.Index(fields=["id"], condition=Q(need_validate=True), name="lock_unvalidated"),
            models.Index(
                fields=["queue", "app"],
                condition=Q(finished_at__isnull=True, queue__isnull=False),
                name="read_work_of_other_apps",
            ),
            # Few workunits have an infinite deadline, and a queue may have millions without one.
            models.Index(
                fields=["queue", "app"],
                condition=Q(finished_at__isnull=True, queue__isnull=False, delay_bound=_FOREVER),
                name="read_endless_work",
            ),
            models.Index(
                fields=["id"],
                condition=Q(assimilate_state=AssimilateState.READY),
                name="lease_unassimilated",
            ),
            models.Index(
                fields=["file_delete_after", "id"],
                condition=Q(file_delete_state__in=[FileDeleteState.READY, FileDeleteState.ERROR]),
                name="read_deletable_inputs",
            ),
            models.Index(
                fields=["id"],
                condition=Q(file_delete_state=FileDeleteState.DONE, outputs_kept=False),
                name="lock_purgeable",
            ),
            models.Index(
                fields=["end_before"],
                condition=Q(end_before__isnull=False, assimilate_state=AssimilateState.INIT),
                name="expire_unfinished",
            ),
            models.Index(
                fields=["hold_code", "id"],
                condition=Q(hold_code__isnull=False),
                name="read_held_workunits",
            ),
            models.Index(
                fields=["target_host"],
                condition=Q(target_host__isnull=False),
                name="retarget_workunits",
            ),
            models.Index(
                fields=["target_account"],
                condition=Q(target_account__isnull=False),
                name="workunits_for_account",
            ),
            models.Index(
                fields=["target_team"],
                condition=Q(target_team__isnull=False),
                name="workunits_for_team",
            ),
            # The list of all targeted work in the administration, newest first.
            models.Index(
                fields=["id"],
                condition=Q(target_host__isnull=False)
                | Q(target_account__isnull=False)
                | Q(target_team__isnull=False),
                name="targeted_workunits",
            ),
            models.Index(
                fields=["batch", "id"], condition=Q(batch__isnull=False), name="workunits_of_batch"
            ),
            models.Index(
                fields=["batch", "id"],
                condition=~Q(error_mask=0) & Q(retried_as__isnull=True),
                name="failed_in_batch",
            ),
            GinIndex(
                fields=["meta"],
                opclasses=["jsonb_path_ops"],
                condition=~Q(meta={}),
                name="workunits_with_meta",
            ),
            models.Index(
                fields=["app", "id"],
                condition=Q(broadcast=True, assimilate_state=AssimilateState.INIT),
                name="read_broadcasts",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class WorkunitWakeup(models.Model):
    """An entry of the transitioner's queue: something happened to a workunit.

    Rows are inserted in the transaction that causes them, and a workunit may have several.  Only a
    transaction that has locked the workunit deletes its rows.
    """

    # Neither unique nor a foreign key, because inserting must never wait for another transaction.
    workunit_id = models.BigIntegerField()
    inserted_at = models.DateTimeField()

    class Meta:
        db_table = "workunit_wakeup"
        indexes = [models.Index(fields=["workunit_id"], name="wakeups_of_workunit")]

    def __str__(self) -> str:
        return f"workunit {self.workunit_id}"


class Dependency(models.Model):
    """An edge between two workunits of one submitter: the child waits for the parent's answer.

    The edge is met if the parent has a canonical result.  Inserting an edge needs the locks of both
    workunits; the purger drops edges together with their workunits.
    """

    # No constraints, because they would cost the purger a look-up per workunit; fsck checks them.
    parent = models.ForeignKey(
        Workunit, models.CASCADE, related_name="+", db_constraint=False, db_index=False
    )
    child = models.ForeignKey(
        Workunit, models.CASCADE, related_name="+", db_constraint=False, db_index=False
    )

    class Meta:
        db_table = "dependency"
        constraints = [
            models.UniqueConstraint(fields=["parent", "child"], name="dependency_is_one_per_pair"),
            models.CheckConstraint(
                condition=~Q(parent=F("child")), name="dependency_joins_two_workunits"
            ),
        ]
        indexes = [models.Index(fields=["child"], name="parents_of_workunit")]
        verbose_name_plural = "dependencies"

    def __str__(self) -> str:
        return f"{self.parent_id} before {self.child_id}"


class WorkunitFile(models.Model):
    """An input file of a workunit."""

    # No constraint, because one statement inserts both rows; fsck checks it (decision 12).
    workunit = models.ForeignKey(
        Workunit, models.CASCADE, related_name="input_files", db_constraint=False, db_index=False
    )
    file = models.ForeignKey("scheduler.File", models.PROTECT, related_name="+")
    position = models.SmallIntegerField()
    open_name = models.CharField(max_length=250, blank=True, default="", db_default="")
    copy_file = models.BooleanField(default=False, db_default=False)
    sticky = models.BooleanField(default=False, db_default=False)

    class Meta:
        db_table = "workunit_file"
        constraints = [
            models.UniqueConstraint(
                fields=["workunit", "position"], name="workunit_file_has_its_place"
            ),
        ]

    def __str__(self) -> str:
        return self.open_name or str(self.file)


class Result(models.Model):
    """A computation of a workunit by one host (BOINC's result; volunteers see it as a task).

    `app` and `priority` are copies of the workunit's columns, so that a claim scans one index.
    `cpu_time` and `elapsed_time` are the seconds that the client reported.  The columns whose names
    end with `_at` are times of the server's clock.
    """

    workunit = models.ForeignKey(Workunit, models.CASCADE, related_name="results", db_index=False)
    # No constraint, because the column is a copy of the workunit's; fsck checks it (decision 12).
    app = models.ForeignKey(
        "scheduler.App", models.PROTECT, related_name="+", db_constraint=False, db_index=False
    )
    name = models.CharField(max_length=220)
    attempt = models.IntegerField()
    priority = models.IntegerField(default=0, db_default=0)
    server_state = models.SmallIntegerField(
        choices=choices(ServerState), default=ServerState.UNSENT, db_default=ServerState.UNSENT
    )
    outcome = models.SmallIntegerField(
        choices=choices(Outcome), default=Outcome.INIT, db_default=Outcome.INIT
    )
    client_state = models.SmallIntegerField(
        choices=choices(ClientState), default=ClientState.NEW, db_default=ClientState.NEW
    )
    validate_state = models.SmallIntegerField(
        choices=choices(ValidateState), default=ValidateState.INIT, db_default=ValidateState.INIT
    )
    file_delete_state = models.SmallIntegerField(
        choices=choices(FileDeleteState),
        default=FileDeleteState.INIT,
        db_default=FileDeleteState.INIT,
    )
    file_delete_after = models.DateTimeField(null=True, blank=True)

    host = models.ForeignKey(
        "scheduler.Host",
        models.PROTECT,
        null=True,
        blank=True,
        related_name="results",
        db_index=False,
    )
    account = models.ForeignKey(
        "scheduler.Account",
        models.PROTECT,
        null=True,
        blank=True,
        related_name="results",
        db_index=False,
    )
    app_version = models.ForeignKey(
        "scheduler.AppVersion",
        models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
        db_index=False,
    )
    flops_estimate = models.FloatField(default=0, db_default=0)
    created_at = models.DateTimeField()
    sent_at = models.DateTimeField(null=True, blank=True)
    report_deadline = models.DateTimeField(null=True, blank=True)
    credit_deadline = models.DateTimeField(null=True, blank=True)
    acknowledged_at = models.DateTimeField(null=True, blank=True)
    received_at = models.DateTimeField(null=True, blank=True)
    resent_count = models.SmallIntegerField(default=0, db_default=0)
    # Hosts that may get the result: a `lifecycle.Target`, and the id of a host, account or team, or
    # of the workunit's queue.  Both are 0 if every host may get it.
    target_kind = models.SmallIntegerField(default=0, db_default=0)
    target_id = models.BigIntegerField(default=0, db_default=0)
    reliable_until = models.DateTimeField(null=True, blank=True)
    runtime_outlier = models.BooleanField(default=False, db_default=False)
    fraction_done = models.FloatField(default=0, db_default=0)

    exit_status = models.IntegerField(default=0, db_default=0)
    cpu_time = models.FloatField(default=0, db_default=0)
    elapsed_time = models.FloatField(default=0, db_default=0)
    peak_working_set_bytes = models.FloatField(default=0, db_default=0)
    peak_swap_bytes = models.FloatField(default=0, db_default=0)
    peak_disk_bytes = models.FloatField(default=0, db_default=0)
    stderr = models.TextField(blank=True, default="", db_default="")
    # With the success rule `runner`: the positive status that the program reported, and its
    # standard output; NULL if the output is only in the result's first output file.
    app_status = models.IntegerField(null=True, blank=True)
    stdout = models.TextField(null=True, blank=True)  # noqa: DJ001 - NULL and '' differ
    granted_credit = models.DecimalField(max_digits=20, decimal_places=6, default=0, db_default=0)

    class Meta:
        # Each index has the name of the statement that uses it.
        db_table = "result"
        constraints = [
            models.UniqueConstraint(fields=["name"], name="result_name_is_unique"),
            named("server_state", ServerState, table="result"),
            named("outcome", Outcome, table="result"),
            named("client_state", ClientState, table="result"),
            named("validate_state", ValidateState, table="result"),
            named("file_delete_state", FileDeleteState, table="result"),
            models.UniqueConstraint(
                fields=["workunit", "attempt"], name="result_is_one_per_attempt"
            ),
            models.CheckConstraint(
                condition=(Q(server_state=ServerState.OVER) & ~Q(outcome=Outcome.INIT))
                | (~Q(server_state=ServerState.OVER) & Q(outcome=Outcome.INIT)),
                name="result_has_an_outcome_when_over",
            ),
            models.CheckConstraint(
                condition=~Q(server_state=ServerState.IN_PROGRESS)
                | Q(
                    host__isnull=False,
                    account__isnull=False,
                    sent_at__isnull=False,
                    report_deadline__isnull=False,
                ),
                name="result_in_progress_has_a_host_and_a_deadline",
            ),
            models.CheckConstraint(
                condition=~Q(validate_state=ValidateState.VALID) | Q(outcome=Outcome.SUCCESS),
                name="result_valid_is_a_success",
            ),
        ]
        indexes = [
            models.Index(
                F("app"),
                F("target_kind"),
                F("target_id"),
                # ~priority sorts the highest first, so that one row comparison resumes a scan.
                F("priority").bitxor(-1),
                F("workunit"),
                condition=Q(server_state=ServerState.UNSENT),
                name="read_candidates",
            ),
            # Results of queues: unsent ones in the order of their workunits, and those in progress.
            models.Index(
                fields=["target_id", "server_state", "app", "workunit"],
                condition=Q(
                    target_kind=Target.QUEUE,
                    server_state__in=[ServerState.UNSENT, ServerState.IN_PROGRESS],
                ),
                name="results_of_queue",
            ),
            models.Index(
                fields=["report_deadline"],
                # Without the second condition, PostgreSQL may use this index for queries by host,
                # and scan all results in progress.
                condition=Q(server_state=ServerState.IN_PROGRESS, report_deadline__isnull=False),
                name="time_out_results",
            ),
            models.Index(
                fields=["host"],
                condition=Q(server_state=ServerState.IN_PROGRESS),
                name="results_held_by_host",
            ),
            # The pages of volunteers.  An index of all results by host could be chosen for the
            # results in progress of a host, and then all of its results would be read.
            models.Index(
                fields=["host", "id"],
                condition=Q(server_state=ServerState.OVER, host__isnull=False),
                name="read_own_results",
            ),
            models.Index(
                fields=["file_delete_after", "id"],
                condition=Q(file_delete_state__in=[FileDeleteState.READY, FileDeleteState.ERROR]),
                name="read_deletable_outputs",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class ResultFile(models.Model):
    """An output file of a reported result, with the digests of the uploaded content."""

    result = models.ForeignKey(Result, models.CASCADE, related_name="output_files", db_index=False)
    position = models.SmallIntegerField()
    name = models.CharField(max_length=250)
    nbytes = models.BigIntegerField()
    md5 = models.CharField(max_length=32)
    sha256 = models.CharField(max_length=64)

    class Meta:
        db_table = "result_file"
        constraints = [
            models.UniqueConstraint(fields=["result", "position"], name="result_file_has_its_place")
        ]

    def __str__(self) -> str:
        return self.name
