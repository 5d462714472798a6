"""Parses a template into elements with their line numbers.

This module uses no database, files or clock.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from scheduler.boinc.wire import xml
from scheduler.boinc.wire.xml import BadXml, Node

MAX_BYTES: Final = 256 * 1024
"""The maximum size of a template; BOINC's own limit is lower."""

_WRAPPER: Final = "templates"
_START: Final = re.compile(r"<([A-Za-z_][\w.:-]*)(?=[\s/>])")
_TAG: Final = re.compile(r"<(/?)([A-Za-z_][\w.:-]*)(?:\s[^<>]*?)?(/?)>")
_ASIDE: Final = re.compile(r"<!--|<!\[CDATA\[|<\?")
_ENDS: Final = {"<!--": "-->", "<![CDATA[": "]]>", "<?": "?>"}


class BadTemplate(ValueError):
    """A template cannot be used; the message contains the line, the element and a hint.

    `line` counts from 1; it is 0 if the error has no line.  `hint` is the text after ``Hint:``.
    """

    def __init__(self, line: int, element: str, sentence: str, hint: str) -> None:
        self.line, self.element, self.sentence, self.hint = line, element, sentence, hint
        where = f"Line {line}, <{element}>: " if line else f"<{element}>: "
        super().__init__(f"{where}{sentence} Hint: {hint}")


@dataclass(frozen=True, slots=True)
class Element:
    """An element and its line number.

    `text` is unescaped; it is None for ``<x/>``, and empty if there are child elements.
    """

    name: str
    text: str | None
    inside: tuple[Element, ...]
    line: int

    @property
    def words(self) -> str:
        """The stripped text."""
        return (self.text or "").strip()

    @property
    def is_set(self) -> bool:
        """Whether the element is a flag that is on: `<x/>` or, as in BOINC, a number except 0."""
        return self.text is None or xml.to_int(self.words) != 0

    def fault(self, sentence: str, hint: str) -> BadTemplate:
        """Return a `BadTemplate` for this element."""
        return BadTemplate(self.line, self.name, sentence, hint)

    def all_of(self, name: str) -> list[Element]:
        """Return the children of this name."""
        return [each for each in self.inside if each.name == name]

    def first(self, name: str) -> Element | None:
        """Return the first child of this name, or None."""
        return next((each for each in self.inside if each.name == name), None)

    def flag(self, name: str) -> bool:
        """Return True if the first child of this name is a flag that is on."""
        child = self.first(name)
        return child is not None and child.is_set


def unwrapped(text: str, wrapper: str) -> tuple[Element, ...]:
    """Return the elements of a template, without its wrapper; raises `BadTemplate`."""
    top = _elements(text, wrapper)
    wrappers = [each for each in top if each.name == wrapper]
    if not wrappers:
        return top
    if len(top) > 1:
        other = top[1] if top[0].name == wrapper else top[0]
        hint = f"put everything into one <{wrapper}>."
        raise other.fault(f"It is outside <{wrapper}>.", hint)
    return wrappers[0].inside


def _elements(text: str, kind: str) -> tuple[Element, ...]:
    body = text.encode("utf-8", "replace")
    if len(body) > MAX_BYTES:
        raise BadTemplate(
            0, kind, f"It has {len(body)} bytes.", f"describe fewer files, in {MAX_BYTES} bytes."
        )
    try:
        nodes = list(
            xml.read_tree(f"<{_WRAPPER}>{text}</{_WRAPPER}>".encode(), _WRAPPER, raw=frozenset())
        )
    except (BadXml, UnicodeEncodeError) as error:
        line, name = _where(text)
        raise BadTemplate(
            line, name or kind, str(error), "close each element where it was opened."
        ) from error
    blank = blanked(text)
    breaks = [match.start() for match in re.finditer("\n", blank)]
    lines = (bisect_right(breaks, tag.start()) + 1 for tag in _START.finditer(blank))
    if not nodes:
        raise BadTemplate(0, kind, "It is empty.", "add a <file_info> for each file, as in BOINC.")
    return _with_lines(nodes, lines)


def blanked(text: str) -> str:
    """Return a text without comments, CDATA sections and instructions; line breaks are kept."""
    pieces: list[str] = []
    position = 0
    while aside := _ASIDE.search(text, position):
        end = text.find(_ENDS[aside[0]], aside.end())
        if end < 0:
            break
        pieces += (text[position : aside.start()], "\n" * text.count("\n", aside.start(), end))
        position = end + len(_ENDS[aside[0]])
    return "".join([*pieces, text[position:]])


def _with_lines(nodes: Iterable[Node], lines: Iterator[int]) -> tuple[Element, ...]:
    """Convert nodes to elements; `lines` are the line numbers of the start tags, in order."""
    elements = []
    for name, content, _attributes in nodes:
        line = next(lines, 0)
        if isinstance(content, list):
            elements.append(Element(name, "", _with_lines(content, lines), line))
        else:
            text = None if content is None else xml.unescape(content)
            elements.append(Element(name, text, (), line))
    return tuple(elements)


def _where(text: str) -> tuple[int, str]:
    """Return the line and name of the first unmatched tag, or (0, "") if all tags match."""
    stack: list[tuple[str, int]] = []
    line, seen = 1, 0
    for tag in _TAG.finditer(text):
        line += text.count("\n", seen, tag.start())
        seen = tag.start()
        if tag[1]:
            if not stack or stack[-1][0] != tag[2]:
                return (stack[-1][1], stack[-1][0]) if stack else (line, tag[2])
            stack.pop()
        elif not tag[3]:
            stack.append((tag[2], line))
    return (stack[-1][1], stack[-1][0]) if stack else (0, "")
