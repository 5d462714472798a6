"""Long submissions in the queue do not occupy every thread."""

from __future__ import annotations

import threading
import time

import pytest
from django.test import RequestFactory

from scheduler.boinc_submission import handler

LONG = b"<query_batches>" + b" " * (2 << 20)


def send():
    request = RequestFactory().post(
        "/submit_rpc_handler.php", data=LONG, content_type="application/octet-stream"
    )
    return handler.submit_rpc_handler(request).content


@pytest.mark.django_db
def test_long_request_is_refused_immediately_when_the_queue_is_full(monkeypatch):
    monkeypatch.setattr(handler, "_LONG_TIMEOUT_SECONDS", 1.0)
    with handler._long_lock:  # another long request is being read
        waiting = [threading.Thread(target=send) for _ in range(handler.MAX_LONG_REQUESTS)]
        for thread in waiting:
            thread.start()
        while handler._long_slots._value:
            time.sleep(0.01)
        began = time.monotonic()
        answer = send()
        took = time.monotonic() - began
        for thread in waiting:
            thread.join()
    assert b"The project is busy; try again." in answer
    assert took < 0.5
    assert handler._long_slots._value == handler.MAX_LONG_REQUESTS


class Dripping:
    """A request body whose first read blocks until `may_end` is set."""

    def __init__(self):
        self.is_read, self.may_end = threading.Event(), threading.Event()

    def read(self, _size=-1):
        self.is_read.set()
        self.may_end.wait(20)
        return b""

    readline = read


def post(body, content_type, length):
    environ = {"wsgi.input": body, "CONTENT_TYPE": content_type, "CONTENT_LENGTH": str(length)}
    return RequestFactory().generic("POST", "/submit_rpc_handler.php", **environ)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "content_type", ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
def test_slow_request_does_not_block_other_requests(monkeypatch, content_type):
    monkeypatch.setattr(handler, "_LONG_TIMEOUT_SECONDS", 0.5)
    body = Dripping()
    slow = post(body, content_type, 2 << 20)
    thread = threading.Thread(target=handler.submit_rpc_handler, args=(slow,))
    thread.start()
    try:
        assert body.is_read.wait(10)
        assert b"busy" not in send()
    finally:
        body.may_end.set()
        thread.join()


def test_form_of_twice_the_request_limit_is_refused_without_reading_it(settings):
    body = Dripping()
    length = 2 * settings.PROJECT.max_request_bytes
    request = post(body, "multipart/form-data; boundary=x", length)
    assert b"is longer than" in handler.submit_rpc_handler(request).content
    assert not body.is_read.is_set()
