"""The pages of a volunteer's computers and results; other accounts' rows give 404."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
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
from scheduler.credit.credit_samples import Kind
from scheduler.hosts import own_deletions, own_hosts, own_merges
from scheduler.hosts.decision_texts import read_decision
from scheduler.hosts.identity import MAX_DECISIONS
from scheduler.hosts.own_hosts import Group, System
from scheduler.models import Account, Host
from scheduler.people.account_keys import AccountRefused
from scheduler.web import credit_charts, fragments, lists, texts
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
#: The newest results first: their ids are sorted.
_DEFAULT_RESULT_ORDER: Final = "-id"
_MAX_PAGE_DIGITS: Final = 6
_GROUPS: Final = (
    ("", _("all")),
    (Group.ACTIVE, _("active")),
    (Group.INACTIVE, _("not active")),
    (Group.HIDDEN, _("hidden")),
)
_SYSTEMS: Final = (
    ("", _("all systems")),
    (System.WINDOWS, "Windows"),
    (System.LINUX, "Linux"),
    (System.MACOS, "macOS"),
    (System.ANDROID, "Android"),
    (System.OTHER, _("other")),
)


@require_safe
@own_page
def computers(request: HttpRequest, account: Account) -> HttpResponseBase:
    """Return the list of the account's computers.

    Parameters are `sort`, a key of `own_hosts.ORDERS` with an optional "-", `show`, a `Group`,
    `system`, a `System`, and `page`.  Invalid ones select the default.
    """
    order = lists.order_of(request.GET.get("sort", ""), own_hosts.ORDERS, _DEFAULT_ORDER)
    number = lists.number(request.GET.get("page", ""), _MAX_PAGE_DIGITS) or 1
    group = lists.choice(request.GET.get("show", ""), Group)
    system = lists.choice(request.GET.get("system", ""), System)
    now = timezone.now()
    matching = own_hosts.condition(group=group, system=system, now=now)
    listed = own_hosts.page_of(
        account, order=order, number=number, size=COMPUTERS_PER_PAGE, matching=matching
    )
    query = {"show": group or "", "system": system or ""}
    sort = {} if order == _DEFAULT_ORDER else {"sort": order}
    context = {
        "listed": listed,
        "computers": [shown.computer_row(host, now=now) for host in listed.hosts],
        "columns": {
            key: lists.column(key, label, first, order, **query) for key, label, first in _COLUMNS
        },
        "groups": _filters("show", _GROUPS, query, sort),
        "systems": _filters("system", _SYSTEMS, query, sort),
        "active_days": own_hosts.ACTIVE_FOR.days,
        "previous": lists.link(**query, sort=order, page=listed.number - 1)
        if listed.number > 1
        else "",
        "next": lists.link(**query, sort=order, page=listed.number + 1)
        if listed.number < listed.pages
        else "",
    }
    return fragments.list_page(request, "volunteers/computers.html", context)


def _filters(
    name: str,
    choices: Sequence[tuple[str, object]],
    query: Mapping[str, str],
    sort: Mapping[str, str],
) -> list[tuple[str, object, bool]]:
    """Return the link, the label and whether it is current, of each value of a parameter."""
    return [
        (lists.link(**{**query, **sort, name: value}), label, value == query[name])
        for value, label in choices
    ]


@require_http_methods(["GET", "HEAD", "POST"])
@own_page
def computer(request: HttpRequest, account: Account, host_id: int) -> HttpResponseBase:
    """Return the page of a computer; a POST sets its venue, its limits, or who can see it."""
    host = _find(account, host_id)
    now = timezone.now()
    if request.method == "POST":
        _change(request, account, host.pk, now=now)
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
        "credit": credit_charts.chart(request, Kind.HOST, host.pk, now=now),
        "decisions": [shown.decision_row(each, now=now) for each in decisions],
        "records": own_hosts.records(host, today=now.date()),
        "venues": list(venues.items()),
        "max_limit": own_hosts.MAX_LIMIT,
        "location": host.venue if has_page else "",
        "older": [
            (each.pk, shown.name_of(each), shown.time_of(each.rpc_at, now=now))
            for each in own_merges.mergeable(account, host)
        ],
        "obstacle": texts.translated(own_deletions.obstacle_to_deletion(host, now=now)),
        "shows_hosts": account.show_hosts,
    }
    return _page(request, "computer", context)


def _change(request: HttpRequest, account: Account, host_id: int, *, now: datetime) -> None:
    """Store one of the forms, and add a message with the outcome."""
    values: dict[str, str | int | None]
    if "hidden" in request.POST:
        # An unknown value must not show the computer.
        is_hidden = request.POST["hidden"] != "false"
        values = {"hidden": is_hidden}
        done = _("The computer is hidden from others.") if is_hidden else _("The change is saved.")
    elif "max_held" in request.POST:
        values = {
            f"own_{name}": _limit(request.POST.get(name, "")) for name in ("max_held", "max_cpus")
        }
        done = _("The limits are saved. They apply to the next request for work.")
    else:
        values = {"venue": request.POST.get("venue", "")}
        done = _("The location is saved.")
    try:
        own_hosts.change(account, host_id, values, now=now)
    except AccountRefused as refusal:
        messages.error(request, texts.translated(str(refusal)))
    else:
        messages.success(request, done)


def _limit(text: str) -> str | int | None:
    """Return the number that a field of the form has; None if it is empty, other text unchanged."""
    text = text.strip()
    limit = lists.number(text, _MAX_PAGE_DIGITS)
    return (text or None) if limit is None else limit


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

    Parameters are `state`, an `OwnState`, `sort`, which is "-id" or "id" for the oldest first, and
    `before` or, with the oldest first, `after`, the id of the last result on the previous page.
    Invalid ones are ignored.
    """
    state = lists.choice(request.GET.get("state", ""), OwnState)
    order = lists.order_of(request.GET.get("sort", ""), ("id",), _DEFAULT_RESULT_ORDER)
    is_oldest_first = order != _DEFAULT_RESULT_ORDER
    name = "after" if is_oldest_first else "before"
    edge = lists.number(request.GET.get(name, ""))
    filters: dict[str, Any] = {
        "host_id": None if host is None else host.pk,
        "state": state,
        "count": RESULTS_PER_PAGE,
    }
    if is_oldest_first:
        listed = result_lists.oldest(account, above=edge, **filters)
    else:
        listed = result_lists.newest(account, below=edge, **filters)
    now = timezone.now()
    sort = {"sort": order} if is_oldest_first else {}
    query = {"state": state.value} if state else {}
    states = [("", _("all")), *((each.value, texts.translated(LABELS[each])) for each in OwnState)]
    next_edge = listed.newer_than if is_oldest_first else listed.older_than
    context = {
        "host": host,
        "name": "" if host is None else shown.name_of(host),
        "results": [shown.result_row(row, now=now) for row in listed.rows],
        "filters": [
            (lists.link(state=value, **sort), label, value == (state or ""))
            for value, label in states
        ],
        "column": lists.column("id", _("result"), "-", order, **query),
        "state": "" if state is None else texts.translated(LABELS[state]),
        "is_oldest_first": is_oldest_first,
        "first": lists.link(**query, **sort) if edge else "",
        "next": lists.link(**query, **sort, **{name: next_edge}) if next_edge else "",
    }
    return fragments.list_page(request, "volunteers/results.html", context)


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
