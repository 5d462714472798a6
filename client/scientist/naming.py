"""Checks that names in archives are valid and stay in the target folder."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

from scientist.errors import UnsafeName

_WORKUNIT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+=-]{0,199}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_DEVICES = {"con", "prn", "aux", "nul", "conin$", "conout$"}
_DEVICES |= {f"{name}{number}" for name in ("com", "lpt") for number in "0123456789¹²³"}
_REPLACED = re.compile(r'[\x00-\x1f\x7f:*?"<>|]')
_INVALID_ON_WINDOWS = re.compile(r'[<>:"|?*]|[. ]$')


def workunit_name(name: str) -> str:
    """Return the name unchanged if it is a valid workunit name; else raise UnsafeName.

    >>> workunit_name("fold-1_a.pdb")
    'fold-1_a.pdb'
    """
    if not _WORKUNIT.fullmatch(name) or ".." in name:
        raise UnsafeName(f"{name[:80]!r} is not a valid workunit name; its files were not written.")
    return name


def parts_of(name: str, *, windows: bool = sys.platform == "win32") -> tuple[str, ...]:
    """Split a relative path into its folders and its file name.

    Raises UnsafeName if the path leaves its folder or has control characters, and on Windows if it
    contains the name of a device (``con``, ...) or an invalid character.

    >>> parts_of("out/frame 1.png")
    ('out', 'frame 1.png')
    """
    parts = tuple(name.split("/"))
    leaves_folder = not all(parts) or bool({".", ".."} & set(parts)) or "\\" in name
    is_invalid = bool(_CONTROL.search(name) or re.match(r"[A-Za-z]:", name))
    if leaves_folder or is_invalid or (windows and any(map(_is_invalid_on_windows, parts))):
        hint = "ask the project's staff about this file; it was not written."
        raise UnsafeName(f"The archive has a file with the unsafe name {name[:120]!r}.", hint)
    return parts


def member_name(open_name: str) -> str:
    """Convert an open_name to a name in an archive, with ``_`` in place of invalid characters.

    >>> member_name("a/b:c*.txt")
    'a/b_c_.txt'
    """
    parts = open_name.replace("\\", "/").split("/")
    safe = ["_" if part in {"", ".", ".."} else _REPLACED.sub("_", part) for part in parts]
    return "/".join(safe)


def _is_invalid_on_windows(part: str) -> bool:
    return part.partition(".")[0].strip().lower() in _DEVICES or bool(
        _INVALID_ON_WINDOWS.search(part)
    )


def flat_names(workunit: str, open_names: Sequence[str]) -> list[str]:
    """Return unique file names for the outputs of a workunit in one folder.

    A file name is the workunit's name with the extension of the output.  If two outputs have the
    same extension, the whole open_name replaces the extension.  A number is added to duplicates.
    Names that differ only in case are duplicates, because some file systems ignore case.

    >>> flat_names("w1", ["out"]), flat_names("w1", ["a.csv"]), flat_names("w1", ["a.t", "b.t"])
    (['w1.out'], ['w1.csv'], ['w1.a.t', 'w1.b.t'])
    >>> flat_names("w1", ["a/b", "a_b", "A_B"])
    ['w1.a_b', 'w1.a_b.2', 'w1.A_B.3']
    """
    last = [name.rpartition("/")[2] for name in open_names]
    short = [name.rpartition(".")[2] or name for name in last]
    if len({name.casefold() for name in short}) < len(short):
        short = [name.replace("/", "_") for name in open_names]
    ends: dict[str, str] = {}
    for name in short:
        end, number = name, 1
        while end.casefold() in ends:
            number += 1
            end = f"{name}.{number}"
        ends[end.casefold()] = end
    return [f"{workunit}.{end}" for end in ends.values()]
