"""Locks accounts and teams, and changes the locked rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, TypeGuard

from django.db.models.functions import Now

from scheduler.models import Account, Team, TeamAdministrator
from scheduler.people import audit, team_reads
from scheduler.people.teams.team_refusals import (
    InactiveAccount,
    NotFounder,
    NotMember,
    TeamRefused,
    UnknownTeam,
)


def lock_accounts(ids: Collection[int]) -> dict[int, Account]:
    """Lock accounts in ascending id, and return them by id; unknown ids are ignored."""
    rows = Account.objects.select_for_update(no_key=True).filter(pk__in=ids).order_by("pk")
    return {account.pk: account for account in rows}


def lock_active(by: Account, *others: int) -> dict[int, Account]:
    """Lock the account that acts and others by id; raise `InactiveAccount` if it may not act."""
    accounts = lock_accounts([by.pk, *others])
    account = accounts.get(by.pk)
    if account is None or not account.is_active:
        raise InactiveAccount("The account is not active. Hint: ask the project.")
    return accounts


def lock_teams(ids: Collection[int]) -> dict[int, Team]:
    """Lock teams in ascending id, and return them by id; unknown ids are ignored."""
    rows = Team.objects.select_for_update(no_key=True).filter(pk__in=ids).order_by("pk")
    return {team.pk: team for team in rows}


def lock_led(team_id: int, by: Account) -> Team:
    """Lock a team and return it, for its founder, whose account is locked.

    Raises `UnknownTeam` and `NotFounder`.
    """
    team = lock_teams([team_id]).get(team_id)
    if team is None:
        raise unknown_team(team_id)
    if not team_reads.is_founder(team, by):
        raise not_founder(team)
    return team


def lock_managed(team_id: int, by: Account) -> Team:
    """Lock a team and return it, for its founder or an administrator, whose account is locked.

    Raises `UnknownTeam` and `NotFounder`.
    """
    team = lock_teams([team_id]).get(team_id)
    if team is None:
        raise unknown_team(team_id)
    if not team_reads.may_manage(team, by):
        raise NotFounder(
            f"Only the founder and the administrators of {team.name} may do this. "
            "Hint: ask the founder."
        )
    return team


def lock_own(account: Account) -> Team:
    """Lock the team of a locked account and return it; raise `TeamRefused` without a team."""
    if account.team_id is None:
        raise TeamRefused("The account has no team. Hint: join a team first.")
    return lock_teams([account.team_id])[account.team_id]


def prepare_leaving(account: Account, team: Team | None = None) -> None:
    """Prepare a locked account to leave its team, which is locked here unless it is passed.

    A founder without other active members leaves the team without a founder.  Raises `TeamRefused`
    for a founder of other active members.
    """
    if account.team_id is None:
        return
    team = team or lock_own(account)
    check_leaving(account, team)
    if team.founder_id == account.pk:
        give_foundership(team, None, now=Now())
    forget_request(team, account)


def check_leaving(account: Account, team: Team) -> None:
    """Raise `TeamRefused` if the account leads other active members of its locked team."""
    if team.founder_id != account.pk:
        return
    members = Account.objects.filter(team=team, is_active=True)
    if members.exclude(pk=account.pk).exists():
        raise TeamRefused(
            f"The founder of {team.name} cannot leave it while it has other active members. "
            "Hint: transfer the foundership first."
        )


def forget_request(team: Team, account: Account) -> None:
    """Drop the account's request for the foundership of a locked team, if any."""
    if team.requested_by_id == account.pk:
        team.requested_by = None
        team.save(update_fields=["requested_by"])


def set_team(account: Account, team_id: int | None) -> None:
    """Set the team of a locked account, and end its administratorship."""
    # `leave` and `join` get no time.
    end_administratorship(account, now=Now())
    account.team_id = team_id
    account.save(update_fields=["team"])


def end_administratorship(account: Account, *, now: datetime | Now) -> None:
    """Delete the row of a locked account as an administrator, if any, with an audit entry."""
    for row in TeamAdministrator.objects.filter(account=account).select_related("team"):
        row.delete()
        record_change(row.team, {"ended_administrator": account.pk}, now=now)


def give_foundership(team: Team, account: Account | None, *, now: datetime | Now) -> Team:
    """Make a locked member the founder of a locked team; None leaves it without a founder."""
    former = team.founder_id
    team.founder, team.requested_by, team.requested_at = account, None, None
    team.save(update_fields=["founder", "requested_by", "requested_at"])
    if account is not None:
        end_administratorship(account, now=now)
    details = {"founder": None if account is None else account.pk, "former_founder": former}
    record_change(team, details, now=now)
    return team


def active_member(team: Team, account: Account | None, account_id: int) -> Account:
    """Return the account; raise `NotMember` if it is not an active member of the team."""
    if not is_active_member(account, team):
        raise not_member(team, account_id, "an active member")
    return account


def is_active_member(account: Account | None, team: Team) -> TypeGuard[Account]:
    return account is not None and account.team_id == team.pk and account.is_active


def not_member(team: Team, account_id: int, what: str) -> NotMember:
    return NotMember(
        f"Account {account_id} is not {what} of {team.name}. Hint: list the members of the team."
    )


def not_founder(team: Team) -> NotFounder:
    return NotFounder(f"Only the founder of {team.name} may do this. Hint: ask the founder.")


def unknown_team(team_id: int) -> UnknownTeam:
    return UnknownTeam(f"There is no team {team_id}. Hint: look the team up by its name.")


def record_change(team: Team, details: Mapping[str, Any], *, now: datetime | Now) -> None:
    subject = f"team {team.pk} {team.name}"
    audit.record(audit.Event.TEAM_CHANGED, now=now, subject=subject, details=details)
