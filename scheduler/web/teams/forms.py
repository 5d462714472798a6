"""The form with which a team is created and changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django import forms
from django.utils.translation import gettext_lazy as _

from scheduler.models import Team
from scheduler.people.account_keys import BadName
from scheduler.people.teams import TakenName, TeamRefused
from scheduler.people.teams.team_profiles import MAX_COUNTRY, MAX_DESCRIPTION, MAX_URL
from scheduler.people.throttle import TooManyAttempts

_KINDS = [(kind.value, kind.label.capitalize()) for kind in Team.Kind]


class TeamForm(forms.Form):
    """The fields of `TeamProfile`.

    `refusal` is the throttle's refusal; `web.refusals` sets the status of the page by it.
    """

    refusal: TooManyAttempts | None = None

    name = forms.CharField(label=_("Name"), max_length=254)
    kind = forms.TypedChoiceField(label=_("Type"), choices=_KINDS, coerce=int)
    country = forms.CharField(label=_("Country"), max_length=MAX_COUNTRY, required=False)
    url = forms.URLField(
        label=_("Home page"), max_length=MAX_URL, required=False, assume_scheme="https"
    )
    description = forms.CharField(
        label=_("Description"),
        max_length=MAX_DESCRIPTION,
        required=False,
        widget=forms.Textarea(attrs={"rows": 8}),
        help_text=_("Everybody can read it. It is shown as plain text."),
    )
    joinable = forms.BooleanField(
        label=_("Accept new members"),
        required=False,
        help_text=_("Without this, nobody can join the team. Its members stay."),
    )

    def clean_description(self) -> str:
        """Return the text with the line ends that programs use."""
        return str(self.cleaned_data["description"]).replace("\r\n", "\n")

    @contextmanager
    def refusable(self) -> Iterator[None]:
        """Convert a refusal within the block to an error of the form."""
        try:
            yield
        except (BadName, TakenName) as refusal:
            self.add_error("name", str(refusal))
        except TooManyAttempts as refusal:
            self.refusal = refusal
            self.add_error(None, str(refusal))
        except TeamRefused as refusal:
            self.add_error(None, str(refusal))
