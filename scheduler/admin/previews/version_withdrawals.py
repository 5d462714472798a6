"""The preview of actions that withdraw app versions, or offer them again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from scheduler.admin.confirm import confirmation_page_with, is_confirmed_as_shown, shown_names
from scheduler.apps import withdrawal
from scheduler.apps.withdrawal import Effects
from scheduler.models import AppVersion

if TYPE_CHECKING:
    from scheduler.admin.base import StaffAdmin

_WITHDRAWN: Final = (
    "Hosts get other versions of the app instead of deprecated ones, if there are any. Only "
    "workunits that are bound to a deprecated version, or to its number, are still sent with it. "
    "Results in progress continue, and can be reported. Versions can be restored."
)
_RESTORED: Final = "Hosts that fit get these versions again with their next work."


def page(
    site_page: StaffAdmin, request: HttpRequest, ids: Sequence[int], *, deprecated: bool
) -> HttpResponse | None:
    """Return the preview; None after a confirmed or refused change."""
    versions = list(withdrawal.changeable(ids, deprecated=deprecated).order_by("pk"))
    if not versions:
        state = "are deprecated already" if deprecated else "are not deprecated"
        text = f"The selected versions {state}, or are programs of volunteers."
        site_page.refuse(request, f"{text} Hint: reload the list.")
        return None
    now = timezone.now()
    if is_confirmed_as_shown(site_page, request, len(versions), "versions"):
        done = withdrawal.change_all(ids, deprecated=deprecated, now=now)
        state = "deprecated" if deprecated else "offered again"
        site_page.message_user(request, f"{len(done)} versions are {state}.")
        return None
    effects = withdrawal.effects(versions, now=now)
    return confirmation_page_with(
        site_page,
        request,
        "deprecate" if deprecated else "restore",
        verb="deprecate these versions" if deprecated else "restore these versions",
        button="Yes, deprecate them" if deprecated else "Yes, restore them",
        counts=(
            ("versions", len(versions)),
            (
                "unsent workunits that no other version can compute"
                if deprecated
                else "unsent workunits that only these versions can compute",
                effects.stranded,
            ),
            ("unsent workunits that are bound to them", effects.bound),
            ("hosts that compute with them", effects.hosts),
            ("results in progress", effects.results),
            ("results of the last 24 hours", effects.reported),
        ),
        explanation=_WITHDRAWN if deprecated else _RESTORED,
        notes=_notes(effects, deprecated),
        previewed=len(versions),
        **shown_names(_lines(versions) if deprecated else versions),
    )


def _notes(effects: Effects, deprecated: bool) -> list[str]:
    """Return sentences about the rows that were read, and about workunits that would wait."""
    notes = []
    if deprecated and effects.stranded:
        notes.append(
            "These workunits wait until a version is published or restored, or until they are "
            "cancelled."
        )
    if not effects.are_all_read:
        notes.append(
            f"At most the first {withdrawal.MAX_READ:,} unsent results of these apps were read, so "
            "there can be more such workunits."
        )
    if effects.held_read >= withdrawal.MAX_READ:
        notes.append(
            f"The first {withdrawal.MAX_READ:,} results in progress were read, by deadline, so "
            "there can be more hosts and results of these versions."
        )
    return notes


def _lines(versions: Sequence[AppVersion]) -> list[str]:
    """Return the name of each version, and of the version that hosts get instead."""
    successors = withdrawal.successors(versions)
    return [
        f"{version}; instead: {successors[version.pk] or 'no version for this platform and class'}"
        for version in versions
    ]
