"""Parses XML files in the formats of BOINC's server.

This module uses no database, files or clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lxml import etree


class BadXmlFile(ValueError):
    """The text is not XML with the expected root. Hint: correct the error in the message."""


def read_root(text: bytes, tag: str, *, title: str) -> etree._Element:
    """Return the root element of a file; comments are removed and entities are not resolved.

    `title` is the name of the file in error messages.  Raises `BadXmlFile`.
    """
    # Every process loads this module, and only publishing reads such files: lxml needs 4 MB.
    from lxml import etree  # noqa: PLC0415

    parser = etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        root = etree.fromstring(text, parser)
    except etree.XMLSyntaxError as error:
        raise BadXmlFile(f"{title} cannot be read: {error}. Hint: correct the file.") from error
    if root.tag != tag:
        msg = f"{title} begins with <{root.tag}>. Hint: write <{tag}> as its outermost element."
        raise BadXmlFile(msg)
    return root
