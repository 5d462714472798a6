"""Encodes replies to BOINC's submitters in the format of their libraries.

A reply is one element with the name of the command, and always has HTTP status 200.  It is
well-formed XML in ASCII, unlike one of BOINC's own replies (docs/boinc-submission.md).

This module uses no database, files or clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from scheduler.boinc.wire import xml

_PROLOG: Final = '<?xml version="1.0" encoding="ISO-8859-1" ?>\n'
#: The size of the message buffer in BOINC's libraries, which drop longer messages.
_MAX_MESSAGE_BYTES: Final = 255

Value = str | int | float | bool
"""The value of an element.  False omits the element; True encodes an empty element."""
Field = tuple[str, Value]


def document(command: str, inside: str) -> bytes:
    """Return a complete reply: `inside` in an element with the name of the command."""
    text = f"{_PROLOG}<{command}>\n{inside}</{command}>\n"
    return text.encode("ascii", "xmlcharrefreplace")


def error(command: str, error_num: int, message: str) -> bytes:
    """Return an error reply, inside the element of the command unless `command` is empty."""
    inside = f"<error>\n    <error_num>{error_num}</error_num>\n"
    inside += f"    <error_msg>{_short(message)}</error_msg>\n</error>\n"
    if command:
        return document(command, inside)
    return f"{_PROLOG}{inside}".encode("ascii", "xmlcharrefreplace")


def fields(values: Iterable[Field], indent: str = "") -> str:
    """Return an element for each value, one per line."""
    return "".join(_element(name, value, indent) for name, value in values)


def element(name: str, values: Iterable[Field], indent: str = "", inside: str = "") -> str:
    """Return an element that contains the `fields` of `values`, followed by `inside`."""
    deeper = fields(values, indent + "    ")
    return f"{indent}<{name}>\n{deeper}{inside}{indent}</{name}>\n"


def cdata(name: str, text: str, indent: str = "") -> str:
    """Return an element with an escaped text in a CDATA section, as BOINC's libraries read it."""
    return f"{indent}<{name}><![CDATA[{xml.escape(text)}]]></{name}>\n"


def absent_files(places: Sequence[int]) -> str:
    """Return the reply to a query for missing files; `places` are positions in the request."""
    return element("absent_files", [("file", place) for place in places])


def _element(name: str, value: Value, indent: str) -> str:
    if value is True:
        return f"{indent}<{name}/>\n"
    if value is False:
        return ""
    text = xml.real_text(value) if isinstance(value, float) else xml.escape(str(value))
    return f"{indent}<{name}>{text}</{name}>\n"


def _short(message: str) -> str:
    """Return a message on one line, escaped and truncated to the length that libraries read."""
    words = " ".join(message.split())
    text = xml.escape(words)
    while len(text.encode("ascii", "xmlcharrefreplace")) > _MAX_MESSAGE_BYTES:
        words = words[: -max(1, (len(text) - _MAX_MESSAGE_BYTES) // 6)]
        text = xml.escape(words) + "..."
    return text
