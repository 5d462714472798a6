"""Admin pages of workunits, with actions to cancel, retry, hold and release them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin
from django.contrib.admin.helpers import ActionForm
from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.safestring import SafeString

from scheduler import sql
from scheduler.admin.apps import revalidations
from scheduler.admin.base import (
    RecordAdmin,
    RecordInline,
    badge,
    bits_label,
    is_bigint,
    section,
)
from scheduler.admin.confirm import (
    confirmation_page,
    confirmation_page_of_retry,
    is_confirmed,
    is_confirmed_as_shown,
)
from scheduler.admin.history import (
    possibilities,
    result_state,
    result_title,
    timeline,
    workunit_state,
)
from scheduler.admin.lists import searching
from scheduler.admin.lists.sorting import BY_ID, Sort, SortedChangeList
from scheduler.admin.site import staff
from scheduler.admin.work import targets
from scheduler.admin.work.targets import TargetFilter
from scheduler.health import recent_failures
from scheduler.lifecycle import (
    NO_RESULT,
    Axis,
    ErrorMask,
    ReleaseState,
    WorkunitState,
    state_label,
)
from scheduler.models import Dependency, Result, Workunit, WorkunitFile
from scheduler.people.quotas import QuotaExceeded
from scheduler.results import revalidate
from scheduler.work import control as operations
from scheduler.work import explain as queries
from scheduler.work import retry as retries
from scheduler.work.batches import BatchNotReady
from scheduler.work.submission.new_batches import BatchRefused

#: Maximum number of workunits that an action changes.  The actions of batches have no such limit.
MAX_ACTION_ROWS = 10_000
#: Maximum number of workunits that one request cancels.  On two cores this takes 7 seconds, and its
#: preview 3; on a busy server it must end within the 120 seconds for which nginx waits.
MAX_CANCELLED_ROWS = 200_000
#: Maximum number of workunits that the action `explain` explains.
MAX_EXPLAINED = 20
#: Maximum number of codes that the list offers as a filter.
MAX_HOLD_CODES = 20
_HOLD_CODE = re.compile(r"-?[0-9]{1,9}")
#: The reason why a cancellation, a hold or a release is impossible.
_WAITING = "wait for other workunits"

#: The errors of `retries.retry`, whose messages are shown.
RETRY_REFUSALS = (BatchNotReady, operations.WorkunitsNotFound, BatchRefused, QuotaExceeded)

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


class HoldCodeFilter(admin.SimpleListFilter):
    """Filters held workunits by their code; Django's own filter reads the whole table."""

    title = "code of the hold"
    parameter_name = "hold_code"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Filters:
        """Return a choice for each code that held workunits have, at most `MAX_HOLD_CODES`."""
        rows = sql.fetch("work/read_hold_codes", {"limit": MAX_HOLD_CODES})
        return [(str(row["hold_code"]), str(row["hold_code"])) for row in rows]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the workunits with the chosen code; all of them for a text that is no code."""
        code = self.value() or ""
        return queryset.filter(hold_code=int(code)) if _HOLD_CODE.fullmatch(code) else queryset


class FailedResultsFilter(admin.SimpleListFilter):
    """Filters workunits by a minimum of failed results, among the recent failures.

    There is no index of failed results, so only a limited number of results is read
    (`recent_failures.workunits`); a text above the list describes which.
    """

    title = "failed results"
    parameter_name = "failed_results"
    _MINIMA = ("1", "2", "5", "10")

    def lookups(self, request: HttpRequest, model_admin: Any) -> Filters:
        """Return a choice for each minimum."""
        return [(number, f"{number} or more") for number in self._MINIMA]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        minimum = self.chosen(request)
        if minimum is None:
            return queryset
        app = request.GET.get("app__id__exact", "")
        ids = recent_failures.workunits(
            minimum, app_id=int(app) if is_bigint(app) else None, now=timezone.now()
        )
        return queryset.filter(pk__in=ids)

    @classmethod
    def chosen(cls, request: HttpRequest) -> int | None:
        """Return the minimum in the query string, or None if it has none of the choices."""
        value = request.GET.get(cls.parameter_name)
        return int(value) if value in cls._MINIMA else None


class HoldForm(ActionForm):
    """The form of the actions of workunits, with the code of a hold."""

    hold_code = forms.CharField(
        required=False,
        label="Code of the hold:",
        max_length=10,
        widget=forms.TextInput(attrs={"size": 6, "placeholder": "-7"}),
    )


class WorkunitList(SortedChangeList):
    """The list of workunits with the number of their failed results, as `n_failed`."""

    def get_queryset(
        self, request: HttpRequest, exclude_parameters: list[str | None] | None = None
    ) -> QuerySet[Any]:
        """Return the workunits of the list, each with the number of its failed results."""
        failed = Result.objects.filter(
            workunit=OuterRef("pk"), outcome__in=recent_failures.FAILED
        ).order_by()
        counted = failed.values("workunit").annotate(number=Count("pk")).values("number")
        number = Coalesce(Subquery(counted), 0)
        workunits = super().get_queryset(request, exclude_parameters)
        annotated: QuerySet[Any] = workunits.annotate(n_failed=number)
        return annotated


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
        "failed_results",
        "batch",
        "target",
        "created_at",
    )
    list_filter = (
        AnswerFilter,
        FailedResultsFilter,
        TargetFilter,
        "release_state",
        HoldCodeFilter,
        "need_validate",
        "assimilate_state",
        "file_delete_state",
        ("cancel_requested_at", admin.EmptyFieldListFilter),
        "app",
    )
    sorts = {"name": Sort(("name",)), "created_at": BY_ID}
    search_names = ("name",)
    search_prefixes = (searching.NAME,)
    search_help_text = "Beginning of a workunit's name, or its number"
    inlines = (InputsOfWorkunit,)
    actions = (
        "cancel",
        "retry",
        "hold",
        "release_again",
        "look_again",
        "reset_class",
        "validate_again",
        "retarget",
        "explain",
    )
    #: `revalidate.request` and `retarget.retarget` record their own entries.
    audited_actions = frozenset(set(actions) - {"explain", "validate_again", "retarget"})
    action_form = HoldForm
    change_form_template = "scheduler/admin/workunit.html"
    change_list_template = "scheduler/admin/workunit_list.html"
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

    def get_list_display(self, request: HttpRequest) -> tuple[Any, ...]:
        """Return the columns; that of the target only for a list of targeted work.

        With all columns, the list is wider than a usual window.
        """
        is_targeted = any(name.startswith("target") for name in request.GET)
        columns = super().get_list_display(request)
        return tuple(column for column in columns if is_targeted or column != "target")

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[WorkunitList]:
        """Return the class of the list, whose rows have the number of failed results."""
        return WorkunitList

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Return the list, with the limits of the filter of failed results if it is chosen."""
        note: dict[str, Any] = {}
        if FailedResultsFilter.chosen(request) is not None:
            note = {"failures": recent_failures}
        return super().changelist_view(request, note | (extra_context or {}))

    # Columns

    @admin.display(description="failed results")
    def failed_results(self, workunit: Any) -> int:
        """Return the number of results with an error of the client or of the validation."""
        return int(workunit.n_failed)

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

    def target(self, workunit: Workunit) -> SafeString | str:
        """Return the host, account or team that gets the workunit, or a dash for every host."""
        return targets.label(workunit)

    @admin.display(description="why it failed")
    def errors(self, workunit: Workunit) -> str:
        """Return the names of the bits in the error mask."""
        return bits_label(bit.name for bit in ErrorMask if bit & workunit.error_mask)

    # Actions

    @admin.action(description="Cancel the selected workunits", permissions=["move"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Workunit]) -> HttpResponse | None:
        """Request the cancellation of the workunits, after the user confirmed it.

        The transitioner then cancels them.  If the request is interrupted, the next one continues.
        """
        hint = "narrow the filter, for example to open workunits of one app, or cancel the batches"
        ids = self._ids(request, queryset, at_most=MAX_CANCELLED_ROWS, hint=hint)
        if ids is None:
            return None
        if not is_confirmed_as_shown(self, request, len(ids), "workunits"):
            workunits = Workunit.objects.filter(searching.one_of(ids))
            return confirmation_page(self, request, workunits, "cancel")
        self.record_action(request, "cancel", ids, total=len(ids))
        reason = f"cancelled in the administration by {request.user}"
        outcome = operations.cancel_in_chunks(ids, reason=reason, now=timezone.now())
        self.message_user(request, outcome_sentence(outcome, "are being cancelled"))
        return None

    @admin.action(description="Retry the selected failed workunits", permissions=["move"])
    def retry(self, request: HttpRequest, queryset: QuerySet[Workunit]) -> HttpResponse | None:
        """Submit failed workunits again, in their batch if any, after the user confirmed it."""
        ids = self._ids(request, queryset)
        if ids is None:
            return None
        chosen = Workunit.objects.filter(pk__in=ids)
        if not is_confirmed(request):
            return confirmation_page_of_retry(self, request, chosen, with_cancelled=True)
        failed = chosen.exclude(error_mask=0).filter(retried_as__isnull=True)
        names_by_batch: dict[int | None, list[str]] = {}
        batch_id: int | None
        for batch_id, name in failed.values_list("batch_id", "name").order_by("batch_id", "id"):
            names_by_batch.setdefault(batch_id, []).append(name)
        for batch_id, names in names_by_batch.items():
            with self.refusals_shown(request, *RETRY_REFUSALS):
                done = retries.retry(batch_id, names=names, now=timezone.now())
                self.message_user(request, retried_sentence(done))
        if not names_by_batch:
            self.refuse(
                request,
                "None of the workunits can be retried: they did not fail, or were retried before.",
            )
        return None

    @admin.action(description="Hold the selected workunits back", permissions=["move"])
    def hold(self, request: HttpRequest, queryset: QuerySet[Workunit]) -> HttpResponse | None:
        """Stop sending results of the workunits until they are released, after a confirmation.

        Stores the code, if there is one.
        """
        code = request.POST.get("hold_code") or None
        if code is not None and not _HOLD_CODE.fullmatch(code):
            self.refuse(
                request,
                f"The code {code[:20]!r} is not a number. Hint: leave it empty, or write -7.",
            )
            return None
        if not is_confirmed(request):
            explanation = (
                "Unsent results of these workunits are not sent before the workunits are released. "
                "Results in progress continue, and can be reported. The code replaces an earlier "
                "one."
            )
            with_code = f" with the code {code}" if code else " without a code"
            return self._confirm(
                request,
                queryset,
                "hold",
                explanation=f"Hold{with_code}. {explanation}",
                hidden={"hold_code": code or ""},
            )
        hold_code = None if code is None else int(code)
        self._act(request, queryset, "held", operations.hold, hold_code=hold_code)
        return None

    @admin.action(description="Release the selected workunits", permissions=["move"])
    def release_again(
        self, request: HttpRequest, queryset: QuerySet[Workunit]
    ) -> HttpResponse | None:
        """Release held workunits, after the user confirmed it."""
        if not is_confirmed(request):
            ids = self._ids(request, queryset)
            if ids is None:
                return None
            held_workunits = Workunit.objects.filter(pk__in=ids, release_state=ReleaseState.HELD)
            explanation = (
                "Results of the held workunits are sent again as soon as hosts request work. Holds "
                "by submitters end, too. Other workunits do not change."
            )
            counts = (("held workunits", held_workunits.count()),)
            texts = {"verb": "release", "explanation": explanation, "counts": counts}
            return self._confirm(request, queryset, "release_again", **texts)
        self._act(request, queryset, "released", operations.release)
        return None

    @admin.action(description="Look at the selected workunits again", permissions=["move"])
    def look_again(self, request: HttpRequest, queryset: QuerySet[Workunit]) -> HttpResponse | None:
        """Make the workunits due for the transitioner, after the user confirmed it."""
        if not is_confirmed(request):
            explanation = (
                "The transitioner decides again, within seconds, what each of these workunits "
                "needs: results, validation, assimilation or deletion of files. A workunit in "
                "order does not change."
            )
            texts = {"verb": "look again at", "explanation": explanation}
            return self._confirm(request, queryset, "look_again", **texts)
        self._act(request, queryset, "are being looked at again", operations.look_again)
        return None

    @admin.action(description="Reset the class of the selected workunits", permissions=["move"])
    def reset_class(
        self, request: HttpRequest, queryset: QuerySet[Workunit]
    ) -> HttpResponse | None:
        """Unbind the workunits from class of computers and version, after a confirmation."""
        if not is_confirmed(request):
            explanation = (
                "Computers of every class, and every version of the app, can then get results of "
                "these workunits; the first one binds them again. Workunits with results in "
                "progress, or with results that will be compared, do not change."
            )
            texts = {"verb": "reset the class of", "explanation": explanation}
            return self._confirm(request, queryset, "reset_class", **texts)
        self._act(
            request,
            queryset,
            "can be sent to any class",
            operations.reset_class,
            impossible="have results of their class",
        )
        return None

    @admin.action(description="Validate the selected workunits again", permissions=["move"])
    def validate_again(
        self, request: HttpRequest, queryset: QuerySet[Workunit]
    ) -> HttpResponse | None:
        """Withdraw the verdicts of the workunits, so that they are validated again.

        Shows first what will change; `revalidate.request` writes the audit entry.
        """
        ids = self._ids(request, queryset)
        if ids is None:
            return None
        chosen = revalidate.choose_among(ids)
        if not chosen.ids:
            sentences = revalidations.reasons(chosen) or ["The selected workunits do not exist."]
            self.refuse(request, " ".join(sentences))
            return None
        if not is_confirmed(request):
            return revalidations.confirmation(self, request, chosen)
        requested_ids = revalidate.request(chosen.ids, now=timezone.now())
        self.message_user(request, revalidations.done_sentence(requested_ids))
        return None

    @admin.action(description="Change the target of the selected workunits", permissions=["move"])
    def retarget(self, request: HttpRequest, queryset: QuerySet[Workunit]) -> HttpResponse | None:
        """Send the workunits only to a host, account or team, or to every host, after a preview.

        The operation writes the audit entry.
        """
        ids = self._ids(request, queryset)
        return None if ids is None else targets.page(self, request, ids, "retarget")

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
        impossible: str = _WAITING,
        **arguments: Any,
    ) -> None:
        ids = self._ids(request, queryset)
        if ids is None:
            return
        with self.refusals_shown(request, LookupError, ValueError):
            outcome = operation(ids=ids, now=timezone.now(), **arguments)
            self.message_user(request, outcome_sentence(outcome, done, impossible))

    def _confirm(
        self, request: HttpRequest, queryset: QuerySet[Workunit], action: str, **content: Any
    ) -> HttpResponse | None:
        """Return the page that asks for a confirmation, or None after a refusal of too many."""
        ids = self._ids(request, queryset)
        if ids is None:
            return None
        workunits = Workunit.objects.filter(pk__in=ids)
        return confirmation_page(self, request, workunits, action, **content)

    def _ids(
        self,
        request: HttpRequest,
        queryset: QuerySet[Workunit],
        *,
        at_most: int = 0,
        hint: str = "use the actions of their batch",
    ) -> list[int] | None:
        """Return the ids of the selected workunits, or None after a refusal of too many.

        The limit is `at_most`, or `MAX_ACTION_ROWS` if that is 0.
        """
        limit = at_most or MAX_ACTION_ROWS
        ids = list(queryset.order_by("id").values_list("id", flat=True)[: limit + 1])
        if len(ids) <= limit:
            return ids
        self.refuse(request, f"More than {limit} workunits are selected. Hint: {hint}.")
        return None

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


def retried_sentence(done: retries.Retried) -> str:
    """Return a sentence with the numbers of workunits that were retried, and that were not."""
    sentence = f"Submitted again: {done.count}"
    for count, words in (
        (done.cancelled, "cancelled"),
        (done.inputs_gone, "with deleted input files"),
        (done.names_taken, "with a taken name"),
        (done.refused_by_queue, "refused by the queue"),
    ):
        sentence += f"; {words}: {count}" if count else ""
    return f"{sentence}."


def outcome_sentence(outcome: operations.Outcome, done: str, impossible: str = _WAITING) -> str:
    """Return a sentence with the numbers of changed and unchanged workunits.

    `done` describes the changed workunits, for example "released", and `impossible` those whose
    state does not allow the change.
    """
    sentence = f"{outcome.changed} {done}"
    for count, words in (
        (outcome.already, "already were"),
        (outcome.finished, "are finished and unchanged"),
        (outcome.impossible, f"{impossible} and are unchanged"),
    ):
        sentence += f", {count} {words}" if count else ""
    return f"{sentence}."


@admin.register(WorkunitFile, site=staff)
class WorkunitFileAdmin(RecordAdmin):
    """The page of the input files of workunits."""

    list_display = ("workunit", "position", "file", "open_name", "copy_file", "sticky")
    sorts = {"workunit": Sort(("workunit_id", "position")), "file": Sort(("file_id",))}
    search_help_text = "Beginning of a file's name, or number of a workunit"
    search_numbers = ("workunit_id",)
    search_owners = {"file_id": searching.files}


@admin.register(Dependency, site=staff)
class DependencyAdmin(RecordAdmin):
    """The page of dependencies between workunits."""

    list_display = ("id", "parent", "child")
    sorts = {"id": BY_ID, "parent": Sort(("parent_id", "child_id")), "child": Sort(("child_id",))}
    search_help_text = "Number of a workunit"
    search_numbers = ("parent_id", "child_id")
