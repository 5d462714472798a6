"""The confirmation page of actions, which shows what will change."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import Count, F, Q, QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse

from scheduler.admin.base import is_bigint
from scheduler.lifecycle import ErrorMask, ServerState
from scheduler.models import Account, Result, Team, Workunit

#: Maximum number of names on the page.
_MAX_NAMES = 10


def is_confirmed(request: HttpRequest) -> bool:
    """Return whether the user submitted the confirmation page."""
    return "confirmed" in request.POST


def is_confirmed_as_shown(
    page: admin.ModelAdmin[Any], request: HttpRequest, number: int, noun: str
) -> bool:
    """Return whether the user confirmed an action on at most as many rows as the preview showed.

    `number` is that of the rows now; the preview was made with `previewed`.  If there are more,
    shows a warning: the caller shows the new preview.
    """
    return is_confirmed(request) and not _is_outgrown(page, request, number, noun)


def _is_outgrown(page: admin.ModelAdmin[Any], request: HttpRequest, number: int, noun: str) -> bool:
    shown = request.POST.get("previewed", "")
    if not is_bigint(shown) or number <= int(shown):
        return False
    text = f"The number of {noun} has changed since the preview. This is the new preview."
    page.message_user(request, text, messages.WARNING)
    return True


class ReasonForm(forms.Form):
    """The form of a reason, on the page that confirms an action."""

    required_css_class = "required"
    reason = forms.CharField(
        max_length=200,
        help_text="The audit log keeps it with your name.",
        widget=forms.TextInput(attrs={"class": "vTextField"}),
    )


_CANCELLED = (
    "This cannot be undone. Unsent results are cancelled at once; clients abort results "
    "in progress at their next contact. Finished workunits do not change."
)


def confirmation_page(
    page: admin.ModelAdmin[Any],
    request: HttpRequest,
    workunits: QuerySet[Workunit],
    action: str,
    *,
    verb: str = "",
    explanation: str = _CANCELLED,
    **content: Any,
) -> TemplateResponse:
    """Return the page on which the user confirms an action on `workunits`.

    It shows the numbers of affected workunits and results.  `verb` is the action in words, for an
    action whose name is not a verb such as "cancel".  `content` is further content of
    `confirmation_page_with`, and replaces the names of the workunits if it has names.
    """
    unfinished = workunits.filter(Q(canonical_result__isnull=True), error_mask=0)
    results = Result.objects.filter(workunit__in=unfinished.order_by().values("id"))
    counts = (
        ("workunits", workunits.count()),
        ("not finished", unfinished.count()),
        ("unsent results", results.filter(server_state=ServerState.UNSENT).count()),
        ("results in progress", results.filter(server_state=ServerState.IN_PROGRESS).count()),
    )
    if "names" not in content:
        names = unfinished.order_by("id").values_list("name", flat=True)
        content["names"] = list(names[:_MAX_NAMES])
        content["more"] = max(0, counts[1][1] - _MAX_NAMES)
    content["counts"] = (*content.get("counts", ()), *counts)
    return confirmation_page_with(
        page,
        request,
        action,
        verb=verb or action,
        explanation=explanation,
        previewed=counts[0][1],
        **content,
    )


_RETRY = (
    "A failed workunit stays failed. A new one with the same inputs, outputs and settings is "
    "submitted, in the same batch if there is one, and counts in its place; its name has “.2” "
    "appended. Workunits whose input files are deleted, and those of aborted or retired batches, "
    "cannot be retried."
)
_RETRY_OF_BATCHES = (
    f"{_RETRY} Cancelled workunits are not retried: select them in the list of workunits."
)


def confirmation_page_of_retry(
    page: admin.ModelAdmin[Any],
    request: HttpRequest,
    workunits: QuerySet[Workunit],
    *,
    with_cancelled: bool,
) -> TemplateResponse:
    """Return the page on which the user confirms that failed workunits are submitted again.

    Reads only failed workunits that were not retried (the index failed_in_batch).
    """
    failed = workunits.exclude(error_mask=0).filter(retried_as__isnull=True)
    failed = failed.annotate(cancelled_bit=F("error_mask").bitand(ErrorMask.CANCELLED))
    counts = failed.aggregate(
        failed=Count("pk"),
        cancelled=Count("pk", filter=~Q(cancelled_bit=0)),
        inputs_gone=Count("pk", filter=Q(past_inputs__isnull=False)),
    )
    waiting = failed.filter(past_inputs__isnull=True)
    if not with_cancelled:
        waiting = waiting.filter(cancelled_bit=0)
    count = waiting.count()
    return confirmation_page_with(
        page,
        request,
        "retry",
        counts=(
            ("failed, not retried before", counts["failed"]),
            ("of these cancelled", counts["cancelled"]),
            ("of these with deleted input files", counts["inputs_gone"]),
            ("to be retried", count),
        ),
        explanation=_RETRY if with_cancelled else _RETRY_OF_BATCHES,
        names=list(waiting.order_by("id").values_list("name", flat=True)[:_MAX_NAMES]),
        more=max(0, count - _MAX_NAMES),
    )


def confirmation_page_of_messages(
    page: admin.ModelAdmin[Any],
    request: HttpRequest,
    names: Sequence[str],
    action: str,
    explanation: str,
) -> TemplateResponse:
    """Return the page on which the user confirms an action on messages of the outbox."""
    return confirmation_page_with(
        page,
        request,
        action,
        counts=(("messages", len(names)),),
        previewed=len(names),
        explanation=explanation,
        names=names[:_MAX_NAMES],
        more=max(0, len(names) - _MAX_NAMES),
    )


def confirmation_page_of_teams(
    page: admin.ModelAdmin[Any], request: HttpRequest, teams: Sequence[Team], action: str
) -> TemplateResponse:
    """Return the page on which the user confirms that teams are deleted."""
    members = Account.objects.filter(team__in=[team.pk for team in teams])
    counted = dict(members.order_by().values_list("team").annotate(Count("pk")))
    names = [
        f"{team.name}: members {counted.get(team.pk, 0):,}, credit {team.total_credit:,.0f}"
        for team in teams
    ]
    return confirmation_page_with(
        page,
        request,
        action,
        counts=(("teams", len(teams)), ("members", sum(counted.values()))),
        previewed=len(teams),
        verb="delete",
        explanation=(
            "This cannot be undone. The teams disappear with their descriptions, badges and "
            "places; their members keep their own credit, and have no team."
        ),
        names=names[:_MAX_NAMES],
        more=max(0, len(names) - _MAX_NAMES),
    )


def confirmation_page_with(
    page: admin.ModelAdmin[Any], request: HttpRequest, action: str, **content: Any
) -> TemplateResponse:
    """Return the page on which the user confirms an action, with this content.

    `counts` is a sequence of words and numbers, `explanation` a text, `verb` the action in words,
    `notes` further texts, `names` those of some rows, `more` the number of the other rows, and
    `button` the text of the button, if not made of the verb.  `form` is a form whose fields are
    filled in on the page, `hidden` has further values to send, and `previewed` is the number of
    rows for `is_confirmed_as_shown`.  The status is 422 if the form has errors.
    """
    form = content.get("form")
    status = HTTPStatus.UNPROCESSABLE_ENTITY if form and form.errors else HTTPStatus.OK
    return TemplateResponse(
        request,
        "scheduler/admin/confirm.html",
        {
            **page.admin_site.each_context(request),
            "verb": action,
            **content,
            "title": f"Really {content.get('verb', action)}?",
            "opts": page.opts,
            "action": action,
            "selected": request.POST.getlist("_selected_action"),
            "select_across": request.POST.get("select_across", "0"),
        },
        status=status,
    )


def shown_names(rows: Sequence[object]) -> dict[str, Any]:
    """Return the names of the first rows, and the number of the others, for the page."""
    return {
        "names": [str(row) for row in rows[:_MAX_NAMES]],
        "more": max(0, len(rows) - _MAX_NAMES),
    }
