"""Reads and writes the volunteer's preferences for this project.

This module uses no database, files or clock.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from scheduler.boinc.wire import xml
from scheduler.boinc.wire.stored_prefs import Format

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from scheduler.boinc.wire.xml import Node

_ROOT: Final = "project_preferences"
_NAME: Final = re.compile(r"""\bname\s*=\s*["']([^"']*)["']""")
_MAX_IDS: Final = 1000
#: The resource share of an account without one, and the largest that is accepted.
DEFAULT_SHARE, MAX_SHARE = 100.0, 1e6

# The kind of device that each element disables; "" is the CPU.
_DEVICES: Final = {
    "no_cpu": "",
    "no_cuda": "nvidia",
    "no_ati": "amd",
    "no_intel_gpu": "intel",
    "no_apple_gpu": "apple",
}


#: In stored texts, the settings may be inside other elements, such as `<apps_selected>`.
FORMAT: Final = Format(
    _ROOT,
    setting_names=frozenset(
        [
            *("resource_share", "app_id", "allow_non_preferred_apps", "allow_beta_work"),
            *_DEVICES,
            *("max_cpus", "max_jobs", "yes", "no"),
        ]
    ),
    nested=True,
)


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
        body = f"<{_ROOT}>{text}</{_ROOT}>".encode("utf-8", "replace")
        nodes = list(xml.read_tree(body, _ROOT, raw=frozenset()))
    except xml.BadXml:
        return ProjectPreferences()
    settings: dict[str, list[str | None]] = defaultdict(list)
    for name, value in _settings(_of_venue(nodes, venue)):
        settings[name].append(value)
    return ProjectPreferences(
        selected_apps=_ids(settings["app_id"]),
        allow_other_apps=_is_on(settings, "allow_non_preferred_apps"),
        allow_beta=_is_on(settings, "allow_beta_work"),
        devices_off=tuple(kind for name, kind in _DEVICES.items() if _is_on(settings, name)),
        max_cpus=_limit(settings, "max_cpus"),
        max_held=_limit(settings, "max_jobs"),
        keywords_yes=_ids(settings["yes"]),
        keywords_no=_ids(settings["no"]),
        resource_share=_share(settings["resource_share"]),
    )


def encode(prefs: ProjectPreferences) -> list[tuple[str, str]]:
    """Return the elements of preferences, from which `decode` reads the same ones.

    >>> encode(ProjectPreferences(selected_apps=(3,), max_held=2))[0:2]
    [('resource_share', '100'), ('app_id', '3')]
    """
    flags = {
        "allow_non_preferred_apps": prefs.allow_other_apps,
        "allow_beta_work": prefs.allow_beta,
        **{name: kind in prefs.devices_off for name, kind in _DEVICES.items()},
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


def _of_venue(nodes: Sequence[Node], venue: str) -> Sequence[Node]:
    """Return the children of the venue's element, or all nodes if there is no such venue."""
    if venue:
        for node in _elements(nodes):
            name = _NAME.search(node[2]) if node[0] == "venue" else None
            if name and xml.unescape(name[1]) == venue:
                return node[1] if isinstance(node[1], list) else ()
    return nodes


def _elements(nodes: Sequence[Node]) -> Iterator[Node]:
    for node in nodes:
        yield node
        if isinstance(node[1], list):
            yield from _elements(node[1])


def _settings(nodes: Sequence[Node]) -> Iterator[tuple[str, str | None]]:
    """Yield the name and text (None for `<x/>`) of each leaf element outside `<venue>` elements."""
    for name, content, _attributes in nodes:
        if name == "venue":
            continue
        if isinstance(content, list):
            yield from _settings(content)
        else:
            yield name, content


def _ids(texts: Sequence[str | None]) -> tuple[int, ...]:
    numbers = dict.fromkeys(xml.to_int(text or "") for text in texts[:_MAX_IDS])
    return tuple(number for number in numbers if number > 0)


def _is_on(settings: Mapping[str, Sequence[str | None]], name: str) -> bool:
    """Return True if an element is present and not 0; `<x/>` means `<x>1</x>` (BOINC's rule)."""
    first = settings[name][0] if settings[name] else "0"
    return first is None or xml.to_int(first) != 0


def _share(texts: Sequence[str | None]) -> float:
    """Return the resource share; without one that is a number, it is that of clients."""
    if not texts or not re.match(r"\s*[+-]?\.?[0-9]", texts[0] or ""):
        return DEFAULT_SHARE
    return min(max(xml.to_real(texts[0] or ""), 0.0), MAX_SHARE)


def _limit(settings: Mapping[str, Sequence[str | None]], name: str) -> int:
    return max(0, xml.to_int(settings[name][0] or "")) if settings[name] else 0
