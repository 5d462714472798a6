"""Deletes teams.

The row of a deleted team stays, without anything that its founder has written, because entries of
credit name it: its total remains the sum of its entries.  Its name can be used again.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from django.db import transaction

from scheduler.models import (
    Account,
    CreditSample,
    Team,
    TeamAdministrator,
    TeamBadge,
    Workunit,
)
from scheduler.people.teams.locked_rows import (
    lock_accounts,
    lock_active,
    lock_led,
    lock_teams,
    record_change,
    unknown_team,
)
from scheduler.people.teams.team_refusals import TeamRefused

#: The members of a team that is deleted are locked and changed in one transaction.
MAX_MEMBERS: Final = 10_000
#: The columns that a founder sets, with their erased values.
_ERASED: Final = {
    "url": "",
    "description": "",
    "country": "",
    "joinable": False,
    "founder": None,
    "requested_by": None,
    "requested_at": None,
}


def delete(team_id: int, *, by: Account, now: datetime) -> None:
    """Delete a team; only its founder may, as its only active member.

    Raises `UnknownTeam`, `NotFounder`, `InactiveAccount`, and `TeamRefused` if the team has other
    active members, more than `MAX_MEMBERS` members, unfinished work, or members that change.
    """
    with transaction.atomic():
        member_ids = _member_ids(team_id)
        accounts = lock_active(by, *member_ids)
        team = lock_led(team_id, accounts[by.pk])
        others = Account.objects.filter(team=team, is_active=True).exclude(pk=by.pk)
        if others.exists():
            raise TeamRefused(
                f"{team.name} has other active members. "
                "Hint: remove them, or hand over the foundership and leave."
            )
        _delete(team, accounts, now=now)


def delete_as_staff(team_id: int, *, now: datetime) -> None:
    """Delete a team, whose members then have no team; the caller checks the rights.

    Raises `UnknownTeam`, and `TeamRefused` for more than `MAX_MEMBERS` members, unfinished work for
    the team, or members that change meanwhile.
    """
    with transaction.atomic():
        accounts = lock_accounts(_member_ids(team_id))
        team = lock_teams([team_id]).get(team_id)
        if team is None:
            raise unknown_team(team_id)
        _delete(team, accounts, now=now)


def _member_ids(team_id: int) -> list[int]:
    """Return the ids of the members, also of inactive ones; raise `TeamRefused` for too many."""
    rows = Account.objects.filter(team_id=team_id).order_by("pk").values_list("pk", flat=True)
    ids = list(rows[: MAX_MEMBERS + 1])
    if len(ids) > MAX_MEMBERS:
        raise TeamRefused(
            f"Team {team_id} has more than {MAX_MEMBERS} members. "
            "Hint: set the team to accept no members."
        )
    return ids


def _delete(team: Team, accounts: dict[int, Account], *, now: datetime) -> None:
    """Delete a locked team; `accounts` are locked, and contain its members."""
    # No account could join the team and compute this work.
    if Workunit.objects.filter(target_team=team, finished_at__isnull=True).exists():
        raise TeamRefused(
            f"Work of the project is only for the team {team.name}. "
            "Hint: ask the operators to give it to other computers first."
        )
    member_ids = list(Account.objects.filter(team=team).values_list("pk", flat=True))
    if not accounts.keys() >= set(member_ids):
        # Accounts are locked before teams, so an account that joined meanwhile cannot be locked.
        raise TeamRefused(f"The members of {team.name} changed at the same time. Hint: try again.")
    record_change(team, {"deleted": True, "members": len(member_ids)}, now=now)
    TeamAdministrator.objects.filter(team=team).delete()
    Account.objects.filter(pk__in=member_ids).update(team=None)
    # The housekeeper corrects the number of teams of each badge once a day.
    TeamBadge.objects.filter(team=team).delete()
    CreditSample.objects.filter(kind=CreditSample.Kind.TEAM, holder_id=team.pk).delete()
    # Names that founders choose have no such signs.
    team.name = f"<deleted team {team.pk}>"
    team.deleted_at = now
    for column, value in _ERASED.items():
        setattr(team, column, value)
    team.save(update_fields=["name", "deleted_at", *_ERASED])
