"""Answers of a pool with the worst values end no worker's claims."""

from __future__ import annotations

import pytest

from volunteer import events
from volunteer.errands import Errands, failure
from volunteer.pool import PoolLink
from volunteer.transport import Response

URL = "http://127.0.0.1/"
DEEP = b"[" * 100_000
COMMAND = events.ClaimWork(URL, 1.0, 0.0)


class Server:
    """Answers each request with the same status and body."""

    def __init__(self, status: int, body: bytes) -> None:
        self.response = Response(status, body)

    def get(self, _url: str, **_: object) -> Response:
        return self.response

    def post_json(self, _url: str, _content: bytes, **_: object) -> Response:
        return self.response


@pytest.mark.parametrize("status", [200, 409, 500])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b'{"reason": []}',
        b'{"reason": {}}',
        b'{"results": [[]]}',
        b'{"results": [{"name": ["r"]}]}',
        b'{"results": {"name": "r"}}',
        b'{"results": [{"name": "' + b"r" * 301 + b'"}]}',
        b"9" * 100_000,
        b"\xff",
        DEEP,
    ],
    ids=lambda body: str(body[:40]),
)
def test_no_answer_ends_the_claims_of_a_worker(status: int, body: bytes) -> None:
    link = PoolLink(URL, "mh_host_x", Server(status, body))  # type: ignore[arg-type]
    claimed = Errands(None, lambda: 7.0).claim(link, COMMAND, 0.0)  # type: ignore[arg-type]
    assert isinstance(claimed, events.WorkClaimed)
    assert (claimed.project, claimed.name) == (URL, "")
    assert claimed.reason


def test_unexpected_error_of_a_claim_is_an_event() -> None:
    event = failure(COMMAND, KeyError("x"), 7.0)
    assert event == events.WorkClaimed(
        7.0, event.chance, project=URL, name="", reason="KeyError: 'x'"
    )
