"""The rules of which accounts and computers everybody may see."""

from __future__ import annotations

from django.db.models import Q

from scheduler.models import Host


def shares(owner: str = "") -> Q:
    """Return the condition for rows of accounts that everybody may see.

    Such an account is active and shares its statistics.  `owner` is the lookup from the row to the
    account, such as ``account``; by default, the row is the account.
    """
    prefix = f"{owner}__" if owner else ""
    return Q(**{f"{prefix}is_active": True, f"{prefix}share_statistics": True})


def shown_hosts(host: str = "") -> Q:
    """Return the condition for rows of computers that everybody may see with their numbers.

    The owner is active, shows their computers, and does not hide this one.  The condition needs the
    account; merged and deleted computers are left out.  All other computers are anonymous.  `host`
    is the lookup from the row to the computer; by default, the row is the computer.
    """
    prefix = f"{host}__" if host else ""
    return Q(
        **{
            f"{prefix}account__is_active": True,
            f"{prefix}account__show_hosts": True,
            f"{prefix}hidden": False,
            f"{prefix}merged_into__isnull": True,
        }
    )


def is_shown(host: Host) -> bool:
    """Return whether a computer that was read with its account matches `shown_hosts`."""
    owner = host.account
    return owner.is_active and owner.show_hosts and not host.hidden and host.merged_into_id is None
