"""Admin pages of workunits, with actions to cancel, hold and release them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin
from django.contrib.admin.helpers import ActionForm
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.safestring import SafeString

from scheduler.admin.base import RecordAdmin, RecordInline, badge, bits_label, section
from scheduler.admin.confirm import confirmation_page, is_confirmed
from scheduler.admin.history import (
    possibilities,
    result_state,
    result_title,
    timeline,
    workunit_state,
)
from scheduler.admin.site import staff
from scheduler.lifecycle import NO_RESULT, Axis, ErrorMask, WorkunitState, state_label
from scheduler.models import Dependency, Result, Workunit, WorkunitFile
from scheduler.work import control as operations
from scheduler.work import explain as queries

#: Maximum number of workunits that an action changes.  The actions of batches have no such limit.
MAX_ACTION_ROWS = 10_000
#: Maximum number of workunits that the action `explain` explains.
MAX_EXPLAINED = 20

Filters = list[tuple[str, str]]


class AnswerFilter(admin.SimpleListFilter):
    """Filters workunits by the state of the answer (`WorkunitState`)."""

    title = "answer"
    parameter_name = "answer"
    _RULES = {
        WorkunitState.OPEN: Q(canonical_result__isnull=True, error_mask=0),
        WorkunitState.CANONICAL: Q(canonical_result__gt=NO_RESULT),
        WorkunitState.COMPLETE: Q(canonical_result=NO_RESULT),
        WorkunitState.FAILED: ~Q(error_mask=0),
    }

    def lookups(self, request: HttpRequest, model_admin: Any) -> Filters:
        """Return a choice for each member of `WorkunitState`."""
        return [(state.name, state.name) for state in WorkunitState]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() not in WorkunitState.__members__:
            return queryset
        return queryset.filter(self._RULES[WorkunitState[str(self.value())]])


class HoldForm(ActionForm):
    """The form of the actions of workunits, with the code of a hold."""

    hold_code = forms.CharField(
        required=False,
        label="Code of the hold:",
        max_length=10,
        widget=forms.TextInput(attrs={"size": 6, "placeholder": "-7"}),
    )


class InputsOfWorkunit(RecordInline):
    model = WorkunitFile
    fields = ("position", "file", "open_name", "copy_file", "sticky")
    ordering = ("position",)


@admin.register(Workunit, site=staff)
class WorkunitAdmin(RecordAdmin):
    """The page of workunits, with timelines, reasons for waiting and possible next moves."""

    list_display = (
        "name",
        "app",
        "answer",
        "release",
        "validation",
        "assimilation",
        "files",
        "batch",
        "created_at",
    )
    list_filter = (
        AnswerFilter,
        "release_state",
        "hold_code",
        "need_validate",
        "assimilate_state",
        "file_delete_state",
        ("cancel_requested_at", admin.EmptyFieldListFilter),
        "app",
    )
    search_fields = ("name__startswith",)
    search_names = ("name",)
    search_help_text = "Beginning of a workunit's name, or its number"
    inlines = (InputsOfWorkunit,)
    actions = ("cancel", "hold", "release_again", "explain")
    audited_actions = frozenset({"cancel", "hold", "release_again"})
    action_form = HoldForm
    change_form_template = "scheduler/admin/workunit.html"
    readonly_fields = ("answer", "release", "validation", "assimilation", "files", "errors")
    fieldsets = (
        section(None, "name", "app", "batch", "queue", "priority", "command_line", "created_at"),
        section(
            "State",
            "answer",
            "errors",
            "release",
            "hold_code",
            "pending_dependency_count",
            "waits_for_batch",
            "is_group",
            "has_parents",
            "has_children",
            "validation",
            "assimilation",
            "files",
            "transition_at",
            "finished_at",
            "cancel_requested_at",
            "cancel_reason",
            "unsendable_at",
            "revalidate_requested_at",
        ),
        section(
            "Targets",
            "target_host",
            "target_account",
            "target_team",
            "broadcast",
            "size_class",
            "hr_class",
            "app_version",
            "app_version_num",
            "keywords",
        ),
        section(
            "Replication",
            "min_quorum",
            "target_nresults",
            "max_error_results",
            "max_total_results",
            "max_success_results",
            "max_timeouts",
        ),
        section(
            "Bounds",
            "delay_bound",
            "expected_duration",
            "bundle_id",
            "max_termination_time",
            "rsc_fpops_est",
            "rsc_fpops_bound",
            "rsc_memory_bound",
            "rsc_disk_bound",
            "rsc_bandwidth_bound",
            "requested_cpus",
            "requested_gpus",
            "start_after",
            "start_before",
            "end_before",
            is_collapsed=True,
        ),
        section(
            "Other fields",
            "canonical_credit",
            "outputs",
            "meta",
            "validate_after",
            "assimilate_after",
            "file_delete_after",
            "lease_until",
            is_collapsed=True,
        ),
    )

    # Columns

    def answer(self, workunit: Workunit) -> SafeString:
        """Return a badge with the state of the answer: open, canonical or failed."""
        return badge(workunit_state(workunit).name)

    def release(self, workunit: Workunit) -> SafeString:
        """Return a badge with the release state: held, waiting or released."""
        return badge(state_label(Axis.RELEASE, workunit.release_state))

    def validation(self, workunit: Workunit) -> SafeString | str:
        """Return a badge if the workunit waits for the validator, and a dash otherwise."""
        return badge("WAITING") if workunit.need_validate else "–"

    def assimilation(self, workunit: Workunit) -> SafeString:
        return badge(state_label(Axis.ASSIMILATION, workunit.assimilate_state))

    @admin.display(description="input files")
    def files(self, workunit: Workunit) -> SafeString:
        """Return a badge with the deletion state of the input files."""
        return badge(state_label(Axis.WORKUNIT_FILES, workunit.file_delete_state))

    @admin.display(description="why it failed")
    def errors(self, workunit: Workunit) -> str:
        """Return the names of the bits in the error mask."""
        return bits_label(bit.name for bit in ErrorMask if bit & workunit.error_mask)

    # Actions

    @admin.action(description="Cancel the selected workunits", permissions=["move"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Workunit]) -> HttpResponse | None:
        """Request the cancellation of the workunits, after the user confirmed it.

        The transitioner then cancels them.
        """
        if not is_confirmed(request):
            ids = queryset.order_by().values("id")[:MAX_ACTION_ROWS]
            return confirmation_page(self, request, Workunit.objects.filter(pk__in=ids), "cancel")
        reason = f"cancelled in the administration by {request.user}"
        self._act(request, queryset, "are being cancelled", operations.cancel, reason=reason)
        return None

    @admin.action(description="Hold the selected workunits back", permissions=["move"])
    def hold(self, request: HttpRequest, queryset: QuerySet[Workunit]) -> None:
        """Stop sending results of the workunits until they are released; store the code, if any."""
        code = request.POST.get("hold_code") or None
        if code is not None and not re.fullmatch(r"-?[0-9]{1,9}", code):
            self.refuse(
                request,
                f"The code {code[:20]!r} is not a number. Hint: leave it empty, or write -7.",
            )
            return
        hold_code = None if code is None else int(code)
        self._act(request, queryset, "held", operations.hold, hold_code=hold_code)

    @admin.action(description="Release the selected workunits", permissions=["move"])
    def release_again(self, request: HttpRequest, queryset: QuerySet[Workunit]) -> None:
        """Release held workunits."""
        self._act(request, queryset, "released", operations.release)

    @admin.action(description="Explain what the selected workunits wait for", permissions=["view"])
    def explain(self, request: HttpRequest, queryset: QuerySet[Workunit]) -> None:
        """Show the reasons why workunits wait, for the first `MAX_EXPLAINED` selected workunits."""
        for workunit in queryset[:MAX_EXPLAINED]:
            self.message_user(request, f"{workunit.name}: {'; '.join(reasons_of(workunit))}")

    def _act(
        self,
        request: HttpRequest,
        queryset: QuerySet[Workunit],
        done: str,
        operation: Callable[..., operations.Outcome],
        **arguments: Any,
    ) -> None:
        ids = list(queryset.order_by("id").values_list("id", flat=True)[: MAX_ACTION_ROWS + 1])
        if len(ids) > MAX_ACTION_ROWS:
            msg = (
                f"More than {MAX_ACTION_ROWS} workunits are selected. "
                "Hint: use the actions of their batch."
            )
            self.refuse(request, msg)
            return
        with self.refusals_shown(request, LookupError, ValueError):
            outcome = operation(ids=ids, now=timezone.now(), **arguments)
            self.message_user(request, outcome_sentence(outcome, done))

    # The page of one workunit

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """Add the results, the timeline, the reasons for the state and possible moves."""
        workunit: Workunit = context["original"]
        results = results_of(workunit)
        context |= {
            "results": [_line(result, workunit) for result in results],
            "timeline": timeline(workunit.pk, names={r.pk: result_title(r) for r in results}),
            "possibilities": possibilities(workunit, results),
            "reasons": reasons_of(workunit),
            "ledger_is_on": settings.PROJECT.ledger,
            "may_move": self.has_move_permission(request),
        }
        return super().render_change_form(request, context, *args, **kwargs)


def reasons_of(workunit: Workunit) -> tuple[str, ...]:
    """Return the reasons for a workunit's current state, as sentences."""
    return queries.reasons_of(workunit.pk, now=timezone.now())


def results_of(workunit: Workunit) -> list[Result]:
    """Return the workunit's results in order of attempt, without the column `stderr`."""
    rows = Result.objects.filter(workunit=workunit).select_related("account", "host")
    return list(rows.defer("stderr", "stdout").order_by("attempt"))


def _line(result: Result, workunit: Workunit) -> dict[str, Any]:
    return {
        "row": result,
        "state": badge(state_label(Axis.RESULT, result_state(result))),
        "validation": badge(state_label(Axis.VALIDATION, result.validate_state)),
        "is_canonical": result.pk == workunit.canonical_result_id,
    }


def outcome_sentence(outcome: operations.Outcome, done: str) -> str:
    """Return a sentence with the numbers of changed and unchanged workunits.

    `done` describes the changed workunits, for example "released".
    """
    sentence = f"{outcome.changed} {done}"
    for count, words in (
        (outcome.already, "already were"),
        (outcome.finished, "are finished and unchanged"),
        (outcome.impossible, "wait for other workunits and are unchanged"),
    ):
        sentence += f", {count} {words}" if count else ""
    return f"{sentence}."


@admin.register(WorkunitFile, site=staff)
class WorkunitFileAdmin(RecordAdmin):
    """The page of the input files of workunits."""

    list_display = ("workunit", "position", "file", "open_name", "copy_file", "sticky")
    search_fields = ("file__name__startswith",)
    search_help_text = "Beginning of a file's name, or number of a workunit"
    search_numbers = ("workunit_id",)


@admin.register(Dependency, site=staff)
class DependencyAdmin(RecordAdmin):
    """The page of dependencies between workunits."""

    list_display = ("id", "parent", "child")
    search_help_text = "Number of a workunit"
    search_numbers = ("parent_id", "child_id")
