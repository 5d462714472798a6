"""What went wrong, as staff sees it: refusals, failed science, outages."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils import timezone

from scheduler.admin.base import FormBase, RecordAdmin, StaffAdmin, has_right
from scheduler.admin.site import staff
from scheduler.health import parked
from scheduler.health.parked_science import NotParked
from scheduler.models import AccountAppCredit, Heartbeat, Outage, Refusal, ScienceFailure
from scheduler.results import outages
from scheduler.rights import Right


@admin.register(Refusal, site=staff)
class RefusalAdmin(RecordAdmin):
    """Hosts that asked for work and could not be given a workunit's, for a reason that lasts."""

    list_display = ("workunit_id", "host_id", "reason", "sentence", "at")
    search_fields = ("reason",)
    search_help_text = "Number of a workunit or a host"
    search_numbers = ("workunit_id", "host_id")
    searches_texts = False


@admin.register(ScienceFailure, site=staff)
class ScienceFailureAdmin(RecordAdmin):
    """Subjects on which science code failed, and those that are parked for it."""

    list_display = (
        "stage",
        "subject_id",
        "app",
        "failures",
        "transients",
        "failed_at",
        "parked_at",
    )
    list_filter = (("parked_at", admin.EmptyFieldListFilter), "stage", "app")
    list_select_related = ("app",)
    search_fields = ("error",)
    search_numbers = ("id", "subject_id")
    actions = ("retry", "drop")

    def has_move_permission(self, request: HttpRequest) -> bool:
        """Return whether the member of staff may retry or drop parked science."""
        return has_right(request, Right.MANAGE_OTHERS_BATCHES)

    @admin.action(description="Try the selected subjects again", permissions=["move"])
    def retry(self, request: HttpRequest, queryset: QuerySet[ScienceFailure]) -> None:
        """Forget the failures; the daemons try again at once."""
        ids = list(queryset.values_list("pk", flat=True))
        try:
            done = parked.retry(ids=ids, now=timezone.now())
        except NotParked as refusal:
            self.message_user(request, str(refusal), messages.ERROR)
            return
        self.message_user(request, f"{len(done)} are tried again.")

    @admin.action(description="Give the selected subjects up", permissions=["move"])
    def drop(self, request: HttpRequest, queryset: QuerySet[ScienceFailure]) -> None:
        """Give up what is parked, each in the way of its stage."""
        ids = list(queryset.values_list("pk", flat=True))
        reason = f"given up in the administration by {request.user}"
        try:
            done = parked.drop(ids=ids, reason=reason, now=timezone.now())
        except NotParked as refusal:
            self.message_user(request, str(refusal), messages.ERROR)
            return
        left = len(done.answered) + len(done.generators)
        self.message_user(
            request,
            f"{len(done.changed)} are given up"
            + (f"; {left} cannot be, and stay parked." if left else "."),
        )


class OutageForm(FormBase):
    """Refuses an outage that cannot have been."""

    def clean(self) -> dict[str, Any]:
        """Ask the operation."""
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
    """Times in which volunteers could not reach the server; deadlines are moved by them."""

    form = OutageForm
    change_right = Right.ADMINISTER_PROJECT
    list_display = ("began_at", "ended_at", "reason", "applied_at")
    list_filter = (("applied_at", admin.EmptyFieldListFilter),)
    search_fields = ("reason",)
    helps = {
        "began_at": "UTC. Deadlines of results that were out then are moved by its length.",
        "ended_at": "UTC.",
    }

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Refuse: deadlines were moved by it."""
        return False

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> tuple[str, ...]:
        """What a person knows of an outage; afterwards, what was done about it, too."""
        known = ("began_at", "ended_at", "reason")
        return known if obj is None else (*known, "applied_at", "applied_up_to")

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Record it through the one door for it."""
        made = outages.add(obj.began_at, obj.ended_at, reason=obj.reason, now=timezone.now())
        obj.pk = made.pk


@admin.register(Heartbeat, site=staff)
class HeartbeatAdmin(RecordAdmin):
    """When parts of the server were last seen alive."""

    list_display = ("name", "seen_at")
    search_fields = ("name",)


@admin.register(AccountAppCredit, site=staff)
class AccountAppCreditAdmin(RecordAdmin):
    """What accounts were granted for each app."""

    list_display = ("account", "app", "total", "expavg", "expavg_at")
    list_filter = ("app",)
    list_select_related = ("account", "app")
    search_fields = ("account__email", "account__name")
    search_numbers = ("account_id",)
