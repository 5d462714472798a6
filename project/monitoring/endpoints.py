"""The WSGI functions of /healthz, /readyz and /metrics, which run beside Django."""

from __future__ import annotations

import hmac
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Final

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection
from django.utils import timezone
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from project import proxies
from project.monitoring import checks, shared_folder
from project.monitoring.database_metrics import Reading, Readings
from project.monitoring.refresher import Refresher
from scheduler import metrics, storage
from scheduler.health import alerts, figures, maintenance
from scheduler.health.figures import Figures

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

#: How long figures of the database are kept, how long a scrape waits for new figures, and the
#: maximum age of figures while new ones are read; seconds.
KEEP_SECONDS, TIMEOUT_SECONDS, MAX_AGE_SECONDS = 5.0, 5.0, 60.0
_JSON: Final = "application/json"
_TEXT: Final = "text/plain; charset=utf-8"
_FORBIDDEN: Final = (
    "Metrics are shown with a token, and without one to programs on this machine if the setting "
    "METRICS_WITHOUT_TOKEN is true.\n"
    "Hint: set METRICS_TOKEN and send it as `Authorization: Bearer TOKEN`.\n"
)


def healthz(_environ: WSGIEnvironment) -> tuple[str, str, bytes]:
    """Return 200: the process answers.  The database is not used."""
    return "200 OK", _TEXT, b"ok\n"


def readyz(_environ: WSGIEnvironment) -> tuple[str, str, bytes]:
    """Return 200 if this process can serve clients, else 503 with the failed checks as JSON.

    Maintenance is no failure: clients must still get the reply with the time of their next RPC.
    """
    failed = checks.failures()
    body = {"ready": not failed, "failing": [asdict(failure) for failure in failed]}
    status = "503 Service Unavailable" if failed else "200 OK"
    return status, _JSON, json.dumps(body).encode() + b"\n"


def show_metrics(environ: WSGIEnvironment) -> tuple[str, str, bytes]:
    """Return the metrics of all processes in the text format of Prometheus, or 403."""
    if not may_scrape(environ):
        return "403 Forbidden", _TEXT, _FORBIDDEN.encode()
    return "200 OK", CONTENT_TYPE_PLAIN_0_0_4, exposition(now=timezone.now())  # noqa: TID251 - the edge


def may_scrape(environ: WSGIEnvironment) -> bool:
    """Return whether the request has the token, or comes directly from this machine.

    The latter needs `METRICS_WITHOUT_TOKEN`, because the requests of a proxy on this machine that
    sets no headers cannot be told from those of a local program.
    """
    token = settings.METRICS_TOKEN
    kind, _, sent_token = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    if token and kind.lower() == "bearer":
        # WSGI's headers are latin-1; compare_digest accepts no other characters in texts.
        return hmac.compare_digest(sent_token.strip().encode("latin-1"), token.encode())
    return settings.METRICS_WITHOUT_TOKEN and proxies.is_from_this_machine(environ)


def exposition(*, now: datetime) -> bytes:
    """Return all metrics: those of the web processes, the daemons, the database and the disk."""
    registry = CollectorRegistry()
    folder = os.environ.get(shared_folder.VARIABLE)
    if folder:
        shared_folder.forget_dead_processes(folder)
        registry.register(MultiProcessCollector(None, folder))  # type: ignore[no-untyped-call]
    registry.register(Readings(_reading(now=now)))
    own = b"" if folder else generate_latest(metrics.REGISTRY)
    return own + generate_latest(registry)


def _reading(*, now: datetime) -> Reading:
    notice = maintenance.current()
    return Reading(
        now=now,
        database_is_up=checks.database_is_up(),
        figures=_figures.get(),
        daemon_seen_at=alerts.lives(),
        stops={
            "daemons": bool(notice and notice.daemons),
            "scheduler": bool(notice and notice.scheduler),
            "uploads": storage.uploads_stopped(),
        },
        disk_free_nbytes=storage.free_nbytes(),
        disk_reserve_nbytes=settings.MIN_FREE_BYTES,
    )


def _read_figures() -> Figures | None:
    try:
        return figures.read(now=timezone.now())  # noqa: TID251 - the edge
    except DatabaseError:
        return None
    finally:
        connection.close()


_figures: Final[Refresher[Figures | None]] = Refresher(
    _read_figures,
    keep_seconds=KEEP_SECONDS,
    timeout_seconds=TIMEOUT_SECONDS,
    max_age_seconds=MAX_AGE_SECONDS,
)

#: The functions by exact path; each returns the status, the content type and the body.
ANSWERS: Final[dict[str, Callable[[WSGIEnvironment], tuple[str, str, bytes]]]] = {
    "/healthz": healthz,
    "/readyz": readyz,
    "/metrics": show_metrics,
}


def monitoring_app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Answer a request for one of the paths of `ANSWERS`; the reply is never cached."""
    method = environ["REQUEST_METHOD"]
    if method not in {"GET", "HEAD"}:
        headers = [("Allow", "GET, HEAD"), ("Content-Length", "0")]
        start_response("405 Method Not Allowed", headers)
        return [b""]
    status, content_type, body = ANSWERS[environ["PATH_INFO"]](environ)
    start_response(
        status,
        [
            ("Content-Type", content_type),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
        ],
    )
    return [b"" if method == "HEAD" else body]
