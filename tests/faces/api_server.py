"""The API on a port of its own, in this process and on this test's database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

from django.core.cache import cache
from django.core.handlers.wsgi import WSGIHandler
from django.core.servers.basehttp import ThreadedWSGIServer
from django.test.testcases import QuietWSGIRequestHandler


@contextmanager
def serving() -> Iterator[str]:
    """Serve until the end of the block; gives the address, without its last slash."""
    answer = WSGIHandler()

    def application(environ, start_response):
        cache.clear()  # so that no guess counts
        return answer(environ, start_response)

    server = ThreadedWSGIServer(("127.0.0.1", 0), QuietWSGIRequestHandler)
    server.set_app(application)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
