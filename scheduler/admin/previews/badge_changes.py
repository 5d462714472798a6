"""The preview of changes of a badge, with the awards that they make and withdraw."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from django.contrib import messages
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
#: The buttons of Django's form, which the confirmed form repeats.
_BUTTONS: Final = ("_save", "_continue", "_addanother")


def page(site_page: StaffAdmin, request: HttpRequest, badge: Badge) -> HttpResponse | None:
    """Return the preview of a sent form.

    Returns None if the form has errors, changes nothing, or was confirmed in the preview of the
    badge's current values.  The caller has locked the badge.
    """
    # Before the form changes the instance.
    seen = hashlib.sha256(repr(model_to_dict(badge)).encode()).hexdigest()
    form = site_page.get_form(request, badge, change=True)(request.POST, instance=badge)
    if not form.is_valid() or not form.changed_data:
        return None
    if is_confirmed(request):
        if request.POST.get("seen") == seen:
            return None
        text = "The badge has changed since the preview. This is the new preview."
        site_page.message_user(request, text, messages.WARNING)
    holders = badge_awards.count_holders([badge.pk])[badge.pk]
    counts = [("accounts that have it", holders.accounts), ("teams that have it", holders.teams)]
    if badge.is_published:
        changes = badge_awards.changes(badge, now=timezone.now())
        counts += [("new awards", changes.awarded), ("withdrawn awards", changes.withdrawn)]
    sent = [name for name in (*form.fields, *_BUTTONS) if name in request.POST]
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
        hidden={name: request.POST[name] for name in sent} | {"seen": seen},
        **shown_names(lines),
    )
