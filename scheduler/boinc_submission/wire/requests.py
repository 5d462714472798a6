"""What BOINC's submitters ask: their two handlers' requests, read [pure].

A request is one element, named for what is asked, with `<authenticator>` among its children
(PROTOCOL 8.2).  Whatever cannot be read without a guess is refused: where a volunteer's client is
forgiven, a submitter must be told, for what he submits is computed as it was read.
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

Said = Mapping[str, "tuple[str, ...]"]


@dataclass(frozen=True, slots=True)
class _Words:
    """The children of an element that hold text, by their names."""

    said: Said = field(default_factory=dict)

    def text(self, name: str) -> str:
        """The first, without white space around it; empty if there is none."""
        return self.said.get(name, ("",))[0].strip()

    def texts(self, name: str) -> list[str]:
        """All of them, without white space around each."""
        return [text.strip() for text in self.said.get(name, ())]

    def has(self, name: str) -> bool:
        """Whether there is one."""
        return name in self.said

    def whole(self, name: str) -> int:
        """The first as a whole number, 0 if it is none."""
        return xml.to_int(self.text(name), xml.INT64)

    def real(self, name: str) -> float:
        """The first as a number, 0 if it is none."""
        return xml.to_real(self.text(name))


@dataclass(frozen=True, slots=True)
class InputFile(_Words):
    """An ``<input_file>``; `source` keeps its white space: it may be a content."""

    @property
    def source(self) -> str:
        """What stands in ``<source>``, unchanged."""
        return self.said.get("source", ("",))[0]


@dataclass(frozen=True, slots=True)
class JobSaid(_Words):
    """A ``<job>``; its own templates are raw, without their wrapper, None if there are none."""

    input_template: str | None = None
    output_template: str | None = None
    input_files: tuple[InputFile, ...] = ()


@dataclass(frozen=True, slots=True)
class BatchSaid(_Words):
    """A ``<batch>`` of `submit_batch` and `estimate_batch`."""

    job_params: _Words = field(default_factory=_Words)
    jobs: tuple[JobSaid, ...] = ()


@dataclass(frozen=True, slots=True)
class Request(_Words):
    """One request: the command, its words, and what it submits."""

    command: str = ""
    batch: BatchSaid | None = None


def read_request(body: bytes | bytearray) -> Request:
    """Read a request; raises `BadXml`."""
    text = _as_utf8(bytes(body))
    root, is_empty = _root(text)
    if is_empty:
        return Request(command=root)
    words: dict[str, list[str]] = {}
    batch = None
    for name, content, _attributes in xml.read_tree(text, root, raw=_RAW):
        if name == "batch" and isinstance(content, list):
            batch = _batch(content)
        elif not isinstance(content, list):
            words.setdefault(name, []).append(xml.unescape(content or ""))
    return Request(_tuples(words), command=root, batch=batch)


def _as_utf8(body: bytes) -> bytes:
    said = _ENCODING.match(body)
    encoding = said[1].decode().lower() if said else "utf-8"
    if encoding in _LATIN:
        body = body.decode("latin-1").encode()
    elif encoding not in _UTF8:
        message = f"The encoding {encoding} is not read here. Hint: send UTF-8."
        raise BadXml(message)
    if _CONTROL.search(body):
        message = "There is a control character in it. Hint: XML has none but tab and line ends."
        raise BadXml(message)
    try:
        body.decode()
    except UnicodeDecodeError as error:
        message = f"Byte {error.start} is no UTF-8. Hint: encode the request as UTF-8."
        raise BadXml(message) from None
    return body


def _root(body: bytes) -> tuple[str, bool]:
    """The name of the outermost element, and whether it is empty."""
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
    if found := _BEGINS.match(body, position):
        return found[1].decode(), bool(found[2])
    if body.startswith(b"<!", position):
        message = "A document type declaration is not accepted."
    else:
        message = "It does not begin with an element. Hint: send the field request, as a form."
    raise BadXml(message)


def _tuples(words: Mapping[str, list[str]]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(texts) for name, texts in words.items()}


def _said(nodes: Iterable[Node]) -> dict[str, tuple[str, ...]]:
    words: dict[str, list[str]] = {}
    for name, content, _attributes in nodes:
        if not isinstance(content, list):
            words.setdefault(name, []).append(xml.unescape(content or ""))
    return _tuples(words)


def _batch(nodes: list[Node]) -> BatchSaid:
    params = next((c for n, c, _ in nodes if n == "job_params" and isinstance(c, list)), [])
    return BatchSaid(
        _said(node for node in nodes if node[0] not in {"job", "job_params"}),
        job_params=_Words(_said(params)),
        jobs=tuple(
            _job(content if isinstance(content, list) else [])
            for name, content, _ in nodes
            if name == "job"
        ),
    )


def _job(nodes: list[Node]) -> JobSaid:
    return JobSaid(
        _said(node for node in nodes if node[0] not in _RAW),
        input_template=_raw(nodes, "input_template"),
        output_template=_raw(nodes, "output_template"),
        input_files=tuple(
            InputFile(_said(content if isinstance(content, list) else []))
            for name, content, _ in nodes
            if name == "input_file"
        ),
    )


def _raw(nodes: Iterable[Node], name: str) -> str | None:
    return next((c for n, c, _ in nodes if n == name and isinstance(c, str)), None)
