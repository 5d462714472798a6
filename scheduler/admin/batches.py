"""Batches and queues, as staff sees them."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from scheduler.admin.base import RecordAdmin, StaffAdmin
from scheduler.admin.site import staff
from scheduler.admin.workunits import may_move, said_of
from scheduler.models import Batch, Queue
from scheduler.operations import cancel as operations


@admin.register(Batch, site=staff)
class BatchAdmin(RecordAdmin):
    """Workunits submitted together."""

    list_display = ("name", "submitter", "app", "state", "created_at", "its_workunits")
    list_filter = ("state", "app")
    list_select_related = ("submitter", "app")
    search_fields = ("name", "submitter__email", "submitter__name")
    actions = ("cancel",)
    readonly_fields = ("its_workunits",)

    def has_move_permission(self, request: HttpRequest) -> bool:
        """Who may cancel."""
        return may_move(request)

    @admin.display(description="workunits")
    def its_workunits(self, batch: Batch) -> SafeString:
        """A link to the list of its workunits."""
        url = reverse("admin:scheduler_workunit_changelist")
        return format_html('<a href="{}?batch__id__exact={}">show</a>', url, batch.pk)

    @admin.action(description="Cancel the selected batches", permissions=["move"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Batch]) -> None:
        """Ask for the cancellation of all workunits of these batches."""
        for batch in queryset.select_related("submitter"):
            outcome = operations.cancel(
                batch=batch.name,
                submitter=batch.submitter,
                reason=f"cancelled in the administration by {request.user}",
                now=timezone.now(),
            )
            self.message_user(request, f"{batch}: {said_of(outcome, 'asked to be cancelled')}")


@admin.register(Queue, site=staff)
class QueueAdmin(StaffAdmin):
    """Lanes of work with limits of their own."""

    list_display = ("name", "app", "order", "max_in_progress", "created_at")
    list_filter = ("order", "app")
    list_select_related = ("app",)
    search_fields = ("name",)
    readonly_fields = ("created_at",)
