"""The previews of actions that retry or drop subjects of failed science code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from django.http import HttpRequest, HttpResponse

from scheduler.admin.confirm import confirmation_page_with, shown_names
from scheduler.health.parked import Dropped, Failing

if TYPE_CHECKING:
    from scheduler.admin.base import StaffAdmin

#: The maximum length of the error of a subject.
_MAX_ERROR: Final = 120
_RETRIED: Final = (
    "The daemons try these subjects again within seconds, with all attempts. If the science code "
    "is not corrected, it fails again, and the subjects are parked again."
)
_DROPPED: Final = (
    "This cannot be undone. Workunits that cannot be validated are cancelled. Workunits that "
    "cannot be assimilated count as assimilated, without their answers being kept by the science "
    "code; their files are deleted. Trickles count as handled."
)


def retry_page(
    site_page: StaffAdmin, request: HttpRequest, subjects: Sequence[Failing]
) -> HttpResponse:
    """Return the page on which the user confirms that subjects are tried again."""
    parked = sum(subject.parked_at is not None for subject in subjects)
    stages = Counter(str(subject.stage.label).lower() for subject in subjects)
    return confirmation_page_with(
        site_page,
        request,
        "retry",
        verb="try these subjects again",
        button="Yes, try them again",
        counts=(
            ("subjects", len(subjects)),
            ("of these parked", parked),
            *((f"of these to {stage}", number) for stage, number in sorted(stages.items())),
        ),
        explanation=_RETRIED,
        **shown_names(_lines(subjects)),
    )


def drop_page(site_page: StaffAdmin, request: HttpRequest, plan: Dropped) -> HttpResponse:
    """Return the page on which the user confirms that subjects are given up.

    `plan` is the result of `parked.drop` with `dry_run`.
    """
    notes = []
    if plan.answered:
        notes.append(
            f"{len(plan.answered)} workunits have an answer already; they stay parked, and only "
            "a corrected validator can finish them."
        )
    if plan.generators:
        notes.append(
            f"{len(plan.generators)} generators stay parked; switch them off on the pages of their "
            "apps instead."
        )
    return confirmation_page_with(
        site_page,
        request,
        "drop",
        verb="give up these subjects",
        button="Yes, give them up",
        counts=(
            ("workunits that are cancelled", len(plan.cancelled)),
            ("answers that are not assimilated", len(plan.given_up)),
            ("trickles that are not handled", len(plan.trickles)),
            ("subjects that stay parked", len(plan.answered) + len(plan.generators)),
        ),
        explanation=_DROPPED,
        previewed=len(plan.changed),
        notes=notes,
        **shown_names(_lines(plan.changed)),
    )


def _lines(subjects: Sequence[Failing]) -> list[str]:
    return [
        f"{subject.subject} of {subject.app}: {subject.reason[:_MAX_ERROR]}" for subject in subjects
    ]
