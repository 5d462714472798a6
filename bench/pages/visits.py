"""Visits pages as a visitor, a volunteer and an operator, and measures each page."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from statistics import median
from typing import Final

from django.apps import apps
from django.core.cache import cache
from django.db import connection
from django.test import Client

from bench.figures import BenchError
from bench.pages.rows import FIRST_ID, PASSWORD, VISITOR
from scheduler.admin.site import staff

#: Timed visits of a page, after one that loads its templates and counts large tables.
_VISITS: Final = 3
_OK: Final = HTTPStatus.OK
_FOUND: Final = HTTPStatus.FOUND
_SERVER: Final = "127.0.0.1"
#: The address of the operator.
CHIEF: Final = "chief@example.org"
_PUBLIC: Final = (
    *("/", "/account/login/", "/account/signup/", "/account/password/reset/"),
    *("/teams/", "/teams/?sort=-total", "/teams/?sort=name&q=team+1"),
    *("/leaderboards/", "/leaderboards/?sort=recent", "/leaderboards/?app=bench"),
    *("/leaderboards/computers/", "/leaderboards/teams/", "/statistics/computers/"),
    "/badges/",
    f"/teams/{FIRST_ID}/",
    f"/accounts/{FIRST_ID}/",
    f"/accounts/{FIRST_ID}/certificate/",
    "/ownership/",
    f"/show_host_detail.php?hostid={FIRST_ID}",
    "/user_search.php?search_string=volunteer+1",
)
_OWN: Final = (
    *("", "computers/", "computers/?sort=-total", "results/", "results/?state=valid"),
    *("email/", "password/", "keys/", "tokens/", "two-factor/", "erase/", "certificate/"),
    "ownership/",
    *("preferences/computing/", "preferences/project/"),
    f"computers/{FIRST_ID}/",
    f"computers/{FIRST_ID}/results/",
    f"results/{FIRST_ID}/",
)


@dataclass(frozen=True, slots=True)
class Visit:
    """The number of SQL statements of a page, and the milliseconds until its reply is complete.

    `first_ms` is that of the first visit, and `ms` the median of the later ones.
    """

    statements: int
    first_ms: float
    ms: float


def visit_all() -> Iterator[tuple[str, Visit]]:
    """Yield each page with its figures; raise BenchError if a page cannot be shown."""
    for path in _PUBLIC:
        yield path, _visit(Client(), path)
    volunteer = _logged_in(VISITOR)
    for name in _OWN:
        yield f"/account/{name}", _visit(volunteer, f"/account/{name}")
    operator = _logged_in(CHIEF)
    for name, path in _desk():
        yield name, _visit(operator, path)


def _desk() -> Iterator[tuple[str, str]]:
    """Yield names and paths: of the desk, of each list, and of the newest row of each list."""
    yield "/admin/", "/admin/"
    models = [model for model in apps.get_models() if staff.is_registered(model)]
    for model in sorted(models, key=lambda model: model.__name__):
        path = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"
        yield path, path
        row = model._default_manager.order_by("-pk").first()
        if row is not None:
            yield f"{path}(newest)", f"{path}{row.pk}/change/"


def _logged_in(email: str) -> Client:
    """Return a client after a log-in with the form, which also opens the page of account keys."""
    client = Client()
    form = {"login": email, "password": PASSWORD}
    reply = client.post("/account/login/", form, SERVER_NAME=_SERVER)
    if reply.status_code != _FOUND:
        raise BenchError(f"The log-in of {email} was answered with status {reply.status_code}.")
    return client


def _visit(client: Client, path: str) -> Visit:
    first_ms, _ = _get(client, path)
    timed = [_get(client, path) for _ in range(_VISITS)]
    return Visit(max(count for _, count in timed), first_ms, median(ms for ms, _ in timed))


def _get(client: Client, path: str) -> tuple[float, int]:
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
        reply = client.get(path, SERVER_NAME=_SERVER)
        content = b"".join(reply) if reply.streaming else reply.content
    took = 1000 * (time.perf_counter() - began)
    if reply.status_code != _OK or not content:
        raise BenchError(f"{path} was answered with status {reply.status_code}.")
    return took, count
