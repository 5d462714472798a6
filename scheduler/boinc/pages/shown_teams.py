"""Pages about teams and their members, which statistics sites and managers read."""

from __future__ import annotations

from datetime import datetime

from django.http import QueryDict

from scheduler.boinc.pages.shown_accounts import average_time
from scheduler.boinc.pages.web_rpc import (
    ERR_NOT_FOUND,
    PageRefused,
    is_set,
    number,
    numbers,
    web_rpc,
)
from scheduler.boinc.wire import account_pages as wire
from scheduler.models import Account, Team
from scheduler.people import key_callers, team_reads
from scheduler.people.personal_data.consents import public_cpid


@web_rpc
def team_lookup(params: QueryDict, _address: str, _now: datetime) -> bytes:
    """Return a team by its id, or up to 100 teams by their ids or a part of their names."""
    if team_id := number(params, "team_id"):
        return wire.encode_team(_team(_find(team_id)))
    if params.get("team_ids"):
        teams = team_reads.find_all(numbers(params, "team_ids", limit=team_reads.MAX_TEAMS))
    else:
        teams = team_reads.search(params.get("team_name", "").strip())
    return wire.encode_teams(map(_team, teams))


@web_rpc
def team_email_list(params: QueryDict, address: str, now: datetime) -> bytes:
    """Return the members of a team who share their statistics, without e-mail addresses.

    The strong key of the founder or of an administrator also shows the other members.
    """
    team = _find(number(params, "teamid"))
    key, may_manage = params.get("account_key", ""), False
    if key:
        owner = key_callers.identify(key, door="team_email_list", address=address, now=now)
        may_manage = team_reads.may_manage(team, owner.account)
    credit_only = is_set(params, "creditonly")
    members = team_reads.members(team.pk, all_active=may_manage, with_credit=credit_only)
    return wire.encode_members(_member(each, credit_only=credit_only) for each in members)


def _find(team_id: int) -> Team:
    team = team_reads.find(team_id)
    if team is None:
        raise PageRefused(ERR_NOT_FOUND, "There is no such team.")
    return team


def _team(team: Team) -> wire.ShownTeam:
    return wire.ShownTeam(
        id=team.pk,
        create_time=int(team.created_at.timestamp()),
        userid=team_reads.shown_founder_id(team),
        name=team.name,
        url=team.url,
        type=team.kind,
        country=team.country,
        total_credit=float(team.total_credit),
        expavg_credit=team.expavg_credit,
        expavg_time=average_time(team.expavg_at),
    )


def _member(account: Account, *, credit_only: bool) -> wire.ShownMember:
    shown = wire.ShownMember(
        id=account.pk, cpid=public_cpid(account), total_credit=float(account.total_credit)
    )
    if credit_only:
        return shown
    return wire.ShownMember(
        id=shown.id,
        cpid=shown.cpid,
        total_credit=shown.total_credit,
        create_time=int(account.created_at.timestamp()),
        name=account.name,
        expavg_credit=account.expavg_credit,
        expavg_time=average_time(account.expavg_at),
        has_profile=False,
        country=account.country,
        url=account.url,
    )
