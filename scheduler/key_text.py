"""Detects content that a client could take for a public key [pure].

A client accepts a new code signing key if the old key's signature over the text of the new key is
valid, and a file's signature is made in the same way (docs/signing.md).  So a signed file whose
content is a key lets anyone who can answer a client's RPC rotate the client's key.
"""

from __future__ import annotations

import re
from typing import Final

#: The number of bytes that are examined; clients keep at most 4095 characters of a key.
START_NBYTES: Final = 8192

#: The white space of C, and two bytes that are white space on some systems.
_BLANK: Final = b" \t\n\v\f\r\x85\xa0"
_INTEGER: Final = re.compile(rb"[+-]?[0-9]")
_HEX: Final = re.compile(rb"[+-]?[0-9A-Fa-f]")


def looks_like_key(start: bytes) -> bool:
    r"""Return whether content that begins with these bytes could be taken for a public key.

    `start` has the first `START_NBYTES` bytes of the content, or all its bytes if it is shorter.
    Clients read a key with C's scanf.  The rule here matches more than any client accepts: the
    first word begins with an integer, and the next line begins with a hex digit.  Both may have a
    sign.

    >>> looks_like_key(b"1024\n00c0ffee\n.\n"), looks_like_key(b"#!/bin/sh\n")
    (True, False)
    """
    start = start[:START_NBYTES]
    text = start.lstrip(_BLANK)
    if not _INTEGER.match(text):
        return False
    # If a line feed precedes the integer, the "next line" may be the line of the integer.
    if b"\n" in start[: len(start) - len(text)]:
        return True
    _, line_feed, rest = text.partition(b"\n")
    return bool(line_feed and _HEX.match(rest.lstrip(_BLANK)))
