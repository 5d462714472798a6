"""Defines the WSGI application of the web server, with limits for slow clients."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

from daemons.science.kernel import die_with_parent

# A worker that outlives a killed parent would continue to answer requests beside the workers of the
# next server.  On SIGTERM it would wait for its connections without limit, so it gets SIGKILL.
if (parent := multiprocessing.parent_process()) is not None:
    die_with_parent(parent.pid, by=signal.SIGKILL)

# Django and its REST framework import these packages if they are installed, for parts that are not
# used here: requests takes 5 MB of each process, pygments and jinja2 take 1 MB or more.
for unused in ("requests", "pygments", "jinja2"):
    sys.modules.setdefault(unused, None)  # type: ignore[arg-type]  # `import` raises ImportError

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
# The threads of a web server share a connection pool; a command needs no pool.
os.environ.setdefault("DATABASE_POOL", "8")

from django.conf import settings  # noqa: E402 - after the line on requests

if settings.PROJECT.login_providers:
    # Log-ins with other sites need it.
    del sys.modules["requests"]

from project.monitoring import shared_folder  # noqa: E402 - as above

# prometheus_client reads this variable when it is imported, which Django's set-up may do.
shared_folder.prepare(
    settings.VAR_DIR,
    parent.pid if parent is not None else None,
    now=time.time(),  # noqa: TID251 - compared with times of files
)

from django.core.wsgi import get_wsgi_application  # noqa: E402 - needs the shared folder
from django.urls import reverse  # noqa: E402 - needs the settings read

django_app = get_wsgi_application()

from project import heartbeat, slow_clients  # noqa: E402 - needs the settings read
from project.monitoring import sampler  # noqa: E402 - needs the shared folder
from project.proxies import apply_forwarded_headers, note_direct_peer  # noqa: E402 - needs the settings read
from project.routing import route  # noqa: E402 - needs the settings read
from scheduler import signing  # noqa: E402 - needs the settings read
from scheduler.health import installation  # noqa: E402 - needs the settings read

if TYPE_CHECKING:
    from collections.abc import Iterable
    from wsgiref.types import StartResponse, WSGIEnvironment

installation.refuse_incomplete_restore()
# Without a code signing key no request can be answered, so the server must not start.
signing.code_sign_key_text()

# Only web servers import this module, so commands and daemons send no heartbeats.
heartbeat.start()
sampler.start()

# Reads all URLs, which loads the pages and the API: it takes too long for the first request.
reverse("admin:index")

# Imported objects live as long as the process, so later garbage collections can skip them.
gc.collect()
gc.freeze()


BODIES = slow_clients.Transfers(incoming=True, max_slow=settings.MAX_SLOW_CLIENTS)
REPLIES = slow_clients.Transfers(incoming=False, max_slow=settings.MAX_SLOW_CLIENTS)
slow_clients.start(BODIES, REPLIES)


def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    if environ.get("CONTENT_LENGTH") or "HTTP_TRANSFER_ENCODING" in environ:
        environ["wsgi.input"] = slow_clients.Body(environ, BODIES)
    peer = environ.get("REMOTE_ADDR", "")
    note_direct_peer(environ)
    apply_forwarded_headers(environ, settings.TRUSTED_PROXIES)
    reply = route(environ, start_response, django_app=django_app)
    if isinstance(reply, list):
        return reply
    return slow_clients.Reply(reply, peer, environ.get("SERVER_PORT", ""), REPLIES)
