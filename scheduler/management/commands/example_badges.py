"""Creates the example badges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils import timezone

from scheduler.credit import badges
from scheduler.management.base import Answer, JsonCommand


class Command(JsonCommand):
    """``example_badges``."""

    help = (
        "Create three example badges, which are not published: for 10,000 credits, for the top 5 "
        "percent by recent average credit, and for one year. Existing badges do not change."
    )

    def answer(self, options: Mapping[str, Any]) -> Answer:  # noqa: ARG002  there are no options
        names = [badge.name for badge in badges.create_examples(now=timezone.now())]
        if not names:
            return Answer("All example badges exist already.", {"created": []})
        sentence = f"Created {', '.join(names)}. Publish them in the admin, under Badges."
        return Answer(sentence, {"created": names})
