"""The tables of bundles: lists of workunits that one host computes in order."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from scheduler.lifecycle import BundleState
from scheduler.models._choices import choices, named
from scheduler.models.work import Batch, Workunit


class Bundle(models.Model):
    """A task list: workunits of one batch that are sent to one host as a unit, or not at all.

    The state follows from the members' results (`dispatch.rules.bundle_states`); it is stored so
    that a claim finds ready bundles by an index.  A claim writes RUNNING; the transitioner writes
    the other states after each change of a member.
    """

    batch = models.ForeignKey(Batch, models.CASCADE, related_name="bundles")
    app = models.ForeignKey("scheduler.App", models.PROTECT, related_name="bundles", db_index=False)
    state = models.SmallIntegerField(
        choices=choices(BundleState), default=BundleState.OPEN, db_default=BundleState.OPEN
    )
    # Whether the bundle can be claimed: it is open, and each member that is not over has an unsent
    # result.
    is_ready = models.BooleanField(default=False, db_default=False)
    priority = models.IntegerField(default=0, db_default=0)
    # The earliest time at which a member was created.
    created_at = models.DateTimeField()
    # The host that holds the bundle, or that held it last if the bundle is closed.
    host = models.ForeignKey(
        "scheduler.Host", models.PROTECT, null=True, blank=True, related_name="bundles"
    )
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    # The number of times that a host has claimed the bundle.
    claims = models.IntegerField(default=0, db_default=0)

    class Meta:
        db_table = "bundle"
        constraints = [
            named("state", BundleState, table="bundle"),
            models.CheckConstraint(
                condition=Q(is_ready=False) | Q(state=BundleState.OPEN),
                name="bundle_is_ready_only_while_open",
            ),
            models.CheckConstraint(
                condition=Q(state=BundleState.OPEN, host__isnull=True, started_at__isnull=True)
                | Q(state=BundleState.RUNNING, host__isnull=False, started_at__isnull=False)
                | Q(state=BundleState.CLOSED),
                name="bundle_has_a_host_while_running",
            ),
            models.CheckConstraint(
                condition=Q(state=BundleState.CLOSED, finished_at__isnull=False)
                | (~Q(state=BundleState.CLOSED) & Q(finished_at__isnull=True)),
                name="bundle_is_finished_when_closed",
            ),
        ]
        indexes = [
            models.Index(
                fields=["app", "-priority", "created_at", "id"],
                condition=Q(is_ready=True),
                name="read_ready_bundles",
            ),
        ]

    def __str__(self) -> str:
        return f"list {self.pk}"


class BundleMember(models.Model):
    """A workunit that is, or was, in a bundle.

    `Workunit.bundle` is the current bundle; a workunit that is tried again leaves its bundle for
    another one.  Members run in the order of their ids.  The purger drops rows together with their
    workunits.
    """

    bundle = models.ForeignKey(Bundle, models.CASCADE, related_name="members", db_index=False)
    # No constraint, because it would cost the purger a look-up per workunit.
    workunit = models.ForeignKey(
        Workunit, models.CASCADE, related_name="+", db_constraint=False, db_index=False
    )

    class Meta:
        db_table = "bundle_member"
        constraints = [
            models.UniqueConstraint(
                fields=["bundle", "workunit"], name="bundle_member_is_one_per_workunit"
            ),
        ]
        indexes = [models.Index(fields=["workunit"], name="bundles_of_workunit")]

    def __str__(self) -> str:
        return f"workunit {self.workunit_id} of bundle {self.bundle_id}"
