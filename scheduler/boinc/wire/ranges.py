"""The ranges to which numbers in a request are clamped.

A volunteer's client can send any number.  Stored numbers are averaged, summed and multiplied with
values of other hosts, so one value near the limits of its type could make a statement fail for all
hosts.  The ranges are wider than any real computer needs, but a sum over a billion rows of a
product of three numbers is finite.  docs/protocol.md lists the range of each field.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers from `low` to `high`, both included; `unit` is for documentation.

    With `zero_is_unknown`, 0 and negative numbers are read as 0, which means "not measured".
    """

    low: float
    high: float
    unit: str
    zero_is_unknown: bool = False

    def clamp(self, value: float) -> float:
        """Return the nearest number in the range; negative zero becomes zero.

        >>> SPEED.clamp(1e200), SPEED.clamp(-1.0), SPEED.clamp(3e9)
        (100000000000000.0, 0, 3000000000.0)
        """
        if self.zero_is_unknown and value <= 0:
            return 0
        return max(self.low, min(self.high, value)) + 0


FRACTION: Final = Range(0, 1, "fraction")
FRACTION_OR_UNKNOWN: Final = Range(-1, 1, "fraction; -1 is unknown")
PERCENT: Final = Range(0, 100, "percent")
SECONDS: Final = Range(0, 1e10, "seconds")
#: The maximum is in the year 2242, so that its sum with any delay of the server can be stored as a
#: date.
UNIX_TIME: Final = Range(0, 2**33, "unix time")
TIMEZONE: Final = Range(-86_400, 86_400, "seconds east of UTC")
DAYS: Final = Range(0, 36_525, "days")
BYTES: Final = Range(0, 1e18, "bytes")
MEGABYTES: Final = Range(0, 1e9, "megabytes")
GIGABYTES: Final = Range(0, 1e9, "gigabytes")
BANDWIDTH: Final = Range(0, 1e12, "bytes per second")
#: The speed of one CPU; benchmarks of real CPUs are between 1e8 and 1e11.
SPEED: Final = Range(1e6, 1e14, "per second", zero_is_unknown=True)
#: The speed of a whole device or app version.
DEVICE_SPEED: Final = Range(0, 1e17, "operations per second")
CPUS: Final = Range(0, 65_536, "CPUs")
DEVICES: Final = Range(0, 1024, "devices")
INSTANCES: Final = Range(0, 65_536, "devices")
COUNT: Final = Range(0, 2**31 - 1, "number")
INDEX: Final = Range(-1, 2**31 - 1, "index; -1 is none")
ID: Final = Range(0, 2**63 - 1, "id")
#: A client's version is 10000 * major + 100 * minor + release.
MAJOR_VERSION: Final = Range(0, 9999, "number")
MINOR_VERSION: Final = Range(0, 99, "number")
#: `lifecycle.ClientState`: 0 is NEW, 7 UPLOAD_FAILED.  A larger number is read as 7.
CLIENT_STATE: Final = Range(0, 7, "number")
INT32: Final = Range(-(2**31), 2**31 - 1, "number")
INT64: Final = Range(-(2**63), 2**63 - 1, "number")

#: Numbers in `<global_preferences>`; BOINC reads 0 as "no limit".
PREFERENCES: Final = {
    "mod_time": UNIX_TIME,
    "work_buf_min_days": DAYS,
    "work_buf_additional_days": DAYS,
    "max_ncpus_pct": PERCENT,
    "disk_max_used_gb": GIGABYTES,
    "disk_max_used_pct": PERCENT,
    "disk_min_free_gb": GIGABYTES,
    "ram_max_used_busy_pct": PERCENT,
    "ram_max_used_idle_pct": PERCENT,
    "cpu_usage_limit": PERCENT,
}
