"""The public endpoint of badges, and the badges of an account or a team."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rest_framework import serializers

from scheduler.api.http.body import Shown
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.openapi_operation import Access, operation
from scheduler.credit import badges
from scheduler.models import Badge

if TYPE_CHECKING:
    from rest_framework.request import Request
    from rest_framework.response import Response

    from scheduler.credit.badges import HeldBadge


class BadgeShown(Shown):
    """A badge of the project."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    title = serializers.CharField()
    description = serializers.CharField()
    rule = serializers.ChoiceField(choices=Badge.Rule.choices)
    threshold = serializers.FloatField(
        allow_null=True,
        help_text="Credit, percentage or years, as the rule demands; null for a badge by hand.",
    )
    level = serializers.IntegerField(help_text="Badges of a higher level are listed first.")
    image_url = serializers.URLField(help_text="The address of an SVG image.")
    accounts = serializers.IntegerField(
        allow_null=True,
        help_text="Number of holders who share their statistics; null if it is not for accounts.",
    )
    teams = serializers.IntegerField(
        allow_null=True, help_text="Number of teams; null if the badge is not for teams."
    )

    def read_image_url(self, badge: Badge) -> str:
        return badges.image_url(badge)

    def read_accounts(self, badge: Badge) -> int | None:
        return badge.account_count if badge.for_accounts else None

    def read_teams(self, badge: Badge) -> int | None:
        return badge.team_count if badge.for_teams else None


class BadgeListShown(Shown):
    """The badges of the project."""

    results = BadgeShown(many=True)


class HeldBadgeShown(Shown):
    """A badge of an account or a team."""

    id = serializers.IntegerField(source="badge.id")
    name = serializers.CharField(source="badge.name")
    title = serializers.CharField(source="badge.title")
    image_url = serializers.URLField(help_text="The address of an SVG image.")
    awarded_at = serializers.DateTimeField()

    def read_image_url(self, award: HeldBadge) -> str:
        return badges.image_url(award.badge)


class Badges(Endpoint):
    @operation("List the badges", name="list_badges", answer=BadgeListShown, access=Access.PUBLIC)
    def get(self, request: Request) -> Response:
        """Returns the published badges, those of the highest level first.

        The numbers of holders are counted once a day, and when a badge is awarded by hand.
        """
        return self.reply({"results": badges.listed()})
