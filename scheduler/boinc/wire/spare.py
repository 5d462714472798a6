"""Takes from a request the reports that are too many to be read at once [pure].

A client may report any number of results in one request.  Those beyond what the server takes are
cut out before the rest is read, so that neither time nor memory grows with them.  How many they are
is told, for the client still has these results and reports them again.
"""

from __future__ import annotations

import re
from typing import Final

_BEGIN: Final = b"<result>"
_END: Final = b"</result>"
_NEXT: Final = re.compile(rb"\s*(?=<result>)")
# Whatever a program printed may stand in here, tags among it (see `boinc.wire.xml`).
_STDERR: Final = re.compile(
    rb"<stderr_out>(?:\s*(?:<core_client_version>[^<]*+</core_client_version>\s*)?<!\[CDATA\[())?"
)
_CDATA_ENDS: Final = re.compile(rb"\]\]>\s*</stderr_out>")
_STDERR_ENDS: Final = re.compile(rb"</stderr_out>")


def take_out(body: bytes | bytearray, most: int) -> tuple[bytes | bytearray, int]:
    """The request with its first `most` reports, and how many others followed them.

    What is not as clients write it stays where it is.
    """
    if body.count(_BEGIN) <= most:
        return body, 0
    at = body.find(_BEGIN)
    for _ in range(most):
        end = _end_of_report(body, at)
        following = _NEXT.match(body, end) if end else None
        if following is None:
            return body, 0
        at = following.end()
    first, further = at, 0
    while end := _end_of_report(body, at):
        further += 1
        following = _NEXT.match(body, end)
        at = end if following is None else following.end()
        if following is None:
            break
    return body[:first] + body[at:], further


def _end_of_report(body: bytes | bytearray, at: int) -> int:
    """Where the report that begins `at` ends; 0 if it does not."""
    end = body.find(_END, at)
    if end < 0:
        return 0
    printed = _STDERR.search(body, at, end)
    if printed is not None:
        # The printed text may hold what looks like the report's end.
        printed_ends = _CDATA_ENDS if printed[1] is not None else _STDERR_ENDS
        closed = printed_ends.search(body, printed.end())
        end = body.find(_END, closed.end()) if closed else -1
    return end + len(_END) if end >= 0 else 0
