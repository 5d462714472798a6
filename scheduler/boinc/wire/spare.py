"""Removes reports beyond the limit from a request before it is parsed.

A client may report any number of results in one request.  Reports beyond the server's limit are
removed before the request is parsed, so that time and memory do not grow with their number.  They
are counted, because the client still has these results and reports them again.

This module uses no database, files or clock.
"""

from __future__ import annotations

import re
from mmap import MADV_DONTNEED, mmap
from typing import Final

#: The bytes of a request: in memory, or in a file that is mapped into memory.
Body = bytes | bytearray | mmap

_BEGIN: Final = b"<result>"
_END: Final = b"</result>"
_NEXT: Final = re.compile(rb"\s*(?=<result>)")
# This element may contain any text that a program printed, including tags (see `boinc.wire.xml`).
_STDERR: Final = re.compile(
    rb"<stderr_out>(?:\s*(?:<core_client_version>[^<]*+</core_client_version>\s*)?<!\[CDATA\[())?"
)
_CDATA_ENDS: Final = re.compile(rb"\]\]>\s*</stderr_out>")
_STDERR_ENDS: Final = re.compile(rb"</stderr_out>")
#: Each time this number of bytes was read, the pages of a mapped file are released.
_READ_BYTES: Final = 1 << 22


def take_out(body: Body, max_results: int) -> tuple[Body, int]:
    """Return the request with its first `max_results` reports, and the number of reports removed.

    Reports in a format that clients do not use are left in place.  A mapped file is never in memory
    as a whole.
    """
    if not _has_more(body, max_results):
        return body, 0
    at = body.find(_BEGIN)
    for _ in range(max_results):
        end = _end_of_report(body, at)
        following = _NEXT.match(body, end) if end else None
        if following is None:
            return body, 0
        at = following.end()
    first, further, released = at, 0, at
    while end := _end_of_report(body, at):
        further += 1
        if isinstance(body, mmap) and end - released > _READ_BYTES:
            body.madvise(MADV_DONTNEED)
            released = end
        following = _NEXT.match(body, end)
        at = end if following is None else following.end()
        if following is None:
            break
    return body[:first] + body[at:], further


def _has_more(body: Body, max_results: int) -> bool:
    at = -1
    for _ in range(max_results + 1):
        at = body.find(_BEGIN, at + 1)
        if at < 0:
            return False
    return True


def _end_of_report(body: Body, at: int) -> int:
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
