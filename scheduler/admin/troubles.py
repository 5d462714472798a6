"""Admin pages of refusals, failures, outages, heartbeats, checks and the outbox."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from scheduler.admin.base import RecordAdmin, StaffAdmin, has_right
from scheduler.admin.confirm import (
    confirmation_page_of_messages,
    is_confirmed,
    is_confirmed_as_shown,
)
from scheduler.admin.desk import check_lines
from scheduler.admin.lists import searching
from scheduler.admin.lists.searching import Prefix
from scheduler.admin.lists.sorting import BY_ID, Sort
from scheduler.admin.previews import outage_page, parked_science
from scheduler.admin.site import staff
from scheduler.health import parked
from scheduler.messages import outbox
from scheduler.models import (
    AccountAppCredit,
    AlertState,
    AppCreditCursor,
    CheckRun,
    CreditSample,
    HardwareCount,
    Heartbeat,
    HostAppCredit,
    HostOutcomes,
    Outage,
    OutboxMessage,
    Refusal,
    ScienceFailure,
    StatusSample,
    TeamAppCredit,
    VersionOutcomes,
    WorkunitWakeup,
)
from scheduler.rights import Right

#: The maximum length of an error in the list of science failures.
_MAX_REASON = 120
#: The columns of a message that are not shown.
_SECRETS = ("text", "unsubscribe_url")


@admin.register(Refusal, site=staff)
class RefusalAdmin(RecordAdmin):
    """The page of permanent reasons why hosts cannot get results of a workunit."""

    list_display = ("workunit_id", "host_id", "reason", "sentence", "at")
    sorts = {"workunit_id": Sort(("workunit_id", "host_id")), "at": Sort(("at",))}
    search_fields = ("host_id__exact",)
    search_help_text = "Number of a workunit, or of a host in the newest 10,000 refusals"
    search_numbers = ("workunit_id",)


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
    sorts = {"stage": Sort(("stage", "subject_id"))}
    search_fields = ("error",)
    search_numbers = ("id", "subject_id")
    search_leading = {"subject_id": Q(stage__in=ScienceFailure.Stage.values)}
    search_help_text = "Number of a subject, or a part of an error in the newest 10,000 rows"
    actions = ("retry", "drop")
    audited_actions = frozenset(actions)

    @admin.display(description="last error")
    def reason(self, failure: ScienceFailure) -> SafeString:
        """Return the last line of the error, at most 120 characters; the tooltip has all of it."""
        last = (failure.error.strip().splitlines() or ["–"])[-1]
        return format_html('<span title="{}">{}</span>', failure.error, last[:_MAX_REASON])

    @admin.action(description="Try the selected subjects again", permissions=["move"])
    def retry(
        self, request: HttpRequest, queryset: QuerySet[ScienceFailure]
    ) -> HttpResponse | None:
        """Let the daemons retry the subjects immediately, after the user confirmed it."""
        if not (ids := self._ids(request, queryset)):
            return None
        with self.refusals_shown(request, parked.NotParked):
            if not is_confirmed(request):
                return parked_science.retry_page(self, request, parked.find(ids=ids))
            done = parked.retry(ids=ids, now=timezone.now())
            self.message_user(request, f"{len(done)} will be tried again.")
        return None

    @admin.action(description="Give up the selected subjects", permissions=["move"])
    def drop(self, request: HttpRequest, queryset: QuerySet[ScienceFailure]) -> HttpResponse | None:
        """Drop the selected subjects, after the user confirmed it.

        Shows an error if one of them is not parked.  The docstring of `health.parked` describes the
        effect for each stage.
        """
        if not (ids := self._ids(request, queryset)):
            return None
        reason = f"given up in the administration by {request.user}"
        now = timezone.now()
        with self.refusals_shown(request, parked.NotParked):
            plan = parked.drop(ids=ids, reason=reason, dry_run=True, now=now)
            if not is_confirmed_as_shown(self, request, len(plan.changed), "subjects"):
                return parked_science.drop_page(self, request, plan)
            done = parked.drop(ids=ids, reason=reason, dry_run=False, now=now)
            left = len(done.answered) + len(done.generators)
            rest = f"; {left} cannot be given up and stay parked" if left else ""
            self.message_user(request, f"{len(done.changed)} were given up{rest}.")
        return None

    def _ids(self, request: HttpRequest, queryset: QuerySet[ScienceFailure]) -> list[int]:
        """Return the ids of the selected failures; show an error if all of them were deleted."""
        ids = list(queryset.values_list("pk", flat=True))
        if not ids:
            self.refuse(request, "The selected failures no longer exist.")
        return ids


@admin.register(Outage, site=staff)
class OutageAdmin(StaffAdmin):
    """The page of outages, during which hosts could not reach the server.

    An outage extends the deadlines of results in progress.
    """

    change_right = Right.ADMINISTER_PROJECT
    list_display = ("began_at", "ended_at", "reason", "applied_at")
    list_filter = (("applied_at", admin.EmptyFieldListFilter),)
    is_small = True
    search_fields = ("reason",)
    fields = ("began_at", "ended_at", "reason", "applied_at", "applied_up_to")

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Return False, because the outage may already have extended deadlines."""
        return False

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Return the page that records an outage, with a preview."""
        return outage_page.page(self, request)


@admin.register(Heartbeat, site=staff)
class HeartbeatAdmin(RecordAdmin):
    """The page of the web server's last heartbeat and the last runs of chores."""

    list_display = ("name", "seen_at")
    is_small = True
    search_fields = ("name",)


@admin.register(StatusSample, site=staff)
class StatusSampleAdmin(RecordAdmin):
    """The page of samples of the project's figures, which the charts of the desk show."""

    list_display = ("at", "is_hourly")
    is_small = True
    ordering = ("-at",)


@admin.register(CreditSample, site=staff)
class CreditSampleAdmin(RecordAdmin):
    """The page of daily samples of credit, from which pages draw credit per day."""

    list_display = ("day", "kind", "holder_id", "total_credit")
    list_filter = ("kind",)
    sorts = {"kind": Sort(("kind", "holder_id", "day"))}
    search_numbers = ("id", "holder_id")
    search_leading = {"holder_id": Q(kind__in=CreditSample.Kind.values)}


@admin.register(VersionOutcomes, site=staff)
class VersionOutcomesAdmin(RecordAdmin):
    """The page of the results of app versions that were counted in each hour."""

    list_display = ("hour", "app_version", "reported", "errors", "invalid")
    sorts = {"hour": Sort(("hour", "app_version_id"))}
    list_select_related = ("app_version__app", "app_version__platform")
    search_numbers = ("id", "app_version_id")


@admin.register(HostOutcomes, site=staff)
class HostOutcomesAdmin(RecordAdmin):
    """The page of the results of hosts with errors that were counted in each hour."""

    list_display = ("hour", "host_id", "reported", "errors", "invalid")
    sorts = {"hour": Sort(("hour", "host_id"))}
    search_numbers = ("id", "host_id")


@admin.register(HardwareCount, site=staff)
class HardwareCountAdmin(RecordAdmin):
    """The page of the daily counts of computers by hardware, which a public page shows."""

    list_display = ("kind", "name", "computers", "total_credit", "recent_credit", "counted_at")
    is_small = True
    list_filter = ("kind",)
    search_fields = ("name",)


@admin.register(AlertState, site=staff)
class AlertStateAdmin(RecordAdmin):
    """The page of alerts that the housekeeper saw last, and of their reports."""

    list_display = ("kind", "subject", "sentence", "began_at", "reported_at")
    is_small = True
    list_filter = ("kind",)
    search_fields = ("sentence",)


@admin.register(CheckRun, site=staff)
class CheckRunAdmin(RecordAdmin):
    """The page of runs of checks; the page of a run shows what it found."""

    list_display = (
        "id",
        "kind",
        "violations",
        "unresolved",
        "scope",
        "requester",
        "ended_at",
        "checked",
    )
    list_filter = ("kind",)
    is_small = True
    list_select_related = ("requested_by",)
    change_form_template = "scheduler/admin/check_run.html"
    fields = (
        *("kind", "scope", "requester", "requested_at", "started_at", "ended_at"),
        *("to_check", "checked", "skipped", "violations", "unresolved", "checked_names"),
    )
    readonly_fields = ("scope", "requester")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the runs; lists leave out the findings, which can be long."""
        rows = super().get_queryset(request)
        match = request.resolver_match
        if match is None or match.url_name != "scheduler_checkrun_change":
            return rows.defer("findings", "carried", "not_checked")
        return rows

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """Add the findings of the run to the page, with links to the rows."""
        context |= check_lines.details(context["original"])
        return super().render_change_form(request, context, *args, **kwargs)

    def scope(self, run: CheckRun) -> str:
        return check_lines.scope(run)

    @admin.display(description="by")
    def requester(self, run: CheckRun) -> str:
        return check_lines.requester(run)


@admin.register(WorkunitWakeup, site=staff)
class WorkunitWakeupAdmin(RecordAdmin):
    """The page of the transitioner's queue: the workunits that it must look at."""

    list_display = ("id", "workunit_id", "inserted_at")
    sorts = {"id": BY_ID, "workunit_id": Sort(("workunit_id",))}
    search_help_text = "Number of a workunit"
    search_numbers = ("workunit_id",)


@admin.register(AccountAppCredit, site=staff)
class AccountAppCreditAdmin(RecordAdmin):
    """The page of credit by account and app."""

    list_display = ("account", "app", "total", "expavg", "expavg_at")
    list_filter = ("app",)
    sorts = {"account": Sort(("account_id", "app_id"))}
    search_numbers = ("account_id",)
    search_owners = {"account_id": searching.accounts}
    search_help_text = "Beginning of an account's address or name, or its number"


@admin.register(HostAppCredit, site=staff)
class HostAppCreditAdmin(RecordAdmin):
    """The page of credit by computer and app."""

    list_display = ("host", "app", "total", "expavg", "expavg_at")
    list_filter = ("app",)
    sorts = {"host": Sort(("host_id", "app_id"))}
    search_owners = {"host_id": searching.hosts}
    search_help_text = "Beginning of a computer's name, or its number"
    search_numbers = ("host_id",)


@admin.register(TeamAppCredit, site=staff)
class TeamAppCreditAdmin(RecordAdmin):
    """The page of credit by team and app."""

    list_display = ("team", "app", "total", "expavg", "expavg_at")
    list_filter = ("app",)
    sorts = {"team": Sort(("team_id", "app_id"))}
    search_owners = {"team_id": searching.teams}
    search_help_text = "Beginning of a team's name, or its number"
    search_numbers = ("team_id",)


@admin.register(AppCreditCursor, site=staff)
class AppCreditCursorAdmin(RecordAdmin):
    """The page of the last credit entry that is counted by computer, team and app."""

    list_display = ("id", "counted_to")
    is_small = True


@admin.register(OutboxMessage, site=staff)
class OutboxMessageAdmin(RecordAdmin):
    """The page of messages, with actions to retry and drop those that were not sent.

    The text of a message and the link that ends letters can contain a secret, so they are neither
    shown nor searched.
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
    sorts = {"id": BY_ID, "created_at": BY_ID}
    search_fields = ("recipient",)
    search_prefixes = (Prefix("recipient"),)
    search_help_text = (
        "Beginning of a recipient's address, or number of a message; in the newest 10,000 messages "
        "also parts of addresses"
    )
    exclude = _SECRETS
    actions = ("retry", "drop")
    audited_actions = frozenset(actions)

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        """Return False for lookups of a secret, by which it could be guessed letter by letter."""
        if lookup.partition("__")[0] in _SECRETS:
            return False
        return super().lookup_allowed(lookup, value, request)

    def get_queryset(self, request: HttpRequest) -> QuerySet[OutboxMessage]:
        """Return the messages without their texts."""
        return super().get_queryset(request).defer(*_SECRETS)

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
        if not is_confirmed_as_shown(self, request, outbox.count_unsent(ids), "messages"):
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
