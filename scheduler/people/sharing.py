"""The rule of which accounts everybody may see, for pages, lists and statistics."""

from __future__ import annotations

from django.db.models import Q


def shares(owner: str = "") -> Q:
    """Return the condition for rows of accounts that everybody may see.

    Such an account is active and shares its statistics.  `owner` is the lookup from the row to the
    account, such as ``account``; by default, the row is the account.
    """
    prefix = f"{owner}__" if owner else ""
    return Q(**{f"{prefix}is_active": True, f"{prefix}share_statistics": True})
