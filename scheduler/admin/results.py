"""Admin pages of results and their output files."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from scheduler.admin.base import RecordAdmin, RecordInline, badge, link_to, nbytes_label, section
from scheduler.admin.history import result_possibilities, result_state, result_title, timeline
from scheduler.admin.lists import searching
from scheduler.admin.lists.sorting import Sort, is_number
from scheduler.admin.site import staff
from scheduler.lifecycle import Axis, ClientState, ServerState, state_label
from scheduler.models import Result, ResultFile
from scheduler.work.explain import explanation_of


class OutputsOfResult(RecordInline):
    model = ResultFile
    fields = ("position", "name", "nbytes", "md5", "sha256")
    ordering = ("position",)


@admin.register(Result, site=staff)
class ResultAdmin(RecordAdmin):
    """The page of results, which are attempts at workunits."""

    list_display = (
        "name",
        "state",
        "validation",
        "account",
        "host",
        "sent_at",
        "report_deadline",
        "received_at",
        "granted_credit",
    )
    list_filter = ("server_state", "outcome", "validate_state", "file_delete_state", "app")
    sorts = {
        "name": Sort(("name",)),
        "report_deadline": Sort(
            ("report_deadline",),
            only=is_number("server_state", ServerState.IN_PROGRESS)
            & Q(report_deadline__isnull=False),
            note="This order lists only results in progress.",
        ),
    }
    search_names = ("name",)
    search_prefixes = (searching.NAME,)
    search_help_text = "Beginning of a result's name, or number of a result or workunit"
    search_numbers = ("id", "workunit_id")
    inlines = (OutputsOfResult,)
    change_form_template = "scheduler/admin/result.html"
    readonly_fields = ("state", "validation", "files", "client_state_name", "workunit_link", "log")
    fieldsets = (
        section(None, "name", "workunit_link", "app", "attempt", "priority"),
        section("State", "state", "validation", "files", "granted_credit"),
        section("Computed by", "account", "host", "app_version"),
        section("Targets", "target_kind", "target_id", "reliable_until"),
        section(
            "Times",
            "created_at",
            "sent_at",
            "acknowledged_at",
            "report_deadline",
            "received_at",
            "credit_deadline",
            "resent_count",
        ),
        section(
            "Reported by the client",
            "client_state_name",
            "exit_status",
            "app_status",
            "fraction_done",
            "cpu_time",
            "elapsed_time",
            "runtime_outlier",
            "log",
            "stdout",
        ),
        section(
            "Sizes",
            "flops_estimate",
            "peak_working_set_bytes",
            "peak_swap_bytes",
            "peak_disk_bytes",
            is_collapsed=True,
        ),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the results, without `stderr` in lists, because it can be 64 KB long.

        On the page of one result, the query joins the related rows.
        """
        rows = super().get_queryset(request)
        match = request.resolver_match
        if match is None or match.url_name != "scheduler_result_change":
            return rows.defer("stderr", "stdout")
        return rows.select_related(
            "workunit", "account", "host", "app_version__app", "app_version__platform"
        )

    def state(self, result: Result) -> SafeString:
        """Return a badge with the server state and the outcome."""
        return badge(state_label(Axis.RESULT, result_state(result)))

    def validation(self, result: Result) -> SafeString:
        return badge(state_label(Axis.VALIDATION, result.validate_state))

    @admin.display(description="output files")
    def files(self, result: Result) -> SafeString:
        """Return a badge with the deletion state of the output files."""
        return badge(state_label(Axis.RESULT_FILES, result.file_delete_state))

    @admin.display(description="client state")
    def client_state_name(self, result: Result) -> str:
        """Return the name or code of the state that the client last reported."""
        try:
            return ClientState(result.client_state).name
        except ValueError:
            return f"code {result.client_state}"

    @admin.display(description="workunit")
    def workunit_link(self, result: Result) -> SafeString | str:
        return link_to(result.workunit)

    @admin.display(description="stderr")
    def log(self, result: Result) -> SafeString | str:
        """Return the application's stderr output as HTML, or a dash if it is empty."""
        return format_html('<pre class="log">{}</pre>', result.stderr) if result.stderr else "–"

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """Add the timeline, the reasons for the state and the possible moves to the page."""
        result: Result = context["original"]
        context["timeline"] = timeline(
            result.workunit_id, result_id=result.pk, names={result.pk: result_title(result)}
        )
        context["reasons"] = explanation_of(result.name, now=timezone.now()).reasons
        context["ledger_is_on"] = settings.PROJECT.ledger
        context["possibilities"] = result_possibilities(result)
        return super().render_change_form(request, context, *args, **kwargs)


@admin.register(ResultFile, site=staff)
class ResultFileAdmin(RecordAdmin):
    """The page of uploaded output files, with their digests."""

    list_display = ("name", "position", "size", "md5", "sha256")
    search_help_text = "Number of a result"
    search_numbers = ("result_id",)

    def size(self, file: ResultFile) -> str:
        """Return the file size with a unit."""
        return nbytes_label(file.nbytes)
