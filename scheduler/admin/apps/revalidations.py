"""The pages on which operators let results be validated again, with a preview."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone

from scheduler.admin.base import has_right
from scheduler.admin.confirm import confirmation_page_with, is_confirmed
from scheduler.models import App
from scheduler.results import revalidate
from scheduler.results.revalidate import Chosen, ResultFilter
from scheduler.rights import Right

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

#: Default and maximum number of workunits that the page of an app changes.
_DEFAULT_WORKUNITS: Final = 1000
_MAX_WORKUNITS: Final = 10_000
_MAX_ID: Final = 2**63 - 1

EXPLANATION: Final = (
    "Within seconds, the transitioner withdraws the answers and the verdicts of these workunits. "
    "The validator then compares all their successes again, by the present rules of the app, and "
    "the assimilator gets the answers. Granted credit is kept; a result that becomes valid gets "
    "its credit."
)
#: The indexes of `revalidate.find_candidates`, in words.
_SOURCES: Final = (
    ("assimilable", "workunits that wait for assimilation"),
    ("unvalidated", "workunits that wait for validation"),
    ("unsent", "unsent results of this app"),
    ("in_progress", "results in progress"),
)


class RevalidationForm(forms.Form):
    """The form of an app; the page that asks for a confirmation repeats its hidden values."""

    required_css_class = "required"
    only_invalid = forms.BooleanField(
        required=False,
        label="Only with invalid results",
        help_text="Only workunits with a result that was judged invalid.",
    )
    since = forms.DateTimeField(
        required=False,
        label="Reported from",
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
        help_text="UTC. Only workunits with a result that was reported at this time or later.",
    )
    until = forms.DateTimeField(
        required=False,
        label="Reported before",
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
        help_text="UTC. Only workunits with a result that was reported before this time.",
    )
    at_most = forms.IntegerField(
        min_value=1,
        max_value=_MAX_WORKUNITS,
        label="Maximum of workunits",
        help_text=f"At most {_MAX_WORKUNITS:,}. The oldest workunits come first.",
    )

    def result_filter(self) -> ResultFilter:
        """Return the filter of a valid form."""
        fields = self.cleaned_data
        return ResultFilter(
            only_invalid=fields["only_invalid"], since=fields["since"], until=fields["until"]
        )

    def audited(self) -> dict[str, Any]:
        """Return the values of a valid form that were set, for the audit log."""
        return {name: value for name, value in self.cleaned_data.items() if value}


@dataclass(frozen=True, slots=True)
class Plan:
    """The workunits of an app that will be validated again, and texts for the preview.

    `notes` are about workunits that will not be validated again, and `read` is about the rows that
    were read.
    """

    ids: list[int]
    counts: tuple[tuple[str, int], ...]
    notes: list[str]
    read: str


def may_request(request: HttpRequest) -> bool:
    """Return whether the user may request that results are validated again."""
    return has_right(request, Right.MANAGE_OTHERS_BATCHES)


# The action of the list of workunits


def confirmation(
    site_page: ModelAdmin[Any], request: HttpRequest, chosen: Chosen
) -> TemplateResponse:
    """Return the page on which the user confirms the revalidation of selected workunits."""
    return confirmation_page_with(
        site_page,
        request,
        "validate_again",
        verb="validate again",
        button="Yes, validate them again",
        counts=_counts(chosen.ids),
        explanation=EXPLANATION,
        notes=reasons(chosen),
    )


def reasons(chosen: Chosen) -> list[str]:
    """Return a sentence for each reason why workunits cannot be validated again."""
    return [
        f"{number:,} {'workunit' if number == 1 else 'workunits'} cannot be validated again: "
        f"{revalidate.REASONS[reason]}."
        for reason, number in chosen.refused.items()
    ]


def done_sentence(requested_ids: Sequence[int]) -> str:
    """Return a sentence with the number of workunits that will be validated again."""
    number = len(requested_ids)
    return f"{number:,} {'workunit' if number == 1 else 'workunits'} will be validated again."


# The page of an app


def page(site_page: ModelAdmin[Any], request: HttpRequest, app_id: int) -> HttpResponse:
    """Return the form, the preview of a sent form, or a redirect after its confirmation.

    Raises `PermissionDenied` for users without the right, and `Http404` for an unknown app.
    """
    if not (may_request(request) and site_page.has_view_permission(request)):
        raise PermissionDenied
    app = App.objects.filter(pk=app_id).first() if app_id <= _MAX_ID else None
    if app is None:
        raise Http404
    is_sent = request.method == "POST"
    initial = {"at_most": _DEFAULT_WORKUNITS}
    form = RevalidationForm(request.POST if is_sent else None, initial=initial)
    plan = None
    if is_sent and form.is_valid():
        try:
            plan = _plan(app, form)
        except revalidate.BadPeriod as refusal:
            form.add_error(None, str(refusal))
    if plan is not None and not plan.ids:
        hint = f"Hint: `manage.py revalidate {app}` reads all workunits, also held ones."
        sentences = (f"No workunit of {app} can be validated again.", *plan.notes, plan.read, hint)
        form.add_error(None, " ".join(sentences))
        plan = None
    if plan is not None and is_confirmed(request):
        if request.POST.get("previewed") != str(len(plan.ids)):
            text = "The number of workunits has changed since the preview. This is the new preview."
            site_page.message_user(request, text, messages.WARNING)
            return _shown(site_page, request, app, form, plan)
        details = {"app": app.name, **form.audited()}
        requested_ids = revalidate.request(plan.ids, now=timezone.now(), details=details)
        site_page.message_user(request, done_sentence(requested_ids), messages.SUCCESS)
        return HttpResponseRedirect(reverse("admin:scheduler_app_change", args=[app.pk]))
    return _shown(site_page, request, app, form, plan)


def _plan(app: App, form: RevalidationForm) -> Plan:
    """Return what a valid form would change; raises `BadPeriod`."""
    candidates = revalidate.find_candidates(app.pk)
    chosen = revalidate.choose_among(candidates.ids, form.result_filter())
    ids = chosen.ids[: form.cleaned_data["at_most"]]
    notes = reasons(chosen)
    if left_out := len(chosen.ids) - len(ids):
        notes.append(f"Left out by the maximum of workunits: {left_out:,}.")
    rows_read = ", ".join(
        f"{candidates.rows_read.get(name, 0):,} {words}" for name, words in _SOURCES
    )
    limit = "" if candidates.is_complete else " Not all rows were read."
    read = f"Read: {rows_read} (at most the first {revalidate.MAX_READ:,} of each).{limit}"
    return Plan(ids, _counts(ids), notes, read)


def _counts(ids: Sequence[int]) -> tuple[tuple[str, int], ...]:
    """Return what a revalidation of these workunits withdraws, in words and numbers."""
    effects = revalidate.effects(ids)
    return (
        ("workunits", len(ids)),
        ("answers withdrawn", effects.canonical),
        ("verdicts withdrawn", effects.verdicts),
        ("results with credit", effects.credited),
    )


def _shown(
    site_page: ModelAdmin[Any],
    request: HttpRequest,
    app: App,
    form: RevalidationForm,
    plan: Plan | None,
) -> HttpResponse:
    context = {
        **site_page.admin_site.each_context(request),
        "opts": site_page.opts,
        "app": app,
        "form": form,
        "plan": plan,
        "explanation": EXPLANATION,
        "max_read": revalidate.MAX_READ,
        "title": f"Validate results of {app} again",
    }
    if plan is not None:
        number = len(plan.ids)
        noun = f"{number:,} {'workunit' if number == 1 else 'workunits'}"
        context |= {
            "title": f"Really validate {noun} of {app} again?",
            "button": f"Yes, validate {noun} again",
        }
    status = HTTPStatus.UNPROCESSABLE_ENTITY if form.errors else HTTPStatus.OK
    return TemplateResponse(request, "scheduler/admin/revalidation.html", context, status=status)
