"""Parses XML files in the formats of BOINC's server [pure]."""

from __future__ import annotations

from lxml import etree


class BadXmlFile(ValueError):
    """The text is not XML with the expected root. Hint: the message explains what to correct."""


def read_root(text: bytes, tag: str, *, title: str) -> etree._Element:
    """Return the root element of a file, without comments; no entity is resolved.

    `title` is the name of the file in error messages.  Raises `BadXmlFile`.
    """
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
