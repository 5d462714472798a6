"""The text of proofs of account ownership [pure]."""

from __future__ import annotations

import binascii
import hashlib
from base64 import b64decode
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

#: The maximum length of a volunteer's text, in characters.
MAX_TEXT: Final = 256
#: The maximum lengths of a statement and of a signature that are verified.
MAX_STATEMENT: Final = 2000
MAX_SIGNATURE: Final = 200
_SIGNATURE_NBYTES: Final = 64


class BadText(ValueError):
    """A text cannot be part of a statement.  Hint: see the message."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The account that a statement names; `cpid` is its id across projects."""

    account_id: int
    cpid: str


def exported_cpid(cross_project_id: str, email: str) -> str:
    """Return the id of an account across projects, as the statistics export writes it."""
    secret = cross_project_id + email
    return hashlib.md5(secret.encode(), usedforsecurity=False).hexdigest()


def checked_text(text: str) -> str:
    """Return a volunteer's text without spaces around it; raises `BadText`.

    The text is one line, so that it cannot imitate other lines of the statement.
    """
    stripped = text.strip()
    if not 0 < len(stripped) <= MAX_TEXT or not stripped.isprintable():
        raise BadText(
            f"The text is not a line of 1 to {MAX_TEXT} printable characters. "
            "Hint: copy it from the site that asks for a proof."
        )
    return stripped


def statement(first_line: str, owner: Owner, text: str, *, now: datetime) -> str:
    """Return the lines that are signed; each ends with a line feed.

    `first_line` names the project and the purpose of the signature.  Raises `BadText`.
    """
    lines = (
        first_line,
        f"Account: {owner.account_id}",
        f"Cross-project id: {owner.cpid}",
        f"Signed at: {now.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
        f"Text: {checked_text(text)}",
    )
    return "".join(f"{line}\n" for line in lines)


def normalized(sent: str) -> str:
    r"""Return a statement from a form, in which browsers end lines with CR LF.

    >>> normalized("a\r\nb")
    'a\nb\n'
    """
    return sent.replace("\r\n", "\n").strip("\n") + "\n"


def read_signature(text: str) -> bytes | None:
    """Return the 64 bytes of a signature in base64, or None for any other text.

    >>> read_signature("x!") is None
    True
    """
    try:
        signature = b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return None
    return signature if len(signature) == _SIGNATURE_NBYTES else None
