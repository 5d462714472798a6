"""Creates and changes teams, their members and their founders.

Theory of operation.  An operation locks the rows of its accounts, in ascending id, before the row
of the team.  A team has one founder, who is a member.  A founder leaves only as the last active
member, or after the foundership was transferred.  If the account of a founder is erased, the member
who has requested the foundership gets it, else the active member with the oldest account.  A team
without active members has no founder; a request for its foundership is granted at once.

A member may request the foundership.  The founder transfers it or declines.  Without an answer, the
member may assume it after `ANSWER_WITHIN`, for example if the founder is no longer active.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Final, TypeGuard

from django.core.exceptions import ValidationError
from django.core.validators import URLValidator
from django.db import IntegrityError, transaction
from django.db.models import Q

from scheduler.models import Account, Team
from scheduler.people import audit
from scheduler.people.account_keys import good_name

#: The time in which a founder answers a request for the foundership; that of BOINC.
ANSWER_WITHIN: Final = timedelta(days=60)
#: A request replaces an unanswered one after this time, so that one member cannot block the others.
REQUEST_VALID_FOR: Final = timedelta(days=90)
_MAX_DESCRIPTION, _MAX_COUNTRY, _MAX_URL = 10_000, 64, 200
_check_url = URLValidator(schemes=["http", "https"])


class TeamRefused(ValueError):
    """A change of a team is refused. Hint: see the message."""

    error_num = -1


class UnknownTeam(TeamRefused):
    """No team has this id. Hint: look the team up by its name."""

    error_num = -136


class NotMember(TeamRefused):
    """The account is not an active member of the team. Hint: list the members of the team."""

    error_num = -136


class NotFounder(TeamRefused):
    """The account is not the founder of the team. Hint: ask the founder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamProfile:
    """The fields of a team that its founder sets."""

    name: str
    kind: int = Team.Kind.NONE
    url: str = ""
    description: str = ""
    country: str = ""
    joinable: bool = True


def create(founder: Account, profile: TeamProfile, *, now: datetime) -> Team:
    """Create a team; the founder leaves their team, if any, and becomes the first member.

    Raises `BadName`, and `TeamRefused` for an invalid or taken value, or if the founder may not
    leave their team.
    """
    fields = _checked(asdict(profile))
    with transaction.atomic():
        account = lock_accounts([founder.pk])[founder.pk]
        _leave(account)
        team = _save_new(Team(**fields, founder=account, created_at=now))
        _set_team(account, team.pk)
        _record(team, {"created": True, "founder": account.pk}, now=now)
    return team


def change(team_id: int, fields: Mapping[str, Any], *, by: Account, now: datetime) -> Team:
    """Change fields of `TeamProfile`; only the founder may.

    Raises `UnknownTeam`, `NotFounder`, `BadName` and `TeamRefused`.
    """
    checked = _checked(fields)
    with transaction.atomic():
        team = _lock_led(team_id, by)
        for name, value in checked.items():
            setattr(team, name, value)
        try:
            with transaction.atomic():
                team.save(update_fields=list(checked))
        except IntegrityError as error:
            raise _taken(team.name) from error
        _record(team, {"changed": sorted(checked)}, now=now)
    return team


def join(account: Account, team_id: int) -> Team:
    """Make an account a member of a team that accepts members; it leaves its former team.

    Raises `UnknownTeam`, and `TeamRefused` if the team accepts no members or if the account may not
    leave its team.
    """
    with transaction.atomic():
        locked = lock_accounts([account.pk])[account.pk]
        if locked.team_id == team_id:
            return _find(team_id)
        # Two teams: in ascending id, as every transaction locks teams.
        teams = _lock_teams([team_id] if locked.team_id is None else [team_id, locked.team_id])
        team = teams.get(team_id)
        if team is None:
            raise _unknown(team_id)
        if not team.joinable:
            raise TeamRefused(f"Team {team.name} accepts no members. Hint: ask its founder.")
        _leave(locked, teams.get(locked.team_id or 0))
        _set_team(locked, team_id)
    return team


def leave(account: Account) -> None:
    """Remove an account from its team, if any.

    Raises `TeamRefused` if the account leads other active members.  A team that is left by its
    founder, and whose other members are inactive, has no founder.
    """
    with transaction.atomic():
        locked = lock_accounts([account.pk])[account.pk]
        _leave(locked)
        _set_team(locked, None)


def remove_member(team_id: int, member_id: int, *, by: Account, now: datetime) -> None:
    """Remove another member, who may be inactive, from a team; only the founder may.

    Raises `UnknownTeam`, `NotFounder`, and `TeamRefused` if the account is not a member.
    """
    if member_id == by.pk:
        raise TeamRefused("Founders cannot remove themselves. Hint: leave the team.")
    with transaction.atomic():
        accounts = lock_accounts([by.pk, member_id])
        team = _lock_led(team_id, by)
        member = accounts.get(member_id)
        if member is None or member.team_id != team.pk:
            raise _not_member(team, member_id, "a member")
        _forget_request(team, member)
        _set_team(member, None)
        _record(team, {"removed": member_id}, now=now)


def transfer(team_id: int, member_id: int, *, by: Account, now: datetime) -> Team:
    """Make another member the founder; only the founder may.

    Raises `UnknownTeam`, `NotFounder`, and `TeamRefused` if the account is not an active member.
    """
    with transaction.atomic():
        accounts = lock_accounts([by.pk, member_id])
        team = _lock_led(team_id, by)
        return _give(team, _member(team, accounts.get(member_id), member_id), now=now)


def request_foundership(account: Account, *, now: datetime) -> Team:
    """Request the foundership of the account's team; granted at once if the team has no founder.

    Raises `TeamRefused` if the account has no team or leads it, or if there was a request within
    `ANSWER_WITHIN` (or, if the request is unanswered, within `REQUEST_VALID_FOR`).
    """
    with transaction.atomic():
        locked = lock_accounts([account.pk])[account.pk]
        team = _lock_own(locked)
        if team.founder_id is None:
            return _give(team, locked, now=now)
        if team.founder_id == locked.pk:
            raise TeamRefused(f"The account is the founder of {team.name} already.")
        wait = ANSWER_WITHIN if team.requested_by_id is None else REQUEST_VALID_FOR
        if team.requested_at is not None and now < team.requested_at + wait:
            raise TeamRefused(
                f"The foundership of {team.name} was requested on {team.requested_at:%Y-%m-%d}. "
                f"Hint: request it after {team.requested_at + wait:%Y-%m-%d}."
            )
        team.requested_by, team.requested_at = locked, now
        team.save(update_fields=["requested_by", "requested_at"])
        _record(team, {"requested_by": locked.pk}, now=now)
    return team


def decline_request(team_id: int, *, by: Account, now: datetime) -> Team:
    """Decline the request for the foundership; only the founder may.

    The time of the request remains, so that the next request is possible after `ANSWER_WITHIN`.
    Raises `UnknownTeam`, `NotFounder`, and `TeamRefused` if there is no request.
    """
    with transaction.atomic():
        team = _lock_led(team_id, by)
        if team.requested_by_id is None:
            raise TeamRefused(f"The foundership of {team.name} was not requested.")
        declined, team.requested_by = team.requested_by_id, None
        team.save(update_fields=["requested_by"])
        _record(team, {"declined": declined}, now=now)
    return team


def assume_foundership(account: Account, *, now: datetime) -> Team:
    """Make an account the founder whose request was not answered within `ANSWER_WITHIN`.

    Raises `TeamRefused` if the account has no request, or if the time has not passed.
    """
    with transaction.atomic():
        locked = lock_accounts([account.pk])[account.pk]
        team = _lock_own(locked)
        if team.requested_by_id != locked.pk or team.requested_at is None:
            raise TeamRefused(
                f"The account has no open request for the foundership of {team.name}. "
                "Hint: request it first."
            )
        if now < team.requested_at + ANSWER_WITHIN:
            raise TeamRefused(
                f"The founder of {team.name} has time to answer until "
                f"{team.requested_at + ANSWER_WITHIN:%Y-%m-%d}. Hint: try again after that day."
            )
        return _give(team, locked, now=now)


# Erasure of a founder


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

    The caller has locked `accounts`: the founder and the successors, by id.  A team whose successor
    left it or became inactive in the meantime gets no founder.
    """
    related = Team.objects.filter(Q(founder=founder) | Q(requested_by=founder))
    for team in _lock_teams(list(related.values_list("pk", flat=True))).values():
        if team.requested_by_id == founder.pk:
            team.requested_by, team.requested_at = None, None
            team.save(update_fields=["requested_by", "requested_at"])
        if team.founder_id != founder.pk:
            continue
        successor = accounts.get(successor_ids.get(team.pk, 0))
        _give(team, successor if _is_active_member(successor, team) else None, now=now)


# Locks


def lock_accounts(ids: Collection[int]) -> dict[int, Account]:
    """Lock accounts in ascending id, and return them by id; unknown ids are ignored."""
    rows = Account.objects.select_for_update(no_key=True).filter(pk__in=ids).order_by("pk")
    return {account.pk: account for account in rows}


def _lock_teams(ids: Collection[int]) -> dict[int, Team]:
    rows = Team.objects.select_for_update(no_key=True).filter(pk__in=ids).order_by("pk")
    return {team.pk: team for team in rows}


def _lock_led(team_id: int, by: Account) -> Team:
    """Lock a team and return it; raise `UnknownTeam`, or `NotFounder` if `by` does not lead it."""
    team = _lock_teams([team_id]).get(team_id)
    if team is None:
        raise _unknown(team_id)
    if team.founder_id != by.pk:
        raise NotFounder(f"Only the founder of {team.name} may do this. Hint: ask the founder.")
    return team


def _lock_own(account: Account) -> Team:
    """Lock the team of a locked account and return it; raise `TeamRefused` without a team."""
    if account.team_id is None:
        raise TeamRefused("The account has no team. Hint: join a team first.")
    return _lock_teams([account.team_id])[account.team_id]


# Changes of locked rows


def _leave(account: Account, team: Team | None = None) -> None:
    """Prepare a locked account to leave its team, which is locked here unless it is passed."""
    if account.team_id is None:
        return
    team = team or _lock_own(account)
    if team.founder_id == account.pk:
        members = Account.objects.filter(team=team, is_active=True)
        if members.exclude(pk=account.pk).exists():
            raise TeamRefused(
                f"The founder of {team.name} cannot leave it while it has other active members. "
                "Hint: transfer the foundership first."
            )
        team.founder = None
        team.save(update_fields=["founder"])
    _forget_request(team, account)


def _forget_request(team: Team, account: Account) -> None:
    if team.requested_by_id == account.pk:
        team.requested_by = None
        team.save(update_fields=["requested_by"])


def _set_team(account: Account, team_id: int | None) -> None:
    account.team_id = team_id
    account.save(update_fields=["team"])


def _give(team: Team, account: Account | None, *, now: datetime) -> Team:
    """Make a locked member the founder of a locked team; None leaves it without a founder."""
    former = team.founder_id
    team.founder, team.requested_by, team.requested_at = account, None, None
    team.save(update_fields=["founder", "requested_by", "requested_at"])
    details = {"founder": None if account is None else account.pk, "former_founder": former}
    _record(team, details, now=now)
    return team


def _member(team: Team, account: Account | None, account_id: int) -> Account:
    if not _is_active_member(account, team):
        raise _not_member(team, account_id, "an active member")
    return account


def _is_active_member(account: Account | None, team: Team) -> TypeGuard[Account]:
    return account is not None and account.team_id == team.pk and account.is_active


def _not_member(team: Team, account_id: int, what: str) -> NotMember:
    return NotMember(
        f"Account {account_id} is not {what} of {team.name}. Hint: list the members of the team."
    )


def _save_new(team: Team) -> Team:
    try:
        with transaction.atomic():
            team.save(force_insert=True)
    except IntegrityError as error:
        raise _taken(team.name) from error
    return team


# Values and refusals


def _checked(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields in their stored form; raise `BadName` or `TeamRefused`."""
    checked = dict(fields)
    if "name" in checked:
        checked["name"] = good_name(str(checked["name"]))
    if "kind" in checked and checked["kind"] not in Team.Kind.values:
        raise TeamRefused(
            f"{checked['kind']} is not a type of teams. Hint: use 0 to {max(Team.Kind.values)}."
        )
    if url := checked.get("url"):
        try:
            _check_url(url)
        except ValidationError:
            raise TeamRefused(
                f"{url[:60]!r} is not a web address. Hint: begin it with https://."
            ) from None
    for name, limit in (
        ("url", _MAX_URL),
        ("country", _MAX_COUNTRY),
        ("description", _MAX_DESCRIPTION),
    ):
        value = str(checked.get(name, ""))
        if len(value) > limit or "\0" in value:
            raise TeamRefused(
                f"The {name} has {len(value)} characters. Hint: give at most {limit}, without NUL."
            )
    return checked


def _find(team_id: int) -> Team:
    team = Team.objects.filter(pk=team_id).first()
    if team is None:
        raise _unknown(team_id)
    return team


def _unknown(team_id: int) -> UnknownTeam:
    return UnknownTeam(f"There is no team {team_id}. Hint: look the team up by its name.")


def _taken(name: str) -> TeamRefused:
    return TeamRefused(f"There is a team {name} already. Hint: choose another name.")


def _record(team: Team, details: Mapping[str, Any], *, now: datetime) -> None:
    subject = f"team {team.pk} {team.name}"
    audit.record(audit.Event.TEAM_CHANGED, now=now, subject=subject, details=details)
