"""Long submissions that wait for their turn do not hold every thread."""

from __future__ import annotations

import threading
import time

import pytest
from django.test import RequestFactory

from scheduler.rpc import submission

LONG = b"<query_batches>" + b" " * (2 << 20)


def send():
    request = RequestFactory().post(
        "/submit_rpc_handler.php", data=LONG, content_type="application/octet-stream"
    )
    return submission.submit_rpc_handler(request).content


@pytest.mark.django_db
def test_more_than_a_few_waiting_requests_are_refused_at_once(monkeypatch):
    monkeypatch.setattr(submission, "_PATIENCE", 1.0)
    with submission._one_long:  # another long request is being read
        waiting = [threading.Thread(target=send) for _ in range(submission.MAX_LONG_REQUESTS)]
        for thread in waiting:
            thread.start()
        while submission._long_requests._value:
            time.sleep(0.01)
        began = time.monotonic()
        answer = send()
        took = time.monotonic() - began
        for thread in waiting:
            thread.join()
    assert b"The project is busy; try again." in answer
    assert took < 0.5
    assert submission._long_requests._value == submission.MAX_LONG_REQUESTS
