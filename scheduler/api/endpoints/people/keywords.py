"""The endpoint of BOINC's keywords, which volunteers prefer or exclude."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rest_framework import serializers

from scheduler.api.http.body import Shown
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.openapi_operation import operation
from scheduler.boinc.rules.keywords import KEYWORDS, Category
from scheduler.work.volunteers import used_keywords

if TYPE_CHECKING:
    from rest_framework.request import Request
    from rest_framework.response import Response


class KeywordShown(Shown):
    """A keyword of BOINC's list."""

    number = serializers.IntegerField(
        help_text="The number in `keywords` of workunits, and in `keywords_yes` and `keywords_no` "
        "of project preferences."
    )
    name = serializers.CharField()
    category = serializers.ChoiceField(choices=tuple(Category))
    parent_number = serializers.IntegerField(
        allow_null=True, help_text="The number of the wider keyword; null at the top."
    )
    is_used = serializers.BooleanField(
        help_text="Whether one of the project's newest workunits has the keyword."
    )


class KeywordListShown(Shown):
    """BOINC's keywords, parents before their children."""

    results = KeywordShown(many=True)


class Keywords(Endpoint):
    @operation("List BOINC's keywords", name="list_keywords", answer=KeywordListShown)
    def get(self, request: Request) -> Response:
        """Returns BOINC's keywords: fields of science, and places where research is done.

        Workunits and preferences can have other numbers, which have no name.
        """
        used = used_keywords.read()
        rows = [
            {
                "number": keyword.number,
                "name": keyword.name,
                "category": keyword.category,
                "parent_number": keyword.parent or None,
                "is_used": keyword.number in used,
            }
            for keyword in KEYWORDS.values()
        ]
        return self.reply({"results": rows})
