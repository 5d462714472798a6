"""Routes frequent HTTP requests to plain WSGI functions, others to Django."""

from __future__ import annotations

from typing import TYPE_CHECKING

from project.monitoring.counting import counted
from project.monitoring.endpoints import ANSWERS, monitoring_app
from scheduler.boinc.downloads import download_app
from scheduler.boinc.rules import addresses
from scheduler.boinc.scheduler_rpc import scheduler_app
from scheduler.boinc.uploads import upload_app

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

#: These requests need no session, no user and no middleware, and they are frequent.
FAST_PATHS: tuple[tuple[str, Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]], ...] = (
    (addresses.SCHEDULER, scheduler_app),
    (addresses.UPLOADS, upload_app),
    (addresses.DOWNLOADS, download_app),
)


def route(
    environ: WSGIEnvironment, start_response: StartResponse, *, django_app: WSGIApplication
) -> Iterable[bytes]:
    """Pass a request to the function for its path, or to Django; return the reply.

    Repeated slashes in PATH_INFO are collapsed.  A redirect is not used for that, because clients
    would follow it with a GET (PROTOCOL trap 3).
    """
    path = environ["PATH_INFO"] = addresses.collapse_slashes(environ.get("PATH_INFO", ""))
    if path in ANSWERS:  # not counted, because probes would hide how many requests there are
        return monitoring_app(environ, start_response)
    for prefix, answer in FAST_PATHS:
        if path.startswith(prefix):
            return counted(answer, environ, start_response)
    return counted(django_app, environ, start_response)
