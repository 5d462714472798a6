"""The page of migrations, checks and the housekeeper's chores."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone

from scheduler.admin.base import has_right
from scheduler.admin.desk import check_lines
from scheduler.health import daemon_activity, database_state, invariants
from scheduler.health.checks import check_runs
from scheduler.health.checks.check_runs import RunRefused
from scheduler.health.checks.statement_limit import TIME_LIMIT
from scheduler.health.counts import LATE_CHORE
from scheduler.models import Account, CheckRun
from scheduler.rights import Right

#: The permission of the list of heartbeats, which shows the chores.
_PERMISSION: Final = "scheduler.view_heartbeat"
_PERMISSION_OF_RUNS: Final = "scheduler.view_checkrun"
#: The maximum number of migrations that are named, and of ended runs of checks.
_MAX_NAMES: Final = 20
_MAX_RUNS: Final = 20
#: Commands that check the project, and what each of them does beyond the buttons of the page.
_CHECKS: Final = (
    ("manage.py fsck", "also checks files, due times of workunits and cycles of dependencies"),
    ("manage.py fsck --digests", "also compares the content of every file with its hash"),
    (
        "manage.py recompute_credit --apply",
        "corrects wrong sums of credit; without --apply it shows what would change",
    ),
    (
        "manage.py doctor",
        "checks the installation: settings, keys, disks and processes; its result is not stored",
    ),
)


def may_view(request: HttpRequest) -> bool:
    return request.user.has_perm(_PERMISSION)


def may_request(request: HttpRequest) -> bool:
    return has_right(request, Right.ADMINISTER_PROJECT)


def page(request: HttpRequest, site_context: dict[str, Any]) -> HttpResponse:
    """Return the page, or a redirect to it after a check was requested.

    Raises `PermissionDenied` for users who may not view the page or request a check.
    """
    if not may_view(request):
        raise PermissionDenied
    status = HTTPStatus.OK
    if request.method == "POST":
        try:
            messages.success(request, _requested(request))
        except RunRefused as refusal:
            messages.error(request, str(refusal))
            status = HTTPStatus.UNPROCESSABLE_ENTITY
        else:
            return HttpResponseRedirect(f"{reverse('admin:upkeep')}#checks")
    context = {**site_context, **_context(request)}
    return TemplateResponse(request, "scheduler/admin/upkeep.html", context, status=status)


def _requested(request: HttpRequest) -> str:
    """Request the check of the pressed button, and return a sentence about it."""
    if not (may_request(request) and isinstance(request.user, Account)):
        raise PermissionDenied
    kind = request.POST.get("check", "")
    if kind not in CheckRun.Kind.values:
        raise RunRefused("The page has no such button. Hint: reload it.")
    run = check_runs.request(CheckRun.Kind(kind), account=request.user, now=timezone.now())
    return (
        f"The check of {run.get_kind_display()} was requested. The housekeeper begins within half "
        "a minute; reload this page to see its progress."
    )


def _context(request: HttpRequest) -> dict[str, Any]:
    now = timezone.now()
    late = now - LATE_CHORE
    unapplied = database_state.unapplied_migrations()
    may_view_runs = request.user.has_perm(_PERMISSION_OF_RUNS)
    runs = check_runs.newest(_MAX_RUNS) if may_view_runs else []
    return {
        "title": "Upkeep",
        "n_unapplied": len(unapplied),
        "unapplied": unapplied[:_MAX_NAMES],
        "more": max(0, len(unapplied) - _MAX_NAMES),
        "chores": [
            (chore, chore.began_at is not None and chore.began_at < late)
            for chore in daemon_activity.chores()
        ],
        "may_view_runs": may_view_runs,
        "may_request": may_request(request),
        "runs": [check_lines.line(run) for run in runs],
        "open_kinds": {run.kind for run in runs if run.ended_at is None},
        "n_invariants": len(invariants.statement_names()),
        "limit_seconds": int(TIME_LIMIT.total_seconds()),
        "max_runs": check_runs.MAX_RUNS,
        "commands": _CHECKS,
    }
