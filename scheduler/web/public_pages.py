"""Pages that everybody may see: a computer, and a search for accounts by name."""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import path
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from scheduler.boinc.pages.web_rpc import number
from scheduler.credit.credit_samples import Kind
from scheduler.hosts import own_hosts
from scheduler.people.personal_data import profiles
from scheduler.people.personal_data.profiles import Order
from scheduler.web import credit_charts
from scheduler.web.volunteers.shown import time_of

_IN_TEAM: Final = {"yes": True, "no": False}


@require_safe
def show_host_detail(request: HttpRequest) -> HttpResponse:
    """Return the page of a computer whose owner shows it, else 404.

    The page has no name or address of the computer.  It names the owner, and has the chart of the
    credit per day, only if they share their statistics, too.
    """
    host = own_hosts.find_shown(number(request.GET, "hostid"))
    if host is None:
        return render(request, "scheduler/host.html", {"host": None}, status=404)
    now = timezone.now()
    context: dict[str, object] = {"host": host, "contact": time_of(host.rpc_at, now=now)}
    if host.account.share_statistics:
        context["owner"] = host.account
        context["credit"] = credit_charts.chart(
            request, Kind.HOST, host.pk, now=now, hostid=host.pk
        )
    return render(request, "scheduler/host.html", context)


@require_safe
def user_search(request: HttpRequest) -> HttpResponse:
    """Return a form to search for accounts, with the results of a search.

    Only accounts that share their statistics are listed.  Parameters are those of BOINC's page.
    """
    params = request.GET
    prefix, country = params.get("search_string", "").strip(), params.get("country", "").strip()
    chosen = params.get("search_type", "")
    order = Order(chosen) if chosen in set(Order) else Order.NEWEST
    is_search = "search_string" in params
    accounts = profiles.search(
        prefix,
        country="" if country == "any" else country,
        in_team=_IN_TEAM.get(params.get("team", "")),
        order=order,
    )
    context = {
        "prefix": prefix,
        "order": order.value,
        "orders": (
            (Order.NEWEST.value, _("newest first")),
            (Order.AVERAGE_CREDIT.value, _("recent average credit")),
            (Order.TOTAL_CREDIT.value, _("total credit")),
        ),
        "min_prefix": profiles.MIN_PREFIX,
        "is_search": is_search,
        "is_too_short": is_search and len(prefix) < profiles.MIN_PREFIX,
        "accounts": accounts,
    }
    return render(request, "scheduler/user_search.html", context)


urlpatterns = [
    path("show_host_detail.php", show_host_detail, name="show_host_detail"),
    path("user_search.php", user_search, name="user_search"),
]
