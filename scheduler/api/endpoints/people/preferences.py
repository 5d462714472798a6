"""Endpoints of the account's computing and project preferences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from rest_framework import serializers
from rest_framework.response import Response

from scheduler.api.http.body import Shown, Strict, StrictQuery
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.openapi_operation import Scope, operation
from scheduler.boinc import own_preferences
from scheduler.models import Account

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from rest_framework.request import Request

    from scheduler.boinc.own_preferences import Kind, OwnPreferences, Setting

#: The names of the kinds of devices, by the kind that is stored.
_DEVICES = {kind: device.name for kind, device in own_preferences.DEVICES.items()}
_KINDS = {name: kind for kind, name in _DEVICES.items()}
_MAX_APPS = 100


def _help(name: str) -> str:
    label = own_preferences.PROJECT_LABELS[name]
    return f"{label.text}. {label.help}"


def _list(child: serializers.Field[Any, Any, Any, Any], name: str) -> serializers.ListField:
    return serializers.ListField(child=child, help_text=_help(name))


def _numbers(name: str, *, max_length: int) -> serializers.ListField:
    number = serializers.IntegerField(min_value=1, max_value=own_preferences.MAX_ID)
    return serializers.ListField(
        child=number, max_length=max_length, help_text=_help(name), required=False
    )


def _limit(name: str) -> serializers.IntegerField:
    return serializers.IntegerField(
        required=False, min_value=0, max_value=own_preferences.MAX_LIMIT, help_text=_help(name)
    )


class PreferencesQuery(StrictQuery):
    """The parameters of preferences."""

    location = serializers.CharField(
        required=False,
        default="",
        max_length=own_preferences.MAX_LOCATION,
        trim_whitespace=False,
        help_text="home, school, work or one of `own_locations`; omit it for the default location.",
    )


class ComputingSettings(Shown):
    """The computing preferences in force at a location."""

    def get_fields(self) -> dict[str, Any]:
        """Return a field for each setting, in stored units."""
        settings = own_preferences.COMPUTING_SETTINGS.values()
        return {setting.name: _field(setting) for setting in settings}


class ChangedComputing(Strict):
    """The computing preferences to change; omitted ones keep their values."""

    def get_fields(self) -> dict[str, Any]:
        """Return an optional field for each setting, in stored units and with its range."""
        settings = own_preferences.COMPUTING_SETTINGS.values()
        return {setting.name: _field(setting, is_input=True) for setting in settings}


def _field(setting: Setting, *, is_input: bool = False) -> serializers.Field[Any, Any, Any, Any]:
    unit = f" Unit: {setting.stored_unit}." if setting.unit else ""
    text = f"{setting.label}.{unit} {setting.help}".strip()
    options: dict[str, Any] = {"required": False} if is_input else {}
    if setting.is_flag:
        return serializers.BooleanField(help_text=text, **options)
    if is_input:
        options["min_value"] = setting.low * setting.scale
        options["max_value"] = setting.high * setting.scale
    return serializers.FloatField(help_text=text, **options)


class ProjectSettings(Shown):
    """The project preferences in force at a location."""

    resource_share = serializers.FloatField(help_text=_help("resource_share"))
    devices_off = _list(serializers.ChoiceField(choices=tuple(_KINDS)), "devices_off")
    selected_apps = _list(serializers.IntegerField(), "selected_apps")
    allow_other_apps = serializers.BooleanField(help_text=_help("allow_other_apps"))
    allow_beta = serializers.BooleanField(help_text=_help("allow_beta"))
    max_held = serializers.IntegerField(help_text=_help("max_held"))
    max_cpus = serializers.IntegerField(help_text=_help("max_cpus"))
    keywords_yes = _list(serializers.IntegerField(), "keywords_yes")
    keywords_no = _list(serializers.IntegerField(), "keywords_no")

    def read_devices_off(self, values: Any) -> list[str]:
        return [_DEVICES[kind] for kind in values.devices_off]


class ChangedProject(Strict):
    """The project preferences to change; omitted ones keep their values."""

    resource_share = serializers.FloatField(
        required=False,
        min_value=0,
        max_value=own_preferences.MAX_SHARE,
        help_text=_help("resource_share"),
    )
    devices_off = serializers.ListField(
        child=serializers.ChoiceField(choices=tuple(_KINDS)),
        required=False,
        max_length=len(_KINDS) - 1,
        help_text=_help("devices_off"),
    )
    selected_apps = _numbers("selected_apps", max_length=_MAX_APPS)
    allow_other_apps = serializers.BooleanField(required=False, help_text=_help("allow_other_apps"))
    allow_beta = serializers.BooleanField(required=False, help_text=_help("allow_beta"))
    max_held = _limit("max_held")
    max_cpus = _limit("max_cpus")
    keywords_yes = _numbers("keywords_yes", max_length=own_preferences.MAX_KEYWORDS)
    keywords_no = _numbers("keywords_no", max_length=own_preferences.MAX_KEYWORDS)


class _PreferencesOut(Shown):
    """Preferences of an account at a location."""

    location = serializers.CharField(help_text="Empty for the default location.")
    is_own = serializers.BooleanField(
        help_text="False if the settings are those of the default location, or the project's "
        "defaults."
    )
    own_locations = serializers.ListField(
        child=serializers.CharField(), help_text="The locations with their own settings."
    )
    other_elements = serializers.ListField(
        source="others",
        child=serializers.CharField(),
        help_text="Names of stored elements of other programs, which are kept.",
    )
    is_readable = serializers.BooleanField(
        help_text="False if the stored text cannot be parsed: clients are not sent it, `settings` "
        "has the project's defaults, and the next change replaces it."
    )


class ComputingOut(_PreferencesOut):
    """Computing preferences of an account at a location."""

    changed_at = serializers.DateTimeField(
        allow_null=True, help_text="The last change, by the owner or a client."
    )
    settings = ComputingSettings(source="values")


class ProjectOut(_PreferencesOut):
    """Project preferences of an account at a location."""

    settings = ProjectSettings(source="values")


class _Preferences(Endpoint):
    """The endpoint of a kind of preferences."""

    write_scope = Scope.SUBMIT
    kind: ClassVar[Kind]

    def rows(self) -> QuerySet[Account]:
        return Account.objects.filter(pk=self.account.pk)

    def read(self) -> OwnPreferences:
        return own_preferences.read(self.account, self.kind, self.query()["location"])

    def change(self) -> OwnPreferences:
        location = self.query()["location"]
        values = _stored(self.body())
        return own_preferences.change(self.account, self.kind, location, values, now=self.now)

    def drop(self) -> Response:
        location = self.query()["location"]
        act = own_preferences.remove if location else own_preferences.reset
        act(self.account, self.kind, location, now=self.now)
        return Response(status=204)


def _stored(body: dict[str, Any]) -> dict[str, Any]:
    """Return settings with the types and names that are stored."""
    values = {
        name: tuple(dict.fromkeys(value)) if isinstance(value, list) else value
        for name, value in body.items()
    }
    if "devices_off" in values:
        values["devices_off"] = tuple(_KINDS[name] for name in values["devices_off"])
    return values


class ComputingPreferences(_Preferences):
    kind = own_preferences.COMPUTING

    @operation(
        "Read the account's computing preferences",
        name="read_computing_preferences",
        answer=ComputingOut,
        query=PreferencesQuery,
        conditional=True,
        problems=(422,),
    )
    def get(self, request: Request) -> Response:
        """Returns the settings in force at the location, which clients apply to all projects."""
        return self.reply(self.read())

    @operation(
        "Change the account's computing preferences",
        name="change_computing_preferences",
        answer=ComputingOut,
        query=PreferencesQuery,
        body=ChangedComputing,
        guarded=True,
    )
    def patch(self, request: Request) -> Response:
        """Stores settings for the location; clients get them in the next scheduler reply."""
        return self.reply(self.change())

    @operation(
        "Reset or remove computing preferences",
        name="delete_computing_preferences",
        answer=None,
        status=204,
        query=PreferencesQuery,
        guarded=True,
        problems=(404, 422),
    )
    def delete(self, request: Request) -> Response:
        """Drops a location's own settings; stores the defaults for the default location.

        A location without settings of its own is not found.
        """
        return self.drop()


class ProjectPreferences(_Preferences):
    kind = own_preferences.PROJECT

    @operation(
        "Read the account's project preferences",
        name="read_project_preferences",
        answer=ProjectOut,
        query=PreferencesQuery,
        conditional=True,
        problems=(422,),
    )
    def get(self, request: Request) -> Response:
        """Returns the settings in force at the location for this project."""
        return self.reply(self.read())

    @operation(
        "Change the account's project preferences",
        name="change_project_preferences",
        answer=ProjectOut,
        query=PreferencesQuery,
        body=ChangedProject,
        guarded=True,
    )
    def patch(self, request: Request) -> Response:
        """Stores settings for the location; the next request for work obeys them."""
        return self.reply(self.change())

    @operation(
        "Reset or remove project preferences",
        name="delete_project_preferences",
        answer=None,
        status=204,
        query=PreferencesQuery,
        guarded=True,
        problems=(404, 422),
    )
    def delete(self, request: Request) -> Response:
        """Drops a location's own settings; stores the defaults for the default location.

        A location without settings of its own is not found.
        """
        return self.drop()
