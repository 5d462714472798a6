"""Parameters and links of lists that are sorted and read page by page."""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from django.utils.http import urlencode

_MAX_ID_DIGITS: Final = 18


def row_id(text: str) -> int | None:
    """Return the id in a parameter, or None if it is not a number of at most 18 digits."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= _MAX_ID_DIGITS
    return int(text) if is_number else None


def order_of(text: str, orders: Container[str], default: str) -> str:
    """Return the order in a parameter: a key of `orders` with an optional "-", else the default."""
    return text if text.removeprefix("-") in orders else default


def link(**query: str | int) -> str:
    """Return a link to the same page with these parameters; empty ones are left out."""
    return "?" + urlencode({name: value for name, value in query.items() if value != ""})


def column(key: str, label: object, first: str, order: str, **query: str | int) -> dict[str, str]:
    """Return the header of a column that sorts: its label, link and current direction.

    `first` is the prefix of the order after the first click, "" or "-".  The template is
    `volunteers/sorted_header.html`.
    """
    is_current = order.removeprefix("-") == key
    is_descending = order.startswith("-")
    opposite = key if is_descending else f"-{key}"
    return {
        "label": str(label),
        "link": link(**query, sort=opposite if is_current else f"{first}{key}"),
        "direction": ("descending" if is_descending else "ascending") if is_current else "",
    }
