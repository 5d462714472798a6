"""Splits plain texts of staff into paragraphs, lines and addresses [pure].

The template `scheduler/plain_text.html` shows them and escapes every part, so that no text can add
markup to a page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_LINE_END: Final = re.compile(r"\r\n?")
_BLANK_LINES: Final = re.compile(r"\n\s*\n")
#: Only https addresses become links: any other scheme could run a script.
_ADDRESS: Final = re.compile(r"https://\w[^\s<>\"'`{}|\\^]*")
#: Characters at the end of an address that belong to the sentence around it.
_MARKS: Final = ".,:;!?"


class Part(NamedTuple):
    """A part of a line; an address is shown as a link to itself."""

    text: str
    is_address: bool


Line = list[Part]
Paragraph = list[Line]


def paragraphs(text: str) -> list[Paragraph]:
    r"""Return the paragraphs of a text; an empty line separates them.

    >>> paragraphs("a\nb\n\nSee https://example.org/x.")[1]
    [[Part(text='See ', is_address=False), Part(text='https://example.org/x', is_address=True), \
Part(text='.', is_address=False)]]
    """
    blocks = _BLANK_LINES.split(with_line_feeds(text).strip())
    return [[list(_parts(line)) for line in block.split("\n")] for block in blocks if block]


def with_line_feeds(text: str) -> str:
    r"""Return a text whose lines end with a line feed; browsers send a carriage return, too.

    >>> with_line_feeds("a\r\nb")
    'a\nb'
    """
    return _LINE_END.sub("\n", text)


def _parts(line: str) -> Iterator[Part]:
    end = 0
    for match in _ADDRESS.finditer(line):
        address = _address(match[0])
        yield from _text(line[end : match.start()])
        yield Part(address, is_address=True)
        end = match.start() + len(address)
    yield from _text(line[end:])


def _text(text: str) -> Iterator[Part]:
    if text:
        yield Part(text, is_address=False)


def _address(matched: str) -> str:
    """Return an address without the marks and the closing bracket of the sentence around it."""
    address = matched.rstrip(_MARKS)
    if address.endswith(")") and address.count("(") < address.count(")"):
        return address[:-1].rstrip(_MARKS)
    return address
