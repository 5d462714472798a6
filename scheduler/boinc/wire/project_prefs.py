"""Read what a volunteer wants of this project, from its account [pure]."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from scheduler.boinc.wire import xml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from scheduler.boinc.wire.xml import Node

_ROOT: Final = "project_preferences"
_NAME: Final = re.compile(r"""\bname\s*=\s*["']([^"']*)["']""")
_MOST_IDS: Final = 1000

# The elements that switch a kind of device off, and the kinds (the CPU's is empty).
_DEVICES: Final = {
    "no_cpu": "",
    "no_cuda": "nvidia",
    "no_ati": "amd",
    "no_intel_gpu": "intel",
    "no_apple_gpu": "apple",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectPreferences:
    """What a volunteer wants of this project, on computers of one venue.

    Without `selected_apps` all are wanted; with them, others only if `allow_other_apps`.
    `devices_off` are kinds of devices not to be used (`hosts.machines.Gpu`; empty: the CPU).
    `max_cpus` and `max_held`: how many CPUs to use and results to hold at most; 0 is no limit.
    """

    selected_apps: tuple[int, ...] = ()
    allow_other_apps: bool = False
    allow_beta: bool = False
    devices_off: tuple[str, ...] = ()
    max_cpus: int = 0
    max_held: int = 0
    keywords_yes: tuple[int, ...] = ()
    keywords_no: tuple[int, ...] = ()


def decode(text: str, venue: str) -> ProjectPreferences:
    """Read preferences for a venue; what cannot be read counts as not said, and nothing raises.

    Preferences of a venue of that name replace the general ones as a whole; elements may stand
    inside others; of an element that is there twice the first counts, as in BOINC's server
    (source: BOINC's project preferences).

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
    found: dict[str, list[str | None]] = defaultdict(list)
    for name, value in _settings(_of_venue(nodes, venue)):
        found[name].append(value)
    return ProjectPreferences(
        selected_apps=_ids(found["app_id"]),
        allow_other_apps=_is_on(found, "allow_non_preferred_apps"),
        allow_beta=_is_on(found, "allow_beta_work"),
        devices_off=tuple(kind for name, kind in _DEVICES.items() if _is_on(found, name)),
        max_cpus=_limit(found, "max_cpus"),
        max_held=_limit(found, "max_jobs"),
        keywords_yes=_ids(found["yes"]),
        keywords_no=_ids(found["no"]),
    )


def _of_venue(nodes: Sequence[Node], venue: str) -> Sequence[Node]:
    """The children of the venue's element, or all if there is none of that name."""
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
    """Every element with a text or nothing (None) in it; those of venues are left out."""
    for name, content, _attributes in nodes:
        if name == "venue":
            continue
        if isinstance(content, list):
            yield from _settings(content)
        else:
            yield name, content


def _ids(texts: Sequence[str | None]) -> tuple[int, ...]:
    numbers = dict.fromkeys(xml.to_int(text or "") for text in texts[:_MOST_IDS])
    return tuple(number for number in numbers if number > 0)


def _is_on(found: Mapping[str, Sequence[str | None]], name: str) -> bool:
    """Whether an element is there and not 0; `<x/>` is as good as `<x>1</x>` (BOINC's rule)."""
    first = found[name][0] if found[name] else "0"
    return first is None or xml.to_int(first) != 0


def _limit(found: Mapping[str, Sequence[str | None]], name: str) -> int:
    return max(0, xml.to_int(found[name][0] or "")) if found[name] else 0
