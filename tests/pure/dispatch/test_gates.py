"""Hosts whose operating system or processor is barred get no work."""

from __future__ import annotations

import pytest

from scheduler.dispatch.rules.barred_hosts import why_barred
from scheduler.hosts.facts import HostDescription

HOST = HostDescription(
    os_name="Microsoft Windows 7",
    os_version="Professional (06.01.7601.00)",
    p_vendor="GenuineIntel",
    p_model="Intel(R) Atom(TM) N270",
)
NO_SYSTEM = (
    "This project doesn't support operating system Microsoft Windows 7 Professional (06.01.7601.00)"
)
NO_CPU = "This project doesn't support CPU type GenuineIntel Intel(R) Atom(TM) N270"


@pytest.mark.parametrize(
    ("banned_os", "banned_cpu", "said"),
    [
        ("", "", ""),
        ("Windows (XP|7)", "", NO_SYSTEM),
        (r"7601\.", "", NO_SYSTEM),
        ("^Linux", "", ""),
        ("", "Atom", NO_CPU),
        ("", "^GenuineIntel .*N270$", NO_CPU),
        ("", "Windows", ""),
        ("Windows", "Atom", NO_SYSTEM),
    ],
)
def test_refusal_names_the_banned_operating_system_or_cpu(banned_os, banned_cpu, said):
    assert why_barred(HOST, banned_os=banned_os, banned_cpu=banned_cpu) == said
