"""The state of requests to a host to fetch, send or delete a file."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduler.files.rules.request_verdicts import Fate, Kind, OpenRequest, judge
from tests.conftest import NOON

NEVER, NOW_, LONG_AGO = None, NOON - timedelta(minutes=1), NOON - timedelta(hours=2)


@pytest.mark.parametrize(
    ("kind", "present", "arrived", "sent_at", "fate"),
    [
        # A request to put a file is done when the host lists the file.
        (Kind.PUT, False, False, NEVER, Fate.ASK),
        (Kind.PUT, False, False, NOW_, Fate.WAIT),
        (Kind.PUT, False, False, LONG_AGO, Fate.ASK),
        (Kind.PUT, True, False, NOW_, Fate.DONE),
        (Kind.PUT, True, False, NEVER, Fate.DONE),
        # A request to delete a file is done when the host no longer lists the file.
        (Kind.DELETE, True, False, NEVER, Fate.ASK),
        (Kind.DELETE, True, False, NOW_, Fate.WAIT),
        (Kind.DELETE, True, False, LONG_AGO, Fate.ASK),
        (Kind.DELETE, False, False, NOW_, Fate.DONE),
        # A request to fetch a file is done when the file is here; it fails if the host has no file.
        (Kind.GET, True, False, NEVER, Fate.ASK),
        (Kind.GET, True, False, NOW_, Fate.WAIT),
        (Kind.GET, True, False, LONG_AGO, Fate.ASK),
        (Kind.GET, True, True, NOW_, Fate.DONE),
        (Kind.GET, False, True, NOW_, Fate.DONE),
        (Kind.GET, False, False, NOW_, Fate.FAILED),
    ],
)
def test_state_of_a_request(kind, present, arrived, sent_at, fate):
    asked = OpenRequest(kind=kind, file_name="f", created_at=LONG_AGO, sent_at=sent_at)
    found = judge(
        asked, present={"f"} if present else set(), arrived={"f"} if arrived else {}, now=NOON
    )
    assert found is fate


def test_file_request_fails_after_thirty_days():
    asked = OpenRequest(kind=Kind.PUT, file_name="f", created_at=NOON - timedelta(days=30))
    assert judge(asked, present=(), arrived=(), now=NOON) is Fate.FAILED
    assert judge(asked, present=(), arrived=(), now=NOON - timedelta(seconds=1)) is Fate.ASK
