"""The preview of actions that block accounts, or unblock them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from scheduler.admin.confirm import (
    ReasonForm,
    confirmation_page_with,
    is_confirmed_as_shown,
    shown_names,
)
from scheduler.models import Account
from scheduler.people.blocking import account_blocks
from scheduler.people.blocking.account_blocks import BlockRefused

if TYPE_CHECKING:
    from scheduler.admin.base import StaffAdmin

_BLOCKED: Final = (
    "Blocked accounts are logged out at once: the server refuses their sessions, API tokens and "
    "the keys of their computers. Results in progress cannot be reported; they time out, and other "
    "computers compute them. Nothing is deleted: credit and hosts remain, and submitted work "
    "continues. Pages and statistics for everybody no longer name these accounts."
)
_UNBLOCKED: Final = (
    "Their owners can log in again. Sessions, API tokens and keys that have not expired are valid "
    "again. The computers can report results in progress until the deadlines of these."
)


def page(
    site_page: StaffAdmin, request: HttpRequest, accounts: Sequence[Account], *, blocked: bool
) -> HttpResponse | None:
    """Return the preview with the form of a reason; None after a confirmed or refused change.

    Raises `PermissionDenied` for a user without an account.
    """
    user = request.user
    if not isinstance(user, Account):
        raise PermissionDenied
    changed = [account for account in accounts if account.is_active is blocked]
    if not changed:
        state = "blocked already" if blocked else "not blocked"
        site_page.refuse(request, f"The selected accounts are {state}. Hint: reload the list.")
        return None
    is_confirmed = is_confirmed_as_shown(site_page, request, len(changed), "accounts")
    form = ReasonForm(request.POST if is_confirmed else None)
    try:
        account_blocks.check(changed, blocked=blocked, by=user)
        if form.is_valid():
            ids, reason = [account.pk for account in changed], form.cleaned_data["reason"]
            done = account_blocks.change(
                ids, blocked=blocked, reason=reason, by=user, now=timezone.now()
            )
            state = "blocked" if blocked else "no longer blocked"
            site_page.message_user(request, f"{len(done)} accounts are {state}.")
            return None
    except BlockRefused as refusal:
        site_page.refuse(request, str(refusal))
        return None
    return _preview(site_page, request, changed, len(accounts) - len(changed), form, blocked)


def _preview(
    site_page: StaffAdmin,
    request: HttpRequest,
    changed: Sequence[Account],
    unchanged: int,
    form: ReasonForm,
    blocked: bool,
) -> HttpResponse:
    counted = account_blocks.effects([account.pk for account in changed], now=timezone.now())
    return confirmation_page_with(
        site_page,
        request,
        "block" if blocked else "unblock",
        verb="block these accounts" if blocked else "unblock these accounts",
        button="Yes, block them" if blocked else "Yes, unblock them",
        counts=(
            ("accounts", len(changed)),
            ("blocked already" if blocked else "not blocked", unchanged),
            ("computers", counted.hosts),
            (
                "results in progress that are lost" if blocked else "results that continue",
                counted.results,
            ),
            (
                "API tokens that stop working" if blocked else "API tokens that work again",
                counted.tokens,
            ),
            ("unfinished batches, which continue", counted.batches),
        ),
        explanation=_BLOCKED if blocked else _UNBLOCKED,
        form=form,
        previewed=len(changed),
        **shown_names([f"{account} ({account.email})" for account in changed]),
    )
