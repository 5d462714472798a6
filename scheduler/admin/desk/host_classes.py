"""The page of unsent results by class of computers, with the hosts of each class."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import urlencode

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest
from django.urls import reverse
from django.utils import timezone

from scheduler.admin.lists import orders
from scheduler.admin.lists.orders import Column
from scheduler.dispatch import host_classes
from scheduler.dispatch.host_classes import UnsentClass
from scheduler.dispatch.rules.sendability import SEEN_WITHIN

#: The permission of the list of workunits, which shows the same rows.
_PERMISSION: Final = "scheduler.view_workunit"
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_COLUMNS: Final = (
    Column[UnsentClass]("app", "App", lambda each: str(each.app).casefold()),
    Column[UnsentClass]("class", "Class", lambda each: each.label.casefold()),
    Column[UnsentClass]("hosts", "Active hosts", lambda each: each.hosts, is_number=True),
    Column[UnsentClass]("results", "Unsent results", lambda each: each.results, is_number=True),
    Column[UnsentClass]("workunits", "Workunits", lambda each: each.workunits, is_number=True),
    Column[UnsentClass]("oldest", "Oldest", lambda each: each.oldest_at, is_number=True),
)


def may_view(request: HttpRequest) -> bool:
    return request.user.has_perm(_PERMISSION)


def context(request: HttpRequest) -> dict[str, Any]:
    """Return the context of the page: all classes, and workunits of the one in the query string.

    Raises `PermissionDenied` for users who may not view workunits, and `Http404` for a class that
    is not given by numbers, or an app without classes.
    """
    if not may_view(request):
        raise PermissionDenied
    now = timezone.now()
    counts = host_classes.hosts(now=now)
    unsent = host_classes.unsent(counts)
    app_id, hr_class = _number(request, "app"), _number(request, "class")
    classes, heads = orders.ordered(request, unsent.classes, _COLUMNS, default="app")
    order = orders.parameters(request)
    lines = [
        (
            each,
            urlencode({"app": each.app.pk, "class": each.hr_class, **order}),
            _is(each, app_id, hr_class),
        )
        for each in classes
    ]
    content = {
        "title": "Classes of computers",
        "unsent": unsent,
        "heads": heads,
        "lines": lines,
        "counts": counts,
        "days": SEEN_WITHIN.days,
        "chosen": next((each for each, _, is_chosen in lines if is_chosen), None),
    }
    if app_id is None or hr_class is None:
        return content
    if app_id not in {app.pk for app in unsent.apps}:
        raise Http404
    workunits = host_classes.workunits(app_id, hr_class)
    ids = ",".join(str(each.id) for each in workunits)
    url = reverse("admin:scheduler_workunit_changelist")
    return content | {
        "is_chosen": True,
        "workunits": workunits,
        "max_workunits": host_classes.MAX_WORKUNITS,
        "list_url": f"{url}?{urlencode({'id__in': ids})}",
    }


def _is(each: UnsentClass, app_id: int | None, hr_class: int | None) -> bool:
    return (each.app.pk, each.hr_class) == (app_id, hr_class)


def _number(request: HttpRequest, name: str) -> int | None:
    """Return a number in the query string, or None if it has none."""
    text = request.GET.get(name)
    if text is None:
        return None
    if not _NUMBER.fullmatch(text):
        raise Http404
    return int(text)
