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

from scheduler.boinc.wire import shapes, xml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from scheduler.boinc.wire.xml import Node

_NAME: Final = re.compile(r"""\bname\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_VENUE: Final = "venue"
#: Markup that clients do not read: comments, CDATA, instructions, and `<` outside of a tag.
_UNUSUAL: Final = re.compile(r"<(?![A-Za-z_/])|<[^<>]*(?:<|\Z)")


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
    """Return the elements of stored preferences, without a tag around them; raise `Unreadable`.

    A text that contains the tag `form.root` elsewhere is unreadable, because a client ends the
    preferences in a reply at this tag.
    """
    root = "r"
    while f"</{root}" in text:  # otherwise "</r><r>" would be accepted
        root += "_"
    try:
        body = f"<{root}>{text}</{root}>".encode("utf-8", "replace")
        nodes = list(xml.read_tree(body, root, raw=frozenset()))
    except xml.BadXml as error:
        raise Unreadable(str(error)) from error
    while len(nodes) == 1 and nodes[0][0] == form.root:
        nodes = nodes[0][1] if isinstance(nodes[0][1], list) else []
    if _contains(nodes, form.root):
        raise Unreadable(f"<{form.root}> is inside the preferences.")
    return nodes


def sendable(text: str, form: Format) -> str | None:
    """Return the text of stored preferences for clients; None if it is unreadable or too long.

    A text that clients read as it is stored is returned unchanged.  In other texts, CDATA
    sections and each `<` outside of a tag are escaped, and comments and a tag around the text are
    removed.
    """
    has_root = f"<{form.root}" in text or f"</{form.root}" in text
    is_plain = not has_root and not _UNUSUAL.search(text)
    if not (is_plain and shapes.is_balanced(form.root, text)):
        try:
            text = "\n".join(_lines(parse(text, form)))
        except Unreadable:
            return None
    return text if xml.cut(text, shapes.TEXT_LIMIT) == text else None


def has_settings(text: str, location: str, form: Format) -> bool:
    """Return True if stored preferences have settings that a client at a location uses."""
    try:
        nodes = parse(text, form)
    except Unreadable:
        return False
    own = section(nodes, location, form) if location else None
    return own is not None or bool(section(nodes, "", form))


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


def in_force(nodes: Sequence[Node], location: str, form: Format) -> list[Node]:
    """Return the elements that apply at a location: its own ones, or the general ones."""
    own = section(nodes, location, form)
    return own if own is not None else section(nodes, "", form) or []


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
    not known settings are kept, unless `keep` is False.  Locations are kept, except that those
    without a name, which apply nowhere, are dropped with the unknown elements.
    """
    former = section(nodes, location, form) or []
    changed: list[Node] = [(name, value, "") for name, value in values]
    if keep:
        changed += _without(former, form)
    if not location:
        venues = [node for node in nodes if node[0] == _VENUE and (keep or _location(node))]
        return [*changed, *venues]
    name = xml.escape(location).replace('"', "&quot;")
    return [*without_location(nodes, location), (_VENUE, changed, f' name="{name}"')]


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
    return xml.unescape(name[1] or name[2] or "") if name else ""


def _contains(nodes: Sequence[Node], name: str) -> bool:
    """Return True if the elements, or those inside of them, include one with this name."""
    return any(
        node[0] == name or (isinstance(node[1], list) and _contains(node[1], name))
        for node in nodes
    )


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
    """Yield the lines of elements.

    Texts are escaped again: the content of a CDATA section contains `<` and `>` unescaped.
    """
    for name, content, attributes in nodes:
        if content is None:
            yield f"<{name}{attributes}/>"
        elif isinstance(content, list):
            yield f"<{name}{attributes}>"
            yield from _lines(content)
            yield f"</{name}>"
        else:
            text = xml.escape(xml.unescape(content))
            yield f"<{name}{attributes}>{text}</{name}>"
