"""Reads what everybody may see of an account: its profile, credit and computers."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from scheduler.credit import badges, leaderboards
from scheduler.credit.badges import HeldBadge
from scheduler.credit.rules.board_positions import Order
from scheduler.credit.rules.credit import COBBLESTONE
from scheduler.models import Account, AccountAppCredit, Host
from scheduler.people import sharing

#: Maximum numbers of computers and of apps that are shown.
MAX_HOSTS: Final = 20
MAX_APPS: Final = 50
_WEB: Final = ("https://", "http://")


@dataclass(frozen=True, slots=True)
class PublicAccount:
    """An account that shares its statistics.

    `place` is that by total credit; None without credit or beyond `leaderboards.MAX_PLACE`.
    `home_page` is empty unless it is an address of the web.  `computers` has those with the most
    recent credit, without those that the owner hides; it is None if the account does not show its
    computers.
    """

    account: Account
    place: int | None
    home_page: str
    credits: tuple[AccountAppCredit, ...]
    computers: tuple[Host, ...] | None
    badges: tuple[HeldBadge, ...]


def find(account_id: int) -> PublicAccount | None:
    """Return the account if it is active and shares its statistics, else None."""
    account = Account.objects.filter(sharing.shares(), pk=account_id).select_related("team").first()
    if account is None:
        return None
    line = leaderboards.find(leaderboards.account_board(Order.TOTAL), account.pk)
    by_app = AccountAppCredit.objects.filter(account=account, total__gt=0).select_related("app")
    shown_hosts = Host.objects.filter(sharing.shown_hosts(), account=account)
    shown_hosts = shown_hosts.defer("last_decisions", "p_features", "capabilities")
    return PublicAccount(
        account=account,
        place=None if line is None else line[0].place,
        home_page=account.url if account.url.startswith(_WEB) else "",
        credits=tuple(by_app.order_by("-total", "app_id")[:MAX_APPS]),
        computers=tuple(shown_hosts.order_by("-expavg_credit", "pk")[:MAX_HOSTS])
        if account.show_hosts
        else None,
        badges=badges.of_account(account.pk),
    )


def find_shared(account_id: int) -> Account | None:
    """Return the row of the account if it is active and shares its statistics, else None."""
    return Account.objects.filter(sharing.shares(), pk=account_id).first()


def operations(total_credit: Decimal) -> float:
    """Return the number of floating-point operations that an amount of credit stands for.

    >>> f"{operations(Decimal(200)):.4g}"
    '8.64e+13'
    """
    return float(total_credit) / COBBLESTONE
