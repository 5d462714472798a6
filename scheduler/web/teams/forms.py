"""The forms with which a team is created and changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from scheduler.models import Team
from scheduler.people.account_keys import BadName
from scheduler.people.public_texts.confirmed_addresses import UnconfirmedAddress
from scheduler.people.teams import TakenName, TeamRefused
from scheduler.people.teams.team_profiles import (
    MAX_COUNTRY,
    MAX_DESCRIPTION,
    MAX_URL,
    with_plain_line_ends,
)
from scheduler.people.throttle import TooManyAttempts
from scheduler.web.texts import translated

_NO_KIND: Final = pgettext_lazy("type of a team", "None")


def _kinds() -> list[tuple[int, str]]:
    return [
        (kind.value, str(_NO_KIND) if kind == Team.Kind.NONE else translated(_label(kind)))
        for kind in Team.Kind
    ]


def _label(kind: Team.Kind) -> str:
    return str(kind.label.capitalize())


class LinesField(forms.CharField):
    """A text of several lines, which browsers send with CRLF; its value has the stored form."""

    def to_python(self, value: object) -> str:
        """Return the text before its length is checked and compared."""
        return with_plain_line_ends(str(super().to_python(value)))


class TeamForm(forms.Form):
    """The fields of `TeamProfile`.

    `refusal` is the throttle's refusal; `web.refusals` sets the status of the page by it.
    """

    refusal: TooManyAttempts | None = None

    name = forms.CharField(label=_("Name"), max_length=254)
    kind = forms.TypedChoiceField(label=_("Type"), choices=_kinds, coerce=int)
    country = forms.CharField(label=_("Country"), max_length=MAX_COUNTRY, required=False)
    url = forms.URLField(
        label=_("Home page"), max_length=MAX_URL, required=False, assume_scheme="https"
    )
    description = LinesField(
        label=_("Description"),
        max_length=MAX_DESCRIPTION,
        required=False,
        widget=forms.Textarea(attrs={"rows": 8}),
        help_text=_("Everybody can read it. It is shown as plain text."),
    )
    joinable = forms.BooleanField(
        label=_("Accept new members"),
        required=False,
        help_text=_("If this is off, nobody can join the team. Its members stay."),
    )

    @contextmanager
    def refusable(self) -> Iterator[None]:
        """Convert a refusal within the block to an error of the form."""
        try:
            yield
        except (BadName, TakenName) as refusal:
            self.add_error("name", translated(str(refusal)))
        except TooManyAttempts as refusal:
            self.refusal = refusal
            self.add_error(None, translated(str(refusal)))
        except (TeamRefused, UnconfirmedAddress) as refusal:
            self.add_error(None, translated(str(refusal)))


class TeamChangeForm(TeamForm):
    """The form that changes a team: it contains the values that it showed, in hidden inputs.

    Only fields that the founder edited are changed, so that a change in between by another window,
    a program or a moderator is not overwritten.
    """

    def __init__(self, data: QueryDict | None = None, **options: Any) -> None:
        super().__init__(data, **options)
        for name, field in self.fields.items():
            field.show_hidden_initial = data is None or self.add_initial_prefix(name) in data

    def edited_fields(self) -> dict[str, Any]:
        """Return the values of the edited fields of a valid form, by name."""
        return {name: self.cleaned_data[name] for name in self.changed_data}
