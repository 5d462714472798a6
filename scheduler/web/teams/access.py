"""Finds the teams that an account may change, for the pages of teams."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest
from django.template.response import TemplateResponse

from scheduler.models import Account, Team
from scheduler.people import team_reads
from scheduler.people.teams import TeamRefused
from scheduler.web.texts import translated


def find(team_id: int) -> Team:
    """Return the team; raise 404 for an unknown id."""
    team = Team.objects.filter(pk=team_id).first()
    if team is None:
        raise Http404
    return team


def led(account: Account, team_id: int) -> Team:
    """Return the team; raise 404 if the account is not its founder, who is a member."""
    team = find(team_id)
    if not team_reads.is_founder(team, account):
        raise Http404
    return team


def managed(account: Account, team_id: int) -> Team:
    """Return the team; raise 404 if the account is neither its founder nor an administrator."""
    team = find(team_id)
    if not team_reads.may_manage(team, account):
        raise Http404
    return team


@contextmanager
def refusals_shown(request: HttpRequest) -> Iterator[None]:
    """Show the refusal with which the block ends, if any, as a message of the next page."""
    try:
        yield
    except TeamRefused as refusal:
        messages.error(request, translated(str(refusal)))


def page(request: HttpRequest, name: str, context: dict[str, Any]) -> TemplateResponse:
    return TemplateResponse(request, f"teams/{name}.html", context)
