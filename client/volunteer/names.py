"""Checks the file names that a project may use on this computer.

A name comes from the network and becomes a path below `projects/` or `slots/`. Names are compared
after case folding and normalization to Unicode's form NFC, because some file systems treat names
that differ only in these respects as equal.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

_MAX_LENGTH = 255
# Names of files of the client and of BOINC's library, in a slot or in a project's folder.
_RESERVED_NAMES = frozenset({"init_data.xml", "stderr.txt", "stdout.txt", "trickle_up.xml"})
_RESERVED_PREFIXES = ("boinc_", "trickle_down_")
_RESERVED_SUFFIXES = (".part", ".unzipped")
# Windows opens a device under these names, in any folder and with any extension.
_DEVICES = frozenset(
    {"con", "prn", "aux", "nul", "conin$", "conout$"}
    | {f"{port}{digit}" for port in ("com", "lpt") for digit in "123456789"}
)


def folded(name: str) -> str:
    """Return the form of a name for comparisons.

    >>> folded("Worker_1") == folded("worker_1")
    True
    """
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def name_fault(name: str) -> str:
    """Return the reason why a project may not use a file name, or an empty string.

    The name may contain folders.

    >>> name_fault("data/in.txt"), name_fault("../x"), name_fault("BOINC_finish_called")
    ('', "'../x' leaves its folder", "'BOINC_finish_called' is reserved for the client")
    """
    if not 0 < len(name) <= _MAX_LENGTH:
        return f"a file name has {len(name)} characters"
    if not name.isprintable():
        return f"{name!r} has control characters"
    if ".." in name or name.startswith(("/", "~")):
        return f"{name!r} leaves its folder"
    if "%" in name or "\\" in name:
        return f"{name!r} has a character that BOINC forbids"
    for part in name.split("/"):
        if not part or part.startswith(".") or part != part.rstrip(". "):
            return f"{name!r} has an empty or hidden part, or one that ends with a full stop"
        if _is_reserved(folded(part)):
            return f"{name!r} is reserved for the client"
    return ""


def file_fault(name: str) -> str:
    """Return the reason why a project may not use a physical file name, or an empty string.

    A physical name is the name of a file in the project's folder. It contains no folders, as in
    BOINC. Otherwise a program could replace a folder by a link, and the client would write or
    delete files at the target of the link.

    >>> file_fault("in_1"), file_fault("data/in_1")
    ('', "'data/in_1' is in a folder")
    """
    return name_fault(name) or (f"{name!r} is in a folder" if "/" in name else "")


def _is_reserved(part: str) -> bool:
    return (
        part in _RESERVED_NAMES
        or part.startswith(_RESERVED_PREFIXES)
        or part.endswith(_RESERVED_SUFFIXES)
        or part.partition(".")[0].strip() in _DEVICES
    )


def shared_name(names: Iterable[str]) -> str:
    """Return the first name that clashes with an earlier name, or an empty string.

    Two names clash if they are equal, or if one name is a folder in the path of the other name.

    >>> shared_name(["in", "out", "IN"]), shared_name(["a/b", "a"]), shared_name(["a", "ab"])
    ('IN', 'a', '')
    """
    taken = NameSet()
    for name in names:
        if taken.clash(name):
            return name
        taken.add(name)
    return ""


class NameSet:
    """A set of the names in one folder, which finds clashes without a search of all names."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._files: dict[str, str] = {}
        self._folders: dict[str, str] = {}
        for name in names:
            self.add(name)

    def add(self, name: str) -> None:
        """Add a name and the folders in its path."""
        key = folded(name)
        self._files[key] = name
        self._folders.update(dict.fromkeys(_parents(key), name))

    def clash(self, name: str) -> str:
        """Return a name in the set that clashes with `name`, or an empty string."""
        key = folded(name)
        for owner in (self._files.get(key), self._folders.get(key)):
            if owner is not None:
                return owner
        return next((self._files[up] for up in _parents(key) if up in self._files), "")


def _parents(key: str) -> list[str]:
    parts = key.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]
