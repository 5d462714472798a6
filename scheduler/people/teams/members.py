"""Creates and changes teams; accounts join and leave them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction

from scheduler.models import Account, Team
from scheduler.people import team_reads, throttle
from scheduler.people.public_texts import confirmed_addresses
from scheduler.people.teams.locked_rows import (
    forget_request,
    lock_accounts,
    lock_active,
    lock_managed,
    lock_teams,
    not_founder,
    not_member,
    prepare_leaving,
    record_change,
    set_team,
    unknown_team,
)
from scheduler.people.teams.team_profiles import PUBLIC_TEXTS, TeamProfile, checked_fields
from scheduler.people.teams.team_refusals import TakenName, TeamRefused


def create(founder: Account, profile: TeamProfile, *, now: datetime) -> Team:
    """Create a team; the founder leaves their team, if any, and becomes the first member.

    Raises `BadName`, `UnconfirmedAddress`, `TooManyAttempts` if the account has created too many
    teams lately, `InactiveAccount`, and `TeamRefused` for an invalid or taken value, or if the
    founder may not leave their team.
    """
    fields = checked_fields(asdict(profile))
    confirmed_addresses.require(founder)
    attempt = throttle.charge_team(founder, now=now)
    try:
        with transaction.atomic():
            account = lock_active(founder)[founder.pk]
            prepare_leaving(account)
            team = save_new(Team(**fields, founder=account, created_at=now))
            set_team(account, team.pk)
            record_change(team, {"created": True, "founder": account.pk}, now=now)
    except TeamRefused:
        throttle.refund(attempt)
        raise
    return team


def change(team_id: int, fields: Mapping[str, Any], *, by: Account, now: datetime) -> Team:
    """Change fields of `TeamProfile`; only the founder and the administrators may.

    Raises `UnknownTeam`, `NotFounder`, `InactiveAccount`, `BadName` and `TeamRefused`, and
    `UnconfirmedAddress` if a public text gets a new value that is not empty, and the address is not
    confirmed.
    """
    checked = checked_fields(fields)
    with transaction.atomic():
        locked = lock_active(by)[by.pk]
        team = lock_managed(team_id, locked)
        if any(checked.get(name) not in {"", None, getattr(team, name)} for name in PUBLIC_TEXTS):
            confirmed_addresses.require(locked)
        save_fields(team, checked)
        record_change(team, {"changed": sorted(checked)}, now=now)
    return team


def join(account: Account, team_id: int) -> Team:
    """Make an account a member of a team that accepts members; it leaves its former team.

    Raises `UnknownTeam`, `InactiveAccount`, and `TeamRefused` if the team accepts no members or if
    the account may not leave its team.
    """
    with transaction.atomic():
        locked = lock_active(account)[account.pk]
        if locked.team_id == team_id:
            return _find(team_id)
        # Two teams: in ascending id, as every transaction locks teams.
        teams = lock_teams([team_id] if locked.team_id is None else [team_id, locked.team_id])
        team = teams.get(team_id)
        if team is None:
            raise unknown_team(team_id)
        if not team.joinable:
            raise TeamRefused(f"Team {team.name} accepts no members. Hint: ask its founder.")
        prepare_leaving(locked, teams.get(locked.team_id or 0))
        set_team(locked, team_id)
    return team


def leave(account: Account) -> None:
    """Remove an account from its team, if any.

    Raises `TeamRefused` if the account leads other active members.  A team that is left by its
    founder, and whose other members are inactive, has no founder.
    """
    with transaction.atomic():
        locked = lock_accounts([account.pk])[account.pk]
        prepare_leaving(locked)
        set_team(locked, None)


def remove_member(team_id: int, member_id: int, *, by: Account, now: datetime) -> None:
    """Remove another member, who may be inactive, from a team.

    The founder removes every member, administrators only members who are neither the founder nor
    administrators.  Raises `UnknownTeam`, `NotFounder`, `InactiveAccount`, and `TeamRefused` if the
    account is not a member.
    """
    if member_id == by.pk:
        raise TeamRefused("The account cannot remove itself. Hint: leave the team.")
    with transaction.atomic():
        accounts = lock_active(by, member_id)
        team = lock_managed(team_id, accounts[by.pk])
        member = accounts.get(member_id)
        if member is None or member.team_id != team.pk:
            raise not_member(team, member_id, "a member")
        if team.founder_id != by.pk and team_reads.may_manage(team, member):
            raise not_founder(team)
        forget_request(team, member)
        set_team(member, None)
        record_change(team, {"removed": member_id}, now=now)


def save_new(team: Team) -> Team:
    """Insert the row of a team; raise `TakenName`."""
    try:
        with transaction.atomic():
            team.save(force_insert=True)
    except IntegrityError as error:
        raise _taken(team.name) from error
    return team


def save_fields(team: Team, fields: Mapping[str, Any]) -> None:
    """Set columns of a locked team; raise `TakenName`."""
    for name, value in fields.items():
        setattr(team, name, value)
    try:
        with transaction.atomic():
            team.save(update_fields=list(fields))
    except IntegrityError as error:
        raise _taken(team.name) from error


def _find(team_id: int) -> Team:
    team = Team.objects.filter(pk=team_id).first()
    if team is None:
        raise unknown_team(team_id)
    return team


def _taken(name: str) -> TakenName:
    return TakenName(f"There is a team {name} already. Hint: choose another name.")
