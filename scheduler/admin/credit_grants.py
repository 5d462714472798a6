"""The page on which operators grant or revoke an account's credit by hand."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone

from scheduler.admin.base import has_right
from scheduler.admin.confirm import is_confirmed
from scheduler.credit import manual_grants
from scheduler.credit.manual_grants import GrantRequest
from scheduler.credit.rules.grant_amounts import MAX_REASON, Change, GrantRefused, plain
from scheduler.models import Account, App
from scheduler.rights import Right

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

_MAX_ID = 2**63 - 1


class GrantForm(forms.Form):
    """The form of a grant; the page that asks for a confirmation repeats its hidden values."""

    required_css_class = "required"
    amount = forms.DecimalField(
        max_digits=20,
        decimal_places=6,
        help_text="In cobblestones. A negative amount revokes credit.",
    )
    reason = forms.CharField(
        max_length=MAX_REASON,
        help_text="The owner of the account reads it on their page.",
        widget=forms.TextInput(attrs={"class": "vTextField"}),
    )
    computer = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=_MAX_ID,
        help_text="Number of a computer of the account for which the amount counts, too.",
    )
    app = forms.ModelChoiceField(
        App.objects.order_by("name"),
        required=False,
        empty_label="none",
        help_text="The app for which the amount counts, too.",
    )
    with_team = forms.BooleanField(
        required=False,
        initial=True,
        label="Also for the team",
        help_text="The team to which the account belongs now.",
    )
    request_id = forms.UUIDField(widget=forms.HiddenInput)

    def request_for(self, account_id: int) -> GrantRequest:
        """Return the request of a valid form."""
        fields = self.cleaned_data
        return GrantRequest(
            request_id=fields["request_id"],
            account_id=account_id,
            amount=fields["amount"],
            reason=fields["reason"],
            host_id=fields["computer"],
            app_id=fields["app"].pk if fields["app"] else None,
            with_team=fields["with_team"],
        )


def may_grant(request: HttpRequest) -> bool:
    """Return whether the user may grant and revoke credit by hand."""
    return has_right(request, Right.ADMINISTER_PROJECT)


def page(site_page: ModelAdmin[Any], request: HttpRequest, account_id: int) -> HttpResponse:
    """Return the form, the preview of a sent form, or a redirect after its confirmation.

    Raises `PermissionDenied` for users without the right, and `Http404` for an unknown account.
    """
    user = request.user
    if not (may_grant(request) and site_page.has_view_permission(request)):
        raise PermissionDenied
    account = Account.objects.filter(pk=account_id).first() if account_id <= _MAX_ID else None
    if account is None or not isinstance(user, Account):
        raise Http404
    is_sent = request.method == "POST"
    form = GrantForm(request.POST) if is_sent else GrantForm(initial={"request_id": uuid4()})
    changed: tuple[Change, ...] = ()
    if is_sent and form.is_valid():
        grant_request = form.request_for(account.pk)
        try:
            changed = manual_grants.preview(grant_request)
            if is_confirmed(request) and not _is_outdated(site_page, request, changed):
                manual_grants.grant(grant_request, granted_by=user, now=timezone.now())
                return _granted(site_page, request, grant_request, account)
        except GrantRefused as refusal:
            changed = ()
            form.add_error(None, str(refusal))
    return _shown(site_page, request, account, form, changed)


def _is_outdated(
    site_page: ModelAdmin[Any], request: HttpRequest, changed: tuple[Change, ...]
) -> bool:
    """Return whether the grant changes other totals than the preview showed, with a warning if so.

    The values of the totals may have changed, because the amount is added to each of them.
    """
    if request.POST.get("previewed", _names(changed)) == _names(changed):
        return False
    text = (
        "The totals that change are not those of the preview, for example because the account has "
        "another team. This is the new preview."
    )
    site_page.message_user(request, text, messages.WARNING)
    return True


def _names(changed: tuple[Change, ...]) -> str:
    return ", ".join(each.name for each in changed)


def _granted(
    site_page: ModelAdmin[Any], request: HttpRequest, done: GrantRequest, account: Account
) -> HttpResponse:
    verb = "granted to" if done.amount > 0 else "revoked from"
    text = f"{plain(abs(done.amount))} credit was {verb} {account}: {done.reason}"
    site_page.message_user(request, text, messages.SUCCESS)
    return HttpResponseRedirect(reverse("admin:scheduler_account_change", args=[account.pk]))


def _shown(
    site_page: ModelAdmin[Any],
    request: HttpRequest,
    account: Account,
    form: GrantForm,
    changed: tuple[Change, ...],
) -> HttpResponse:
    context = {
        **site_page.admin_site.each_context(request),
        "opts": site_page.opts,
        "account": account,
        "form": form,
        "title": f"Grant or revoke credit of {account}",
        "total": plain(account.total_credit, ","),
        "changes": [
            (each.name, plain(each.before, ","), plain(each.after, ",")) for each in changed
        ],
    }
    if changed:
        amount = form.cleaned_data["amount"]
        verb, word = ("grant", "to") if amount > 0 else ("revoke", "from")
        shown_amount = plain(abs(amount), ",")
        context |= {
            "title": f"Really {verb} {shown_amount} credit {word} {account}?",
            "button": f"Yes, {verb} {shown_amount}",
            "reason": form.cleaned_data["reason"],
            "previewed": _names(changed),
        }
    status = HTTPStatus.UNPROCESSABLE_ENTITY if form.errors else HTTPStatus.OK
    return TemplateResponse(request, "scheduler/admin/credit.html", context, status=status)
