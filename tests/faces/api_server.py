"""Serves the API on a port, in this process and with the test's database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Thread

from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.core.servers.basehttp import ThreadedWSGIServer
from django.test.testcases import QuietWSGIRequestHandler
from django.test.utils import override_settings


@contextmanager
def serving() -> Iterator[str]:
    """Serve within the block; yield the address without a final slash."""
    server = ThreadedWSGIServer(("127.0.0.1", 0), QuietWSGIRequestHandler)
    server.set_app(WSGIHandler())
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        # Random requests would exceed the limits of wrong passwords.
        with override_settings(PROJECT=replace(settings.PROJECT, login_throttle=False)):
            yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
