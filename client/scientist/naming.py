"""Where files of an archive may go: names that stay in their folder [pure]."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

from scientist.errors import UnsafeName

_WORKUNIT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+=-]{0,199}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_DEVICES = {"con", "prn", "aux", "nul", "conin$", "conout$"}
_DEVICES |= {f"{name}{number}" for name in ("com", "lpt") for number in "0123456789¹²³"}
_UNFIT = re.compile(r'[\x00-\x1f\x7f:*?"<>|]')
_UNWINDOWS = re.compile(r'[<>:"|?*]|[. ]$')


def workunit_name(name: str) -> str:
    """Let the name of a workunit through.  Raises UnsafeName.

    >>> workunit_name("fold-1_a.pdb")
    'fold-1_a.pdb'
    """
    if not _WORKUNIT.fullmatch(name) or ".." in name:
        raise UnsafeName(f"{name[:80]!r} is no name of a workunit; nothing of it was written.")
    return name


def parts_of(name: str, *, windows: bool = sys.platform == "win32") -> tuple[str, ...]:
    """The folders and the file of a relative path.  Raises UnsafeName.

    On Windows, what its file systems take for a device or for a stream is refused as well.

    >>> parts_of("out/frame 1.png")
    ('out', 'frame 1.png')
    """
    parts = tuple(name.split("/"))
    leads_out = not all(parts) or bool({".", ".."} & set(parts)) or "\\" in name
    is_strange = bool(_CONTROL.search(name) or re.match(r"[A-Za-z]:", name))
    if leads_out or is_strange or (windows and any(map(_is_strange_to_windows, parts))):
        hint = "ask the project what this is; nothing was written there."
        raise UnsafeName(f"The archive has a file with the unsafe name {name[:120]!r}.", hint)
    return parts


def member_name(open_name: str) -> str:
    """The name that an archive gives an output: what no file system takes is an underscore.

    >>> member_name("a/b:c*.txt")
    'a/b_c_.txt'
    """
    words = open_name.replace("\\", "/").split("/")
    safe = ["_" if one in {"", ".", ".."} else _UNFIT.sub("_", one) for one in words]
    return "/".join(safe)


def _is_strange_to_windows(part: str) -> bool:
    return part.partition(".")[0].strip().lower() in _DEVICES or bool(_UNWINDOWS.search(part))


def flat_names(workunit: str, open_names: Sequence[str]) -> list[str]:
    """Names for all outputs of a workunit in one folder.

    The extension of each, if that tells them apart, or the whole name; then a number.  Names
    that differ in case alone are one name to many a file system.

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
