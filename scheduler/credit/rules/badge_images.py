"""Draws the images of badges as SVG [pure]."""

from __future__ import annotations

import re
from html import escape
from typing import Final

#: The form of a color, such as #b08d57.
COLOR: Final = re.compile(r"#[0-9a-f]{6}")
#: Characters on a badge.
_MAX_INITIALS: Final = 2
_DARK, _LIGHT = "#14191b", "#ffffff"
#: Weights of red, green and blue in the brightness of a color, and the limit of dark text.
_BRIGHTNESS: Final = (0.299, 0.587, 0.114)
_BRIGHT: Final = 150


def draw(title: str, color: str) -> str:
    """Return a medal with the initials of the title as an SVG document.

    Raises ValueError if the color does not have the form of `COLOR`.
    """
    if not COLOR.fullmatch(color):
        raise ValueError(color)
    text = escape("".join(character for character in title if character.isprintable()))
    ink = _DARK if _brightness(color) > _BRIGHT else _LIGHT
    ribbon = f"#{''.join(f'{part * 2 // 3:02x}' for part in _parts(color))}"
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64" width="64" height="64" '
        f'role="img"><title>{text}</title>'
        f'<path d="M18 34 12 62l11-5 7 7V40zM46 34l6 28-11-5-7 7V40z" fill="{ribbon}"/>'
        f'<circle cx="32" cy="25" r="24" fill="{color}" stroke="{ribbon}" stroke-width="2"/>'
        f'<circle cx="32" cy="25" r="19" fill="none" stroke="{ink}" stroke-opacity="0.5"/>'
        f'<text x="32" y="32" fill="{ink}" font-family="sans-serif" font-size="19" '
        f'font-weight="700" text-anchor="middle">{escape(initials(title))}</text></svg>'
    )


def initials(title: str) -> str:
    """Return the first letters or digits of the first two words of a title.

    >>> initials("Top 5 %"), initials("gold"), initials("- 10 years")
    ('T5', 'G', '1Y')
    """
    words = re.findall(r"\w+", title)
    return "".join(word[0].upper()[0] for word in words[:_MAX_INITIALS])


def _parts(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def _brightness(color: str) -> float:
    return sum(weight * part for weight, part in zip(_BRIGHTNESS, _parts(color), strict=True))
