"""Decides whether a computer's system or processor is barred from all work [pure]."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduler.hosts.facts import HostDescription


def why_barred(host: HostDescription, *, banned_os: str, banned_cpu: str) -> str:
    """Return the message for a computer whose system or processor is barred, else "".

    Both settings are regular expressions, searched in the system's name and version, or in the
    processor's vendor and model, with a blank between the two; an empty one bars nothing.  Source:
    BOINC's rule for banned systems and processors.
    """
    system = f"{host.os_name} {host.os_version}".strip()
    if banned_os and re.search(banned_os, system):
        return f"This project doesn't support operating system {system}"
    processor = f"{host.p_vendor} {host.p_model}".strip()
    if banned_cpu and re.search(banned_cpu, processor):
        return f"This project doesn't support CPU type {processor}"
    return ""
