"""Reads and changes the preferences that clients of an account get.

A form or program that changes preferences sends the `version` that it has read.  If the settings
were changed since, by another form or by a client, the change is refused with
`PreferencesChanged`, so that nothing is overwritten unseen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from django.db import transaction

from scheduler.boinc.wire import computing_prefs, project_prefs, stored_prefs
from scheduler.boinc.wire.shapes import TEXT_LIMIT
from scheduler.models import Account
from scheduler.people import audit
from scheduler.people.account_keys import AccountRefused

Values: TypeAlias = dict[str, Any]
Setting = computing_prefs.Setting
COMPUTING_GROUPS: Final = computing_prefs.GROUPS
COMPUTING_SETTINGS: Final = computing_prefs.SETTINGS
MAX_SHARE: Final = project_prefs.MAX_SHARE
#: The locations of BOINC's clients; "" has the settings of computers at other locations.
LOCATIONS: Final = ("", "home", "school", "work")


class UnknownLocation(AccountRefused):
    """There is no such location. Hint: use home, school or work."""


class PreferencesChanged(AccountRefused):
    """The preferences were changed since they were read. Hint: check them and try again."""


class TooLong(AccountRefused):
    """The stored preferences would be too long. Hint: reset them to the defaults."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of preferences: its columns, format and settings.

    `decode` takes the text of a section.
    """

    name: str
    column: str
    form: stored_prefs.Format
    decode: Callable[[str], Values]
    encode: Callable[[Values], list[tuple[str, str]]]
    defaults: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OwnPreferences:
    """The preferences of an account at a location.

    - `values`: the settings in force.  `is_own` is False if they are those of the default location,
      or the project's defaults.
    - `own_locations`: the locations with their own settings.
    - `others`: the names of stored elements that are not settings of this server.
    - `is_readable`: False if the stored text cannot be parsed; a change then replaces it.
    - `changed_at`: when computing preferences were changed last, by the owner or a client.
    """

    location: str
    values: Values
    is_own: bool
    own_locations: tuple[str, ...]
    others: tuple[str, ...]
    version: str
    is_readable: bool
    changed_at: datetime | None


def _decode_computing(text: str) -> Values:
    nodes = stored_prefs.parse(text, computing_prefs.FORMAT)
    return dict(computing_prefs.decode(stored_prefs.settings(nodes, computing_prefs.FORMAT)))


def _decode_project(text: str) -> Values:
    return asdict(project_prefs.decode(text, ""))


def _encode_project(values: Values) -> list[tuple[str, str]]:
    return project_prefs.encode(project_prefs.ProjectPreferences(**values))


COMPUTING: Final = Kind(
    "computing",
    "global_prefs",
    computing_prefs.FORMAT,
    _decode_computing,
    computing_prefs.encode,
    computing_prefs.DEFAULTS,
)
PROJECT: Final = Kind(
    "project",
    "project_prefs",
    project_prefs.FORMAT,
    _decode_project,
    _encode_project,
    asdict(project_prefs.ProjectPreferences()),
)
#: Times after the year 2200 are not shown.
_MAX_TIME: Final = 7_258_118_400
_COLUMNS: Final = ("email", "global_prefs", "global_prefs_mod_time", "project_prefs")


def read(account: Account, kind: Kind, location: str) -> OwnPreferences:
    """Return the account's preferences at a location; one statement.  Raises `UnknownLocation`."""
    stored = Account.objects.only(*_COLUMNS).get(pk=account.pk)
    nodes, is_readable = _parse(stored, kind)
    return _of_location(stored, kind, nodes, location, is_readable=is_readable)


def change(
    account: Account,
    kind: Kind,
    location: str,
    values: Mapping[str, Any],
    *,
    version: str | None = None,
    now: datetime,
) -> OwnPreferences:
    """Store settings for a location; settings that `values` lacks keep their values in force.

    The values are valid.  Clients get them in the next scheduler reply.  Raises `UnknownLocation`,
    `PreferencesChanged` if there is a `version` and the settings have another, `TooLong`.
    """

    def edited(nodes: Sequence[Any], current: OwnPreferences) -> Sequence[Any]:
        elements = kind.encode({**current.values, **values})
        return stored_prefs.with_section(nodes, location, kind.form, elements)

    return _edit(account, kind, location, edited, version=version, now=now)


def reset(
    account: Account, kind: Kind, location: str, *, version: str | None = None, now: datetime
) -> OwnPreferences:
    """Store the project's defaults for a location, without elements that are no settings.

    Raises as `change` does.
    """

    def edited(nodes: Sequence[Any], _current: OwnPreferences) -> Sequence[Any]:
        elements = kind.encode(dict(kind.defaults))
        return stored_prefs.with_section(nodes, location, kind.form, elements, keep=False)

    return _edit(account, kind, location, edited, version=version, now=now)


def remove(
    account: Account, kind: Kind, location: str, *, version: str | None = None, now: datetime
) -> OwnPreferences:
    """Drop the own settings of a location, where those of the default location then apply.

    Raises as `change` does, and `UnknownLocation` for the default location.
    """
    if not location:
        raise UnknownLocation("The default location cannot be removed. Hint: reset its settings.")

    def edited(nodes: Sequence[Any], _current: OwnPreferences) -> Sequence[Any]:
        return stored_prefs.without_location(nodes, location)

    return _edit(account, kind, location, edited, version=version, now=now)


def _edit(
    account: Account,
    kind: Kind,
    location: str,
    edited: Callable[[Sequence[Any], OwnPreferences], Sequence[Any]],
    *,
    version: str | None,
    now: datetime,
) -> OwnPreferences:
    with transaction.atomic():
        rows = Account.objects.select_for_update(of=("self",), no_key=True)
        stored = rows.only(*_COLUMNS).get(pk=account.pk)
        nodes, is_readable = _parse(stored, kind)
        current = _of_location(stored, kind, nodes, location, is_readable=is_readable)
        if version is not None and version != current.version:
            raise PreferencesChanged(
                "These preferences were changed meanwhile, in another window or by a computer. "
                "Hint: compare them with the stored values, and save again to replace these."
            )
        changed = edited(nodes, current)
        if not stored_prefs.section(changed, "", kind.form):
            # Without general settings, clients would turn off all settings that are on or off.
            defaults = kind.encode(dict(kind.defaults))
            changed = stored_prefs.with_section(changed, "", kind.form, defaults)
        columns = _stored_columns(stored, kind, changed, now=now)
        Account.objects.filter(pk=stored.pk).update(**columns)
        for name, value in columns.items():
            setattr(stored, name, value)
        details = {"fields": [kind.column], "location": location}
        audit.record(audit.Event.ACCOUNT_CHANGED, now=now, subject=stored.email, details=details)
        nodes, is_readable = _parse(stored, kind)
        return _of_location(stored, kind, nodes, location, is_readable=is_readable)


def _stored_columns(stored: Account, kind: Kind, nodes: Sequence[Any], *, now: datetime) -> Values:
    """Return the columns to store; the time of computing preferences grows with each change.

    Clients store preferences only if they are newer than their own ones, and the clock of a client
    that sent the former ones may be ahead.
    """
    metadata: list[tuple[str, str]] = []
    columns: Values = {}
    if kind is COMPUTING:
        mod_time = max(int(now.timestamp()), int(stored.global_prefs_mod_time) + 1)
        metadata = [("mod_time", str(mod_time))]
        columns["global_prefs_mod_time"] = float(mod_time)
    text = stored_prefs.text_of(nodes, metadata, kind.form)
    if len(text.encode("utf-8", "replace")) > TEXT_LIMIT:
        raise TooLong(
            f"The preferences would be longer than {TEXT_LIMIT} bytes. "
            "Hint: reset them to the defaults, which drops settings of other programs."
        )
    return columns | {kind.column: text}


def _parse(stored: Account, kind: Kind) -> tuple[Sequence[Any], bool]:
    """Return the elements of the stored text, and whether it could be parsed."""
    try:
        return stored_prefs.parse(getattr(stored, kind.column), kind.form), True
    except stored_prefs.Unreadable:
        return [], False


def _of_location(
    stored: Account, kind: Kind, nodes: Sequence[Any], location: str, *, is_readable: bool
) -> OwnPreferences:
    own_locations = stored_prefs.locations(nodes)
    if location not in {*LOCATIONS, *own_locations}:
        raise UnknownLocation(
            f"{location[:60]!r} is not a location. Hint: use home, school or work, or omit it."
        )
    section = stored_prefs.section(nodes, location, kind.form)
    is_own = bool(section) or (section is not None and bool(location))
    source = section if is_own else stored_prefs.section(nodes, "", kind.form)
    changed_at = None
    if kind is COMPUTING and 0 < stored.global_prefs_mod_time < _MAX_TIME:
        changed_at = datetime.fromtimestamp(stored.global_prefs_mod_time, tz=UTC)
    return OwnPreferences(
        location=location,
        values=_values(kind, source or []) if is_own or source else dict(kind.defaults),
        is_own=is_own,
        own_locations=own_locations,
        others=stored_prefs.others(section or [], kind.form),
        version=stored_prefs.digest(section) if is_readable else "unreadable",
        is_readable=is_readable,
        changed_at=changed_at,
    )


def _values(kind: Kind, section: Sequence[Any]) -> Values:
    return kind.decode(stored_prefs.text_of(section, [], kind.form))
