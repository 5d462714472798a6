"""The preview of actions that deny work to hosts, or admit them again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from scheduler.admin.confirm import (
    ReasonForm,
    confirmation_page_with,
    is_confirmed_as_shown,
    shown_names,
)
from scheduler.hosts import denials
from scheduler.models import Host

if TYPE_CHECKING:
    from scheduler.admin.base import StaffAdmin

_DENIED: Final = (
    "The server refuses the requests of denied hosts: they get no work and cannot report results. "
    "Their results in progress time out, and other hosts compute them. The reason is in the rows "
    "of the hosts, and staff see it."
)
_ADMITTED: Final = (
    "The hosts get work at their next request, and can report their results in progress until the "
    "deadlines of these."
)


def page(
    site_page: StaffAdmin, request: HttpRequest, hosts: Sequence[Host], *, denied: bool
) -> HttpResponse | None:
    """Return the preview with the form of a reason; None after a confirmed or refused change."""
    changed = [host for host in hosts if host.denied is not denied]
    if not changed:
        state = "denied already" if denied else "not denied"
        site_page.refuse(request, f"The selected hosts are {state}. Hint: reload the list.")
        return None
    ids = [host.pk for host in changed]
    is_confirmed = is_confirmed_as_shown(site_page, request, len(changed), "hosts")
    form = ReasonForm(request.POST if is_confirmed else None)
    if form.is_valid():
        rows = Host.objects.filter(pk__in=ids)
        reason, now = form.cleaned_data["reason"], timezone.now()
        count = denials.change_all(rows, denied=denied, reason=reason, now=now)
        text = "will get no more work" if denied else "will get work again"
        site_page.message_user(request, f"{count} hosts {text}.")
        return None
    unchanged = "denied already" if denied else "not denied"
    lost = "results in progress that are lost" if denied else "results in progress that continue"
    content: dict[str, Any] = {
        "verb": "deny work to these hosts" if denied else "admit these hosts again",
        "button": "Yes, deny them work" if denied else "Yes, admit them again",
        "counts": (
            ("hosts", len(changed)),
            (unchanged, len(hosts) - len(changed)),
            (lost, denials.held_results(ids)),
        ),
        "explanation": _DENIED if denied else _ADMITTED,
        "form": form,
        "previewed": len(changed),
        **shown_names([f"{host} of {host.account}" for host in changed]),
    }
    return confirmation_page_with(site_page, request, "deny" if denied else "admit", **content)
