"""Parameters and links of lists that are sorted and read page by page."""

from __future__ import annotations

from collections.abc import Callable, Container
from enum import StrEnum
from typing import Final, TypeVar

from django.utils.http import urlencode

from scheduler.sealed_positions import BadPosition

#: Digits of the longest number that is read as an id.
MAX_ID_DIGITS: Final = 18
Page = TypeVar("Page")
Choice = TypeVar("Choice", bound=StrEnum)


def number(text: str, max_digits: int = MAX_ID_DIGITS) -> int | None:
    """Return the number in a parameter, or None if it is not one of at most `max_digits` digits."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= max_digits
    return int(text) if is_number else None


def page_at(position: str, read: Callable[[str | None], Page]) -> tuple[Page, str]:
    """Return the page at a sealed position, and the position.

    Without a position, or if `read` raises `BadPosition`, returns the first page and "".
    """
    if position:
        try:
            return read(position), position
        except BadPosition:
            pass
    return read(None), ""


def order_of(text: str, orders: Container[str], default: str) -> str:
    """Return the order in a parameter: a key of `orders` with an optional "-", else the default."""
    return text if text.removeprefix("-") in orders else default


def choice(text: str, choices: type[Choice]) -> Choice | None:
    """Return the member of an enumeration in a parameter, or None for another text."""
    return choices(text) if text in set(choices) else None


def link(**query: str | int) -> str:
    """Return a link to the same page with these parameters; empty ones are left out.

    >>> link(q="", sort="name"), link()
    ('?sort=name', '?')
    """
    return "?" + urlencode({name: value for name, value in query.items() if value != ""})


def column(key: str, label: object, first: str, order: str, **query: str | int) -> dict[str, str]:
    """Return the header of a column that sorts: its key, label, link and current direction.

    `first` is the prefix of the order after the first click, "" or "-".  The template is
    `volunteers/sorted_header.html`.
    """
    is_current = order.removeprefix("-") == key
    is_descending = order.startswith("-")
    opposite = key if is_descending else f"-{key}"
    return {
        "key": key,
        "label": str(label),
        "link": link(**query, sort=opposite if is_current else f"{first}{key}"),
        "direction": ("descending" if is_descending else "ascending") if is_current else "",
    }
