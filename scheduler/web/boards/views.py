"""The public leaderboards; they show only accounts that share their statistics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from scheduler.credit import hardware_statistics, leaderboards
from scheduler.credit.credit_samples import Kind as CreditKind
from scheduler.credit.hardware_statistics import Kind
from scheduler.credit.leaderboards import MAX_PLACE, Board
from scheduler.credit.rules.board_positions import Order
from scheduler.models import Account, App
from scheduler.web import credit_charts, fragments, lists, texts
from scheduler.web.volunteers import shown

#: Lines of a page.
LINES_PER_PAGE: Final = 50
_BOARDS: Final = (("accounts", _("People")), ("computers", _("Computers")), ("teams", _("Teams")))
_PARTS: Final = (
    (Kind.SYSTEM, _("Operating systems")),
    (Kind.VENDOR, _("Processor vendors")),
    (Kind.PROCESSOR, _("Processors")),
    (Kind.GPU, _("GPUs")),
)
_COLUMNS: Final = ((Order.TOTAL, _("credit")), (Order.RECENT, _("recent average")))


@require_safe
@never_cache
def accounts(request: HttpRequest) -> HttpResponseBase:
    """Return the leaderboard of accounts.  Parameters are those of `_board`."""
    account = _visitor(request)
    is_unlisted = account is not None and not account.share_statistics
    own_id = None if account is None else account.pk
    context = {"own_id": own_id, "is_unlisted": is_unlisted}
    find_id = None if is_unlisted else own_id
    return _board(request, "accounts", leaderboards.account_board, context, own_id=find_id)


@require_safe
@never_cache
def computers(request: HttpRequest) -> HttpResponseBase:
    """Return the leaderboard of computers.  Parameters are those of `_board`."""
    account = _visitor(request)
    context = {"own_id": None if account is None else account.pk}
    return _board(request, "computers", leaderboards.computer_board, context)


@require_safe
@never_cache
def teams(request: HttpRequest) -> HttpResponseBase:
    """Return the leaderboard of teams.

    Parameters are those of `_board`, and without an app, `type`, the name of a type of team, such
    as ``primary_school``; another one selects all teams.
    """
    account = _visitor(request)
    own_id = None if account is None else account.team_id
    kinds = {kind.name.lower(): kind for kind in leaderboards.TEAM_KINDS}
    name = "" if request.GET.get("app") else request.GET.get("type", "")
    kind = kinds.get(name)
    context = {
        "own_id": own_id,
        "kind": None if kind is None else kind.value,
        "kinds": [
            (value, texts.translated(each.label.lower()), each is kind)
            for value, each in kinds.items()
        ],
    }
    return _board(
        request,
        "teams",
        lambda order, app: leaderboards.team_board(order, app, kind),
        context,
        query={} if kind is None else {"type": name},
        own_id=own_id,
    )


@require_safe
@never_cache
def hardware(request: HttpRequest) -> HttpResponseBase:
    """Return the counts of computers by operating system, processor and GPU."""
    statistics = hardware_statistics.current()
    context = {
        "counted": shown.time_of(statistics.counted_at, now=timezone.now()),
        "is_empty": statistics.is_empty,
        "min_owners": hardware_statistics.MIN_OWNERS,
        "parts": [
            {
                "kind": kind.value,
                "title": title,
                "lines": [
                    (
                        line,
                        f"{texts.number(100 * line.recent_share, 1)} %",
                        f"{texts.number(100 * line.total_share, 1)} %",
                    )
                    for line in statistics.lines[kind]
                ],
            }
            for kind, title in _PARTS
        ],
    }
    return TemplateResponse(request, "boards/hardware.html", context)


@require_safe
@never_cache
def project_credit(request: HttpRequest) -> HttpResponseBase:
    """Return the page with the credit per day of the whole project."""
    context = {"credit": credit_charts.chart(request, CreditKind.PROJECT, 0, now=timezone.now())}
    return TemplateResponse(request, "boards/project_credit.html", context)


def _visitor(request: HttpRequest) -> Account | None:
    return request.user if isinstance(request.user, Account) else None


def _order(request: HttpRequest) -> Order:
    return lists.choice(request.GET.get("sort", ""), Order) or Order.TOTAL


def _app(request: HttpRequest, listed_apps: Sequence[App]) -> App | None:
    """Return the app whose credit is listed, None for all; raises `Http404` for an unknown one."""
    name = request.GET.get("app", "")
    app = next((each for each in listed_apps if each.name == name), None)
    if name and app is None:
        raise Http404
    return app


def _board(
    request: HttpRequest,
    name: str,
    board_of: Callable[[Order, App | None], Board],
    context: dict[str, Any],
    *,
    query: dict[str, str] | None = None,
    own_id: int | None = None,
) -> HttpResponseBase:
    """Return a page of a leaderboard, or 404 for an unknown app.

    Parameters are `app`, the name of an app whose credit is listed, `sort`, an `Order`, and
    `below`, the sealed position above the page.  An invalid `sort` or `below` selects the default.
    `query` has the other parameters of the page's links, and `own_id` is the id of the visitor's
    line.
    """
    listed_apps = leaderboards.apps()
    app = _app(request, listed_apps)
    of_app = {} if app is None else {"app": app.name}
    link_query = lists.link(**of_app) if of_app else ""
    query = of_app | (query or {})
    board = board_of(_order(request), app)
    link_position = request.GET.get("below", "")
    page, below = lists.page_at(
        link_position,
        lambda position: leaderboards.read(board, below=position, count=LINES_PER_PAGE),
    )
    own = None if own_id is None else leaderboards.find(board, own_id)
    sort = {} if board.order is Order.TOTAL else {"sort": board.order.value}
    context |= {
        "board": name,
        "boards": [
            (reverse(f"leaderboard_{each}") + link_query, label, each == name)
            for each, label in _BOARDS
        ],
        "apps": listed_apps,
        "app": app,
        "sort": board.order.value,
        "columns": {
            order.value: {
                "key": order.value,
                "label": label,
                "link": lists.link(**query, sort=order.value),
                "direction": "descending" if order is board.order else "",
            }
            for order, label in _COLUMNS
        },
        "lines": page.lines,
        "max_place": MAX_PLACE,
        "own": None if own is None else own[0],
        "own_link": "" if own is None else lists.link(**query, **sort, below=own[1]),
        "first": lists.link(**query, **sort) if below else "",
        "next": lists.link(**query, **sort, below=page.next) if page.next else "",
        "is_bad_position": link_position != below,
    }
    if name == "computers":
        context["lines"] = [(line, shown.processor_of(line.row)) for line in page.lines]
    return fragments.list_page(request, f"boards/{name}.html", context)
