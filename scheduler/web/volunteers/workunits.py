"""The page of a workunit of which a computer of the account has or had a result."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from scheduler.models import Account
from scheduler.web.accounts.views import own_page
from scheduler.web.texts import number, translated
from scheduler.web.volunteers import shown
from scheduler.work.volunteers import own_workunit
from scheduler.work.volunteers.own_workunit import Replica
from scheduler.work.volunteers.result_states import OwnState
from scheduler.work.volunteers.workunit_states import LABELS, WorkunitState

_MIB = 2**20
#: CSS class of the label of each state.
_TONES = {
    WorkunitState.WAITING: "uneasy",
    WorkunitState.DONE: "good",
    WorkunitState.FAILED: "bad",
}


@require_safe
@own_page
def workunit(request: HttpRequest, account: Account, workunit_id: int) -> HttpResponseBase:
    """Return the page of a workunit, or 404 if the account has and had no result of it."""
    details = own_workunit.find(account, workunit_id)
    if details is None:
        raise Http404
    now = timezone.now()
    row = details.workunit
    seconds = details.seconds_estimate
    context = {
        "workunit": row,
        "app": details.app,
        "state": shown.StateLabel(translated(LABELS[details.state]), _TONES[details.state]),
        "why": translated(details.why),
        "created": shown.time_of(row.created_at, now=now),
        "run_time": shown.duration(seconds) if seconds else "",
        "operations": f"{number(row.rsc_fpops_est / 1e9)} GFLOP",
        "memory": f"{number(row.rsc_memory_bound / _MIB)} MiB",
        "disk": f"{number(row.rsc_disk_bound / _MIB)} MiB",
        "delay": shown.duration(row.delay_bound.total_seconds()),
        "replicas": [_row(each, now=now) for each in (*details.own, *(details.others or ()))],
        "are_others_withheld": details.others is None,
    }
    return TemplateResponse(request, "volunteers/workunit.html", context)


def _row(replica: Replica, *, now: datetime) -> dict[str, Any]:
    """Return the values of a row of the table of results."""
    is_running = replica.state is OwnState.IN_PROGRESS
    return {
        "replica": replica,
        "state": shown.state_label(replica.state),
        "why": translated(replica.why),
        "host_name": replica.host_name or _("Computer {}").format(replica.host_id),
        "sent": shown.time_of(replica.sent_at, now=now),
        "deadline": shown.time_of(replica.report_deadline, now=now) if is_running else None,
        "is_late": is_running
        and replica.report_deadline is not None
        and replica.report_deadline < now,
        "ended": shown.time_of(replica.received_at, now=now),
    }
