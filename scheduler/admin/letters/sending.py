"""The page of a letter with its preview, its buttons and its progress."""

from __future__ import annotations

from datetime import datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone

from scheduler.admin.base import has_right
from scheduler.messages import letters, outbox
from scheduler.messages.rules.letter_texts import LetterRefused
from scheduler.models import Account, Letter
from scheduler.rights import Right

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

_MAX_ID: Final = 2**63 - 1
#: The buttons of Django's form that lead to another page.
_OTHER_BUTTONS: Final = ("_continue", "_addanother", "_saveasnew", "_popup")


def state(letter: Letter) -> str:
    """Return the state of a letter in words."""
    if letter.started_at is None:
        return "draft"
    if letter.stopped_at is not None:
        return "stopped"
    return "being sent" if letter.ended_at is None else "sent"


def may_send(request: HttpRequest) -> bool:
    return has_right(request, Right.SEND_LETTERS)


def after_saving(request: HttpRequest, letter: Letter) -> HttpResponse | None:
    """Return a redirect to the preview of a saved draft; None if another button was used."""
    if any(button in request.POST for button in _OTHER_BUTTONS):
        return None
    return _redirect(letter)


def page(site_page: ModelAdmin[Any], request: HttpRequest, letter_id: int) -> HttpResponse:
    """Return the preview or the progress of a letter, or carry out the pressed button.

    Raises `PermissionDenied` for users without the right, and `Http404` for an unknown letter.
    """
    user = request.user
    if not (may_send(request) and site_page.has_view_permission(request)):
        raise PermissionDenied
    letters_with_names = Letter.objects.select_related("team", "author")
    letter = letters_with_names.filter(pk=letter_id).first() if letter_id <= _MAX_ID else None
    if letter is None or not isinstance(user, Account):
        raise Http404
    now = timezone.now()
    if request.method == "POST":
        try:
            done = _act(request, letter, user, now=now)
        except LetterRefused as refusal:
            site_page.message_user(request, str(refusal), messages.ERROR)
            return _shown(site_page, request, letter, user, now, HTTPStatus.UNPROCESSABLE_ENTITY)
        site_page.message_user(request, done, messages.SUCCESS)
        return _redirect(letter)
    return _shown(site_page, request, letter, user, now, HTTPStatus.OK)


def _act(request: HttpRequest, letter: Letter, user: Account, *, now: datetime) -> str:
    """Carry out the pressed button, and return a sentence about it."""
    action = request.POST.get("action", "")
    if action == "test":
        letters.send_test(letter, user, now=now)
        return f"A test was sent to {user.email}."
    if action == "send":
        letters.start(letter.pk, seen=request.POST.get("seen", ""), now=now)
        return "The letter is being sent. Reload this page to see its progress."
    if action == "stop":
        dropped = letters.stop(letter.pk, now=now)
        return f"The letter is stopped. {dropped} copies that waited in the outbox were dropped."
    raise LetterRefused("The page has no such button. Hint: reload it.")


def _shown(
    site_page: ModelAdmin[Any],
    request: HttpRequest,
    letter: Letter,
    user: Account,
    now: datetime,
    status: HTTPStatus,
) -> HttpResponse:
    is_draft = letter.started_at is None
    progress = letters.progress(letter)
    context = {
        **site_page.admin_site.each_context(request),
        "opts": site_page.opts,
        "title": f"Letter: {letter.subject}",
        "letter": letter,
        "state": state(letter),
        "is_draft": is_draft,
        "may_stop": not is_draft and (letter.ended_at is None or progress.waiting > 0),
        "filter": _filter_text(letter),
        "recipients": letters.recipients(letter, now=now).count() if is_draft else None,
        "progress": progress,
        "rendered": letters.rendered(letter, user.pk),
        "seen": letters.fingerprint(letter),
        "sends_mail": outbox.sends_mail(),
        "address": user.email,
        "max_waiting": letters.MAX_WAITING,
    }
    return TemplateResponse(request, "scheduler/admin/letter.html", context, status=status)


def _filter_text(letter: Letter) -> str:
    if letter.recipients == Letter.Recipients.TEAM:
        return f"members of the team {letter.team or '(deleted)'}"
    if letter.recipients == Letter.Recipients.CREDIT:
        return f"accounts with credit in the last {letter.credit_days} days"
    return str(Letter.Recipients(letter.recipients).label)


def _redirect(letter: Letter) -> HttpResponseRedirect:
    return HttpResponseRedirect(reverse("admin:scheduler_letter_send", args=[letter.pk]))
