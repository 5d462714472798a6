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
PROJECT_LABELS: Final = project_prefs.LABELS
DEVICES: Final = project_prefs.DEVICES
MAX_SHARE: Final = project_prefs.MAX_SHARE
MAX_LIMIT: Final = project_prefs.MAX_LIMIT
#: The maximum number of keywords of each kind, and the largest number of a keyword or app.
MAX_KEYWORDS: Final = project_prefs.MAX_IDS
MAX_ID: Final = 2**31 - 1
#: The locations of BOINC's clients; "" has the settings of computers at other locations.
LOCATIONS: Final = ("", "home", "school", "work")
#: The maximum length of a location's name in an address: servers refuse long addresses.
MAX_LOCATION: Final = 4000


class UnknownLocation(AccountRefused):
    """There is no such location. Hint: use home, school or work."""


class NotStored(AccountRefused):
    """The location has no settings of its own. Hint: the settings of the default location apply."""


class PreferencesChanged(AccountRefused):
    """The preferences were changed since they were read. Hint: check them and try again."""


class TooLong(AccountRefused):
    """The stored preferences would be too long. Hint: reset them to the defaults."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of preferences: its columns, format and settings.

    `decode` takes the elements of a section.
    """

    name: str
    column: str
    form: stored_prefs.Format
    decode: Callable[[Sequence[Any]], Values]
    encode: Callable[[Values], list[tuple[str, str]]]
    defaults: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OwnPreferences:
    """The preferences of an account at a location.

    - `values`: the settings in force.  `is_own` is False if they are those of the default location,
      or the project's defaults.
    - `own_locations`: the locations with their own settings.
    - `has_general`: whether the default location has settings.  Without them, computers at
      locations without settings keep those that they have.
    - `others`: the names of stored elements that are not settings of this server.
    - `is_readable`: False if the stored text cannot be parsed; a change then replaces it.
    - `changed_at`: when computing preferences were changed last, by the owner or a client.
    """

    location: str
    values: Values
    is_own: bool
    own_locations: tuple[str, ...]
    has_general: bool
    others: tuple[str, ...]
    version: str
    is_readable: bool
    changed_at: datetime | None


def _decode_computing(section: Sequence[Any]) -> Values:
    return dict(computing_prefs.decode(stored_prefs.settings(section, computing_prefs.FORMAT)))


def _decode_project(section: Sequence[Any]) -> Values:
    texts = stored_prefs.settings(section, project_prefs.FORMAT)
    return asdict(project_prefs.decode_settings(texts))


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
#: The maximum length of the name of a location in messages and in the audit log.
_MAX_SHOWN: Final = 60
#: Times after the year 2200 are not shown.
_MAX_TIME: Final = 7_258_118_400
_COLUMNS: Final = ("email", "global_prefs", "global_prefs_mod_time", "project_prefs")


def read(account: Account, kind: Kind, location: str) -> OwnPreferences:
    """Return the account's preferences at a location; one statement.  Raises `UnknownLocation`."""
    stored = Account.objects.only(*_COLUMNS).get(pk=account.pk)
    return _read(stored, kind, location)[1]


def has_location(account: Account, kind: Kind, location: str) -> bool:
    """Return True if a location exists: it is a usual one, or the account has stored it."""
    try:
        read(account, kind, location)
    except UnknownLocation:
        return False
    return True


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

    The settings of other locations, and general ones that are missing, stay as they are.  The
    values are valid.  Clients get them in the next scheduler reply.  Raises `UnknownLocation`,
    `PreferencesChanged` if there is a `version` and the settings have another, `TooLong`.
    """

    def edited(nodes: Sequence[Any], current: OwnPreferences) -> Sequence[Any]:
        elements = kind.encode({**current.values, **values})
        return stored_prefs.with_section(nodes, location, kind.form, elements)

    stored = _edit(account, kind, location, edited, version=version, now=now)
    return _read(stored, kind, location)[1]


def reset(
    account: Account, kind: Kind, location: str, *, version: str | None = None, now: datetime
) -> OwnPreferences:
    """Store the project's defaults for a location, without elements that are no settings.

    Raises as `change` does.
    """

    def edited(nodes: Sequence[Any], _current: OwnPreferences) -> Sequence[Any]:
        elements = kind.encode(dict(kind.defaults))
        return stored_prefs.with_section(nodes, location, kind.form, elements, keep=False)

    stored = _edit(account, kind, location, edited, version=version, now=now)
    return _read(stored, kind, location)[1]


def remove(
    account: Account, kind: Kind, location: str, *, version: str | None = None, now: datetime
) -> None:
    """Drop the own settings of a location, where those of the default location then apply.

    Raises as `change` does, `UnknownLocation` for the default location, and `NotStored` if the
    location has no settings of its own.
    """
    if not location:
        raise UnknownLocation("The default location cannot be removed. Hint: reset its settings.")

    def edited(nodes: Sequence[Any], current: OwnPreferences) -> Sequence[Any]:
        if not current.is_own:
            raise NotStored(
                f"The location {location[:_MAX_SHOWN]!r} has no settings of its own. "
                "Hint: those of the default location apply."
            )
        return stored_prefs.without_location(nodes, location)

    _edit(account, kind, location, edited, version=version, now=now)


def _edit(
    account: Account,
    kind: Kind,
    location: str,
    edited: Callable[[Sequence[Any], OwnPreferences], Sequence[Any]],
    *,
    version: str | None,
    now: datetime,
) -> Account:
    """Store the elements that `edited` returns; return the account's columns of preferences."""
    with transaction.atomic():
        rows = Account.objects.select_for_update(of=("self",), no_key=True)
        stored = rows.only(*_COLUMNS).get(pk=account.pk)
        nodes, current = _read(stored, kind, location)
        if version is not None and version != current.version:
            raise PreferencesChanged(
                "These preferences were changed meanwhile, in another window or by a computer. "
                "Hint: compare them with the stored values, and save again to replace these."
            )
        columns = _stored_columns(stored, kind, edited(nodes, current), now=now)
        Account.objects.filter(pk=stored.pk).update(**columns)
        for name, value in columns.items():
            setattr(stored, name, value)
        details = {"fields": [kind.column], "location": location[:_MAX_SHOWN]}
        audit.record(audit.Event.ACCOUNT_CHANGED, now=now, subject=stored.email, details=details)
    return stored


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


def _read(stored: Account, kind: Kind, location: str) -> tuple[Sequence[Any], OwnPreferences]:
    """Return the elements of the stored text, none if it is unreadable, and what they mean."""
    nodes: Sequence[Any] = []
    is_readable = True
    try:
        nodes = stored_prefs.parse(getattr(stored, kind.column), kind.form)
    except stored_prefs.Unreadable:
        is_readable = False
    return nodes, _of_location(stored, kind, nodes, location, is_readable=is_readable)


def _of_location(
    stored: Account, kind: Kind, nodes: Sequence[Any], location: str, *, is_readable: bool
) -> OwnPreferences:
    own_locations = stored_prefs.locations(nodes)
    if location not in {*LOCATIONS, *own_locations}:
        raise UnknownLocation(
            f"{location[:_MAX_SHOWN]!r} is not a location. "
            "Hint: use home, school or work, or omit it."
        )
    section = stored_prefs.section(nodes, location, kind.form)
    general = stored_prefs.section(nodes, "", kind.form)
    is_own = bool(section) or (section is not None and bool(location))
    source = section if is_own else general
    changed_at = None
    if kind is COMPUTING and 0 < stored.global_prefs_mod_time < _MAX_TIME:
        changed_at = datetime.fromtimestamp(stored.global_prefs_mod_time, tz=UTC)
    return OwnPreferences(
        location=location,
        values=kind.decode(source or []) if is_own or source else dict(kind.defaults),
        is_own=is_own,
        own_locations=own_locations,
        has_general=bool(general),
        others=stored_prefs.others(section or [], kind.form),
        version=stored_prefs.digest(section) if is_readable else "unreadable",
        is_readable=is_readable,
        changed_at=changed_at,
    )
