"""Admin pages of batches and of the numbers of purged work."""

from __future__ import annotations

from collections.abc import Sequence

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from scheduler.admin.base import RecordAdmin
from scheduler.admin.confirm import (
    confirmation_page,
    confirmation_page_of_retry,
    confirmation_page_with,
    is_confirmed,
    is_confirmed_as_shown,
    shown_names,
)
from scheduler.admin.lists import searching
from scheduler.admin.lists.sorting import BY_ID, Sort
from scheduler.admin.site import staff
from scheduler.admin.workunits import RETRY_REFUSALS, outcome_sentence, retried_sentence
from scheduler.models import Batch, BatchUsage, PurgedResults, PurgedWorkunits, Workunit
from scheduler.work import batches as operations
from scheduler.work import retry as retries
from scheduler.work.progress import progress_of

#: The states of batches whose priority can change.
_OPEN = (Batch.State.INIT, Batch.State.IN_PROGRESS)
_ACCELERATED = (
    "Unsent results of these batches are sent before those of all others, which wait for them. "
    "Results in progress continue."
)
_SLOWED_DOWN = (
    "Unsent results of these batches get back the priority that they had before. Results in "
    "progress continue."
)
_RETIRED = (
    "This cannot be undone. The outputs that are kept for the submitters are released, and the "
    "file deleter deletes them."
)


@admin.register(Batch, site=staff)
class BatchAdmin(RecordAdmin):
    """The page of batches, with actions to cancel, retry, accelerate and retire batches."""

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
    sorts = {"name": Sort(("name", "submitter_id")), "created_at": BY_ID}
    search_fields = ("name",)
    search_prefixes = (searching.NAME,)
    search_owners = {"submitter_id": searching.accounts}
    search_help_text = (
        "Beginning of a batch's name, or of its submitter's address or name, or its number; in the "
        "newest 10,000 batches also parts of names"
    )
    actions = ("cancel", "retry", "accelerate", "slow_down", "retire")
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
        workunits = Workunit.objects.filter(batch__in=queryset.order_by().values("id"))
        if not is_confirmed_as_shown(self, request, workunits.count(), "workunits"):
            return confirmation_page(self, request, workunits, "cancel")
        reason = f"cancelled in the administration by {request.user}"
        for batch in queryset:
            with self.refusals_shown(request, operations.BatchNotReady):
                outcome = operations.abort(batch.pk, reason=reason, now=timezone.now())
                sentence = outcome_sentence(outcome, "are being cancelled")
                self.message_user(request, f"{batch}: {sentence}")
        return None

    @admin.action(description="Retry the failed workunits of the batches", permissions=["move"])
    def retry(self, request: HttpRequest, queryset: QuerySet[Batch]) -> HttpResponse | None:
        """Submit failed workunits of the batches again, after the user confirmed it."""
        if not is_confirmed(request):
            workunits = Workunit.objects.filter(batch__in=queryset.order_by().values("id"))
            return confirmation_page_of_retry(self, request, workunits, with_cancelled=False)
        for batch in queryset.order_by("id"):
            with self.refusals_shown(request, *RETRY_REFUSALS):
                done = retries.retry(batch.pk, now=timezone.now())
                self.message_user(request, f"{batch}: {retried_sentence(done)}")
        return None

    @admin.action(description="Accelerate the selected batches", permissions=["move"])
    def accelerate(self, request: HttpRequest, queryset: QuerySet[Batch]) -> HttpResponse | None:
        """Send results of the batches before those of others, after the user confirmed it."""
        return self._accelerate(request, queryset, on=True)

    @admin.action(description="Stop accelerating the selected batches", permissions=["move"])
    def slow_down(self, request: HttpRequest, queryset: QuerySet[Batch]) -> HttpResponse | None:
        """Send results of the batches with normal priority, after the user confirmed it."""
        return self._accelerate(request, queryset, on=False)

    def _accelerate(
        self, request: HttpRequest, queryset: QuerySet[Batch], *, on: bool
    ) -> HttpResponse | None:
        batches = list(queryset.order_by("id"))
        if not is_confirmed(request):
            return self._confirm_priority(request, batches, on=on)
        for batch in batches:
            with self.refusals_shown(request, operations.BatchNotReady):
                done = operations.accelerate(batch.pk, on=on, now=timezone.now())
                counts = f"{done.workunits} workunits and {done.results} unsent results"
                self.message_user(request, f"{batch}: {counts} have a new priority.")
        return None

    def _confirm_priority(
        self, request: HttpRequest, batches: Sequence[Batch], *, on: bool
    ) -> HttpResponse:
        ended = [batch for batch in batches if batch.state not in _OPEN]
        changed = [b for b in batches if b.state in _OPEN and b.accelerate is not on]
        return confirmation_page(
            self,
            request,
            Workunit.objects.filter(batch__in=changed),
            "accelerate" if on else "slow_down",
            verb="accelerate" if on else "stop accelerating",
            explanation=_ACCELERATED if on else _SLOWED_DOWN,
            counts=(("batches that change", len(changed)),),
            notes=_notes(
                (len(batches) - len(ended) - len(changed), "do not change: they have it already"),
                (len(ended), "are over, and cannot change"),
            ),
            **shown_names(changed),
        )

    @admin.action(description="Retire the selected batches", permissions=["move"])
    def retire(self, request: HttpRequest, queryset: QuerySet[Batch]) -> HttpResponse | None:
        """Retire the batches and release their outputs, after the user confirmed it.

        Shows an error for an unfinished batch.
        """
        batches = list(queryset.order_by("id"))
        if not is_confirmed(request):
            kept = Workunit.objects.filter(batch__in=batches, outputs_kept=True)
            retired = [batch for batch in batches if batch.state == Batch.State.RETIRED]
            unfinished = [batch for batch in batches if batch.state in _OPEN]
            return confirmation_page_with(
                self,
                request,
                "retire",
                counts=(("batches", len(batches)), ("workunits with kept outputs", kept.count())),
                explanation=_RETIRED,
                notes=_notes(
                    (len(retired), "are retired already"),
                    (len(unfinished), "are not known to be over, and are refused if they are not"),
                ),
                **shown_names(batches),
            )
        for batch in batches:
            with self.refusals_shown(request, operations.BatchNotReady):
                operations.retire(batch.pk, now=timezone.now())
                self.message_user(request, f"{batch} is retired.")
        return None


def _notes(*counts: tuple[int, str]) -> list[str]:
    """Return a sentence about each number of batches that is not 0."""
    return [f"{number:,} of the batches {words}." for number, words in counts if number]


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
    sorts = {"batch": Sort(("batch_id", "day"))}
    search_owners = {"batch_id": searching.batches}
    search_help_text = "Beginning of a batch's name, or number of a row"


@admin.register(PurgedWorkunits, site=staff)
class PurgedWorkunitsAdmin(RecordAdmin):
    """The page of the numbers of purged workunits by app."""

    is_small = True
    list_display = ("app", "done", "failed")
    list_filter = ("app",)
    search_fields = ("app__name",)


@admin.register(PurgedResults, site=staff)
class PurgedResultsAdmin(RecordAdmin):
    """The page of the numbers of purged results by app and outcome."""

    is_small = True
    list_display = ("app", "outcome", "results")
    list_filter = ("app",)
    search_fields = ("app__name",)
