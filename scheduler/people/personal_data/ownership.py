"""Signs and verifies statements that an account belongs to a volunteer.

Another site gives the volunteer a text.  The statement with this text, the account's number and its
id across projects is signed with a key of its own, never with the code signing key.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from datetime import datetime

from scheduler import signing
from scheduler.models import Account
from scheduler.people import audit
from scheduler.people.rules.ownership_statements import (
    Owner,
    exported_cpid,
    normalized,
    read_signature,
    statement,
)


@dataclass(frozen=True, slots=True)
class Proof:
    """A statement, and its signature in base64."""

    statement: str
    signature: str


def prove(account: Account, text: str, *, now: datetime) -> Proof:
    """Return the signed statement that the account belongs to the person who got the text.

    The audit log has the first use of a day.  Raises `BadText` and `signing.KeyMissing`.
    """
    owner = Owner(account.pk, exported_cpid(account.cross_project_id, account.email))
    lines = statement(signing.ownership_first_line(), owner, text, now=now)
    signature = b64encode(signing.sign_ownership(lines)).decode()
    audit.record_daily(audit.Event.KEY_USED, now=now, subject="ownership key")
    return Proof(lines, signature)


def is_valid(sent_statement: str, sent_signature: str) -> bool:
    """Return whether this project signed a statement; the texts are those of a form."""
    signature = read_signature(sent_signature)
    return signature is not None and signing.is_signed_ownership(
        normalized(sent_statement), signature
    )
