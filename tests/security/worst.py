"""Extreme values for numbers and texts, and scheduler requests that contain them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

#: Texts that a client can send in place of a number.
NUMBERS = (
    "nan",
    "inf",
    "-inf",
    "1e308",
    "-1e308",
    "1e999",
    "5e-324",
    "-5e-324",
    "-0",
    "-1",
    "0",
    "32768",
    "2147483647",
    "2147483648",
    "-2147483649",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551616",
    "9" * 400,
    "1e400",
    "\N{ARABIC-INDIC DIGIT NINE}" * 30,
    "\N{SUPERSCRIPT TWO}",
    "1_000",
    "0x7fffffff",
    "",
    " \t\n",
    "\0",
    "&#0;",
    "x",
    "<x/>",
)

#: Texts that a client can send; lone surrogates and invalid UTF-8 are bytes.
TEXTS = (
    b"",
    b"\0",
    b"a\0b",
    b"&#0;&#xD800;&#1114112;",
    b"\xed\xa0\x80",
    b"\xff\xfe",
    b"\xc0\x80",
    "\N{RIGHT-TO-LEFT OVERRIDE}\u2028\U0010ffff".encode(),
    b"'; DROP TABLE host; --",
    b"%s%(x)s{0}\\",
    b"A" * 100_000,
    "\N{LATIN SMALL LETTER E WITH ACUTE}".encode() * 50_000,
    b"../../../etc/passwd",
    b"]]>",
    b"\r\n\t",
)

Tree = dict[str, "Tree | bytes"]


def request(values: Mapping[str, bytes], *, names: Iterable[tuple[str, str]] = ()) -> bytes:
    """Return a scheduler request with values by path, such as `host_info/p_fpops`.

    `names` are pairs of a path and the name that its element needs to be read.
    """
    tree: Tree = {}
    for path, text in [*((path, text.encode()) for path, text in names), *values.items()]:
        *above, last = path.split("/")
        branch = tree
        for element in above:
            inner = branch.setdefault(element, {})
            assert isinstance(inner, dict), path
            branch = inner
        branch[last] = text
    return b"<scheduler_request>\n" + _text(tree) + b"</scheduler_request>\n"


def _text(tree: Tree) -> bytes:
    parts = []
    for element, content in tree.items():
        inside = content if isinstance(content, bytes) else b"\n" + _text(content)
        tag = element.encode()
        parts.append(b"<%s>%s</%s>\n" % (tag, inside, tag))
    return b"".join(parts)
