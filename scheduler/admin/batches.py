"""Batches and queues, as staff sees them."""

from __future__ import annotations

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from scheduler.admin.base import RecordAdmin, StaffAdmin
from scheduler.admin.confirm import ask_first, is_confirmed
from scheduler.admin.site import staff
from scheduler.admin.workunits import may_move, said_of
from scheduler.models import (
    Batch,
    BatchUsage,
    PurgedResults,
    PurgedWorkunits,
    Queue,
    Workunit,
)
from scheduler.rights import Right
from scheduler.work import batches as operations
from scheduler.work.progress import progress_of


@admin.register(Batch, site=staff)
class BatchAdmin(RecordAdmin):
    """Workunits submitted together."""

    list_display = (
        "name",
        "submitter",
        "app",
        "state",
        "its_workunits",
        "after",
        "keep_outputs",
        "created_at",
        "expire_at",
    )
    list_filter = ("state", "accelerate", "keep_outputs", "app")
    list_select_related = ("submitter", "app", "after")
    search_fields = ("name", "submitter__email", "submitter__name")
    actions = ("cancel", "accelerate", "slow_down", "retire")
    readonly_fields = ("how_far", "its_workunits")

    def has_move_permission(self, request: HttpRequest) -> bool:
        """Who may cancel."""
        return may_move(request)

    @admin.display(description="progress")
    def how_far(self, batch: Batch) -> SafeString:
        """A bar, and how many of its workunits are where."""
        found = progress_of([batch], now=timezone.now())[batch.pk]
        return format_html(
            '<progress max="{}" value="{}"></progress> {}',
            max(found.total, 1),
            found.done + found.failed,
            found.sentence,
        )

    @admin.display(description="workunits")
    def its_workunits(self, batch: Batch) -> SafeString:
        """A link to the list of its workunits."""
        url = reverse("admin:scheduler_workunit_changelist")
        return format_html('<a href="{}?batch__id__exact={}">show</a>', url, batch.pk)

    @admin.action(description="Cancel the selected batches", permissions=["move"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Batch]) -> HttpResponse | None:
        """Ask for the cancellation of all workunits of these batches, once it is confirmed."""
        if not is_confirmed(request):
            workunits = Workunit.objects.filter(batch__in=queryset.values("id"))
            return ask_first(self, request, workunits, "cancel")
        for batch in queryset:
            reason = f"cancelled in the administration by {request.user}"
            try:
                outcome = operations.abort(batch.pk, reason=reason, now=timezone.now())
            except operations.BatchNotReady as refusal:
                self.message_user(request, str(refusal), messages.ERROR)
                continue
            self.message_user(request, f"{batch}: {said_of(outcome, 'asked to be cancelled')}")
        return None

    @admin.action(description="Accelerate the selected batches", permissions=["move"])
    def accelerate(self, request: HttpRequest, queryset: QuerySet[Batch]) -> None:
        """Send their results before all others."""
        self._accelerate(request, queryset, on=True)

    @admin.action(description="Slow the selected batches down again", permissions=["move"])
    def slow_down(self, request: HttpRequest, queryset: QuerySet[Batch]) -> None:
        """Send their results as others."""
        self._accelerate(request, queryset, on=False)

    def _accelerate(self, request: HttpRequest, queryset: QuerySet[Batch], *, on: bool) -> None:
        for batch in queryset.order_by("id"):
            try:
                done = operations.accelerate(batch.pk, on=on, now=timezone.now())
            except operations.BatchNotReady as refusal:
                self.message_user(request, str(refusal), messages.ERROR)
                continue
            said = f"{done.workunits} workunits and {done.results} unsent results"
            self.message_user(request, f"{batch}: {said} have another priority.")

    @admin.action(description="Retire the selected batches", permissions=["move"])
    def retire(self, request: HttpRequest, queryset: QuerySet[Batch]) -> None:
        """Put those that are over away."""
        for batch in queryset.order_by("id"):
            try:
                operations.retire(batch.pk, now=timezone.now())
            except operations.BatchNotReady as refusal:
                self.message_user(request, str(refusal), messages.ERROR)
            else:
                self.message_user(request, f"{batch} is retired.")


@admin.register(BatchUsage, site=staff)
class BatchUsageAdmin(RecordAdmin):
    """What the purged workunits of batches took, day by day."""

    list_display = (
        "batch",
        "day",
        "workunits",
        "results",
        "cpu_seconds",
        "elapsed_seconds",
        "credit",
    )
    list_filter = ("day",)
    list_select_related = ("batch",)
    search_fields = ("batch__name",)


@admin.register(PurgedWorkunits, site=staff)
class PurgedWorkunitsAdmin(RecordAdmin):
    """How many workunits of apps were purged."""

    list_display = ("app", "done", "failed")
    list_filter = ("app",)
    list_select_related = ("app",)
    search_fields = ("app__name",)


@admin.register(PurgedResults, site=staff)
class PurgedResultsAdmin(RecordAdmin):
    """How many results of apps were purged, by outcome."""

    list_display = ("app", "outcome", "results")
    list_filter = ("app",)
    list_select_related = ("app",)
    search_fields = ("app__name",)


@admin.register(Queue, site=staff)
class QueueAdmin(StaffAdmin):
    """Lanes of work with limits of their own."""

    change_right = Right.ADMINISTER_PROJECT
    list_display = ("name", "app", "order", "max_in_progress", "created_at")
    list_filter = ("order", "app")
    list_select_related = ("app",)
    search_fields = ("name",)
    readonly_fields = ("created_at",)
