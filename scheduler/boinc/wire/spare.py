"""Removes reports beyond the limit from a request before it is parsed.

A client may report any number of results in one request.  Reports beyond the server's limit are
removed before the request is parsed, so that time and memory do not grow with their number.  They
are counted, because the client still has these results and reports them again.

This module uses no database, files or clock.
"""

from __future__ import annotations

import re
from typing import Final

_BEGIN: Final = b"<result>"
_END: Final = b"</result>"
_NEXT: Final = re.compile(rb"\s*(?=<result>)")
# This element may contain any text that a program printed, including tags (see `boinc.wire.xml`).
_STDERR: Final = re.compile(
    rb"<stderr_out>(?:\s*(?:<core_client_version>[^<]*+</core_client_version>\s*)?<!\[CDATA\[())?"
)
_CDATA_ENDS: Final = re.compile(rb"\]\]>\s*</stderr_out>")
_STDERR_ENDS: Final = re.compile(rb"</stderr_out>")


def take_out(body: bytes | bytearray, max_results: int) -> tuple[bytes | bytearray, int]:
    """Return the request with its first `max_results` reports, and the number of reports removed.

    Reports in a format that clients do not use are left in place.
    """
    if body.count(_BEGIN) <= max_results:
        return body, 0
    at = body.find(_BEGIN)
    for _ in range(max_results):
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
    """Return the position after the report that begins at `at`, or 0 without an end tag."""
    end = body.find(_END, at)
    if end < 0:
        return 0
    printed = _STDERR.search(body, at, end)
    if printed is not None:
        # The printed text may contain a tag that looks like the end of the report.
        printed_ends = _CDATA_ENDS if printed[1] is not None else _STDERR_ENDS
        closed = printed_ends.search(body, printed.end())
        end = body.find(_END, closed.end()) if closed else -1
    return end + len(_END) if end >= 0 else 0
