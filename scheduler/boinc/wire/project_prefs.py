"""Reads and writes the volunteer's preferences for this project.

This module uses no database, files or clock.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from scheduler.boinc.wire import stored_prefs, xml
from scheduler.boinc.wire.stored_prefs import Format

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: The maximum number of apps, and of keywords of each kind, that are read.
MAX_IDS: Final = 1000
#: The resource share of an account without one, and the largest that is accepted.
DEFAULT_SHARE, MAX_SHARE = 100.0, 1e6
#: The largest limit of tasks or processors; a larger one in a stored text is read as this one.
MAX_LIMIT: Final = 10_000


@dataclass(frozen=True, slots=True)
class Device:
    """A kind of device: the element that disables it, its name in the API, and its label."""

    element: str
    name: str
    label: str


#: The kinds of devices, as in `hosts.machines.Gpu`; "" is the CPU.
DEVICES: Final[Mapping[str, Device]] = {
    "": Device("no_cpu", "cpu", "Processor"),
    "nvidia": Device("no_cuda", "nvidia", "NVIDIA GPU"),
    "amd": Device("no_ati", "amd", "AMD GPU"),
    "intel": Device("no_intel_gpu", "intel", "Intel GPU"),
    "apple": Device("no_apple_gpu", "apple", "Apple GPU"),
}
#: In stored texts, the settings may be inside other elements, such as `<apps_selected>`.
FORMAT: Final = Format(
    "project_preferences",
    setting_names=frozenset(
        [
            *("resource_share", "app_id", "allow_non_preferred_apps", "allow_beta_work"),
            *(device.element for device in DEVICES.values()),
            *("max_cpus", "max_jobs", "yes", "no"),
        ]
    ),
    nested=True,
)


@dataclass(frozen=True, slots=True)
class Label:
    """The label of a setting, and its explanation."""

    text: str
    help: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectPreferences:
    """A volunteer's preferences for this project, on computers of one venue.

    If `selected_apps` is empty, all apps are allowed.  Otherwise, other apps are allowed only if
    `allow_other_apps` is set.  `devices_off` lists the disabled kinds of devices, as in
    `hosts.machines.Gpu`; "" is the CPU.  `max_cpus` and `max_held` limit the CPUs in use and the
    results on a host; 0 means no limit.  Only clients use `resource_share`.
    """

    selected_apps: tuple[int, ...] = ()
    allow_other_apps: bool = False
    allow_beta: bool = False
    devices_off: tuple[str, ...] = ()
    max_cpus: int = 0
    max_held: int = 0
    keywords_yes: tuple[int, ...] = ()
    keywords_no: tuple[int, ...] = ()
    resource_share: float = DEFAULT_SHARE


#: The labels of the settings by attribute, for pages and the API.  Those of `devices_off` and of
#: keywords are for the API only.
LABELS: Final[Mapping[str, Label]] = {
    "resource_share": Label(
        "Resource share",
        "A project with share 200 gets twice the time of one with 100, the default. With 0, this "
        "project's tasks are computed only while no other project has work.",
    ),
    "devices_off": Label(
        "Devices without tasks of this project", "No tasks are sent for these kinds of devices."
    ),
    "selected_apps": Label("Selected apps", "If none is selected, tasks of all apps are sent."),
    "allow_other_apps": Label(
        "If there is no work of the selected apps, send work of others",
        "Applies only if apps are selected.",
    ),
    "allow_beta": Label(
        "Run test apps",
        "Test apps can fail more often. Their tasks are sent only to volunteers who allow it.",
    ),
    "max_held": Label(
        "Tasks on a computer, at most",
        "Tasks of this project in progress on each computer. 0 means no limit.",
    ),
    "max_cpus": Label(
        "Processors of a computer, at most",
        "Processors of each computer that this project gets work for. 0 means no limit.",
    ),
    "keywords_yes": Label(
        "Preferred keywords",
        "Numbers of BOINC's keywords (`GET /keywords`). Tasks with them are sent first.",
    ),
    "keywords_no": Label(
        "Excluded keywords",
        "Numbers of BOINC's keywords (`GET /keywords`). Tasks with them are not sent.",
    ),
}


def decode(text: str, venue: str) -> ProjectPreferences:
    """Parse the preferences for a venue; returns the defaults if the text cannot be read.

    If the text has a `<venue>` element for the venue, only the preferences in it are used.
    Elements may be nested.  If an element occurs twice, the first one counts (source: BOINC's
    project preferences).

    >>> decode("<app_id>3</app_id><no_cuda>1</no_cuda>", "").devices_off
    ('nvidia',)
    """
    if not text.strip():
        return ProjectPreferences()
    try:
        nodes = stored_prefs.parse(text, FORMAT)
    except stored_prefs.Unreadable:
        return ProjectPreferences()
    return decode_settings(
        stored_prefs.settings(stored_prefs.in_force(nodes, venue, FORMAT), FORMAT)
    )


def decode_settings(texts: Mapping[str, Sequence[str | None]]) -> ProjectPreferences:
    """Return the preferences with these texts of settings (`stored_prefs.settings`)."""
    kinds = DEVICES.items()
    return ProjectPreferences(
        selected_apps=_ids(texts.get("app_id", ())),
        allow_other_apps=_is_on(texts, "allow_non_preferred_apps"),
        allow_beta=_is_on(texts, "allow_beta_work"),
        devices_off=tuple(kind for kind, device in kinds if _is_on(texts, device.element)),
        max_cpus=_limit(texts, "max_cpus"),
        max_held=_limit(texts, "max_jobs"),
        keywords_yes=_ids(texts.get("yes", ())),
        keywords_no=_ids(texts.get("no", ())),
        resource_share=_share(texts.get("resource_share", ())),
    )


def encode(prefs: ProjectPreferences) -> list[tuple[str, str]]:
    """Return the elements of preferences, from which `decode` reads the same ones.

    >>> encode(ProjectPreferences(selected_apps=(3,), max_held=2))[0:2]
    [('resource_share', '100'), ('app_id', '3')]
    """
    flags = {
        "allow_non_preferred_apps": prefs.allow_other_apps,
        "allow_beta_work": prefs.allow_beta,
        **{device.element: kind in prefs.devices_off for kind, device in DEVICES.items()},
    }
    return [
        ("resource_share", xml.real_text(prefs.resource_share)),
        *(("app_id", str(app_id)) for app_id in prefs.selected_apps),
        *((name, str(int(is_on))) for name, is_on in flags.items()),
        ("max_jobs", str(prefs.max_held)),
        ("max_cpus", str(prefs.max_cpus)),
        *(("yes", str(number)) for number in prefs.keywords_yes),
        *(("no", str(number)) for number in prefs.keywords_no),
    ]


def _ids(texts: Sequence[str | None]) -> tuple[int, ...]:
    numbers = dict.fromkeys(xml.to_int(text or "") for text in texts[:MAX_IDS])
    return tuple(number for number in numbers if number > 0)


def _is_on(texts: Mapping[str, Sequence[str | None]], name: str) -> bool:
    """Return True if an element is present and not 0; `<x/>` means `<x>1</x>` (BOINC's rule)."""
    first = next(iter(texts.get(name, ())), "0")
    return first is None or xml.to_int(first) != 0


def _share(texts: Sequence[str | None]) -> float:
    """Return the resource share; without one that is a number, it is that of clients."""
    if not texts or not re.match(r"\s*[+-]?\.?[0-9]", texts[0] or ""):
        return DEFAULT_SHARE
    return min(max(xml.to_real(texts[0] or ""), 0.0), MAX_SHARE)


def _limit(texts: Mapping[str, Sequence[str | None]], name: str) -> int:
    first = next(iter(texts.get(name, ())), "")
    return min(max(xml.to_int(first or ""), 0), MAX_LIMIT)
