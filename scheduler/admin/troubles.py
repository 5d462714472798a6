"""Admin pages of refusals, science failures, outages, heartbeats and the outbox."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from scheduler.admin.base import FormBase, RecordAdmin, StaffAdmin, has_right
from scheduler.admin.confirm import confirmation_page_of_messages, is_confirmed
from scheduler.admin.site import staff
from scheduler.health import parked
from scheduler.messages import outbox
from scheduler.models import (
    AccountAppCredit,
    AlertState,
    HardwareCount,
    Heartbeat,
    Outage,
    OutboxMessage,
    Refusal,
    ScienceFailure,
    StatusSample,
    WorkunitWakeup,
)
from scheduler.results import outages
from scheduler.rights import Right

#: The maximum length of an error in the list of science failures.
_MAX_REASON = 120


@admin.register(Refusal, site=staff)
class RefusalAdmin(RecordAdmin):
    """The page of permanent reasons why hosts cannot get results of a workunit."""

    list_display = ("workunit_id", "host_id", "reason", "sentence", "at")
    search_help_text = "Number of a workunit or a host"
    search_numbers = ("workunit_id", "host_id")


@admin.register(ScienceFailure, site=staff)
class ScienceFailureAdmin(RecordAdmin):
    """The page of failures of science code, with actions to retry and drop the subjects."""

    list_display = (
        "stage",
        "subject_id",
        "app",
        "failures",
        "transients",
        "failed_at",
        "parked_at",
        "reason",
    )
    list_filter = (("parked_at", admin.EmptyFieldListFilter), "stage", "app")
    search_fields = ("error",)
    search_numbers = ("id", "subject_id")
    actions = ("retry", "drop")
    audited_actions = frozenset(actions)

    @admin.display(description="last error")
    def reason(self, failure: ScienceFailure) -> SafeString:
        """Return the last line of the error, at most 120 characters; the tooltip has all of it."""
        last = (failure.error.strip().splitlines() or ["–"])[-1]
        return format_html('<span title="{}">{}</span>', failure.error, last[:_MAX_REASON])

    @admin.action(description="Try the selected subjects again", permissions=["move"])
    def retry(self, request: HttpRequest, queryset: QuerySet[ScienceFailure]) -> None:
        """Delete the selected failures, so that the daemons retry the subjects immediately."""
        if not (ids := self._ids(request, queryset)):
            return
        with self.refusals_shown(request, parked.NotParked):
            done = parked.retry(ids=ids, now=timezone.now())
            self.message_user(request, f"{len(done)} will be tried again.")

    @admin.action(description="Give up the selected subjects", permissions=["move"])
    def drop(self, request: HttpRequest, queryset: QuerySet[ScienceFailure]) -> None:
        """Drop the selected subjects, or show an error if one of them is not parked.

        The docstring of `health.parked` describes the effect for each stage.
        """
        if not (ids := self._ids(request, queryset)):
            return
        reason = f"given up in the administration by {request.user}"
        with self.refusals_shown(request, parked.NotParked):
            done = parked.drop(ids=ids, reason=reason, now=timezone.now())
            left = len(done.answered) + len(done.generators)
            rest = f"; {left} cannot be given up and stay parked" if left else ""
            self.message_user(request, f"{len(done.changed)} were given up{rest}.")

    def _ids(self, request: HttpRequest, queryset: QuerySet[ScienceFailure]) -> list[int]:
        """Return the ids of the selected failures; show an error if all of them were deleted."""
        ids = list(queryset.values_list("pk", flat=True))
        if not ids:
            self.refuse(request, "The selected failures no longer exist.")
        return ids


class OutageForm(FormBase):
    """The form of an outage."""

    def clean(self) -> dict[str, Any]:
        """Check the times with `outages.check`, and add its error to the form."""
        cleaned: dict[str, Any] = super().clean() or {}
        began_at, ended_at = cleaned.get("began_at"), cleaned.get("ended_at")
        if began_at and ended_at:
            try:
                outages.check(began_at, ended_at, now=timezone.now())
            except outages.BadOutage as refusal:
                self.add_error(None, str(refusal))
        return cleaned


@admin.register(Outage, site=staff)
class OutageAdmin(StaffAdmin):
    """The page of outages, during which hosts could not reach the server.

    An outage extends the deadlines of results in progress.
    """

    form = OutageForm
    change_right = Right.ADMINISTER_PROJECT
    list_display = ("began_at", "ended_at", "reason", "applied_at")
    list_filter = (("applied_at", admin.EmptyFieldListFilter),)
    search_fields = ("reason",)
    helps = {
        "began_at": "UTC. Deadlines of results in progress are extended by the outage's length.",
        "ended_at": "UTC.",
    }

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Return False, because the outage may already have extended deadlines."""
        return False

    def get_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """Return the names of the fields; the last two are shown only for a recorded outage."""
        entered = ("began_at", "ended_at", "reason")
        return entered if obj is None else (*entered, "applied_at", "applied_up_to")

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Record the outage with `outages.add`."""
        now = timezone.now()
        obj.pk = outages.add(obj.began_at, obj.ended_at, reason=obj.reason, now=now).pk


@admin.register(Heartbeat, site=staff)
class HeartbeatAdmin(RecordAdmin):
    """The page of the web server's last heartbeat and the last runs of chores."""

    list_display = ("name", "seen_at")
    search_fields = ("name",)


@admin.register(StatusSample, site=staff)
class StatusSampleAdmin(RecordAdmin):
    """The page of samples of the project's figures, which the charts of the desk show."""

    list_display = ("at", "is_hourly")
    ordering = ("-at",)


@admin.register(HardwareCount, site=staff)
class HardwareCountAdmin(RecordAdmin):
    """The page of the daily counts of computers by hardware, which a public page shows."""

    list_display = ("kind", "name", "computers", "total_credit", "recent_credit", "counted_at")
    list_filter = ("kind",)
    search_fields = ("name",)


@admin.register(AlertState, site=staff)
class AlertStateAdmin(RecordAdmin):
    """The page of alerts that the housekeeper saw last, and of their reports."""

    list_display = ("kind", "subject", "sentence", "began_at", "reported_at")
    list_filter = ("kind",)
    search_fields = ("sentence",)


@admin.register(WorkunitWakeup, site=staff)
class WorkunitWakeupAdmin(RecordAdmin):
    """The page of the transitioner's queue: the workunits that it must look at."""

    list_display = ("id", "workunit_id", "inserted_at")
    search_help_text = "Number of a workunit"
    search_numbers = ("workunit_id",)


@admin.register(AccountAppCredit, site=staff)
class AccountAppCreditAdmin(RecordAdmin):
    """The page of credit by account and app."""

    list_display = ("account", "app", "total", "expavg", "expavg_at")
    list_filter = ("app",)
    search_fields = ("account__email", "account__name")
    search_numbers = ("account_id",)


@admin.register(OutboxMessage, site=staff)
class OutboxMessageAdmin(RecordAdmin):
    """The page of messages, with actions to retry and drop those that were not sent.

    The text of a message can contain a secret, so it is neither shown nor searched.
    """

    list_display = (
        "id",
        "kind",
        "recipient",
        "subject",
        "created_at",
        "attempts",
        "next_attempt_at",
        "sent_at",
        "parked_at",
        "last_error",
    )
    list_filter = (("parked_at", admin.EmptyFieldListFilter), "kind")
    search_fields = ("recipient",)
    exclude = ("text",)
    actions = ("retry", "drop")
    audited_actions = frozenset(actions)

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        """Return False for lookups of the text, by which it could be guessed letter by letter."""
        if lookup.partition("__")[0] == "text":
            return False
        return super().lookup_allowed(lookup, value, request)

    def get_queryset(self, request: HttpRequest) -> QuerySet[OutboxMessage]:
        """Return the messages without their texts."""
        return super().get_queryset(request).defer("text")

    def has_administer_permission(self, request: HttpRequest) -> bool:
        """Return whether the user may retry and drop messages."""
        return has_right(request, Right.ADMINISTER_PROJECT)

    @admin.action(description="Send the selected messages again", permissions=["administer"])
    def retry(
        self, request: HttpRequest, queryset: QuerySet[OutboxMessage]
    ) -> TemplateResponse | None:
        """Make the selected messages due at once, after the user confirmed it."""
        ids = list(queryset.values_list("pk", flat=True))
        if not is_confirmed(request):
            explanation = "The housekeeper sends them at once, with all attempts."
            return self._confirmation(request, ids, "retry", explanation)
        with self.refusals_shown(request, outbox.NotWaiting):
            count = outbox.retry(ids, now=timezone.now())
            self.message_user(request, f"{count} will be sent again.")
        return None

    @admin.action(description="Drop the selected messages", permissions=["administer"])
    def drop(
        self, request: HttpRequest, queryset: QuerySet[OutboxMessage]
    ) -> TemplateResponse | None:
        """Delete the selected messages that were not sent, after the user confirmed it."""
        ids = list(queryset.values_list("pk", flat=True))
        if not is_confirmed(request):
            explanation = "This cannot be undone: they are deleted and never sent."
            return self._confirmation(request, ids, "drop", explanation)
        with self.refusals_shown(request, outbox.NotWaiting):
            self.message_user(request, f"{outbox.drop(ids)} were dropped.")
        return None

    def _confirmation(
        self, request: HttpRequest, ids: list[int], action: str, explanation: str
    ) -> TemplateResponse:
        names = [f"{row.subject} (to {row.recipient})" for row in outbox.unsent(ids)]
        return confirmation_page_of_messages(self, request, names, action, explanation)
