"""Encodes the XML documents that account managers and statistics sites read."""

from __future__ import annotations

import re
from typing import Final
from xml.etree import ElementTree as ET

#: BOINC's pages declare this charset (PROTOCOL 8).  All characters beyond ASCII are sent as
#: character references, which parsers decode independently of the charset.
PROLOG: Final = '<?xml version="1.0" encoding="ISO-8859-1" ?>\n'
#: Characters that XML 1.0 may not contain, even as references, and DEL, which it discourages.
INVALID: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def document(root: str, inside: str) -> bytes:
    """Return the document whose root element contains `inside`, which is already encoded.

    >>> document("user", "<name>Zoë</name>").decode().splitlines()[1:]
    ['<user>', '<name>Zo&#235;</name></user>']
    """
    text = f"{PROLOG}<{root}>\n{inside}</{root}>\n"
    return _encode(INVALID.sub("?", text))


def well_formed(text: str) -> str:
    """Return `text` if it can be the content of an element of a document, else an empty string.

    Clients send preferences in a dialect that is read by string search; other programs read the
    documents with XML parsers, which refuse the whole document for one fault.
    """
    clean = INVALID.sub("?", text)
    root = "r"
    while f"</{root}" in clean:  # otherwise "</r><r>" would be accepted
        root += "_"
    try:
        # The encoded text is parsed: a character reference in the name of an element is an error.
        # The text is inside an element, where a parser refuses declarations of entities.
        ET.fromstring(_encode(f"<{root}>{clean}</{root}>"))  # noqa: S314
    except ET.ParseError:
        return ""
    return clean


def _encode(text: str) -> bytes:
    return text.encode("ascii", "xmlcharrefreplace")
