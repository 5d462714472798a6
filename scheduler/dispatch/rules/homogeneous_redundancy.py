"""Classes of computers that compute the same bits: homogeneous redundancy.

Results of one workunit can be compared byte for byte only if all hosts round in the same way.  So
an app may require that all results of a workunit go to computers of one class: the first result
sent binds the workunit to the class of its host (source: BOINC's homogeneous redundancy).

A class is the sum of a number for the operating system and a number for the processor, with BOINC's
values.

This module uses no database, files or clock.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

#: The `hr_type` of an app whose workunits may be sent to any computer.
NONE: Final = 0
#: The `hr_type` that requires the same operating system and processor family.
FINE: Final = 1
#: The `hr_type` that requires the same operating system and processor architecture.
COARSE: Final = 2

#: The class of an unrecognized computer, which gets no work of an app that requires a class.
UNKNOWN: Final = 0

# Android is before Linux, because clients on Android may report both names.
SYSTEMS: Final = {"android": 768, "linux": 256, "windows": 384, "darwin": 512, "freebsd": 640}

_INTEL: Final = 2
_AMD: Final = 3
_POWER_MAC: Final = 4
_ARM: Final = 22

# Patterns of the processor's model, and family numbers; the first match counts.
_INTEL_FAMILIES: Final = (
    (r"xeon", 11),
    (r"celeron.* m ", 18),
    (r"celeron.* d ", 17),
    (r"celeron.*iii", 15),
    (r"celeron", 12),
    (r"core", 21),
    (r"pentium.*iii", 15),
    (r"pentium.*ii", 14),
    (r"pentium.* 4 ", 16),
    (r"pentium.* d ", 17),
    (r"pentium.* m ", 18),
    (r"pentium", 13),
)
_AMD_FAMILIES: Final = (
    (r"duron", 6),
    (r"opteron", 8),
    (r"sempron", 7),
    (r"turion", 20),
    (r"athlon.*xp", 10),
    (r"athlon.*mp", 19),
    (r"athlon.*64", 9),
    (r"athlon", 5),
    # Not in BOINC's table, which maps these models to AMD; BOINC does not use these numbers.
    (r"epyc", 23),
    (r"ryzen", 24),
)
# Families by Intel's family and model numbers, for processors without a model name.
_INTEL_NUMBERS: Final = {
    (5, 1): 13,
    (5, 2): 13,
    (6, 1): 13,
    (6, 3): 14,
    (6, 5): 14,
    (6, 6): 12,
    (6, 7): 15,
    (6, 8): 15,
    (6, 9): 18,
    (6, 10): 11,
    (6, 11): 15,
    (15, 1): 16,
    (15, 2): 16,
}

# The numbers of processors are below those of systems, which are multiples of 128.
_PROCESSOR_BITS: Final = 127
_SYSTEM_LABELS: Final = {
    256: "Linux",
    384: "Windows",
    512: "macOS",
    640: "FreeBSD",
    768: "Android",
}
_PROCESSOR_LABELS: Final = {
    _INTEL: "Intel",
    _AMD: "AMD",
    _POWER_MAC: "PowerPC",
    5: "AMD Athlon",
    6: "AMD Duron",
    7: "AMD Sempron",
    8: "AMD Opteron",
    9: "AMD Athlon 64",
    10: "AMD Athlon XP",
    11: "Intel Xeon",
    12: "Intel Celeron",
    13: "Intel Pentium",
    14: "Intel Pentium II",
    15: "Intel Pentium III or Celeron III",
    16: "Intel Pentium 4",
    17: "Intel Pentium D or Celeron D",
    18: "Intel Pentium M or Celeron M",
    19: "AMD Athlon MP",
    20: "AMD Turion",
    21: "Intel Core",
    _ARM: "ARM",
    23: "AMD EPYC",
    24: "AMD Ryzen",
}


def label(hr_type: int, number: int) -> str:
    """Return a class of computers in words, or with its number if it is not in the table.

    >>> label(FINE, 277), label(COARSE, 258), label(FINE, UNKNOWN)
    ('Linux, Intel Core', 'Linux, Intel or AMD', 'any class')
    """
    if number == UNKNOWN:
        return "any class"
    system = _SYSTEM_LABELS.get(number & ~_PROCESSOR_BITS)
    processor = _PROCESSOR_LABELS.get(number & _PROCESSOR_BITS)
    if hr_type == COARSE and processor == _PROCESSOR_LABELS[_INTEL]:
        processor = "Intel or AMD"
    return f"{system}, {processor}" if system and processor else f"class {number}"


@lru_cache(maxsize=1024)
def hr_class(hr_type: int, *, os_name: str, p_vendor: str, p_model: str) -> int:
    """Return the class of a computer from its client's description, or `UNKNOWN`.

    Unlike in BOINC, a computer whose processor is not recognized has no coarse class either: two
    unknown processors may differ.

    >>> hr_class(COARSE, os_name="Linux Debian", p_vendor="GenuineIntel", p_model="Core i7")
    258
    """
    if hr_type not in {FINE, COARSE}:
        return UNKNOWN
    system = _system(os_name)
    processor = (_fine if hr_type == FINE else _coarse)(p_vendor, p_model)
    return system + processor if system and processor else UNKNOWN


def _system(os_name: str) -> int:
    name = os_name.lower()
    return next((number for word, number in SYSTEMS.items() if word in name), 0)


def _architecture(p_vendor: str, p_model: str) -> int:
    """Return the number of the processor's architecture, or 0 if it is unknown.

    ARM is also recognized by the model: it has many vendors, and some clients send no vendor.
    """
    vendor = p_vendor.lower()
    for word, number in (("intel", _INTEL), ("amd", _AMD), ("macintosh", _POWER_MAC)):
        if word in vendor:
            return number
    if "arm" in vendor or re.search(r"\bARM|\b[Aa][Aa]rch64|\bApple M\d", p_model):
        return _ARM
    return 0


def _coarse(p_vendor: str, p_model: str) -> int:
    """Return the number of the architecture; as in BOINC, Intel and AMD have the same number."""
    architecture = _architecture(p_vendor, p_model)
    return _INTEL if architecture == _AMD else architecture


def _fine(p_vendor: str, p_model: str) -> int:
    architecture = _architecture(p_vendor, p_model)
    model = f" {p_model.lower()} "
    families = {_INTEL: _INTEL_FAMILIES, _AMD: _AMD_FAMILIES}.get(architecture, ())
    for pattern, number in families:
        if re.search(pattern, model):
            return number
    if architecture == _INTEL and (numbers := re.search(r"family (\d+) model (\d+)", model)):
        return _INTEL_NUMBERS.get((int(numbers[1]), int(numbers[2])), _INTEL)
    return architecture
