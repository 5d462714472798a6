"""Compares pages for people."""

from __future__ import annotations

import re
from typing import Any, Final

#: The tokens of forms, in whose random letters each short word can occur, and the address that
#: the language form repeats.
_OF_REQUEST = re.compile(rb'name="(?:csrfmiddlewaretoken|next)" value="[^"]*"')
#: Scripts and styles that the Content-Security-Policy refuses: those in the page itself.
INLINE: Final = re.compile(r'<script(?! src="/static/)|<style|style=')
#: The header of htmx's requests.
HTMX: Final = {"HX-Request": "true"}


def comparable(answer: Any) -> bytes:
    """Return a page without the parts that differ in each request for it."""
    return _OF_REQUEST.sub(b"", answer.content)
