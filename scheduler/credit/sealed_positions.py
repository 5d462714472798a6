"""Encrypts the positions in links between pages of leaderboards.

A page can end at a row that is not shown, or at a computer without its number, so that the position
of its end contains credit and number of a row that nobody may see.  The text of a position is valid
for one kind of board in one order.
"""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as BadBase64
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from django.conf import settings

from scheduler.credit.leaderboards import Board
from scheduler.credit.rules.board_positions import Position, read_position

#: The maximum length of the text of a position: 20 + 20 digits, signs, an exponent and the tag.
MAX_LENGTH: Final = 120


def seal(position: Position, board: Board) -> str:
    """Return the text of a position; equal positions of a board have equal texts."""
    sealed = _cipher().encrypt(str(position).encode(), _purpose(board))
    return urlsafe_b64encode(sealed).decode()


def unseal(text: str, board: Board) -> Position | None:
    """Return the position in a text by `seal`; None for any other text."""
    if len(text) > MAX_LENGTH:
        return None
    try:
        sealed = urlsafe_b64decode(text.encode())
        position = _cipher().decrypt(sealed, _purpose(board)).decode()
    except (BadBase64, InvalidTag, UnicodeError, ValueError):
        return None
    return read_position(position, board.order)


def _cipher() -> AESSIV:
    key = hashlib.sha256(f"positions of leaderboards {settings.SECRET_KEY}".encode()).digest()
    return AESSIV(key)


def _purpose(board: Board) -> list[bytes]:
    return [board.rows.model.__name__.encode(), board.order.value.encode()]
