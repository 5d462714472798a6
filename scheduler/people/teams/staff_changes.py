"""Changes of teams and of their members by staff; the callers check the rights.

The checks are functions of their own, so that a form can show a refusal.  They lock the rows until
the end of the transaction, so that the operation after them is not refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from django.db import transaction

from scheduler.models import Account, Team
from scheduler.people.teams.locked_rows import (
    active_member,
    check_leaving,
    give_foundership,
    lock_accounts,
    lock_teams,
    prepare_leaving,
    record_change,
    set_team,
    unknown_team,
)
from scheduler.people.teams.members import save_fields, save_new
from scheduler.people.teams.team_profiles import TeamProfile, checked_fields


def create_as_staff(profile: TeamProfile, *, now: datetime) -> Team:
    """Create a team without a founder and without members.

    Raises `BadName`, and `TeamRefused` for an invalid or taken value.
    """
    fields = checked_fields(asdict(profile))
    with transaction.atomic():
        team = save_new(Team(**fields, created_at=now))
        record_change(team, {"created": True, "founder": None}, now=now)
    return team


def change_as_staff(team_id: int, fields: Mapping[str, Any], *, now: datetime) -> Team:
    """Change fields of `TeamProfile`.

    Raises `UnknownTeam`, `BadName`, and `TeamRefused` for an invalid or taken value.
    """
    checked = checked_fields(fields)
    with transaction.atomic():
        team = _locked(team_id)
        save_fields(team, checked)
        record_change(team, {"changed": sorted(checked)}, now=now)
    return team


def set_founder_as_staff(team_id: int, account_id: int | None, *, now: datetime) -> Team:
    """Make an active member the founder; None leaves the team without a founder.

    Raises `UnknownTeam`, and `NotMember` for an account that is not an active member.
    """
    with transaction.atomic():
        team, member = _locked_member(team_id, account_id)
        if team.founder_id == account_id:
            return team
        return give_foundership(team, member, now=now)


def check_founder(team_id: int, account_id: int | None) -> None:
    """Raise the exceptions of `set_founder_as_staff`; lock the account and the team."""
    _locked_member(team_id, account_id)


def move_as_staff(account: Account, team_id: int | None, *, now: datetime) -> None:
    """Make an account a member of a team, or of none; it leaves its team as by `leave`.

    The team may be closed.  Raises `UnknownTeam`, and `TeamRefused` if the account leads other
    active members.
    """
    with transaction.atomic():
        locked, teams = _locked_move(account, team_id)
        former = None if locked.team_id is None else teams.get(locked.team_id)
        if locked.team_id == team_id:
            return
        prepare_leaving(locked, former)
        if former is not None:
            record_change(former, {"removed": locked.pk}, now=now)
        if team_id is not None:
            record_change(teams[team_id], {"added": locked.pk}, now=now)
        set_team(locked, team_id)


def check_move(account: Account, team_id: int | None) -> None:
    """Raise the exceptions of `move_as_staff`; lock the account and its teams."""
    locked, teams = _locked_move(account, team_id)
    if locked.team_id is not None and locked.team_id != team_id:
        check_leaving(locked, teams[locked.team_id])


def _locked_move(account: Account, team_id: int | None) -> tuple[Account, dict[int, Team]]:
    locked = lock_accounts([account.pk])[account.pk]
    teams = lock_teams([id_ for id_ in (locked.team_id, team_id) if id_ is not None])
    if team_id is not None and team_id not in teams:
        raise unknown_team(team_id)
    return locked, teams


def _locked_member(team_id: int, account_id: int | None) -> tuple[Team, Account | None]:
    accounts = lock_accounts([] if account_id is None else [account_id])
    team = _locked(team_id)
    if account_id is None:
        return team, None
    return team, active_member(team, accounts.get(account_id), account_id)


def _locked(team_id: int) -> Team:
    team = lock_teams([team_id]).get(team_id)
    if team is None:
        raise unknown_team(team_id)
    return team
