"""The previews of new badges, changes of a badge and awards by hand."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from django.contrib import messages
from django.contrib.admin.options import IS_POPUP_VAR, TO_FIELD_VAR
from django.forms import model_to_dict
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from scheduler.admin.confirm import confirmation_page_with, is_confirmed, shown_names
from scheduler.credit import badge_awards
from scheduler.models import Badge

if TYPE_CHECKING:
    from scheduler.admin.base import StaffAdmin

_PUBLISHED: Final = (
    "Pages show the new texts at once, and browsers a new image within an hour. The housekeeper "
    "awards and withdraws the badge once a day, and the action of the list does it at once."
)
_NOT_PUBLISHED: Final = (
    "A badge that is not published is on no page, and is not awarded by its rule. Its awards stay."
)
_NEW_BY_RULE: Final = (
    "The page of badges shows it at once. The housekeeper awards it once a day, and the action of "
    "the list does it at once. The rule and the kinds of holders cannot be changed later."
)
_NEW_BY_HAND: Final = (
    "The page of badges shows it at once. Only operators award it, by hand. The rule and the kinds "
    "of holders cannot be changed later."
)
_AWARDED: Final = (
    "Pages show the badge of this holder at once. The award stays until it is withdrawn by hand."
)
_AWARDED_UNPUBLISHED: Final = (
    "The badge is not published: pages show it from the time when it is published. The award stays "
    "until it is withdrawn by hand."
)
#: The buttons and hidden inputs of Django's form, which the confirmed form repeats.
_INPUTS: Final = ("_save", "_continue", "_addanother", IS_POPUP_VAR, TO_FIELD_VAR)


def page_of_new(site_page: StaffAdmin, request: HttpRequest) -> HttpResponse | None:
    """Return the preview of the sent form of a new badge.

    Returns None if the form has errors or was confirmed, and for a badge that is not published.
    """
    form = site_page.get_form(request)(request.POST)
    if not form.is_valid() or not form.cleaned_data["is_published"] or is_confirmed(request):
        return None
    badge = form.instance
    earners = badge_awards.preview(badge, now=timezone.now())
    texts = {"rule": badge.get_rule_display(), "threshold": badge.amount}
    lines = [
        f"{form.fields[name].label}: {value}"
        for name, value in (form.cleaned_data | texts).items()
        if value != ""
    ]
    return confirmation_page_with(
        site_page,
        request,
        "publish",
        verb="publish this badge",
        button="Yes, publish it",
        counts=(
            ("accounts that earn it now", earners.accounts or 0),
            ("teams that earn it now", earners.teams or 0),
        ),
        explanation=_NEW_BY_HAND if badge.rule == Badge.Rule.BY_HAND else _NEW_BY_RULE,
        hidden=_sent(request, form),
        **shown_names(lines),
    )


def page(site_page: StaffAdmin, request: HttpRequest, badge: Badge) -> HttpResponse | None:
    """Return the preview of a sent form.

    Returns None if the form has errors, changes nothing, or was confirmed in the preview of the
    badge's current values.  The caller has locked the badge.
    """
    # Before the form changes the instance.
    seen = _fingerprint(badge)
    form = site_page.get_form(request, badge, change=True)(request.POST, instance=badge)
    if not form.is_valid() or not form.changed_data:
        return None
    if _is_confirmed_as_seen(site_page, request, seen):
        return None
    counts = _holders(badge)
    if badge.is_published:
        changes = badge_awards.changes(badge, now=timezone.now())
        counts += [("new awards", changes.awarded), ("withdrawn awards", changes.withdrawn)]
    lines = [
        f"{form.fields[name].label}: {form[name].initial} → {form.cleaned_data[name]}"
        for name in form.changed_data
    ]
    return confirmation_page_with(
        site_page,
        request,
        "change",
        verb="change this badge",
        button="Yes, change it",
        counts=counts,
        explanation=_PUBLISHED if badge.is_published else _NOT_PUBLISHED,
        hidden=_sent(request, form) | {"seen": seen},
        **shown_names(lines),
    )


def page_of_award(site_page: StaffAdmin, request: HttpRequest) -> HttpResponse | None:
    """Return the preview of the sent form of an award by hand; must be called in a transaction.

    Returns None if the form has errors, or was confirmed in the preview of the badge's current
    values.
    """
    form = site_page.get_form(request)(request.POST)
    if not form.is_valid():
        return None
    badge = form.cleaned_data["badge"]
    seen = _fingerprint(badge)
    if _is_confirmed_as_seen(site_page, request, seen):
        return None
    return confirmation_page_with(
        site_page,
        request,
        "award",
        verb="award this badge",
        button="Yes, award it",
        counts=_holders(badge),
        explanation=_AWARDED if badge.is_published else _AWARDED_UNPUBLISHED,
        hidden=_sent(request, form) | {"seen": seen},
        **shown_names(
            [
                f"{form.fields[name].label} {row.pk}: {row}"
                for name, row in form.cleaned_data.items()
            ]
        ),
    )


def _fingerprint(badge: Badge) -> str:
    return hashlib.sha256(repr(model_to_dict(badge)).encode()).hexdigest()


def _is_confirmed_as_seen(site_page: StaffAdmin, request: HttpRequest, seen: str) -> bool:
    """Return whether the user confirmed the preview of a badge with this fingerprint.

    Shows a warning if it was the preview of other values.
    """
    if not is_confirmed(request):
        return False
    if request.POST.get("seen") == seen:
        return True
    text = "The badge has changed since the preview. This is the new preview."
    site_page.message_user(request, text, messages.WARNING)
    return False


def _holders(badge: Badge) -> list[tuple[str, int]]:
    holders = badge_awards.count_holders([badge.pk])[badge.pk]
    return [("accounts that have it", holders.accounts), ("teams that have it", holders.teams)]


def _sent(request: HttpRequest, form: Any) -> dict[str, str]:
    """Return the values of the form that the confirmed form repeats."""
    return {name: request.POST[name] for name in (*form.fields, *_INPUTS) if name in request.POST}
