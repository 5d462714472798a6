"""Reads teams and their members, with what other people may see of them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from django.db.models import Q, QuerySet

from scheduler.models import Account, Team, TeamAdministrator
from scheduler.people import sharing

#: Maximum number of teams and members in one reply.
MAX_TEAMS: Final = 100
MAX_MEMBERS: Final = 10_000
#: The columns of members that lists show.  Preferences are not read: they have up to 64 KB each.
_MEMBER_COLUMNS: Final = (
    "email",
    "name",
    "country",
    "url",
    "created_at",
    "cross_project_id",
    "total_credit",
    "expavg_credit",
    "expavg_at",
)


def find(team_id: int) -> Team | None:
    """Return the team with this id, or None; see `with_founder_shares`."""
    return with_founder_shares().filter(pk=team_id).first()


def find_all(team_ids: Collection[int]) -> list[Team]:
    """Return at most `MAX_TEAMS` of these teams, in ascending id; unknown ids are ignored."""
    return list(with_founder_shares().filter(pk__in=team_ids).order_by("pk")[:MAX_TEAMS])


def search(name: str) -> list[Team]:
    """Return at most `MAX_TEAMS` teams whose names contain `name`, by recent average credit."""
    if "\0" in name:
        return []
    return list(
        with_founder_shares()
        .filter(name__icontains=name)
        .order_by("-expavg_credit", "pk")[:MAX_TEAMS]
    )


def members(team_id: int, *, all_active: bool, with_credit: bool) -> list[Account]:
    """Return the active members of a team, at most `MAX_MEMBERS`, in ascending id.

    Without `all_active`, members who do not share their statistics are left out.  `with_credit`
    leaves out members without credit.  Only the columns that lists show are read.
    """
    accounts = Account.objects.filter(team_id=team_id, is_active=True)
    if not all_active:
        accounts = accounts.filter(sharing.shares())
    if with_credit:
        accounts = accounts.filter(total_credit__gt=0)
    return list(accounts.only(*_MEMBER_COLUMNS).order_by("pk")[:MAX_MEMBERS])


def shown_founder_id(team: Team) -> int:
    """Return the id of the founder of a team read here, or 0 if they may not be named."""
    return team.founder_id or 0 if getattr(team, "founder_shares", False) else 0


def shown_leaders(team: Team, viewer: Account) -> tuple[int | None, int | None]:
    """Return the ids of the founder and of who has requested the foundership, None if not shown.

    The founder sees both.  Others see themselves, and accounts that share their statistics;
    administrators also see the founder, like every other active member.
    """
    leaders = (team.founder_id, team.requested_by_id)
    if is_founder(team, viewer):
        return leaders
    others = [id_ for id_ in leaders if id_ not in {None, viewer.pk}]
    shown = {viewer.pk}
    if others:
        is_visible = sharing.shares()
        if is_administrator(team, viewer):
            is_visible |= Q(pk=team.founder_id, is_active=True)
        rows = Account.objects.filter(is_visible, pk__in=others)
        shown |= set(rows.values_list("pk", flat=True))
    founder_id, requester_id = (id_ if id_ in shown else None for id_ in leaders)
    return founder_id, requester_id


def is_founder(team: Team, account: Account) -> bool:
    """Return whether the account is the founder of the team and a member of it.

    Rows of earlier versions can have a founder who is not a member.  Such an account has no rights.
    """
    return team.founder_id == account.pk and account.team_id == team.pk


def is_administrator(team: Team, account: Account) -> bool:
    """Return whether a member is an administrator of the team."""
    rows = TeamAdministrator.objects.filter(team=team, account=account)
    return account.team_id == team.pk and rows.exists()


def may_manage(team: Team, account: Account) -> bool:
    """Return whether the account is the founder or an administrator of the team.

    They change the team, see all its active members, and remove members.
    """
    return is_founder(team, account) or is_administrator(team, account)


def administrators(team: Team) -> list[Account]:
    """Return the active administrators of a team, in the order in which they were named."""
    rows = Account.objects.filter(administratorship__team=team, team=team, is_active=True)
    return list(rows.only("name", "share_statistics").order_by("administratorship__pk"))


def shown_administrators(team: Team, viewer: Account | None) -> list[Account]:
    """Return the active administrators whom a viewer, None for a visitor, may see.

    The founder and the administrators see all.  Others see those who share their statistics.
    """
    accounts = administrators(team)
    administrator_ids = {account.pk for account in accounts}
    if viewer is not None and (viewer.pk in administrator_ids or is_founder(team, viewer)):
        return accounts
    return [account for account in accounts if account.share_statistics]


def with_founder_shares() -> QuerySet[Team]:
    """Return teams with `founder_shares`: whether the founder is active and shares statistics."""
    return Team.objects.annotate(founder_shares=sharing.shares("founder"))
