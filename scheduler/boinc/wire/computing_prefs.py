"""Reads and writes the settings of computing preferences (`<global_preferences>`).

This module uses no database, files or clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from scheduler.boinc.wire import xml
from scheduler.boinc.wire.stored_prefs import Format

if TYPE_CHECKING:
    from collections.abc import Mapping

Values: TypeAlias = "dict[str, float | bool]"


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting: its element, label, default value, unit, range and explanation.

    A setting without a unit and range is on or off.  Values are stored in units of `scale` of the
    unit that is shown.
    """

    name: str
    label: str
    default: float | bool
    unit: str = ""
    low: float = 0
    high: float = 0
    help: str = ""
    scale: float = 1

    @property
    def is_flag(self) -> bool:
        """Whether the setting is on or off."""
        return isinstance(self.default, bool)

    @property
    def stored_unit(self) -> str:
        """The unit of stored values, which the API uses, too."""
        return self.unit if self.scale == 1 else "bytes/s"


_WHILE_IDLE: Final = (
    "While the computer is not in use, for clients from version 8 on. 0 means as above."
)
_NO_LIMIT: Final = "0 means no limit."
_SAME_HOURS: Final = "If both hours are the same, any time is allowed. 8.5 is half past eight."
_MOST: Final = 9_999_999
#: The settings by group, in the order of the pages.  The defaults are those of BOINC's web site.
GROUPS: Final[Mapping[str, tuple[Setting, ...]]] = {
    "When to compute": (
        Setting("run_on_batteries", "Compute while the computer runs on batteries", False),
        Setting("run_if_user_active", "Compute while the computer is in use", True),
        Setting("run_gpu_if_user_active", "Use the GPU while the computer is in use", False),
        Setting(
            "idle_time_to_run",
            "The computer counts as in use until it had no input for",
            3,
            "minutes",
            0.01,
            9999,
        ),
        Setting(
            "suspend_if_no_recent_input",
            "Stop if the computer had no input for",
            0,
            "minutes",
            0,
            9999,
            "Lets the computer go to sleep. 0 means never.",
        ),
        Setting(
            "suspend_cpu_usage",
            "Stop while other programs use more of the processors than",
            25,
            "%",
            0,
            100,
            "0 means never.",
        ),
        Setting("start_hour", "Compute only from", 0, "hour of the day", 0, 24, _SAME_HOURS),
        Setting("end_hour", "Compute only until", 0, "hour of the day", 0, 24),
    ),
    "Processors": (
        Setting("max_ncpus_pct", "Processors, at most", 100, "%", 1, 100),
        Setting(
            "cpu_usage_limit",
            "Processor time, at most",
            100,
            "%",
            1,
            100,
            "Less than 100 % keeps the computer cooler.",
        ),
        Setting(
            "niu_max_ncpus_pct",
            "Processors while idle, at most",
            0,
            "%",
            0,
            100,
            _WHILE_IDLE,
        ),
        Setting(
            "niu_cpu_usage_limit",
            "Processor time while idle, at most",
            0,
            "%",
            0,
            100,
            _WHILE_IDLE,
        ),
        Setting(
            "cpu_scheduling_period_minutes", "Switch between tasks every", 60, "minutes", 1, 9999
        ),
    ),
    "Work on the computer": (
        Setting(
            "work_buf_min_days",
            "Work to store, at least",
            0.1,
            "days",
            0,
            10,
            "Increase it for a computer that is rarely connected.",
        ),
        Setting("work_buf_additional_days", "Additional work, at most", 0.5, "days", 0, 10),
        Setting("disk_interval", "Save states of tasks every", 60, "seconds", 0, _MOST),
    ),
    "Memory": (
        Setting("ram_max_used_busy_pct", "Memory while in use, at most", 50, "%", 1, 100),
        Setting("ram_max_used_idle_pct", "Memory while not in use, at most", 90, "%", 1, 100),
        Setting("vm_max_used_pct", "Page file or swap space, at most", 75, "%", 1, 100),
        Setting(
            "leave_apps_in_memory",
            "Keep stopped tasks in memory",
            False,
            help="Tasks then continue where they stopped, instead of where they last saved.",
        ),
    ),
    "Disk": (
        Setting("disk_max_used_gb", "Disk space, at most", 0, "GB", 0, _MOST, _NO_LIMIT),
        Setting("disk_min_free_gb", "Free disk space, at least", 0.1, "GB", 0, _MOST),
        Setting("disk_max_used_pct", "Share of the disk, at most", 90, "%", 1, 100),
    ),
    "Network": (
        Setting(
            "max_bytes_sec_down",
            "Download rate, at most",
            0,
            "KiB/s",
            0,
            _MOST,
            _NO_LIMIT,
            scale=1024,
        ),
        Setting(
            "max_bytes_sec_up", "Upload rate, at most", 0, "KiB/s", 0, _MOST, _NO_LIMIT, scale=1024
        ),
        Setting(
            "daily_xfer_limit_mb", "Transfers in a period, at most", 0, "MB", 0, _MOST, _NO_LIMIT
        ),
        Setting(
            "daily_xfer_period_days",
            "Period of transfers",
            0,
            "days",
            0,
            9999,
            "0 means that transfers are not limited.",
        ),
        Setting("net_start_hour", "Transfer only from", 0, "hour of the day", 0, 24, _SAME_HOURS),
        Setting("net_end_hour", "Transfer only until", 0, "hour of the day", 0, 24),
    ),
}
SETTINGS: Final = {each.name: each for group in GROUPS.values() for each in group}
DEFAULTS: Final[Mapping[str, float | bool]] = {
    each.name: each.default for each in SETTINGS.values()
}
#: The elements with the project from which a client got preferences are dropped by an edit.
FORMAT: Final = Format(
    "global_preferences",
    setting_names=frozenset(SETTINGS),
    metadata=frozenset({"mod_time", "source_project", "source_scheduler"}),
)


def decode(texts: Mapping[str, list[str | None]]) -> Values:
    """Return the values of all settings, in stored units and within their ranges.

    A setting that is on or off and is missing is off, and another one has its default, as for
    clients.
    """
    return {name: _value(setting, texts.get(name, [])) for name, setting in SETTINGS.items()}


def encode(values: Mapping[str, float | bool]) -> list[tuple[str, str]]:
    """Return the elements of all settings; those that `values` lacks have their defaults."""
    return [
        (name, xml.real_text(values.get(name, each.default))) for name, each in SETTINGS.items()
    ]


def _value(setting: Setting, texts: list[str | None]) -> float | bool:
    if setting.is_flag:
        return bool(texts) and (texts[0] is None or xml.to_real(texts[0]) != 0)
    if not texts or not (texts[0] or "").strip():
        return setting.default
    number = xml.to_real(texts[0] or "")
    # A lower limit above 0 is meant for people: clients read 0 as the default.
    if number <= 0 < setting.low:
        return setting.default
    return min(max(number, setting.low * setting.scale), setting.high * setting.scale)
