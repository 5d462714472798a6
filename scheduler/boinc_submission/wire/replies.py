"""What BOINC's submitters are told, as their libraries read it [pure].

A reply is one element, named for what was asked, with HTTP's status 200 whatever it says.  It is
well-formed XML in plain ASCII: one of BOINC's own is not (docs/boinc-submission.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from scheduler.boinc.wire import xml

_PROLOG: Final = '<?xml version="1.0" encoding="ISO-8859-1" ?>\n'
#: BOINC's libraries read a message into so many bytes, its end included, and lose a longer one.
_LONGEST_MESSAGE: Final = 255

Value = str | int | float | bool
"""A flag that is False is left out; True is an empty element."""
Field = tuple[str, Value]


def document(command: str, inside: str) -> bytes:
    """A reply: what stands inside the element of a command."""
    text = f"{_PROLOG}<{command}>\n{inside}</{command}>\n"
    return text.encode("ascii", "xmlcharrefreplace")


def error(command: str, error_num: int, message: str) -> bytes:
    """A refusal, inside the command's element, or alone where there is none."""
    inside = f"<error>\n    <error_num>{error_num}</error_num>\n"
    inside += f"    <error_msg>{_short(message)}</error_msg>\n</error>\n"
    if command:
        return document(command, inside)
    return f"{_PROLOG}{inside}".encode("ascii", "xmlcharrefreplace")


def fields(said: Iterable[Field], indent: str = "") -> str:
    """Elements with text, a line each."""
    return "".join(_element(name, value, indent) for name, value in said)


def element(name: str, said: Iterable[Field], indent: str = "", inside: str = "") -> str:
    """An element with elements in it, and what `inside` says behind them."""
    deeper = fields(said, indent + "    ")
    return f"{indent}<{name}>\n{deeper}{inside}{indent}</{name}>\n"


def cdata(name: str, text: str, indent: str = "") -> str:
    """A text as BOINC's libraries want it here: escaped, and in a CDATA section as well."""
    return f"{indent}<{name}><![CDATA[{xml.escape(text)}]]></{name}>\n"


def counts(said: Mapping[str, int]) -> bytes:
    """The reply of `server_status.php?counts=1`."""
    return document("job_counts", fields(said.items(), "    "))


def absent_files(places: Sequence[int]) -> str:
    """Which of the files that were asked for must be sent."""
    return element("absent_files", [("file", place) for place in places])


def _element(name: str, value: Value, indent: str) -> str:
    if value is True:
        return f"{indent}<{name}/>\n"
    if value is False:
        return ""
    text = xml.real_text(value) if isinstance(value, float) else xml.escape(str(value))
    return f"{indent}<{name}>{text}</{name}>\n"


def _short(message: str) -> str:
    """As much of a message as the libraries read, on one line, escaped."""
    words = " ".join(message.split())
    text = xml.escape(words)
    while len(text.encode("ascii", "xmlcharrefreplace")) > _LONGEST_MESSAGE:
        words = words[: -max(1, (len(text) - _LONGEST_MESSAGE) // 6)]
        text = xml.escape(words) + "..."
    return text
