"""Creates and changes BOINC-wide teams, which exist on all projects under one id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction

from scheduler.models import Account, Team
from scheduler.people.teams.locked_rows import (
    lock_active,
    lock_teams,
    record_change,
    set_team,
    unknown_team,
)
from scheduler.people.teams.team_profiles import TeamProfile, checked_fields
from scheduler.people.teams.team_refusals import TakenName, TeamRefused


def create(boinc_wide_id: int, profile: TeamProfile, *, founder: Account, now: datetime) -> Team:
    """Create a BOINC-wide team with its founder as its only member.

    Raises `InactiveAccount`, `BadName`, and `TeamRefused` if the founder has a team.
    """
    fields = checked_fields(asdict(profile))
    with transaction.atomic():
        locked = lock_active(founder)[founder.pk]
        if locked.team_id is not None:
            raise TeamRefused("The founder is a member of another team here.")
        team = Team(**fields, boinc_wide_id=boinc_wide_id, founder=locked, created_at=now)
        _save(team)
        set_team(locked, team.pk)
        details = {"created": True, "founder": locked.pk, "boinc_wide_id": boinc_wide_id}
        record_change(team, details, now=now)
    return team


def update(
    team_id: int, boinc_wide_id: int, fields: Mapping[str, Any], *, founder: Account, now: datetime
) -> Team:
    """Set columns of a team and its BOINC-wide id.

    Raises `TeamRefused` if the founder changed, and `UnknownTeam`.
    """
    checked = checked_fields(fields) | {"boinc_wide_id": boinc_wide_id}
    with transaction.atomic():
        team = lock_teams([team_id]).get(team_id)
        if team is None:
            raise unknown_team(team_id)
        if team.founder_id != founder.pk:
            raise TeamRefused("The team has another founder here.")
        for name, value in checked.items():
            setattr(team, name, value)
        _save(team, update_fields=list(checked))
        record_change(team, {"boinc_wide_id": boinc_wide_id, "changed": sorted(fields)}, now=now)
    return team


def _save(team: Team, **options: Any) -> None:
    try:
        with transaction.atomic():
            team.save(**options)
    except IntegrityError as error:
        raise TakenName("A team with this name or id was created meanwhile.") from error
