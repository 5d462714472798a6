"""Visits pages as a visitor, a volunteer and an operator, and measures each page."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from statistics import median, median_low
from typing import Final
from urllib.parse import urlsplit
from uuid import uuid4

from django.apps import apps
from django.contrib.admin import ModelAdmin
from django.core.cache import cache
from django.db import connection
from django.db.models import Model
from django.http import HttpRequest
from django.test import Client

from bench.figures import BenchError
from bench.pages.rows import FIRST_ID, PASSWORD, VISITOR
from scheduler.admin.base import StaffAdmin
from scheduler.admin.site import staff
from scheduler.lifecycle import Target
from scheduler.messages import unsubscribing
from scheduler.models import Account, AccountKey, App, AppVersion, Batch, News, Workunit

_OK: Final = HTTPStatus.OK
_FOUND: Final = HTTPStatus.FOUND
#: Rows that an action of a list previews: those of a page.
_SELECTED: Final = 50
_SERVER: Final = "127.0.0.1"
#: The address of the operator.
CHIEF: Final = "chief@example.org"
PUBLIC: Final = (
    *("/", "/account/login/", "/account/signup/", "/account/password/reset/"),
    *("/account/password/reset/sent/", "/account/password/reset/done/", "/account/inactive/"),
    *("/account/log-ins/error/", "/account/log-ins/cancelled/", "/account_finish.php"),
    *("/teams/", "/teams/?sort=-total", "/teams/?sort=name&q=team+1", "/teams/?q=team"),
    *("/leaderboards/", "/leaderboards/?sort=recent", "/leaderboards/?app=bench"),
    *("/leaderboards/computers/", "/leaderboards/computers/?app=bench&sort=recent"),
    *("/leaderboards/teams/", "/leaderboards/teams/?app=bench", "/statistics/computers/"),
    *("/leaderboards/teams/?type=club", "/leaderboards/teams/?type=club&sort=recent"),
    *("/badges/", "/statistics/credit/", "/statistics/credit/?days=365", "/stats/", "/news/"),
    f"/teams/{FIRST_ID}/",
    f"/accounts/{FIRST_ID}/",
    f"/accounts/{FIRST_ID}/certificate/",
    "/ownership/",
    f"/show_host_detail.php?hostid={FIRST_ID}",
    *("/user_search.php", "/user_search.php?search_string=volunteer+1"),
    "/user_search.php?search_string=volunteer&search_type=total",
)
OWN: Final = (
    *("", "computers/", "computers/?sort=-total", "results/", "results/?state=valid"),
    *("email/", "email/sent/", "password/", "keys/", "tokens/", "erase/", "certificate/"),
    *("two-factor/", "two-factor/totp/activate/", "reauthenticate/", "logout/"),
    *("log-ins/", "log-ins/again/", "ownership/", "data/"),
    *("computers/?show=inactive&system=linux", "results/?sort=id", "results/?sort=id&state=valid"),
    *("preferences/computing/", "preferences/computing/?location=work", "preferences/project/"),
    f"computers/{FIRST_ID}/",
    f"computers/{FIRST_ID}/results/",
    f"results/{FIRST_ID}/",
    f"workunits/{FIRST_ID}/",
)
#: The pages with which the founder leads the team.
OF_FOUNDER: Final = (
    "/teams/new/",
    f"/teams/{FIRST_ID}/edit/",
    f"/teams/{FIRST_ID}/delete/",
    f"/teams/{FIRST_ID}/members/{FIRST_ID}/",
    f"/teams/{FIRST_ID}/members/{FIRST_ID}/administrator/",
)
DESK: Final = (
    *("", "failures/", "logs/", "maintenance/", "error-rates/", "error-rates/?period=week"),
    *("host-classes/", "upkeep/", "tables/", "run-times/"),
    *("scheduler/workunit/?failed_results=1", "scheduler/workunit/?target=any"),
)
#: Statuses of the pages that report an error.
_STATUSES: Final = {"/account/log-ins/error/": HTTPStatus.UNAUTHORIZED}
#: Downloads, which are read completely: neither their time nor their statements are limited.
DOWNLOADS: Final = frozenset({"/account/data/"})


@dataclass(frozen=True, slots=True)
class Page:
    """A page: its name in the table, its path, and the form that is posted to it, if any.

    `status` is that of the reply.
    """

    name: str
    path: str
    form: Mapping[str, object] | None = None
    status: int = _OK


@dataclass(frozen=True, slots=True)
class Visit:
    """The number of SQL statements of a page, and the milliseconds until its reply is complete.

    `first_ms` is the time of the first visit.  The other two are medians of the later visits: one
    of these may count large tables again, which takes seconds and another statement.
    """

    statements: int
    first_ms: float
    ms: float


def visit_all(timed_visits: int) -> Iterator[tuple[str, Visit]]:
    """Yield each page with its figures; raise BenchError if a page cannot be shown.

    Each page is visited `timed_visits` times, after a first visit that loads its templates and
    counts large tables.
    """
    unsubscribe = urlsplit(unsubscribing.link(1, FIRST_ID)).path
    for page in (*map(_page, PUBLIC), Page("/letters/unsubscribe/TOKEN/", unsubscribe)):
        yield page.name, _visit(Client(), page, timed_visits)
    yield (
        "/news/(newest)",
        _visit(Client(), _page(f"/news/{News.objects.latest('pk').pk}/"), timed_visits),
    )
    volunteer = _logged_in(VISITOR)
    for path in (*(f"/account/{name}" for name in OWN), *OF_FOUNDER):
        yield path, _visit(volunteer, _page(path), timed_visits)
    key_id = AccountKey.objects.filter(account__email=VISITOR, is_current=True).earliest("pk").pk
    yield (
        "/account/keys/(first)",
        _visit(volunteer, _page(f"/account/keys/{key_id}/"), timed_visits),
    )
    operator = _logged_in(CHIEF)
    for page in (*_desk(), *_previews()):
        yield page.name, _visit(operator, page, timed_visits)


def _page(path: str) -> Page:
    return Page(path, path, status=_STATUSES.get(path, _OK))


def _desk() -> Iterator[Page]:
    """Yield the desk, and the pages of each table."""
    for name in DESK:
        yield _page(f"/admin/{name}")
    models = [model for model in apps.get_models() if staff.is_registered(model)]
    request = HttpRequest()
    request.user = Account.objects.get(email=CHIEF)
    for model in sorted(models, key=lambda model: model.__name__):
        site_page = staff.get_model_admin(model)
        path = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"
        yield _page(path)
        if site_page.has_add_permission(request):
            yield _page(f"{path}add/")
        row = model._default_manager.order_by("-pk").first()
        if row is not None:
            yield from _of_row(path, site_page, request, row)


def _of_row(
    path: str, site_page: ModelAdmin[Model], request: HttpRequest, row: Model
) -> Iterator[Page]:
    """Yield the searches that find the newest row of a table, and the pages of this row."""
    if site_page.get_search_fields(request):
        yield Page(f"{path}?q=NUMBER", f"{path}?q={row.pk}")
        yield _page(f"{path}?q=volunteer")
    yield Page(f"{path}(newest)", f"{path}{row.pk}/change/")
    yield Page(f"{path}(newest)/history/", f"{path}{row.pk}/history/")
    row_page = site_page.row_page if isinstance(site_page, StaffAdmin) else None
    if row_page is not None:
        yield Page(f"{path}(newest)/{row_page.name}/", f"{path}{row.pk}/{row_page.name}/")


def _previews() -> Iterator[Page]:
    """Yield the previews of the main actions; none is confirmed."""
    target = {"target_kind": str(Target.ACCOUNT.value), "target_id": str(FIRST_ID)}
    for action, form in (
        ("cancel", {}),
        ("retry", {}),
        ("retarget", {}),
        ("retarget", target),
    ):
        yield _preview(Workunit, action, form)
    for action in ("cancel", "retry"):
        yield _preview(Batch, action, {})
    team = {"action": "delete_teams", "_selected_action": str(FIRST_ID), "index": "0"}
    yield Page("/admin/scheduler/team/ delete_teams", "/admin/scheduler/team/", team)
    maintenance = {"kind": "all", "message": "New disks.", "until": "2099-01-31T18:00"}
    yield Page("/admin/maintenance/ preview", "/admin/maintenance/", maintenance)
    path, text = "/admin/scheduler/news/", "The project has new results.\n\nThanks."
    newest = News.objects.latest("pk").pk
    item = {"title": "Results", "text": text}
    yield Page(f"{path}add/ preview", f"{path}add/", item)
    yield Page(f"{path}(newest)/change/ preview", f"{path}{newest}/change/", item)
    # All answers are assimilated, so no workunit can be validated again: the reply is the form with
    # an error, and the action of the list has no preview.
    app = f"/admin/scheduler/app/{App.objects.get().pk}/revalidate/"
    yield Page("/admin/scheduler/app/(newest)/revalidate/ preview", app, {"at_most": "1000"}, 422)
    version = AppVersion.objects.latest("pk").pk
    rollout = {"rollout_percent": "50", "min_rollback_results": "10"}
    path = f"/admin/scheduler/appversion/{version}/rollout/"
    yield Page("/admin/scheduler/appversion/(newest)/rollout/ preview", path, rollout)
    credit = {"amount": "5", "reason": "bench", "with_team": "on", "request_id": str(uuid4())}
    path = f"/admin/scheduler/account/{FIRST_ID}/credit/"
    yield Page("/admin/scheduler/account/(one)/credit/ preview", path, credit)


def _preview(model: type[Model], action: str, form: Mapping[str, str]) -> Page:
    """Return the preview of an action on the newest rows of a table."""
    path = f"/admin/scheduler/{model._meta.model_name}/"
    rows = model._default_manager.order_by("-pk").values_list("pk", flat=True)
    selected = {"action": action, "_selected_action": list(rows[:_SELECTED]), "index": "0"}
    name = f"{path} {action}{' preview' if form else ''}"
    return Page(name, path, {**selected, **form})


def _logged_in(email: str) -> Client:
    """Return a client after a log-in with the form, which also opens the page of account keys."""
    client = Client()
    form = {"login": email, "password": PASSWORD}
    reply = client.post("/account/login/", form, SERVER_NAME=_SERVER)
    if reply.status_code != _FOUND:
        raise BenchError(f"The log-in of {email} was answered with status {reply.status_code}.")
    return client


def _visit(client: Client, page: Page, timed_visits: int) -> Visit:
    first_ms, _ = _send(client, page)
    timed = [_send(client, page) for _ in range(timed_visits)]
    statements = median_low(count for _, count in timed)
    return Visit(statements, first_ms, median(ms for ms, _ in timed))


def _send(client: Client, page: Page) -> tuple[float, int]:
    """Return the milliseconds and the number of statements of a visit."""
    # Otherwise the status page would be that of the visit before.
    cache.clear()
    count = 0

    def counted(execute: Callable[..., object], *arguments: object) -> object:
        nonlocal count
        count += 1
        return execute(*arguments)

    began = time.perf_counter()
    with connection.execute_wrapper(counted):
        if page.form is None:
            reply = client.get(page.path, SERVER_NAME=_SERVER)
        else:
            reply = client.post(page.path, page.form, SERVER_NAME=_SERVER)
        content = b"".join(reply) if reply.streaming else reply.content
    took = 1000 * (time.perf_counter() - began)
    if reply.status_code != page.status or not content:
        raise BenchError(f"{page.name} was answered with status {reply.status_code}.")
    return took, count
