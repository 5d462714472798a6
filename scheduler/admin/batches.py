"""Admin pages of batches and of the numbers of purged work."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from scheduler.admin.base import RecordAdmin
from scheduler.admin.confirm import confirmation_page, is_confirmed
from scheduler.admin.site import staff
from scheduler.admin.workunits import outcome_sentence
from scheduler.models import Batch, BatchUsage, PurgedResults, PurgedWorkunits, Workunit
from scheduler.work import batches as operations
from scheduler.work.progress import progress_of


@admin.register(Batch, site=staff)
class BatchAdmin(RecordAdmin):
    """The page of batches, with actions to cancel, accelerate and retire batches."""

    list_display = (
        "name",
        "submitter",
        "app",
        "state",
        "workunits_link",
        "after",
        "keep_outputs",
        "bundle_size",
        "bundle_duration",
        "created_at",
        "expire_at",
    )
    list_filter = ("state", "accelerate", "keep_outputs", "app")
    search_fields = ("name", "submitter__email", "submitter__name")
    actions = ("cancel", "accelerate", "slow_down", "retire")
    audited_actions = frozenset(actions)
    readonly_fields = ("progress", "workunits_link")

    def progress(self, batch: Batch) -> SafeString:
        """Return an HTML progress bar and a sentence with the numbers of workunits."""
        figures = progress_of([batch], now=timezone.now())[batch.pk]
        return format_html(
            '<progress max="{}" value="{}"></progress> {}',
            max(figures.total, 1),
            figures.done + figures.failed,
            figures.sentence,
        )

    @admin.display(description="workunits")
    def workunits_link(self, batch: Batch) -> SafeString:
        """Return a link to the list of the batch's workunits."""
        url = reverse("admin:scheduler_workunit_changelist")
        return format_html('<a href="{}?batch__id__exact={}">show</a>', url, batch.pk)

    @admin.action(description="Cancel the selected batches", permissions=["move"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Batch]) -> HttpResponse | None:
        """Abort the batches and cancel their unfinished workunits, after the user confirmed it."""
        if not is_confirmed(request):
            workunits = Workunit.objects.filter(batch__in=queryset.values("id"))
            return confirmation_page(self, request, workunits, "cancel")
        reason = f"cancelled in the administration by {request.user}"
        for batch in queryset:
            with self.refusals_shown(request, operations.BatchNotReady):
                outcome = operations.abort(batch.pk, reason=reason, now=timezone.now())
                sentence = outcome_sentence(outcome, "are being cancelled")
                self.message_user(request, f"{batch}: {sentence}")
        return None

    @admin.action(description="Accelerate the selected batches", permissions=["move"])
    def accelerate(self, request: HttpRequest, queryset: QuerySet[Batch]) -> None:
        """Send results of the selected batches before results of other batches."""
        self._accelerate(request, queryset, on=True)

    @admin.action(description="Stop accelerating the selected batches", permissions=["move"])
    def slow_down(self, request: HttpRequest, queryset: QuerySet[Batch]) -> None:
        """Send the results of the selected batches with normal priority."""
        self._accelerate(request, queryset, on=False)

    def _accelerate(self, request: HttpRequest, queryset: QuerySet[Batch], *, on: bool) -> None:
        for batch in queryset.order_by("id"):
            with self.refusals_shown(request, operations.BatchNotReady):
                done = operations.accelerate(batch.pk, on=on, now=timezone.now())
                counts = f"{done.workunits} workunits and {done.results} unsent results"
                self.message_user(request, f"{batch}: {counts} have a new priority.")

    @admin.action(description="Retire the selected batches", permissions=["move"])
    def retire(self, request: HttpRequest, queryset: QuerySet[Batch]) -> None:
        """Retire the batches and release their outputs; show an error for an unfinished batch."""
        for batch in queryset.order_by("id"):
            with self.refusals_shown(request, operations.BatchNotReady):
                operations.retire(batch.pk, now=timezone.now())
                self.message_user(request, f"{batch} is retired.")


@admin.register(BatchUsage, site=staff)
class BatchUsageAdmin(RecordAdmin):
    """The page of the resource usage of purged workunits, by batch and day."""

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
    search_fields = ("batch__name",)


@admin.register(PurgedWorkunits, site=staff)
class PurgedWorkunitsAdmin(RecordAdmin):
    """The page of the numbers of purged workunits by app."""

    list_display = ("app", "done", "failed")
    list_filter = ("app",)
    search_fields = ("app__name",)


@admin.register(PurgedResults, site=staff)
class PurgedResultsAdmin(RecordAdmin):
    """The page of the numbers of purged results by app and outcome."""

    list_display = ("app", "outcome", "results")
    list_filter = ("app",)
    search_fields = ("app__name",)
