"""Judges credit that an operator grants or revokes by hand [pure]."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Final

from scheduler.credit.rules.credit import CENT

#: The name of the rule of entries that were made by hand.
RULE: Final = "by hand"
#: The maximum amount of a grant: a year of 10 000 teraflops, which detects slips of the keyboard.
MAX_AMOUNT: Final = Decimal(1_000_000_000_000)
#: The columns of totals have 14 digits before the point.
MAX_TOTAL: Final = Decimal(10**14)
#: The maximum length of a reason, in characters.
MAX_REASON: Final = 200


class GrantRefused(ValueError):
    """Credit cannot be granted or revoked by hand.  Hint: see the message."""


@dataclass(frozen=True, slots=True)
class Total:
    """A stored total of credit, such as that of an account."""

    name: str
    credit: Decimal


@dataclass(frozen=True, slots=True)
class Change:
    """A total before and after a grant."""

    name: str
    before: Decimal
    after: Decimal


def read_amount(text: str) -> Decimal:
    """Return an amount of credit from its text; raises `GrantRefused`.

    >>> read_amount(" -2.5 ")
    Decimal('-2.5')
    """
    try:
        amount = Decimal(text.strip())
    except InvalidOperation:
        msg = f"{text[:40]!r} is not a number. Hint: write credit as in 100 or -2.5."
        raise GrantRefused(msg) from None
    check_amount(amount)
    return amount


def check_amount(amount: Decimal) -> None:
    """Raise `GrantRefused` unless the amount is finite, not 0, not too large and not too fine."""
    if not amount.is_finite() or not 0 < abs(amount) <= MAX_AMOUNT:
        raise GrantRefused(
            f"The amount {str(amount)[:40]} cannot be granted. Hint: an amount is positive, or "
            f"negative to revoke credit, and at most {MAX_AMOUNT:,}."
        )
    if amount != amount.quantize(CENT):
        raise GrantRefused(
            f"The amount {str(amount)[:40]} has more than 6 digits after the point. Hint: round it."
        )


def checked_reason(text: str) -> str:
    """Return a reason without spaces around it; raises `GrantRefused`.

    The person whose credit changes reads the reason.
    """
    reason = text.strip()
    if not reason:
        raise GrantRefused("The reason is empty. Hint: the person reads it on their page.")
    if len(reason) > MAX_REASON or not reason.isprintable():
        raise GrantRefused(
            f"The reason is longer than {MAX_REASON} characters, or not a line of printable "
            "characters. Hint: shorten it."
        )
    return reason


def changes(totals: Iterable[Total], amount: Decimal) -> tuple[Change, ...]:
    """Return each total before and after a grant of `amount`.

    Raises `GrantRefused` if a total would become negative, or too large for its column.

    >>> changes([Total("account 1", Decimal(3))], Decimal(-4))
    Traceback (most recent call last):
    scheduler.credit.rules.grant_amounts.GrantRefused: The total of account 1 is 3, so 4 cannot be \
revoked. Hint: revoke at most 3.
    """
    changed = tuple(Change(each.name, each.credit, each.credit + amount) for each in totals)
    for change in changed:
        if change.after < 0:
            raise GrantRefused(
                f"The total of {change.name} is {plain(change.before)}, so {plain(-amount)} cannot "
                f"be revoked. Hint: revoke at most {plain(change.before)}."
            )
        if change.after >= MAX_TOTAL:
            raise GrantRefused(
                f"The total of {change.name} is {plain(change.before)}, and would be "
                f"{plain(change.after)}, which cannot be stored. Hint: grant less."
            )
    return changed


def plain(amount: Decimal, separator: str = "") -> str:
    """Return an amount as a text without an exponent and without zeros at its end.

    `separator` is "" or "," and separates thousands.

    >>> plain(Decimal("1200.500000")), plain(Decimal("1200.500000"), ","), plain(Decimal("0.00"))
    ('1200.5', '1,200.5', '0')
    """
    text = f"{amount:{separator}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
