"""Reads published badges and their holders, and creates badges."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from scheduler.credit.badge_awards import BadgeRefused
from scheduler.credit.rules import badge_images
from scheduler.models import AccountBadge, Badge, TeamBadge
from scheduler.people import audit

#: Maximum number of badges in a list.
MAX_LISTED: Final = 500
#: Maximum number of badges of an account or a team that are shown.
MAX_HELD: Final = 100
_MAX_PERCENT, _MAX_YEARS = 100, 100
_ORDER: Final = ("-level", "name")
Rule = Badge.Rule
#: Example badges: name, title, description, rule, threshold, whether for teams, level and color.
_EXAMPLES: Final = (
    ("credit-10000", "10,000 credits", "Computed for a first 10,000 credits.",
     Rule.TOTAL_CREDIT, 10_000, True, 10, "#b08d57"),
    ("top-5-percent", "Top 5 percent", "Among the most active 5 percent.",
     Rule.RECENT_PERCENTAGE, 5, True, 30, "#c9a227"),
    ("year-1", "One year", "Has computed for the project, and joined a year ago or earlier.",
     Rule.YEARS, 1, False, 20, "#2b7a66"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class HeldBadge:
    """A badge of an account or a team, and the time of the award."""

    badge: Badge
    awarded_at: datetime


def check(facts: dict[str, Any]) -> None:
    """Raise `BadgeRefused` if the columns of a badge do not fit each other."""
    rule, threshold = facts.get("rule"), facts.get("threshold")
    if not facts.get("for_accounts") and not facts.get("for_teams"):
        raise BadgeRefused("The badge has no kind of holder. Hint: choose accounts, teams or both.")
    if not badge_images.COLOR.fullmatch(facts.get("color", "")):
        raise BadgeRefused("The color is not valid. Hint: write it as #b08d57, in lower case.")
    if rule == Rule.BY_HAND:
        if threshold is not None:
            raise BadgeRefused("A badge by hand has no threshold. Hint: leave it empty.")
        return
    if threshold is None or threshold <= 0:
        raise BadgeRefused("The rule needs a threshold. Hint: give a number above 0.")
    if rule == Rule.RECENT_PERCENTAGE and threshold > _MAX_PERCENT:
        raise BadgeRefused(f"{threshold} is no percentage. Hint: give at most {_MAX_PERCENT}.")
    if rule == Rule.YEARS and (threshold > _MAX_YEARS or threshold != int(threshold)):
        raise BadgeRefused(
            f"{threshold} is no number of years. Hint: give a whole number up to {_MAX_YEARS}."
        )


def create_examples(*, now: datetime) -> list[Badge]:
    """Create the example badges that do not exist, not published; return the created ones."""
    created = []
    for name, title, description, rule, threshold, for_teams, level, color in _EXAMPLES:
        facts = {
            "title": title,
            "description": description,
            "rule": rule,
            "threshold": Decimal(threshold),
            "for_teams": for_teams,
            "level": level,
            "color": color,
            "created_at": now,
        }
        with transaction.atomic():
            badge, is_new = Badge.objects.get_or_create(name=name, defaults=facts)
            if is_new:
                details = {"added": True}
                event = audit.Event.BADGE_CHANGED
                audit.record(event, now=now, subject=f"badge {badge}", details=details)
                created.append(badge)
    return created


def image_url(badge: Badge) -> str:
    """Return the address of the badge's image."""
    return f"{settings.PROJECT.master_url}badges/{badge.pk}.svg"


def listed() -> list[Badge]:
    """Return at most `MAX_LISTED` published badges, those of the highest level first."""
    return list(Badge.objects.filter(is_published=True).order_by(*_ORDER)[:MAX_LISTED])


def find(badge_id: int) -> Badge | None:
    """Return a published badge, or None."""
    return Badge.objects.filter(pk=badge_id, is_published=True).first()


def of_account(account_id: int) -> tuple[HeldBadge, ...]:
    """Return at most `MAX_HELD` published badges of an account, which may be shown or not."""
    return _held(AccountBadge.objects.filter(account_id=account_id))


def of_team(team_id: int) -> tuple[HeldBadge, ...]:
    """Return at most `MAX_HELD` published badges of a team."""
    return _held(TeamBadge.objects.filter(team_id=team_id))


def _held(awards: QuerySet[AccountBadge] | QuerySet[TeamBadge]) -> tuple[HeldBadge, ...]:
    rows = awards.filter(badge__is_published=True).select_related("badge")
    order = [f"{'-' * name.startswith('-')}badge__{name.removeprefix('-')}" for name in _ORDER]
    return tuple(HeldBadge(row.badge, row.created_at) for row in rows.order_by(*order)[:MAX_HELD])
