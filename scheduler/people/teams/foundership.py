"""Requests, assumes, declines and transfers the foundership of teams."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from django.db import transaction
from django.db.models import Q

from scheduler.models import Account, Team
from scheduler.people.rules.foundership_steps import assumable_at, requestable_at
from scheduler.people.teams.locked_rows import (
    active_member,
    give_foundership,
    is_active_member,
    lock_active,
    lock_led,
    lock_own,
    lock_teams,
    record_change,
)
from scheduler.people.teams.team_refusals import SuccessorChanged, TeamRefused


def transfer(team_id: int, member_id: int, *, by: Account, now: datetime) -> Team:
    """Make another member the founder; only the founder may.

    Raises `UnknownTeam`, `NotFounder`, and `TeamRefused` if an account is not an active member.
    """
    with transaction.atomic():
        accounts = lock_active(by, member_id)
        team = lock_led(team_id, accounts[by.pk])
        member = active_member(team, accounts.get(member_id), member_id)
        return give_foundership(team, member, now=now)


def request_foundership(account: Account, *, now: datetime) -> Team:
    """Request the foundership of the account's team; granted at once if the team has no founder.

    Raises `TeamRefused` if the account has no team or leads it, or if there was a request within
    `ANSWER_WITHIN` (or, if the request is unanswered, within `REQUEST_VALID_FOR`).
    """
    with transaction.atomic():
        locked = lock_active(account)[account.pk]
        team = lock_own(locked)
        if team.founder_id is None:
            return give_foundership(team, locked, now=now)
        if team.founder_id == locked.pk:
            raise TeamRefused(f"The account is the founder of {team.name} already.")
        is_open = team.requested_by_id is not None
        possible_at = requestable_at(team.requested_at, is_open=is_open)
        if possible_at is not None and now < possible_at:
            raise TeamRefused(
                f"The foundership of {team.name} was requested on {team.requested_at:%Y-%m-%d}. "
                f"Hint: request it after {possible_at:%Y-%m-%d}."
            )
        team.requested_by, team.requested_at = locked, now
        team.save(update_fields=["requested_by", "requested_at"])
        record_change(team, {"requested_by": locked.pk}, now=now)
    return team


def decline_request(team_id: int, *, by: Account, now: datetime) -> Team:
    """Decline the request for the foundership; only the founder may.

    The time of the request remains, so that the next request is possible after `ANSWER_WITHIN`.
    Raises `UnknownTeam`, `NotFounder`, and `TeamRefused` if there is no request.
    """
    with transaction.atomic():
        team = lock_led(team_id, lock_active(by)[by.pk])
        if team.requested_by_id is None:
            raise TeamRefused(f"The foundership of {team.name} was not requested.")
        declined, team.requested_by = team.requested_by_id, None
        team.save(update_fields=["requested_by"])
        record_change(team, {"declined": declined}, now=now)
    return team


def assume_foundership(account: Account, *, now: datetime) -> Team:
    """Make an account the founder whose request was not answered within `ANSWER_WITHIN`.

    Raises `TeamRefused` if the account has no request, or if the time has not passed.
    """
    with transaction.atomic():
        locked = lock_active(account)[account.pk]
        team = lock_own(locked)
        if team.requested_by_id != locked.pk or team.requested_at is None:
            raise TeamRefused(
                f"The account has no open request for the foundership of {team.name}. "
                "Hint: request it first."
            )
        if now < (possible_at := assumable_at(team.requested_at)):
            raise TeamRefused(
                f"The founder of {team.name} has time to answer until "
                f"{possible_at:%Y-%m-%d}. Hint: try again after that day."
            )
        return give_foundership(team, locked, now=now)


def successors(founder: Account) -> dict[int, int]:
    """Return the ids of the accounts that get an erased founder's teams, by the ids of the teams.

    A team without other active members is left out.
    """
    ids: dict[int, int] = {}
    for team in Team.objects.filter(founder=founder):
        members = Account.objects.filter(team=team, is_active=True).exclude(pk=founder.pk)
        requester = members.filter(pk=team.requested_by_id or 0).first()
        if member := requester or members.order_by("pk").first():
            ids[team.pk] = member.pk
    return ids


def hand_over(
    founder: Account,
    successor_ids: Mapping[int, int],
    accounts: Mapping[int, Account],
    *,
    now: datetime,
) -> None:
    """Give the teams of a founder to their successors, and drop the founder's requests.

    The caller has locked `accounts`: the founder and the successors, by id.  A team without other
    active members gets no founder.  Raises `SuccessorChanged` if a successor left the team or
    became inactive before the locks, and the team has other active members; the caller then begins
    again, with a new transaction, since accounts must not be locked after teams.
    """
    related = Team.objects.filter(Q(founder=founder) | Q(requested_by=founder))
    for team in lock_teams(list(related.values_list("pk", flat=True))).values():
        if team.requested_by_id == founder.pk:
            team.requested_by, team.requested_at = None, None
            team.save(update_fields=["requested_by", "requested_at"])
        if team.founder_id != founder.pk:
            continue
        successor = accounts.get(successor_ids.get(team.pk, 0))
        if is_active_member(successor, team):
            give_foundership(team, successor, now=now)
        elif Account.objects.filter(team=team, is_active=True).exclude(pk=founder.pk).exists():
            raise SuccessorChanged(
                f"The members of {team.name} changed at the same time. Hint: try again."
            )
        else:
            give_foundership(team, None, now=now)
