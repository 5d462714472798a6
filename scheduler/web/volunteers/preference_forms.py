"""The forms of computing and project preferences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from django import forms
from django.http import QueryDict
from django.utils.formats import localize
from django.utils.functional import lazy
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop

from scheduler.boinc import own_preferences
from scheduler.boinc.own_preferences import OwnPreferences, Setting
from scheduler.models import App
from scheduler.web.texts import translated
from scheduler.web.volunteers import keyword_fields
from scheduler.web.volunteers.keyword_fields import KeywordLists
from scheduler.work.volunteers import used_keywords

_lazily_translated = lazy(translated, str)

_DEVICES: Final = tuple(
    (kind, _lazily_translated(device.label)) for kind, device in own_preferences.DEVICES.items()
)
#: The maximum length of a text of keywords: ten digits and ", " for each.
_MAX_KEYWORDS_LENGTH: Final = 12 * own_preferences.MAX_KEYWORDS


@dataclass(frozen=True, slots=True)
class FieldGroup:
    """Fields of a form that are shown together; `keywords` are lists of more fields."""

    title: str
    visible_fields: list[forms.BoundField]
    keywords: KeywordLists | None = None


class PreferencesForm(forms.Form):
    """A form of preferences.

    `groups` maps the titles of the groups to names of fields; `version` is that of the stored
    preferences from which the form was made.
    """

    version = forms.CharField(max_length=64, widget=forms.HiddenInput)
    groups: Mapping[str, tuple[str, ...]]

    def __init__(self, data: QueryDict | None = None, *, stored: OwnPreferences) -> None:
        super().__init__(data, initial={"version": stored.version, **self.texts(stored.values)})

    def field_groups(self) -> Iterator[FieldGroup]:
        for title, names in self.groups.items():
            yield FieldGroup(_(title), [self[name] for name in names])

    def values(self) -> dict[str, Any]:
        """Return the settings of a valid form, for `own_preferences.change`."""
        raise NotImplementedError

    def compare(self, stored: OwnPreferences) -> None:
        """Show the stored value at each field that has another one; the form gets its version."""
        data = cast("QueryDict", self.data).copy()
        data["version"] = stored.version
        self.data = data
        entered, current = self.texts(self.values()), self.texts(stored.values)
        for name in entered:
            if name in self.fields and _comparable(entered[name]) != _comparable(current[name]):
                text = self._in_words(name, current[name])
                self.add_error(name, _("The stored value is now: {}.").format(text))

    def _in_words(self, name: str, value: Any) -> str:  # noqa: ANN401  of any field
        if isinstance(value, bool):
            return _("on") if value else _("off")
        if choices := getattr(self.fields[name], "choices", None):
            values = [value] if isinstance(value, str) else value
            labels = [str(label) for choice, label in choices if choice in values]
            return ", ".join(labels) or _("none")
        return str(value) or _("none")

    def texts(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the initial values of the fields for stored values."""
        raise NotImplementedError


class ComputingForm(PreferencesForm):
    """The form of the computing preferences, in the units that are shown."""

    def __init__(self, data: QueryDict | None = None, *, stored: OwnPreferences) -> None:
        super().__init__(data, stored=stored)
        self.groups = {
            title: tuple(setting.name for setting in settings)
            for title, settings in own_preferences.COMPUTING_GROUPS.items()
        }
        for name, setting in own_preferences.COMPUTING_SETTINGS.items():
            self.fields[name] = _field(setting)

    def texts(self, values: Mapping[str, Any]) -> dict[str, Any]:
        settings = own_preferences.COMPUTING_SETTINGS
        return {name: _shown(settings[name], value) for name, value in values.items()}

    def values(self) -> dict[str, Any]:
        return {
            name: value if setting.is_flag else value * setting.scale
            for name, setting in own_preferences.COMPUTING_SETTINGS.items()
            if (value := self.cleaned_data.get(name)) is not None
        }


def _comparable(value: Any) -> Any:  # noqa: ANN401  of any field
    """Return a value in which the order of selected choices does not matter."""
    return frozenset(value) if isinstance(value, list | tuple) else value


def _field(setting: Setting) -> forms.Field:
    if setting.is_flag:
        return forms.BooleanField(
            label=translated(setting.label), help_text=translated(setting.help), required=False
        )
    unit = translated(setting.unit)
    default = f"{localize(_shown(setting, setting.default))} {unit}"
    parts = [
        translated(setting.help),
        _("The default is {}.").format(default) if setting.default else "",
    ]
    return forms.FloatField(
        label=f"{translated(setting.label)} ({unit})",
        min_value=setting.low,
        max_value=setting.high,
        help_text=" ".join(part for part in parts if part),
        widget=forms.NumberInput(attrs={"step": "any", "inputmode": "decimal"}),
    )


def _shown(setting: Setting, value: float) -> float | bool:
    """Return a value in the unit that is shown; a whole number has no decimals."""
    if setting.is_flag:
        return value
    number = value / setting.scale
    return int(number) if number == int(number) else number


class ProjectForm(PreferencesForm):
    """The form of the preferences for this project.

    Each keyword has a field (`keyword_fields`); `keywords_yes` and `keywords_no` add others by
    their numbers, and are empty at first.
    """

    resource_share = forms.FloatField(
        min_value=0,
        max_value=own_preferences.MAX_SHARE,
        widget=forms.NumberInput(attrs={"step": "any", "inputmode": "decimal"}),
    )
    devices = forms.MultipleChoiceField(
        label=gettext_lazy("Use for this project"),
        choices=_DEVICES,
        widget=forms.CheckboxSelectMultiple,
        help_text=gettext_lazy("Tasks are sent only for these devices, if a computer has them."),
        error_messages={"required": gettext_lazy("Select at least one device.")},
    )
    selected_apps = forms.TypedMultipleChoiceField(
        coerce=int, required=False, widget=forms.CheckboxSelectMultiple
    )
    allow_other_apps = forms.BooleanField(required=False)
    allow_beta = forms.BooleanField(required=False)
    max_held = forms.IntegerField(min_value=0, max_value=own_preferences.MAX_LIMIT)
    max_cpus = forms.IntegerField(min_value=0, max_value=own_preferences.MAX_LIMIT)
    keywords_yes = forms.CharField(
        label=gettext_lazy("Prefer keywords by number"),
        help_text=gettext_lazy("For keywords that are not listed. Separate the numbers by commas."),
        required=False,
        max_length=_MAX_KEYWORDS_LENGTH,
    )
    keywords_no = forms.CharField(
        label=gettext_lazy("Exclude keywords by number"),
        help_text=gettext_lazy("For keywords that are not listed. Separate the numbers by commas."),
        required=False,
        max_length=_MAX_KEYWORDS_LENGTH,
    )
    groups: Mapping[str, tuple[str, ...]] = {
        gettext_noop("Share and devices"): ("resource_share", "devices"),
        gettext_noop("Limits"): ("max_held", "max_cpus"),
        gettext_noop("Apps"): ("selected_apps", "allow_other_apps", "allow_beta"),
        gettext_noop("Keywords"): ("keywords_yes", "keywords_no"),
    }

    def __init__(self, data: QueryDict | None = None, *, stored: OwnPreferences) -> None:
        self._stored = stored.values
        self._keywords = keyword_fields.numbers_with_fields(stored.values, data or ())
        super().__init__(data, stored=stored)
        for name, label in own_preferences.PROJECT_LABELS.items():
            if name in self.fields and not self.fields[name].label:
                self.fields[name].label = translated(label.text)
                self.fields[name].help_text = translated(label.help)
        self.fields["selected_apps"].choices = _app_choices(  # type: ignore[attr-defined]
            stored.values["selected_apps"]
        )
        for number in self._keywords:
            self.fields[keyword_fields.field_name(number)] = keyword_fields.new_field(number)

    def field_groups(self) -> Iterator[FieldGroup]:
        for group in super().field_groups():
            if group.visible_fields[0].name == "keywords_yes":
                used = used_keywords.read()
                lists = keyword_fields.lists_of(self, used=used, stored=self._stored)
                yield replace(group, keywords=lists)
            else:
                yield group

    def texts(self, values: Mapping[str, Any]) -> dict[str, Any]:
        share = values["resource_share"]
        return {
            **values,
            "resource_share": int(share) if share == int(share) else share,
            "devices": [kind for kind, _label in _DEVICES if kind not in values["devices_off"]],
            "keywords_yes": "",
            "keywords_no": "",
            **{
                keyword_fields.field_name(number): keyword_fields.choice_of(number, values)
                for number in self._keywords
            },
        }

    def clean_keywords_yes(self) -> tuple[int, ...]:
        return keyword_fields.parse_numbers(self.cleaned_data["keywords_yes"])

    def clean_keywords_no(self) -> tuple[int, ...]:
        return keyword_fields.parse_numbers(self.cleaned_data["keywords_no"])

    def clean(self) -> dict[str, Any]:
        """Check that no keyword is chosen in both fields of numbers, and the number of choices."""
        cleaned: dict[str, Any] = super().clean() or {}
        both = {*cleaned.get("keywords_yes", ())} & {*cleaned.get("keywords_no", ())}
        if both:
            text = _("Keyword {} cannot be preferred and excluded.").format(min(both))
            self.add_error("keywords_no", text)
        elif not self.errors:
            lists = zip(("keywords_yes", "keywords_no"), self._keyword_lists(), strict=True)
            for name, numbers in lists:
                if len(numbers) > own_preferences.MAX_KEYWORDS:
                    most = own_preferences.MAX_KEYWORDS
                    self.add_error(name, _("Give at most {} keywords.").format(most))
        return cleaned

    def values(self) -> dict[str, Any]:
        cleaned = {name: self.cleaned_data[name] for name in self.base_fields}
        del cleaned["version"]
        used = cleaned.pop("devices", ())
        cleaned["devices_off"] = tuple(kind for kind, _label in _DEVICES if kind not in used)
        cleaned["selected_apps"] = tuple(cleaned.get("selected_apps", ()))
        cleaned["keywords_yes"], cleaned["keywords_no"] = self._keyword_lists()
        return cleaned

    def _keyword_lists(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the preferred and the excluded keywords of a valid form.

        A keyword without a field in the sent form keeps its choice.
        """
        cleaned = self.cleaned_data
        names = {number: keyword_fields.field_name(number) for number in self._keywords}
        choices = {number: cleaned[name] for number, name in names.items() if name in self.data}
        choices |= dict.fromkeys(cleaned["keywords_yes"], keyword_fields.YES)
        choices |= dict.fromkeys(cleaned["keywords_no"], keyword_fields.NO)
        return keyword_fields.changed_lists(self._stored, choices)


def _app_choices(selected: tuple[int, ...]) -> list[tuple[int, str]]:
    """Return the apps that send work, and those that are selected though they do not any more."""
    apps = App.objects.filter(deprecated=False).order_by("user_friendly_name", "name")
    choices = [(app.pk, _app_label(app)) for app in apps]
    offered = {number for number, _label in choices}
    gone = (number for number in selected if number not in offered)
    return choices + [(number, _("App {} (sends no work)").format(number)) for number in gone]


def _app_label(app: App) -> str:
    title = app.user_friendly_name or app.name
    return _("{} (test app)").format(title) if app.beta else title
