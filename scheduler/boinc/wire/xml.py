"""Reads and writes BOINC's dialect of XML.

BOINC's clients write with `printf` and read by string search, so this is a tokenizer of that
dialect, not an XML parser: it does not support entities, DTDs or namespaces, and opens no URLs.
Input that it cannot read raises `BadXml`. Every scan is linear in the size of the body.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

MAX_BYTES: Final = 64 * 1024 * 1024
"""The maximum size of a body: about 1000 results with a full stderr each."""
MAX_ELEMENTS: Final = 400_000
MAX_DEPTH: Final = 32

INT32: Final = 2**31 - 1
INT64: Final = 2**63 - 1
MAX_REAL: Final = 1.7976931348623157e308


class BadXml(ValueError):
    """A body cannot be read; the message has the reason, and may be sent to a volunteer."""


class CannotEncode(ValueError):
    """A message contains a value that cannot be encoded unchanged."""


Node: TypeAlias = "tuple[str, str | list[Node] | None, str]"
"""An element: its name, its content and the text of its attributes.

The content is None for `<x/>`, a str (with its escapes) for text or raw content, and a list of
nodes for an element with child elements. It is a plain tuple, because requests have hundreds of
elements.
"""


# ------------------------------------------------------------------------------------------
# Reading
# ------------------------------------------------------------------------------------------

# Control characters are not text in any charset that clients use, and PostgreSQL refuses NUL.
_CLEAN: Final = bytes(
    ord("?") if byte < ord(" ") and byte not in b"\t\n\r" else byte for byte in range(256)
)
_LONG: Final = 1 << 20
_UNCLEAN: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_NAME = r"[A-Za-z_][\w.:-]{0,63}"
_TOKEN: Final = re.compile(
    rf"<({_NAME})>([^<]*+)</\1\s*>"  # 1, 2: an element that contains only text, the common case
    rf"|</({_NAME})\s*>"  # 3: an end tag
    rf"|<({_NAME})(\s[^<>]*?)?(/)?>"  # 4, 5, 6: a start tag or an empty element
    r"|<(!--|!\[CDATA\[|\?|!)"  # 7: anything else that begins with <
)
_LEAF, _END = 2, 3
# Most of a request consists of runs of elements that contain only text, in the format of clients.
# Each run is scanned as a whole; _TOKEN matches everything else.
_PLAIN: Final = r"<([A-Za-z_][A-Za-z0-9_]{0,63}+)>([^<]*+)</\1>"
_MAX_RUN: Final = 4096
# Atomic, because Python before 3.11.5 has a bug in possessive groups (gh-106052).
_LEAVES: Final = re.compile(rf"(?>(?:[^<]*+{_PLAIN}){{1,{_MAX_RUN}}})")
_EACH_LEAF: Final = re.compile(rf"{_PLAIN}()")
"""The three groups of a match form a `Node`."""
_CDATA_BEGINS: Final = re.compile(
    r"\s*(?:<core_client_version>[^<]*+</core_client_version>\s*)?<!\[CDATA\["
)
_STDERR_ENDS: Final = re.compile(r"\]\]>\s*</stderr_out>")


def read_tree(body: bytes | bytearray, root: str, *, raw: AbstractSet[str]) -> Iterator[Node]:
    """Yield the children of the first `<root>` in `body`; text around it is ignored.

    Elements named in `raw` are read as text up to their literal end tag. A raw `<stderr_out>` ends
    at the end of its CDATA section, so that tags in the output of an app remain text.

    The nodes are created lazily, in runs of limited length, so that the whole tree of a large body
    is never in memory together with the messages created from it. Raises BadXml, possibly after
    some nodes, if the body is too large, has no `<root>`, has too many or too deeply nested
    elements, declares a document type, or lacks an end tag.
    """
    if len(body) > MAX_BYTES:
        raise BadXml(f"The request of {len(body)} bytes is longer than {MAX_BYTES} bytes.")
    # A search takes longer than a copy, but a copy of a long body needs much memory.
    if len(body) <= _LONG or _UNCLEAN.search(body):
        body = body.translate(_CLEAN)
    text = body.decode("utf-8", "replace")
    start = text.find(f"<{root}>")
    if start < 0:
        raise BadXml(f"There is no <{root}> in the request.")
    if "<!DOCTYPE" in text[:start].upper() or "<!ENTITY" in text[:start].upper():
        raise BadXml("A document type declaration is not accepted.")
    return _Reader(text, raw).children_of(root, start + len(root) + 2)


class _Reader:
    """Reads one text in a single pass."""

    def __init__(self, text: str, raw: AbstractSet[str]) -> None:
        self.text = text
        self.raw = raw
        self.children: list[Node] = []
        """The children of the innermost open element."""
        self.stack: list[tuple[str, str, list[Node], list[str]]] = []
        """The open elements: name, attributes, the children of the parent, text so far."""
        self.stderr_markers = True
        """False once the text has no further `]]></stderr_out>`."""

    def children_of(self, root: str, position: int) -> Iterator[Node]:
        """Yield the children of `root`, whose start tag ends at `position`."""
        self.stack.append((root, "", [], []))
        left = MAX_ELEMENTS
        while left > 0:
            if self.children and len(self.stack) == 1:
                yield from self.children
                self.children = []
            if leaves := _LEAVES.match(self.text, position):
                nodes = _EACH_LEAF.findall(self.text, position, leaves.end())
                self.children += nodes
                left -= len(nodes)
                position = leaves.end()
                continue
            token = _TOKEN.search(self.text, position)
            if token is None:
                raise BadXml(f"The request ends before </{self.stack[-1][0]}>.")
            left -= 1
            if token.lastindex == _LEAF:
                self.children.append((token[1], token[2], ""))
                position = token.end()
            elif token.lastindex == _END:
                self._close(token[3], self.text[position : token.start()])
                if not self.stack:
                    return
                position = token.end()
            else:
                position = self._open(token, position)
        raise BadXml(f"There are more than {MAX_ELEMENTS} elements.")

    def _close(self, name: str, text: str) -> None:
        """Close the innermost element; `text` is the text before the end tag. Raises BadXml."""
        opened, attributes, siblings, pieces = self.stack.pop()
        if opened != name:
            raise BadXml(f"<{opened}> is not closed: </{name}> came first.")
        if self.stack:
            pieces.append(text)
            siblings.append((name, self.children or "".join(pieces), attributes))
            self.children = siblings

    def _open(self, token: re.Match[str], position: int) -> int:
        """Open an element, or read an element without children or a CDATA section.

        Returns the position after the parsed text.
        """
        name, attributes, is_empty = token[4], token[5] or "", token[6]
        end = token.end()
        if token[7]:
            piece, end = self._markup(token[7], end)
            self.stack[-1][3].extend((self.text[position : token.start()], piece))
        elif is_empty:
            self.children.append((name, None, attributes))
        elif name in self.raw:
            content, end = self._raw(name, end)
            self.children.append((name, content, ""))
        else:
            self.stack.append((name, attributes, self.children, []))
            self.children = []
            if len(self.stack) > MAX_DEPTH:
                raise BadXml(f"The elements are nested deeper than {MAX_DEPTH}.")
        return end

    def _markup(self, opener: str, position: int) -> tuple[str, int]:
        """Skip a comment or instruction, or read a CDATA section.

        Returns the escaped text of the CDATA section and the position after it.  The text is empty
        for a comment or instruction.
        """
        if opener == "!":
            raise BadXml("A document type declaration is not accepted.")
        closer = {"!--": "-->", "![CDATA[": "]]>", "?": "?>"}[opener]
        end = self.text.find(closer, position)
        if end < 0:
            raise BadXml(f"<{opener} is not closed by {closer}.")
        piece = self.text[position:end] if opener == "![CDATA[" else ""
        return piece.replace("&", "&amp;"), end + len(closer)

    def _raw(self, name: str, position: int) -> tuple[str, int]:
        """Return the text from `position` to the literal end tag, and the position after it."""
        # The app may have printed </stderr_out>; only the client prints it after "]]>".
        has_section = name == "stderr_out" and _CDATA_BEGINS.match(self.text, position)
        if has_section and self.stderr_markers:
            if marker := _STDERR_ENDS.search(self.text, position):
                return self.text[position : marker.start() + 3], marker.end()
            self.stderr_markers = False  # otherwise a hostile body makes this search quadratic
        end = self.text.find(f"</{name}>", position)
        if end < 0:
            raise BadXml(f"The request ends before </{name}>.")
        return self.text[position:end], end + len(name) + 3


_REFERENCE: Final = re.compile(
    r"(?:&\#(?:[0-9]{1,7}|[xX][0-9a-fA-F]{1,6});)+|&(lt|gt|amp|quot|apos);"
)
_NUMBER: Final = re.compile(r"&#([^;]+);")
_NAMED: Final = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}


def unescape(text: str) -> str:
    """Resolve the escapes that BOINC writes; any other & is left unchanged.

    BOINC's `xml_escape` writes every byte above 127 as a separate reference, so a run of references
    below 256 is decoded as UTF-8, or as Latin-1 if it is not valid UTF-8.

    >>> unescape("&lt;Zo&#195;&#171; &#38; Zo&#235;&gt; &nbsp;")
    '<Zoë & Zoë> &nbsp;'
    """
    return _REFERENCE.sub(_resolve, text) if "&" in text else text


def _resolve(match: re.Match[str]) -> str:
    if match[1]:
        return _NAMED[match[1]]
    codes = [
        int(number[1:], 16) if number[0] in "xX" else int(number)
        for number in _NUMBER.findall(match[0])
    ]
    if max(codes) < 256:  # noqa: PLR2004 - a byte
        try:
            return bytes(codes).translate(_CLEAN).decode()
        except UnicodeDecodeError:
            return bytes(codes).translate(_CLEAN).decode("latin-1")
    return "".join(_character(code) for code in codes)


def _character(code: int) -> str:
    if code < 32 and code not in {9, 10, 13}:  # noqa: PLR2004 - a control character
        return "?"
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:  # noqa: PLR2004 - not a character
        return "\ufffd"
    return chr(code)


def cut(text: str, limit: int) -> str:
    """Return the longest start of `text` that fits in `limit` bytes of UTF-8."""
    if len(text) * 4 <= limit:
        return text
    if len(text) <= limit and len(text.encode("utf-8", "replace")) <= limit:
        return text
    return text[:limit].encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")


_STRTOD: Final = re.compile(r"\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def to_real(text: str) -> float:
    """Parse a number as C's strtod does: skips leading white space, ignores trailing characters.

    Returns 0 for NaN or if there is no number, and the largest finite number for infinity.

    >>> to_real(" 1e10"), to_real("12abc"), to_real("-inf"), to_real("nan"), to_real("")
    (10000000000.0, 12.0, -1.7976931348623157e+308, 0.0, 0.0)
    """
    try:
        value = float(text)
    except ValueError:
        match = _STRTOD.match(text)
        value = float(match[0]) if match else 0.0
    else:
        if "_" in text:  # only Python accepts float("1_000")
            return to_real(text.partition("_")[0])
    if value != value:  # noqa: PLR0124 - the test for not-a-number
        return 0.0
    return max(-MAX_REAL, min(MAX_REAL, value))


def to_int(text: str, bound: int = INT32) -> int:
    """Parse a number, drop the fraction, and clamp the number to -bound-1..bound.

    >>> to_int("42"), to_int("19.000000", INT64), to_int("99999999999"), to_int("x")
    (42, 19, 2147483647, 0)
    """
    try:
        value = int(text)
    except ValueError:
        value = int(to_real(text))
    else:
        if "_" in text:
            return to_int(text.partition("_")[0], bound)
    return max(-bound - 1, min(bound, value))


def to_exit_status(text: str) -> int:
    """Parse an exit status as the signed 32-bit number that BOINC stores.

    >>> to_exit_status("3221225477"), to_exit_status("-186")
    (-1073741819, -186)
    """
    value = to_int(text, INT64)
    if INT32 < value < 2 * (INT32 + 1):
        return value - 2 * (INT32 + 1)
    return max(-INT32 - 1, min(INT32, value))


# ------------------------------------------------------------------------------------------
# Writing
# ------------------------------------------------------------------------------------------

_UNSAFE: Final = re.compile(r"[&<>\x00-\x08\x0b\x0c\x0e-\x1f]")
_SAFE: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_MAX_NUMBER_LENGTH: Final = 40


def escape(text: str) -> str:
    """Escape `text` for use between two tags; a control character becomes a question mark.

    >>> escape("R&D <b>")
    'R&amp;D &lt;b&gt;'
    """
    if not _UNSAFE.search(text):
        return text
    return _UNSAFE.sub(lambda match: _SAFE.get(match[0], "?"), text)


def real_text(value: float) -> str:
    """Format a number without an exponent if that is short; the text parses to the same value.

    Raises CannotEncode for NaN and infinities.

    >>> real_text(1e22), real_text(0.1), real_text(3600.0), real_text(1e-7)
    ('10000000000000000000000', '0.1', '3600', '0.0000001')
    """
    if value != value or abs(value) > MAX_REAL:  # noqa: PLR0124 - the test for not-a-number
        raise CannotEncode(f"{value} is not a number that a client can read.")
    text = repr(float(value))
    if text.endswith(".0"):
        return text[:-2]
    if "e" in text:
        positional = f"{Decimal(text):f}"
        return positional if len(positional) <= _MAX_NUMBER_LENGTH else text
    return text
