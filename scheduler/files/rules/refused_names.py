"""Finds file names that clients refuse, and the reasons [pure].

Clients write files with these names beside their own files, to disks that may not distinguish upper
and lower case, on systems that reserve names.  A client refuses a result with a bad name and
reports it as failed, so the server refuses such names before it creates results.  The rules are
equal to those of this project's client (`client/volunteer/names.py`), which is the strictest; a
test compares the two.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Sequence

_MAX_LENGTH = 255
# Names that clients or BOINC's library use, in a slot or beside a file of a project.
_RESERVED_NAMES = frozenset({"init_data.xml", "stderr.txt", "stdout.txt", "trickle_up.xml"})
_RESERVED_PREFIXES = ("boinc_", "trickle_down_")
_RESERVED_SUFFIXES = (".part", ".unzipped")
# Windows opens a device under these names, in any folder and with any extension.
_DEVICES = frozenset(
    {"con", "prn", "aux", "nul", "conin$", "conout$"}
    | {f"{port}{digit}" for port in ("com", "lpt") for digit in "0123456789"}
)


@functools.lru_cache(maxsize=4096)
def folded(name: str) -> str:
    """Return the form in which names are compared: Unicode NFC, in lower case (case-folded).

    >>> folded("Worker_1") == folded("worker_1")
    True
    """
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


@functools.lru_cache(maxsize=4096)
def name_fault(name: str) -> str:
    """Return why clients refuse a relative name, as the end of a sentence.

    The return value is empty if clients accept the name.

    >>> name_fault("data/out.part1"), name_fault("out.part")
    ('', "ends with '.part', which clients use themselves")
    """
    if not 0 < len(name) <= _MAX_LENGTH:
        return f"has {len(name)} characters, and 1 to {_MAX_LENGTH} are allowed"
    if not name.isprintable():
        return "has a control character or an invisible one"
    if ".." in name or name.startswith(("/", "~")):
        return "leads out of its folder"
    if "%" in name or "\\" in name:
        return "has a % or a backslash, which BOINC forbids"
    return next(filter(None, map(_part_fault, name.split("/"))), "")


def _part_fault(part: str) -> str:
    if not part or part.startswith("."):
        return "has a part that is empty or begins with a full stop"
    if part != part.rstrip(". "):
        return "has a part that ends with a full stop or a space"
    key = folded(part)
    if key in _RESERVED_NAMES:
        return f"contains {key!r}, which clients use themselves"
    for prefix in _RESERVED_PREFIXES:
        if key.startswith(prefix):
            return f"begins with {prefix!r}, which clients use themselves"
    for suffix in _RESERVED_SUFFIXES:
        if key.endswith(suffix):
            return f"ends with {suffix!r}, which clients use themselves"
    if (device := key.partition(".")[0].strip()) in _DEVICES:
        return f"is the device {device!r} on Windows"
    return ""


def clash(names: Sequence[str]) -> tuple[str, str] | None:
    """Return the first two names that cannot be in one folder, or None.

    Two names clash if they are equal except for upper and lower case, or if one is a parent folder
    of the other.

    >>> clash(["in", "out", "IN"]), clash(["a/b", "A"]), clash(["a", "ab", "b"])
    (('in', 'IN'), ('a/b', 'A'), None)
    """
    keys = [folded(name) for name in names]
    together = set(keys)
    if len(together) == len(keys) and not any(
        parent in together for key in keys if "/" in key for parent in _parents(key)
    ):
        return None
    files: dict[str, str] = {}
    folders: dict[str, str] = {}
    for name, key in zip(names, keys, strict=True):
        parents = _parents(key)
        others = [files.get(key), folders.get(key), *(files.get(parent) for parent in parents)]
        if (other := next((other for other in others if other is not None), None)) is not None:
            return other, name
        files[key] = name
        folders.update(dict.fromkeys(parents, name))
    return None


def _parents(key: str) -> list[str]:
    parts = key.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def usable(name: str) -> str:
    """Return a physical name; add a prefix or suffix if clients would refuse the name.

    `name` must contain only letters, digits and ``_.+-``, and no two full stops in a row.

    >>> usable("boinc_data_12.txt"), usable("in_12.part"), usable("in_12.txt")
    ('file_boinc_data_12.txt', 'in_12.part_', 'in_12.txt')
    """
    key = name.lower()
    if key.startswith(_RESERVED_PREFIXES) or key.partition(".")[0] in _DEVICES:
        name = f"file_{name}"
    return f"{name}_" if key.endswith(_RESERVED_SUFFIXES) else name
