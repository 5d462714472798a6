"""The page on which operators switch maintenance on and off."""

from __future__ import annotations

from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone

from scheduler.admin.base import duration_label, has_right
from scheduler.admin.confirm import is_confirmed
from scheduler.health import maintenance
from scheduler.health.maintenance import BadMaintenance, Maintenance
from scheduler.people import audit
from scheduler.people.audit import Event
from scheduler.rights import Right

#: The kinds of maintenance, with their labels.
_KINDS: Final = (
    ("all", "Turn volunteers away and pause the daemons"),
    ("scheduler", "Only turn volunteers away"),
    ("daemons", "Only pause the daemons"),
    ("end", "End the project"),
)
#: The button that switches maintenance off, and its value.
_OFF: Final = "off"


class MaintenanceForm(forms.Form):
    """The form of maintenance; the page that asks for a confirmation repeats its values."""

    required_css_class = "required"
    kind = forms.ChoiceField(
        choices=_KINDS,
        initial="all",
        widget=forms.RadioSelect({"class": "radiolist"}),
    )
    message = forms.CharField(
        required=False,
        max_length=maintenance.MAX_MESSAGE,
        help_text="Volunteers read it after the usual sentence.",
        widget=forms.TextInput(attrs={"class": "vTextField"}),
    )
    until = forms.DateTimeField(
        required=False,
        widget=forms.DateTimeInput({"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
        label="Expected end",
        help_text=(
            "UTC. Clients ask again about then. Maintenance does not end by itself: switch it off."
        ),
    )

    def clean(self) -> dict[str, Any]:
        """Check that a project that ends has no expected end, and a later end otherwise."""
        cleaned: dict[str, Any] = super().clean() or {}
        until = cleaned.get("until")
        if until and cleaned.get("kind") == "end":
            self.add_error("until", "A project that has ended has no expected end. Leave it empty.")
        elif until and until <= timezone.now():
            self.add_error("until", "This time is past. Hint: give a later one, or none.")
        return cleaned

    def planned(self) -> Maintenance:
        """Return the maintenance of a valid form."""
        kind = self.cleaned_data["kind"]
        return Maintenance(
            since=timezone.now(),
            until=self.cleaned_data["until"],
            message=self.cleaned_data["message"],
            scheduler=kind in {"all", "scheduler"},
            daemons=kind in {"all", "daemons"},
            ended=kind == "end",
        )


def may_switch(request: HttpRequest) -> bool:
    return has_right(request, Right.ADMINISTER_PROJECT)


def page(request: HttpRequest, site_context: dict[str, Any]) -> HttpResponse:
    """Return the form, the preview of a sent form, or a redirect after its confirmation.

    Raises `PermissionDenied` for users without the right.
    """
    if not may_switch(request):
        raise PermissionDenied
    current = maintenance.current()
    is_off = _OFF in request.POST
    form = MaintenanceForm(request.POST if request.method == "POST" and not is_off else None)
    planned = form.planned() if form.is_bound and form.is_valid() else None
    if is_confirmed(request) and (is_off or planned is not None):
        try:
            return _switched(request, planned)
        except BadMaintenance as refusal:
            messages.error(request, str(refusal))
            return _shown(request, site_context, current=current, form=form, is_refused=True)
    if is_off:
        return _shown(request, site_context, current=current, effects=_effects_of_end(current))
    return _shown(
        request,
        site_context,
        current=current,
        form=form,
        planned=planned,
        effects=() if planned is None else effects(planned),
    )


def effects(planned: Maintenance) -> tuple[str, ...]:
    """Return sentences about what will change."""
    if planned.ended:
        return (
            "Clients report their results, and get no more work.",
            "Daemons continue: reported results are validated and get credit.",
            f"Volunteers read: “{planned.text}”.",
        )
    sentences = []
    if planned.scheduler:
        delay = timedelta(seconds=planned.delay(timezone.now()))
        sentences += [
            "Scheduler requests get a message instead of work, and uploads are deferred.",
            f"Clients ask again after {duration_label(delay)}; their results are not lost.",
            f"Volunteers read: “{planned.text}”.",
        ]
    if planned.daemons:
        sentences.append("Each daemon pauses after its current pass, for example the validator.")
    else:
        sentences.append("Daemons continue.")
    sentences.append("The web site, the API and the administration stay open.")
    return tuple(sentences)


def _effects_of_end(current: Maintenance | None) -> tuple[str, ...]:
    if current is None:
        return ("Maintenance is off already. Nothing will change.",)
    return (
        "Clients get work at their next requests, and daemons go on with their passes.",
        "Clients ask again at the times of the replies that they got.",
    )


def _switched(request: HttpRequest, planned: Maintenance | None) -> HttpResponse:
    """Switch maintenance on as planned, or off; write an audit entry, and redirect."""
    now = timezone.now()
    details = {"action": "off"} if planned is None else _details(planned)
    try:
        with transaction.atomic():
            # First the entry: it is rolled back if the switch cannot be written.
            audit.record(Event.ACTION_TAKEN, now=now, subject="maintenance", details=details)
            _write(planned, now)
    except OSError as error:
        msg = (
            f"The switch cannot be written: {error.strerror}. Hint: the web process needs the "
            "right to write to VAR_DIR, or use `manage.py maintenance` in a shell."
        )
        raise BadMaintenance(msg) from error
    text = "Maintenance is off." if planned is None else f"Switched on: {planned.text}."
    messages.success(request, text)
    return HttpResponseRedirect(reverse("admin:maintenance"))


def _write(planned: Maintenance | None, now: datetime) -> None:
    if planned is None:
        maintenance.end()
    elif planned.ended:
        maintenance.end_project(message=planned.message, now=now)
    else:
        maintenance.begin(
            message=planned.message,
            until=planned.until,
            scheduler=planned.scheduler,
            daemons=planned.daemons,
            now=now,
        )


def _details(planned: Maintenance) -> dict[str, Any]:
    return {
        "action": "end" if planned.ended else "on",
        "scheduler": planned.scheduler,
        "daemons": planned.daemons,
        "until": planned.until.isoformat() if planned.until else None,
        "message": planned.message,
    }


def _shown(
    request: HttpRequest,
    site_context: dict[str, Any],
    *,
    current: Maintenance | None,
    effects: tuple[str, ...] = (),
    form: MaintenanceForm | None = None,
    planned: Maintenance | None = None,
    is_refused: bool = False,
) -> HttpResponse:
    title = "Maintenance"
    if form is None:
        title = "Really switch maintenance off?"
    elif planned is not None:
        title = "Really end the project?" if planned.ended else "Really switch maintenance on?"
    context = {
        **site_context,
        "title": title,
        "current": current,
        "form": form,
        "effects": effects,
        "replaces": current is not None and planned is not None,
    }
    failed = is_refused or (form is not None and form.errors)
    status = HTTPStatus.UNPROCESSABLE_ENTITY if failed else HTTPStatus.OK
    return TemplateResponse(request, "scheduler/admin/maintenance.html", context, status=status)
