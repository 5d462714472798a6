"""Parses the requests of BOINC's submitters.

A request is one element with the name of its command and a child `<authenticator>` (PROTOCOL 8.2).
Ambiguous requests are refused, unlike requests of volunteers' clients, because a misread submission
would be computed with wrong input.

This module uses no database, files or clock.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from scheduler.boinc.wire import xml
from scheduler.boinc.wire.xml import BadXml, Node

_RAW: Final = frozenset({"input_template", "output_template"})
_BEGINS: Final = re.compile(rb"<([A-Za-z_][A-Za-z0-9_]{0,63})\s*(/?)>")
_ENCODING: Final = re.compile(rb"\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9._-]{1,40})")
_LATIN: Final = frozenset({"iso-8859-1", "latin1", "latin-1", "windows-1252", "cp1252"})
_UTF8: Final = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_ASIDE: Final = ((b"<?", b"?>"), (b"<!--", b"-->"))

Texts = Mapping[str, "tuple[str, ...]"]


@dataclass(frozen=True, slots=True)
class _TextChildren:
    """The texts of an element's children by name; children with child elements are left out."""

    by_name: Texts = field(default_factory=dict)

    def text(self, name: str) -> str:
        """Return the stripped text of the first child of this name, or "" if there is no child."""
        return self.by_name.get(name, ("",))[0].strip()

    def texts(self, name: str) -> list[str]:
        """Return the texts of all children of this name, stripped."""
        return [text.strip() for text in self.by_name.get(name, ())]

    def has(self, name: str) -> bool:
        """Return True if there is a child of this name."""
        return name in self.by_name

    def whole(self, name: str) -> int:
        """Return the first child of this name as a whole number; 0 if it is not a number."""
        return xml.to_int(self.text(name), xml.INT64)

    def real(self, name: str) -> float:
        """Return the first child of this name as a number; 0 if it is not a number."""
        return xml.to_real(self.text(name))


@dataclass(frozen=True, slots=True)
class InputFile(_TextChildren):
    """An ``<input_file>``; `source` is not stripped, because it may be the content of the file."""

    @property
    def source(self) -> str:
        """The text of ``<source>``, unchanged."""
        return self.by_name.get("source", ("",))[0]


@dataclass(frozen=True, slots=True)
class JobElement(_TextChildren):
    """A ``<job>``; each template is the raw text inside its wrapper, or None if it is missing."""

    input_template: str | None = None
    output_template: str | None = None
    input_files: tuple[InputFile, ...] = ()


@dataclass(frozen=True, slots=True)
class BatchElement(_TextChildren):
    """A ``<batch>`` of `submit_batch` and `estimate_batch`."""

    job_params: _TextChildren = field(default_factory=_TextChildren)
    jobs: tuple[JobElement, ...] = ()


@dataclass(frozen=True, slots=True)
class Request(_TextChildren):
    """One request: the command, the parameters, and the submitted batch, if any."""

    command: str = ""
    batch: BatchElement | None = None


def read_request(body: bytes | bytearray) -> Request:
    """Parse a request; raises `BadXml`."""
    text = _as_utf8(bytes(body))
    root, is_empty = _root(text)
    if is_empty:
        return Request(command=root)
    nodes = list(xml.read_tree(text, root, raw=_RAW))
    batches = [content for name, content, _ in nodes if name == "batch"]
    batch = next(
        (_batch(content) for content in reversed(batches) if isinstance(content, list)), None
    )
    return Request(_texts(nodes), command=root, batch=batch)


def _as_utf8(body: bytes) -> bytes:
    match = _ENCODING.match(body)
    encoding = match[1].decode().lower() if match else "utf-8"
    if encoding in _LATIN:
        body = body.decode("latin-1").encode()
    elif encoding not in _UTF8:
        raise BadXml(f"The encoding {encoding} is not supported. Hint: send UTF-8.")
    if _CONTROL.search(body):
        message = "The request has a control character. Hint: XML allows only tabs and line ends."
        raise BadXml(message)
    try:
        body.decode()
    except UnicodeDecodeError as error:
        message = f"Byte {error.start} is not valid UTF-8. Hint: encode the request as UTF-8."
        raise BadXml(message) from None
    return body


def _root(body: bytes) -> tuple[str, bool]:
    """Return the name of the outermost element, and whether it is empty."""
    position = 3 if body.startswith(b"\xef\xbb\xbf") else 0
    while True:
        while position < len(body) and body[position : position + 1].isspace():
            position += 1
        for opener, closer in _ASIDE:
            if body.startswith(opener, position):
                end = body.find(closer, position)
                position = len(body) if end < 0 else end + len(closer)
                break
        else:
            break
    if match := _BEGINS.match(body, position):
        return match[1].decode(), bool(match[2])
    if body.startswith(b"<!", position):
        message = "A document type declaration is not accepted."
    else:
        message = "The request does not begin with an element. Hint: send XML in field `request`."
    raise BadXml(message)


def _texts(nodes: Iterable[Node]) -> dict[str, tuple[str, ...]]:
    texts: dict[str, list[str]] = {}
    for name, content, _attributes in nodes:
        if not isinstance(content, list):
            texts.setdefault(name, []).append(xml.unescape(content or ""))
    return {name: tuple(values) for name, values in texts.items()}


def _batch(nodes: list[Node]) -> BatchElement:
    params = next((c for n, c, _ in nodes if n == "job_params" and isinstance(c, list)), [])
    return BatchElement(
        _texts(node for node in nodes if node[0] not in {"job", "job_params"}),
        job_params=_TextChildren(_texts(params)),
        jobs=tuple(
            _job(content if isinstance(content, list) else [])
            for name, content, _ in nodes
            if name == "job"
        ),
    )


def _job(nodes: list[Node]) -> JobElement:
    return JobElement(
        _texts(node for node in nodes if node[0] not in _RAW),
        input_template=_raw(nodes, "input_template"),
        output_template=_raw(nodes, "output_template"),
        input_files=tuple(
            InputFile(_texts(content if isinstance(content, list) else []))
            for name, content, _ in nodes
            if name == "input_file"
        ),
    )


def _raw(nodes: Iterable[Node], name: str) -> str | None:
    return next((c for n, c, _ in nodes if n == name and isinstance(c, str)), None)
