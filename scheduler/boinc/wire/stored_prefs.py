"""Edits stored preferences: replaces settings and keeps unknown elements.

A text of preferences contains the general settings, and a `<venue>` element with the settings of
each location that has its own.  A client at such a location uses only the settings in that element.

This module uses no database, files or clock.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from scheduler.boinc.wire import xml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from scheduler.boinc.wire.xml import Node

_NAME: Final = re.compile(r"""\bname\s*=\s*["']([^"']*)["']""")
_VENUE: Final = "venue"


class Unreadable(ValueError):
    """The stored preferences cannot be parsed."""


@dataclass(frozen=True, slots=True)
class Format:
    """The format of a kind of preferences.

    `setting_names` are the names of the settings, and `metadata` those of elements that describe
    the whole text.  If `nested` is set, settings may be inside other elements.
    """

    root: str
    setting_names: frozenset[str]
    metadata: frozenset[str] = frozenset()
    nested: bool = False


def parse(text: str, form: Format) -> list[Node]:
    """Return the elements of stored preferences, without a tag around them; raise `Unreadable`."""
    try:
        body = f"<{form.root}>{text}</{form.root}>".encode("utf-8", "replace")
        nodes = list(xml.read_tree(body, form.root, raw=frozenset()))
    except xml.BadXml as error:
        raise Unreadable(str(error)) from error
    if len(nodes) == 1 and nodes[0][0] == form.root and isinstance(nodes[0][1], list):
        return nodes[0][1]
    return nodes


def locations(nodes: Sequence[Node]) -> tuple[str, ...]:
    """Return the names of the locations that have their own settings."""
    names = (_location(node) for node in nodes if node[0] == _VENUE)
    return tuple(dict.fromkeys(name for name in names if name))


def section(nodes: Sequence[Node], location: str, form: Format) -> list[Node] | None:
    """Return the elements of a location, "" for the general ones; None if it has none of its own.

    >>> form = Format("p", frozenset())
    >>> section(parse('<a>1</a><venue name="home"><a>2</a></venue>', form), "home", form)
    [('a', '2', '')]
    """
    if not location:
        return [node for node in nodes if node[0] not in {_VENUE, *form.metadata}]
    for node in nodes:
        if node[0] == _VENUE and _location(node) == location:
            return node[1] if isinstance(node[1], list) else []
    return None


def settings(nodes: Sequence[Node], form: Format) -> Mapping[str, list[str | None]]:
    """Return the texts of each known setting of a section; None is the text of `<x/>`."""
    texts: dict[str, list[str | None]] = defaultdict(list)
    for name, content, _attributes in _leaves(nodes, form):
        if name in form.setting_names and not isinstance(content, list):
            texts[name].append(content)
    return texts


def others(nodes: Sequence[Node], form: Format) -> tuple[str, ...]:
    """Return the names of the elements of a section that are not known settings."""
    kept_nodes = _without(nodes, form)
    return tuple(dict.fromkeys(node[0] for node in kept_nodes))


def with_section(
    nodes: Sequence[Node],
    location: str,
    form: Format,
    values: Sequence[tuple[str, str]],
    *,
    keep: bool = True,
) -> list[Node]:
    """Return the elements with other settings for a location, which is added if it is new.

    The settings come first, because the first occurrence of an element counts.  Elements that are
    not known settings are kept, unless `keep` is False.
    """
    former = section(nodes, location, form) or []
    changed: list[Node] = [(name, value, "") for name, value in values]
    if keep:
        changed += _without(former, form)
    if not location:
        return [*changed, *(node for node in nodes if node[0] == _VENUE)]
    rest = without_location(nodes, location)
    return [*rest, (_VENUE, changed, f' name="{xml.escape(location)}"')]


def without_location(nodes: Sequence[Node], location: str) -> list[Node]:
    """Return the elements without those of a location."""
    return [node for node in nodes if node[0] != _VENUE or _location(node) != location]


def text_of(nodes: Sequence[Node], metadata: Sequence[tuple[str, str]], form: Format) -> str:
    """Return the text of elements, after the given metadata, which replace the former ones."""
    lead: list[Node] = [(name, value, "") for name, value in metadata]
    content = [node for node in nodes if node[0] not in form.metadata]
    return "\n".join(_lines([*lead, *content]))


def digest(nodes: Sequence[Node] | None) -> str:
    """Return a text that differs if a section was changed, added or removed."""
    text = "" if nodes is None else "\n".join(["section", *_lines(nodes)])
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


def _location(node: Node) -> str:
    name = _NAME.search(node[2])
    return xml.unescape(name[1]) if name else ""


def _leaves(nodes: Sequence[Node], form: Format) -> Iterator[Node]:
    for node in nodes:
        if node[0] != _VENUE:
            yield node
            if form.nested and isinstance(node[1], list):
                yield from _leaves(node[1], form)


def _without(nodes: Sequence[Node], form: Format) -> list[Node]:
    """Return the elements without known settings, and without elements that had only these."""
    kept_nodes: list[Node] = []
    for name, content, attributes in nodes:
        if name in form.setting_names and not isinstance(content, list):
            continue
        if form.nested and isinstance(content, list):
            children = _without(content, form)
            if children:
                kept_nodes.append((name, children, attributes))
        else:
            kept_nodes.append((name, content, attributes))
    return kept_nodes


def _lines(nodes: Sequence[Node]) -> Iterator[str]:
    for name, content, attributes in nodes:
        if content is None:
            yield f"<{name}{attributes}/>"
        elif isinstance(content, list):
            yield f"<{name}{attributes}>"
            yield from _lines(content)
            yield f"</{name}>"
        else:
            yield f"<{name}{attributes}>{content}</{name}>"
