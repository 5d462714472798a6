"""The confirmation page of actions on workunits and messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse

from scheduler.lifecycle import ServerState
from scheduler.models import Result, Workunit

#: Maximum number of names on the page.
_MAX_NAMES = 10


def is_confirmed(request: HttpRequest) -> bool:
    """Return whether the user submitted the confirmation page."""
    return "confirmed" in request.POST


def confirmation_page(
    page: admin.ModelAdmin[Any], request: HttpRequest, workunits: QuerySet[Workunit], action: str
) -> TemplateResponse:
    """Return the page on which the user confirms an action on `workunits`.

    It shows the numbers of affected workunits and results.  `action` is a verb such as "cancel".
    """
    unfinished = workunits.filter(Q(canonical_result__isnull=True), error_mask=0)
    results = Result.objects.filter(workunit__in=unfinished.order_by().values("id"))
    counts = (
        ("workunits", workunits.count()),
        ("not finished", unfinished.count()),
        ("unsent results", results.filter(server_state=ServerState.UNSENT).count()),
        ("results in progress", results.filter(server_state=ServerState.IN_PROGRESS).count()),
    )
    return _page(
        page,
        request,
        action,
        counts=counts,
        explanation=(
            "This cannot be undone. Unsent results are cancelled at once; clients abort results "
            "in progress at their next contact. Finished workunits do not change."
        ),
        names=list(unfinished.order_by("id").values_list("name", flat=True)[:_MAX_NAMES]),
        more=max(0, counts[1][1] - _MAX_NAMES),
    )


def confirmation_page_of_messages(
    page: admin.ModelAdmin[Any],
    request: HttpRequest,
    names: Sequence[str],
    action: str,
    explanation: str,
) -> TemplateResponse:
    """Return the page on which the user confirms an action on messages of the outbox."""
    return _page(
        page,
        request,
        action,
        counts=(("messages", len(names)),),
        explanation=explanation,
        names=names[:_MAX_NAMES],
        more=max(0, len(names) - _MAX_NAMES),
    )


def _page(
    page: admin.ModelAdmin[Any], request: HttpRequest, action: str, **content: Any
) -> TemplateResponse:
    return TemplateResponse(
        request,
        "scheduler/admin/confirm.html",
        {
            **page.admin_site.each_context(request),
            **content,
            "title": f"Really {action}?",
            "opts": page.opts,
            "action": action,
            "selected": request.POST.getlist("_selected_action"),
            "select_across": request.POST.get("select_across", "0"),
        },
    )
