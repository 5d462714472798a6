"""Names and dismisses the administrators of teams."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from django.db import transaction

from scheduler.models import Account, Team, TeamAdministrator
from scheduler.people.teams.locked_rows import (
    active_member,
    lock_active,
    lock_led,
    lock_own,
    not_member,
    record_change,
)
from scheduler.people.teams.team_refusals import NotMember, TeamRefused

#: Each administrator sees the members who do not share their statistics, and can remove members;
#: pages list all administrators.  Inactive ones do not count.
MAX_ADMINISTRATORS: Final = 10


def name_administrator(team_id: int, member_id: int, *, by: Account, now: datetime) -> Team:
    """Make another member an administrator of a team; only the founder may.

    Naming an administrator again changes nothing.  Raises `UnknownTeam`, `NotFounder`,
    `InactiveAccount`, and `TeamRefused` if an account is not an active member, is the founder, or
    if the team has `MAX_ADMINISTRATORS`.
    """
    with transaction.atomic():
        accounts = lock_active(by, member_id)
        team = lock_led(team_id, accounts[by.pk])
        member = active_member(team, accounts.get(member_id), member_id)
        if member.pk == team.founder_id:
            raise TeamRefused(
                f"The account is the founder of {team.name} already. Hint: name another member."
            )
        rows = TeamAdministrator.objects.filter(team=team)
        if rows.filter(account=member).exists():
            return team
        if rows.filter(account__is_active=True).count() >= MAX_ADMINISTRATORS:
            raise TeamRefused(
                f"{team.name} has {MAX_ADMINISTRATORS} administrators, which is the limit. "
                "Hint: dismiss one of them first."
            )
        TeamAdministrator.objects.create(account=member, team=team, named_at=now)
        record_change(team, {"named_administrator": member.pk}, now=now)
    return team


def dismiss_administrator(team_id: int, member_id: int, *, by: Account, now: datetime) -> Team:
    """Make an administrator, who may be inactive, a member again; only the founder may.

    Raises `UnknownTeam`, `NotFounder`, `InactiveAccount`, and `NotMember` if the account is not an
    administrator.
    """
    with transaction.atomic():
        accounts = lock_active(by, member_id)
        team = lock_led(team_id, accounts[by.pk])
        if not _delete(team, member_id):
            raise _not_administrator(team, member_id)
        record_change(team, {"dismissed_administrator": member_id}, now=now)
    return team


def resign(account: Account, *, now: datetime) -> Team:
    """Make an account that administers its team a member again.

    Raises `InactiveAccount`, and `TeamRefused` if the account has no team or is not an
    administrator.
    """
    with transaction.atomic():
        locked = lock_active(account)[account.pk]
        team = lock_own(locked)
        if not _delete(team, locked.pk):
            # Not 404 over the API: the account and its team exist.
            raise TeamRefused(str(_not_administrator(team, locked.pk)))
        record_change(team, {"resigned_administrator": locked.pk}, now=now)
    return team


def _delete(team: Team, account_id: int) -> bool:
    """End an administratorship; return False if there was none."""
    rows = TeamAdministrator.objects.filter(team=team, account_id=account_id)
    deleted_count, _ = rows.delete()
    return deleted_count > 0


def _not_administrator(team: Team, account_id: int) -> NotMember:
    return not_member(team, account_id, "an administrator")
