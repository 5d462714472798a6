"""The page of recent failures by app, version and exit code, with their stderr."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest
from django.utils import timezone

from scheduler.admin.lists import orders
from scheduler.admin.lists.orders import Column
from scheduler.health import recent_failures
from scheduler.health.recent_failures import Group, GroupCount
from scheduler.lifecycle import Outcome

#: The permission of the list of results, which shows the same rows.
_PERMISSION: Final = "scheduler.view_result"
_MAX_ID: Final = 2**63 - 1
_MAX_STATUS: Final = 2**31 - 1
_MAX_DIGITS: Final = 20
_COLUMNS: Final = (
    Column[GroupCount]("app", "App", lambda line: line.app.casefold()),
    Column[GroupCount]("version", "Version", lambda line: line.version.casefold()),
    Column[GroupCount]("code", "Exit code", lambda line: line.group.exit_status),
    Column[GroupCount]("results", "Results", lambda line: line.results, is_number=True),
    Column[GroupCount]("newest", "Newest", lambda line: line.newest_at, is_number=True),
)


def may_view(request: HttpRequest) -> bool:
    return request.user.has_perm(_PERMISSION)


def context(request: HttpRequest) -> dict[str, Any]:
    """Return the context of the page: all groups, and the results of the one in the query string.

    Raises `PermissionDenied` for users who may not view results, and `Http404` for a group that is
    not given by numbers.
    """
    if not may_view(request):
        raise PermissionDenied
    chosen = _group(request)
    now = timezone.now()
    failures = recent_failures.grouped(now=now)
    named = next((each for each in failures.groups if each.group == chosen), None)
    groups, heads = orders.ordered(request, failures.groups, _COLUMNS, default="-results")
    return {
        "title": "Recent failures",
        "failures": failures,
        "heads": heads,
        "groups": [
            (each, _query(each, orders.parameters(request)), each.group == chosen)
            for each in groups
        ],
        "chosen": chosen,
        "heading": _heading(named),
        "results": [] if chosen is None else recent_failures.of_group(chosen, now=now),
        "max_hosts": recent_failures.MAX_HOSTS,
        "max_per_host": recent_failures.MAX_RESULTS_PER_HOST,
        "max_shown": recent_failures.MAX_SHOWN,
        "max_stderr": recent_failures.MAX_STDERR,
    }


def _heading(named: GroupCount | None) -> str:
    return "Chosen group" if named is None else f"{named.app} {named.version}: {named.code}"


def _query(line: GroupCount, order: dict[str, str]) -> str:
    group = line.group
    return urlencode(
        {
            "app": group.app_id,
            "version": group.app_version_id or "",
            "outcome": group.outcome,
            "exit": group.exit_status,
            **order,
        }
    )


def _group(request: HttpRequest) -> Group | None:
    """Return the group in the query string, or None if it has none."""
    if "app" not in request.GET:
        return None
    version = request.GET.get("version", "")
    group = Group(
        _number(request, "app", _MAX_ID),
        _number(request, "version", _MAX_ID) if version else None,
        _number(request, "outcome", _MAX_STATUS),
        _number(request, "exit", _MAX_STATUS),
    )
    if group.outcome not in {Outcome.CLIENT_ERROR, Outcome.VALIDATE_ERROR}:
        raise Http404
    return group


def _number(request: HttpRequest, name: str, limit: int) -> int:
    text = request.GET.get(name, "")
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) < _MAX_DIGITS):
        raise Http404
    number = int(text)
    if not -limit - 1 <= number <= limit:
        raise Http404
    return number
