"""The admin pages of letters: the list, the draft, and the page that sends it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from scheduler.admin.base import RecordAdmin, RowPage, StaffAdmin
from scheduler.admin.letters import sending
from scheduler.admin.lists.sorting import BY_ID
from scheduler.admin.site import staff
from scheduler.messages import letters
from scheduler.messages.rules.letter_texts import MAX_CREDIT_DAYS, LetterRefused
from scheduler.models import Account, Letter, LetterRecipient
from scheduler.rights import Right

if TYPE_CHECKING:
    ModelForm = forms.ModelForm[Letter]
else:
    ModelForm = forms.ModelForm

_FIELDS = ("subject", "text", "recipients", "team", "credit_days")


class LetterForm(ModelForm):
    """The form of a draft."""

    class Meta:
        model = Letter
        fields = _FIELDS

    def clean(self) -> dict[str, Any]:
        """Add the error of `letters.checked`, if any."""
        cleaned = super().clean() or {}
        if not self.errors:
            try:
                letters.checked(_draft(cleaned))
            except LetterRefused as refusal:
                raise forms.ValidationError(str(refusal)) from refusal
        return cleaned


def _draft(fields: dict[str, Any]) -> letters.Draft:
    team = fields["team"]
    return letters.Draft(
        fields["subject"],
        fields["text"],
        fields["recipients"],
        team.pk if team else None,
        fields["credit_days"],
    )


@admin.register(Letter, site=staff)
class LetterAdmin(StaffAdmin):
    """The page of letters.  A draft can be changed; a letter that was started cannot."""

    change_right = Right.SEND_LETTERS
    form = LetterForm
    change_form_template = "scheduler/admin/letter_draft.html"
    row_page = RowPage("send", sending.page, sending.may_send)
    list_display = ("subject", "state", "recipients", "copies", "author", "started_at", "ended_at")
    list_filter = ("recipients",)
    is_small = True
    search_fields = ("subject",)
    raw_id_fields = ("team",)
    fields = (*_FIELDS, "sending_link", "author", "created_at", "started_at", "ended_at")
    readonly_fields = ("sending_link", "author", "created_at", "started_at", "ended_at")
    helps = {
        "subject": "One line of plain text.",
        "text": "Plain text. The reason why the recipient gets the letter, and a link that ends "
        "letters, follow it in each copy.",
        "recipients": "Only active accounts with a confirmed address, whose owners consented to "
        "letters, get the letter.",
        "team": "Number of the team, if the recipients are its members.",
        "credit_days": f"1 to {MAX_CREDIT_DAYS}, if the recipients are accounts with credit in the "
        "last days.",
    }

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the fields; a new letter has only those of the form."""
        return _FIELDS if obj is None else self.fields

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return whether the user may write letters; a started letter is read-only."""
        return super().has_change_permission(request, obj) and (
            obj is None or obj.started_at is None
        )

    def state(self, letter: Letter) -> str:
        return sending.state(letter)

    @admin.display(description="sending")
    def sending_link(self, letter: Letter) -> SafeString:
        """Return a link to the page with the preview and the progress."""
        url = reverse("admin:scheduler_letter_send", args=[letter.pk])
        return format_html('<a href="{}">{}</a>', url, "Preview, sending and progress")

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Store a draft with `letters.write` or `letters.rewrite`."""
        now, draft = timezone.now(), _draft(form.cleaned_data)
        if change:
            with self.refusals_shown(request, LetterRefused):
                letters.rewrite(obj.pk, draft, now=now)
            return
        author = request.user if isinstance(request.user, Account) else None
        written = letters.write(draft, author=author, now=now)
        obj.__dict__.update(written.__dict__)

    def response_add(
        self, request: HttpRequest, obj: Any, post_url_continue: str | None = None
    ) -> HttpResponse:
        """Redirect to the preview, unless another button was used."""
        return sending.after_saving(request, obj) or super().response_add(
            request, obj, post_url_continue
        )

    def response_change(self, request: HttpRequest, obj: Any) -> HttpResponse:
        """Redirect to the preview, unless another button was used."""
        return sending.after_saving(request, obj) or super().response_change(request, obj)


@admin.register(LetterRecipient, site=staff)
class LetterRecipientAdmin(RecordAdmin):
    """The accounts for which a copy of a letter was written."""

    list_display = ("letter", "account", "created_at")
    sorts = {"created_at": BY_ID}
    search_help_text = "Number of a letter or account"
    search_numbers = ("letter_id", "account_id")
