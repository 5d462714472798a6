"""Reads and writes computing preferences (`<global_preferences>`).

A project sends preferences as text, which may contain other values for hosts in a *venue*, such as
`home`. A number outside its safe range is replaced by the nearest limit, so that no project can
fill the disk or stop other projects.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from volunteer.wire.xml import Element, block, leaf, leaves, number, parse

#: BOINC's servers store at most 64 KB. The preferences that its web site writes are below 4 KB.
MAX_PREFERENCES_CHARACTERS = 16 << 10
#: The range of each number that has an effect here, in percent, days, gigabytes or seconds.
RANGES = {
    "max_ncpus_pct": (1.0, 100.0),
    "work_buf_min_days": (0.0, 10.0),
    "work_buf_additional_days": (0.0, 10.0),
    "disk_interval": (10.0, 3600.0),
    "disk_max_used_gb": (0.0, 1e9),
    "disk_max_used_pct": (1.0, 100.0),
    "disk_min_free_gb": (0.1, 1e9),
    "ram_max_used_busy_pct": (1.0, 100.0),
    "ram_max_used_idle_pct": (1.0, 100.0),
}
#: For these settings, zero means that there is no limit.
_ZERO_IS_UNLIMITED = (
    "max_ncpus_pct",
    "disk_max_used_pct",
    "ram_max_used_busy_pct",
    "ram_max_used_idle_pct",
)
#: Settings that this client does not implement, with the value that has no effect.
_WITHOUT_EFFECT = {
    "cpu_usage_limit": 100.0,
    "daily_xfer_limit_mb": 0.0,
    "max_bytes_sec_down": 0.0,
    "max_bytes_sec_up": 0.0,
    "max_cpus": 0.0,
    "network_wifi_only": 0.0,
    "niu_cpu_usage_limit": 100.0,
    "niu_max_ncpus_pct": 100.0,
    "run_if_user_active": 1.0,
    "suspend_cpu_usage": 0.0,
    "suspend_if_no_recent_input": 0.0,
    "vm_max_used_pct": 100.0,
}
_TAG = re.compile(
    r"""<(/?)([a-z_]{1,40})(?:\s+name\s*=\s*(?:"[^"<>]{0,64}"|'[^'<>]{0,64}'))?\s*(/?)>"""
)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")
_HOURS_OF_DAY = 24.0
_DAYS_OF_WEEK = 7


@dataclass(frozen=True, slots=True)
class Hours:
    """The hours of a day in which programs may run.

    The hours include midnight if `start` is after `end`.
    """

    start: float = 0.0
    end: float = 0.0

    def contain(self, hour: float) -> bool:
        """Return whether programs may run at this hour, by BOINC's rules.

        >>> Hours(22, 6).contain(23.5), Hours(8, 17).contain(7.9), Hours().contain(3)
        (True, False, True)
        """
        if (self.start, self.end) == (_HOURS_OF_DAY, 0.0):
            return False
        if self.start == self.end:
            return True
        if self.start < self.end:
            return self.start <= hour <= self.end
        return hour < self.end or hour >= self.start


@dataclass(frozen=True, slots=True)
class GlobalPreferences:
    """The preferences that have an effect on this client, within their ranges.

    `days` contains pairs of a day of the week (0 is Sunday) and its hours, which replace `hours` on
    that day. `without_effect` contains the names of received settings that would have an effect,
    but are not implemented by this client.
    """

    mod_time: float = 0.0
    source_project: str = ""
    run_on_batteries: bool = True
    hours: Hours = Hours()
    days: tuple[tuple[int, Hours], ...] = ()
    max_ncpus_pct: float = 100.0
    work_buf_min_days: float = 0.1
    work_buf_additional_days: float = 0.0
    disk_interval: float = 10.0
    disk_max_used_gb: float = 0.0
    disk_max_used_pct: float = 90.0
    disk_min_free_gb: float = 0.1
    ram_max_used_busy_pct: float = 90.0
    ram_max_used_idle_pct: float = 90.0
    without_effect: tuple[str, ...] = ()

    def allow(self, weekday: int, hour: float) -> bool:
        """Return whether programs may run at a local hour of a day of the week (0 is Sunday)."""
        return dict(self.days).get(weekday, self.hours).contain(hour)


DEFAULT_PREFERENCES = GlobalPreferences()


def preferences_fault(text: str) -> str:
    """Return the reason why a project's preferences are refused, or an empty string.

    The text is inserted into requests to other projects, so it must not break their XML.
    """
    if len(text) > MAX_PREFERENCES_CHARACTERS:
        return f"they have more than {MAX_PREFERENCES_CHARACTERS} characters"
    if _UNPRINTABLE.search(text):
        return "they have control characters"
    content = _COMMENT.sub("", text)
    open_names: list[str] = []
    position = content.find("<")
    while position >= 0:
        tag = _TAG.match(content, position)
        if tag is None:
            return f"{content[position : position + 20]!r} is not an element"
        closing, name, self_closing = tag.groups()
        if closing and (not open_names or open_names.pop() != name):
            return f"</{name}> has no start tag"
        if not closing and not self_closing:
            open_names.append(name)
        position = content.find("<", tag.end())
    return f"<{open_names[-1]}> has no end tag" if open_names else ""


def mod_time_of(text: str) -> float:
    """Return the time of the last change in unix seconds, or 0 if it is missing."""
    return max(_read(text).number("mod_time"), 0.0)


@lru_cache(maxsize=8)
def global_preferences(text: str, venue: str) -> GlobalPreferences:
    """Return the preferences for a host in a venue.

    The preferences of the venue replace the general preferences, as in BOINC.

    >>> global_preferences("<max_ncpus_pct>500</max_ncpus_pct>", "").max_ncpus_pct
    100.0
    """
    root = _read(text)
    chosen = next(
        (part for part in root.every("venue") if venue and part.attributes.get("name") == venue),
        root,
    )
    numbers: dict[str, Any] = {
        name: _clamped(chosen, name) for name in RANGES if chosen.first(name) is not None
    }
    return GlobalPreferences(
        # A missing setting is false, because older BOINC sites wrote only the settings that are on.
        run_on_batteries=chosen.flag("run_on_batteries"),
        hours=_hours(chosen),
        days=_days(chosen),
        without_effect=_without_effect(chosen),
        **numbers,
    )


def write_preferences(preferences: GlobalPreferences) -> str:
    """Return the XML of the preferences in force, for requests and `init_data.xml`."""
    content = leaves(
        source_project=preferences.source_project or None,
        mod_time=preferences.mod_time,
        run_on_batteries=preferences.run_on_batteries,
        run_if_user_active=1,
        **{name: getattr(preferences, name) for name in RANGES},
        cpu_usage_limit=100.0,
    )
    if preferences.hours != Hours():
        content += _hour_lines(preferences.hours)
    for day, hours in preferences.days:
        content += block("day_prefs", leaf("day_of_week", day) + _hour_lines(hours))
    return block("global_preferences", content)


def _hour_lines(hours: Hours) -> str:
    return leaves(start_hour=hours.start, end_hour=hours.end)


def _read(text: str) -> Element:
    return parse(f"<global_preferences>{text}</global_preferences>", "global_preferences")


def _clamped(element: Element, name: str) -> float:
    minimum, maximum = RANGES[name]
    value = element.number(name, getattr(DEFAULT_PREFERENCES, name))
    return (
        maximum if value <= 0 and name in _ZERO_IS_UNLIMITED else min(max(value, minimum), maximum)
    )


def _hours(element: Element) -> Hours:
    """Return the hours in an element, or all hours if the element contains none."""
    names = "start_hour", "end_hour"
    return Hours(*(min(max(element.number(name), 0.0), _HOURS_OF_DAY) for name in names))


def _days(element: Element) -> tuple[tuple[int, Hours], ...]:
    days: dict[int, Hours] = {}
    for day_element in element.every("day_prefs"):
        day, hours = day_element.integer("day_of_week", -1), _hours(day_element)
        # A day with equal start and end hours has no hours of its own.
        if 0 <= day < _DAYS_OF_WEEK and hours.start != hours.end:
            days[day] = hours
    return tuple(sorted(days.items()))


def _without_effect(element: Element) -> tuple[str, ...]:
    names = [
        name
        for name, neutral in _WITHOUT_EFFECT.items()
        if (setting := element.first(name)) is not None and number(setting.text, 1.0) != neutral
    ]
    parts = [element, *element.every("day_prefs")]
    if any(part.number("net_start_hour") != part.number("net_end_hour") for part in parts):
        names.append("net_start_hour")
    return tuple(names)
