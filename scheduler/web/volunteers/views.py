"""The pages of a volunteer's computers and results; other accounts' rows give 404."""

from __future__ import annotations

from typing import Any, Final

from django.contrib import messages
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from scheduler.boinc import own_preferences
from scheduler.hosts import own_deletions, own_hosts, own_merges
from scheduler.hosts.decision_texts import read_decision
from scheduler.hosts.identity import MAX_DECISIONS
from scheduler.models import Account, Host
from scheduler.people.account_keys import AccountRefused
from scheduler.web import lists, texts
from scheduler.web.accounts.views import own_page
from scheduler.web.volunteers import shown
from scheduler.work.volunteers import own_result, result_lists
from scheduler.work.volunteers.result_states import LABELS, OwnState

#: Rows of a page.
COMPUTERS_PER_PAGE, RESULTS_PER_PAGE = 25, 50
#: Columns of the list of computers that sort it, and the direction of the first click.
_COLUMNS: Final = (
    ("name", _("computer"), ""),
    ("system", _("operating system"), ""),
    ("processors", _("processors"), "-"),
    ("contact", _("last contact"), "-"),
    ("total", _("credit"), "-"),
    ("recent", _("recent average"), "-"),
)
_DEFAULT_ORDER: Final = "-contact"
_MAX_PAGE_DIGITS: Final = 6


@require_safe
@own_page
def computers(request: HttpRequest, account: Account) -> HttpResponseBase:
    """Return the list of the account's computers.

    Parameters are `sort`, a key of `own_hosts.ORDERS` with an optional "-", and `page`.  Invalid
    ones select the default.
    """
    order = lists.order_of(request.GET.get("sort", ""), own_hosts.ORDERS, _DEFAULT_ORDER)
    number = lists.number(request.GET.get("page", ""), _MAX_PAGE_DIGITS) or 1
    listed = own_hosts.page_of(account, order=order, number=number, size=COMPUTERS_PER_PAGE)
    now = timezone.now()
    context = {
        "listed": listed,
        "computers": [shown.computer_row(host, now=now) for host in listed.hosts],
        "columns": {key: lists.column(key, label, first, order) for key, label, first in _COLUMNS},
        "previous": lists.link(sort=order, page=listed.number - 1) if listed.number > 1 else "",
        "next": lists.link(sort=order, page=listed.number + 1)
        if listed.number < listed.pages
        else "",
    }
    return _page(request, "computers", context)


@require_http_methods(["GET", "HEAD", "POST"])
@own_page
def computer(request: HttpRequest, account: Account, host_id: int) -> HttpResponseBase:
    """Return the page of a computer; a POST sets its venue."""
    host = _find(account, host_id)
    now = timezone.now()
    if request.method == "POST":
        try:
            own_hosts.set_venue(account, host.pk, request.POST.get("venue", ""), now=now)
        except AccountRefused as refusal:
            messages.error(request, texts.translated(str(refusal)))
        else:
            messages.success(request, _("The location is saved."))
        return redirect("account_computer", host.pk)
    decisions = [
        decision
        for decision in map(read_decision, host.last_decisions[:MAX_DECISIONS])
        if decision is not None
    ]
    is_usual = host.venue in shown.VENUES
    venues: dict[str, object] = dict(shown.VENUES)
    if not is_usual:
        venues[host.venue] = host.venue
    has_page = is_usual or own_preferences.has_location(
        account, own_preferences.COMPUTING, host.venue
    )
    context = shown.computer_details(host, now=now) | {
        "decisions": [shown.decision_row(each, now=now) for each in decisions],
        "records": own_hosts.records(host, today=now.date()),
        "venues": list(venues.items()),
        "location": host.venue if has_page else "",
        "older": [
            (each.pk, shown.name_of(each), shown.time_of(each.rpc_at, now=now))
            for each in own_merges.mergeable(account, host)
        ],
        "obstacle": texts.translated(own_deletions.obstacle_to_deletion(host, now=now)),
    }
    return _page(request, "computer", context)


@require_POST
@own_page
def merge_computer(request: HttpRequest, account: Account, host_id: int) -> HttpResponseBase:
    """Merge the older entry that the form names into a computer, and return to its page."""
    merged_id = lists.number(request.POST.get("merged", ""))
    _find(account, host_id)
    if merged_id is None:
        messages.error(request, _("Choose the older entry of this computer."))
        return redirect("account_computer", host_id)
    try:
        own_merges.merge(account, kept_id=host_id, merged_id=merged_id, now=timezone.now())
    except AccountRefused as refusal:
        messages.error(request, texts.translated(str(refusal)))
    else:
        messages.success(request, _("The older entry is merged into this computer."))
    return redirect("account_computer", host_id)


@require_POST
@own_page
def delete_computer(request: HttpRequest, account: Account, host_id: int) -> HttpResponseBase:
    """Delete a computer, and return to the list of computers."""
    try:
        own_deletions.delete(account, host_id, now=timezone.now())
    except own_hosts.UnknownHost:
        raise Http404 from None
    except AccountRefused as refusal:
        messages.error(request, texts.translated(str(refusal)))
        return redirect("account_computer", host_id)
    messages.success(request, _("The computer is deleted. Its credit stays in your account."))
    return redirect("account_computers")


@require_safe
@own_page
def computer_results(request: HttpRequest, account: Account, host_id: int) -> HttpResponseBase:
    """Return the list of the results of a computer."""
    return _results(request, account, _find(account, host_id))


@require_safe
@own_page
def results(request: HttpRequest, account: Account) -> HttpResponseBase:
    """Return the list of the results of all computers of the account."""
    return _results(request, account, None)


def _results(request: HttpRequest, account: Account, host: Host | None) -> HttpResponseBase:
    """Return a list of results.

    Parameters are `state`, an `OwnState`, and `before`, the id of the last result on the previous
    page.  Invalid ones are ignored.
    """
    chosen = request.GET.get("state", "")
    state = OwnState(chosen) if chosen in set(OwnState) else None
    before = lists.number(request.GET.get("before", ""))
    listed = result_lists.newest(
        account,
        host_id=None if host is None else host.pk,
        state=state,
        below=before,
        count=RESULTS_PER_PAGE,
    )
    now = timezone.now()
    query = {"state": state.value} if state else {}
    states = [("", _("all")), *((each.value, texts.translated(LABELS[each])) for each in OwnState)]
    context = {
        "host": host,
        "name": "" if host is None else shown.name_of(host),
        "results": [shown.result_row(row, now=now) for row in listed.rows],
        "filters": [
            (lists.link(state=value), label, value == (state or "")) for value, label in states
        ],
        "state": "" if state is None else texts.translated(LABELS[state]),
        "newest": lists.link(**query) if before else "",
        "older": lists.link(**query, before=listed.older_than) if listed.older_than else "",
    }
    return _page(request, "results", context)


@require_safe
@own_page
def result(request: HttpRequest, account: Account, result_id: int) -> HttpResponseBase:
    """Return the page of a result."""
    details = own_result.find(account, result_id)
    if details is None:
        raise Http404
    return _page(request, "result", shown.result_details(details, now=timezone.now()))


def _find(account: Account, host_id: int) -> Host:
    host = own_hosts.find(account, host_id)
    if host is None:
        raise Http404
    return host


def _page(request: HttpRequest, name: str, context: dict[str, Any]) -> TemplateResponse:
    return TemplateResponse(request, f"volunteers/{name}.html", context)
