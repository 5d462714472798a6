"""BOINC's XML dialect: lenient to read, exact to write.

BOINC's clients write by `printf` and read by string search, so this is a tokenizer of that dialect
and no XML parser: there are no entities to expand, no DTD, no namespaces, nothing to fetch. What
it does not forgive, it refuses with `BadXml`. Every scan is linear in the size of the body.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

MAX_BYTES: Final = 64 * 1024 * 1024
"""A body longer than this is refused: about 1000 results with a full stderr each."""
MAX_ELEMENTS: Final = 400_000
MAX_DEPTH: Final = 32

INT32: Final = 2**31 - 1
INT64: Final = 2**63 - 1
MAX_REAL: Final = 1.7976931348623157e308


class BadXml(ValueError):
    """A body cannot be read; the text says why in words that may be sent to a volunteer."""


class Unsayable(ValueError):
    """A message holds a value that the wire cannot carry without changing it."""


Node: TypeAlias = "tuple[str, str | list[Node] | None, str]"
"""An element: its name, its content and the text of its attributes.

The content is None for `<x/>`, a str (escapes still in it) for text or raw content, and a list of
nodes for an element with elements inside. A plain tuple: requests have hundreds of them.
"""


# ------------------------------------------------------------------------------------------
# Reading
# ------------------------------------------------------------------------------------------

# Control characters are no text in any charset that clients use, and PostgreSQL refuses NUL.
_CLEAN: Final = bytes(
    ord("?") if byte < ord(" ") and byte not in b"\t\n\r" else byte for byte in range(256)
)
_LONG: Final = 1 << 20
_UNCLEAN: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_NAME = r"[A-Za-z_][\w.:-]{0,63}"
_TOKEN: Final = re.compile(
    rf"<({_NAME})>([^<]*+)</\1\s*>"  # 1, 2: an element with nothing but text, the common case
    rf"|</({_NAME})\s*>"  # 3: an end tag
    rf"|<({_NAME})(\s[^<>]*?)?(/)?>"  # 4, 5, 6: a start tag or an empty element
    r"|<(!--|!\[CDATA\[|\?|!)"  # 7: what else begins with <
)
_LEAF, _END = 2, 3
# Most of a request are runs of elements with nothing but text, each written as clients write
# them; these are scanned as a whole. Whatever looks otherwise is for _TOKEN.
_PLAIN: Final = r"<([A-Za-z_][A-Za-z0-9_]{0,63}+)>([^<]*+)</\1>"
_AT_ONCE: Final = 4096
# Atomic, because Python before 3.11.5 errs about the end of a possessive group (gh-106052).
_LEAVES: Final = re.compile(rf"(?>(?:[^<]*+{_PLAIN}){{1,{_AT_ONCE}}})")
_EACH_LEAF: Final = re.compile(rf"{_PLAIN}()")
"""Its three groups are a `Node`."""
_CDATA_BEGINS: Final = re.compile(
    r"\s*(?:<core_client_version>[^<]*+</core_client_version>\s*)?<!\[CDATA\["
)
_STDERR_ENDS: Final = re.compile(r"\]\]>\s*</stderr_out>")


def read_tree(body: bytes | bytearray, root: str, *, raw: AbstractSet[str]) -> Iterator[Node]:
    """Read the children of the first `<root>` in `body`; what surrounds it is ignored.

    Elements named in `raw` are taken as text up to their literal end tag. `<stderr_out>` among
    them ends where its CDATA section does, so that whatever an app printed stays text.

    They come one after the other, so that a large body is never in memory as a whole tree beside
    what is made of it. Raises BadXml, on the way, if the body is too large, too deep, has too many
    elements, declares a document type, or lacks an end tag.
    """
    if len(body) > MAX_BYTES:
        message = f"The request of {len(body)} bytes is longer than {MAX_BYTES} bytes."
        raise BadXml(message)
    # To look takes longer than to make a copy, but of a long body a copy takes much memory.
    if len(body) <= _LONG or _UNCLEAN.search(body):
        body = body.translate(_CLEAN)
    text = body.decode("utf-8", "replace")
    start = text.find(f"<{root}>")
    if start < 0:
        message = f"There is no <{root}> in the request."
        raise BadXml(message)
    if "<!DOCTYPE" in text[:start].upper() or "<!ENTITY" in text[:start].upper():
        message = "A document type declaration is not accepted."
        raise BadXml(message)
    return _Reader(text, raw).children_of(root, start + len(root) + 2)


class _Reader:
    """One pass over one text."""

    def __init__(self, text: str, raw: AbstractSet[str]) -> None:
        self.text = text
        self.raw = raw
        self.children: list[Node] = []
        """Of the innermost open element."""
        self.stack: list[tuple[str, str, list[Node], list[str]]] = []
        """The open elements: name, attributes, the children of the parent, text so far."""
        self.stderr_markers = True
        """Whether a further end marker of a CDATA section in a `<stderr_out>` may exist."""

    def children_of(self, root: str, position: int) -> Iterator[Node]:
        """Yield the children of `root`, whose start tag ended before `position`."""
        self.stack.append((root, "", [], []))
        left = MAX_ELEMENTS
        while left > 0:
            if self.children and len(self.stack) == 1:
                yield from self.children
                self.children = []
            if leaves := _LEAVES.match(self.text, position):
                found = _EACH_LEAF.findall(self.text, position, leaves.end())
                self.children += found
                left -= len(found)
                position = leaves.end()
                continue
            token = _TOKEN.search(self.text, position)
            if token is None:
                message = f"The request ends before </{self.stack[-1][0]}>."
                raise BadXml(message)
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
        message = f"There are more than {MAX_ELEMENTS} elements."
        raise BadXml(message)

    def _close(self, name: str, text: str) -> None:
        """End the innermost element, `text` being the last that stood in it."""
        opened, attributes, siblings, pieces = self.stack.pop()
        if opened != name:
            message = f"<{opened}> is not closed: </{name}> came first."
            raise BadXml(message)
        if self.stack:
            pieces.append(text)
            siblings.append((name, self.children or "".join(pieces), attributes))
            self.children = siblings

    def _open(self, token: re.Match[str], position: int) -> int:
        """Begin an element or pass what has no elements inside; return where to read on."""
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
                message = f"The elements are nested deeper than {MAX_DEPTH}."
                raise BadXml(message)
        return end

    def _markup(self, opener: str, position: int) -> tuple[str, int]:
        """Pass a comment, CDATA section or instruction; return its text and where it ends."""
        if opener == "!":
            message = "A document type declaration is not accepted."
            raise BadXml(message)
        closer = {"!--": "-->", "![CDATA[": "]]>", "?": "?>"}[opener]
        end = self.text.find(closer, position)
        if end < 0:
            message = f"<{opener} is not closed by {closer}."
            raise BadXml(message)
        piece = self.text[position:end] if opener == "![CDATA[" else ""
        return piece.replace("&", "&amp;"), end + len(closer)

    def _raw(self, name: str, position: int) -> tuple[str, int]:
        """Return the text from `position` to the literal end tag, and where that ends."""
        # The app may have printed </stderr_out>; only the client prints it after "]]>".
        has_section = name == "stderr_out" and _CDATA_BEGINS.match(self.text, position)
        if has_section and self.stderr_markers:
            if marker := _STDERR_ENDS.search(self.text, position):
                return self.text[position : marker.start() + 3], marker.end()
            self.stderr_markers = False  # or a hostile body makes this search quadratic
        end = self.text.find(f"</{name}>", position)
        if end < 0:
            message = f"The request ends before </{name}>."
            raise BadXml(message)
        return self.text[position:end], end + len(name) + 3


_REFERENCE: Final = re.compile(
    r"(?:&\#(?:[0-9]{1,7}|[xX][0-9a-fA-F]{1,6});)+|&(lt|gt|amp|quot|apos);"
)
_NUMBER: Final = re.compile(r"&#([^;]+);")
_NAMED: Final = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}


def unescape(text: str) -> str:
    """Resolve the escapes that BOINC writes; anything else that begins with & stays as it is.

    BOINC's `xml_escape` writes every byte above 127 as a reference of its own, so a run of
    references below 256 is UTF-8, or else Latin-1.

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
    if code < 32 and code not in {9, 10, 13}:  # noqa: PLR2004 - the end of the control characters
        return "?"
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:  # noqa: PLR2004 - no character of Unicode
        return "\ufffd"
    return chr(code)


def cut(text: str, limit: int) -> str:
    """Return as much of `text` as fits in `limit` bytes of UTF-8."""
    if len(text) * 4 <= limit:
        return text
    if len(text) <= limit and len(text.encode("utf-8", "replace")) <= limit:
        return text
    return text[:limit].encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")


_STRTOD: Final = re.compile(r"\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def to_real(text: str) -> float:
    """Read a number as C's strtod does: leading white space, any junk behind, 0 if none.

    Not-a-number is 0, infinities are the largest numbers.

    >>> to_real(" 1e10"), to_real("12abc"), to_real("-inf"), to_real("nan"), to_real("")
    (10000000000.0, 12.0, -1.7976931348623157e+308, 0.0, 0.0)
    """
    try:
        value = float(text)
    except ValueError:
        match = _STRTOD.match(text)
        value = float(match[0]) if match else 0.0
    else:
        if "_" in text:  # Python's own liberty: float("1_000")
            return to_real(text.partition("_")[0])
    if value != value:  # noqa: PLR0124 - the test for not-a-number
        return 0.0
    return max(-MAX_REAL, min(MAX_REAL, value))


def to_int(text: str, bound: int = INT32) -> int:
    """Read a whole number, cutting a fraction off, clamped to -bound-1..bound.

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
    """Read an exit status as the 32 signed bits that BOINC keeps.

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
_LONGEST_NUMBER: Final = 40


def escape(text: str) -> str:
    """Make `text` safe between two tags; a control character becomes a question mark.

    >>> escape("R&D <b>")
    'R&amp;D &lt;b&gt;'
    """
    if not _UNSAFE.search(text):
        return text
    return _UNSAFE.sub(lambda match: _SAFE.get(match[0], "?"), text)


def real_text(value: float) -> str:
    """Print a number so that it reads back equal, without an exponent where that is short.

    Raises Unsayable for not-a-number and the infinities.

    >>> real_text(1e22), real_text(0.1), real_text(3600.0), real_text(1e-7)
    ('10000000000000000000000', '0.1', '3600', '0.0000001')
    """
    if value != value or abs(value) > MAX_REAL:  # noqa: PLR0124 - the test for not-a-number
        message = f"{value} is no number that a client can read."
        raise Unsayable(message)
    text = repr(float(value))
    if text.endswith(".0"):
        return text[:-2]
    if "e" in text:
        positional = f"{Decimal(text):f}"
        return positional if len(positional) <= _LONGEST_NUMBER else text
    return text
