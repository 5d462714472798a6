"""Decides whether a computer's system or processor is barred from all work.

This module uses no database, files or clock.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduler.hosts.facts import HostDescription


def why_barred(host: HostDescription, *, banned_os: str, banned_cpu: str) -> str:
    """Return the message for a barred computer, or an empty string.

    `banned_os` and `banned_cpu` are regular expressions; an empty expression bars no computer.
    `banned_os` is searched in "NAME VERSION" of the operating system, and `banned_cpu` in "VENDOR
    MODEL" of the processor.  Source: BOINC's rule for banned systems and processors.
    """
    system = f"{host.os_name} {host.os_version}".strip()
    if banned_os and re.search(banned_os, system):
        return f"This project doesn't support operating system {system}"
    processor = f"{host.p_vendor} {host.p_model}".strip()
    if banned_cpu and re.search(banned_cpu, processor):
        return f"This project doesn't support CPU type {processor}"
    return ""
