"""Reads a team as a visitor may see it, with what the visitor can do."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import F

from scheduler.models import Account, Team
from scheduler.people import team_reads
from scheduler.people.rules.foundership_steps import Step, assumable_at, next_step, requestable_at


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamView:
    """A team for one visitor.

    `founder_name` is empty without a founder, or if the founder may not be named.
    `shown_founder_id` is 0 unless the founder has a public page.  `administrators` are those whom
    the visitor may see.  `requester_id` is that of an open request for the foundership, for the
    founder only.  `step` is what a member who is not the founder can do, and `step_at` the time at
    which WAIT or NOTHING ends.
    """

    team: Team
    founder_name: str
    shown_founder_id: int
    is_member: bool
    is_founder: bool
    administrators: tuple[Account, ...]
    is_administrator: bool
    requester_id: int | None
    requester_name: str
    step: Step | None
    step_at: datetime | None

    @property
    def may_manage(self) -> bool:
        """True for the founder and administrators, who see all active members."""
        return self.is_founder or self.is_administrator

    def may_remove(self, account_id: int) -> bool:
        """Return whether the visitor may remove this other member."""
        if self.is_founder:
            return True
        leader_ids = {self.team.founder_id, *(each.pk for each in self.administrators)}
        return self.is_administrator and account_id not in leader_ids


def read(team_id: int, viewer: Account | None, *, now: datetime) -> TeamView | None:
    """Return the team as the viewer may see it; None if there is no such team.

    `viewer` is None without a log-in.
    """
    rows = team_reads.with_founder_shares().filter(pk=team_id)
    team: Any = rows.annotate(
        founder_name=F("founder__name"),
        founder_is_active=F("founder__is_active"),
        requester_name=F("requested_by__name"),
    ).first()
    if team is None:
        return None
    is_member = viewer is not None and viewer.team_id == team.pk
    is_founder = is_member and viewer is not None and team.founder_id == viewer.pk
    administrators = tuple(team_reads.shown_administrators(team, viewer if is_member else None))
    administrator_ids = {account.pk for account in administrators}
    is_administrator = viewer is not None and viewer.pk in administrator_ids
    step, step_at = None, None
    if viewer is not None and is_member and not is_founder:
        step = next_step(
            founder_id=team.founder_id,
            requested_by_id=team.requested_by_id,
            requested_at=team.requested_at,
            account_id=viewer.pk,
            now=now,
        )
        if step is Step.WAIT:
            step_at = assumable_at(team.requested_at)
        elif step is Step.NOTHING:
            step_at = requestable_at(team.requested_at, is_open=team.requested_by_id is not None)
    shown_founder_id = team_reads.shown_founder_id(team)
    is_named = is_founder or shown_founder_id or (is_administrator and team.founder_is_active)
    return TeamView(
        team=team,
        founder_name=name_of(team.founder_id, team.founder_name) if is_named else "",
        shown_founder_id=shown_founder_id,
        is_member=is_member,
        is_founder=is_founder,
        administrators=administrators,
        is_administrator=is_administrator,
        requester_id=team.requested_by_id if is_founder else None,
        requester_name=name_of(team.requested_by_id, team.requester_name) if is_founder else "",
        step=step,
        step_at=step_at,
    )


def name_of(account_id: int | None, name: str | None) -> str:
    """Return the name of an account, or its number if it has none; "" without an account."""
    if account_id is None:
        return ""
    return name or f"Account {account_id}"
