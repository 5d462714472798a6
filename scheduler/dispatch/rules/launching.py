"""Encodes the command line of a launcher so that no client changes it.

Theory of operation.  Clients split a command line in different ways, store it in files that lose
``<`` and ``&``, and support at most 99 words.  So the launcher of an app version that is not a
BOINC program (``launcher.sh``) gets a few ``KEY=VALUE`` words, made of characters that no client
changes: every other byte is written ``%OOO`` in octal, and list items are separated by ``+``.
These words end with ``--``; the app version's own command line follows.

This module uses no database, files or clock.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from typing import Final

#: The kind of app whose workunits' command lines are shell commands.
COMMAND: Final = "command"

_UNSAFE = re.compile(rb"[^A-Za-z0-9_./,:@=-]")
#: The longest report of a runner that fits in a client's standard error output.
MAX_INLINE_BYTES: Final = 30_000

#: Represents an empty word, which shells would drop.
_EMPTY = "%"
#: Names used by the launcher and the client in a slot; the launcher refuses them.
_RESERVED = re.compile(r"(?i)_launcher.*|boinc_.*|init_data\.xml|program/.*|program")

#: The error text for apps of kind `command` if the project does not allow them.
COMMANDS_ARE_OFF: Final = (
    "apps of kind command are disabled, because the commands that they run on hosts are not "
    "signed. Hint: create a script app; or, if every host is trusted, set COMMAND_APPS=true."
)


def command_line(
    command: str,
    *,
    kind: str,
    success_rule: str,
    inputs: Iterable[str] = (),
    outputs: Iterable[str] = (),
    optional: Iterable[str] = (),
    inline_bytes: int | None = None,
) -> str:
    """Return the launcher's command line for a workunit's command line.

    `inputs` and `outputs` are the names that the program opens, in order; `optional` is the subset
    of `outputs` that may be missing.  `inline_bytes` is the maximum size of a runner's report that
    is sent inline; a longer one is sent as the first output, or refused if there is no output.

    >>> command_line("-n 3 'a b'", kind="script", success_rule="both", inputs=["in"])
    'rule=both in=in out= words=-n+3+a%040b --'
    >>> command_line("echo A; sleep 2", kind="command", success_rule="exit_code", outputs=["out"])
    'rule=exit_code in= out=out shell=echo%040A%073%040sleep%0402 --'
    """
    words = [f"rule={success_rule}", f"in={_list(inputs)}", f"out={_list(outputs)}"]
    if optional_list := _list(optional):
        words.append(f"opt={optional_list}")
    if inline_bytes is not None:
        words.append(f"inline={inline_bytes}")
    if command.strip():
        words.append(
            f"shell={encode(command)}" if kind == COMMAND else f"words={_list(_split(command))}"
        )
    return " ".join([*words, "--"])


def inline_bytes(storage: str, limit: int, *, has_outputs: bool) -> int:
    """Return the maximum size of a runner's report that is sent inline.

    Without outputs there is no file, so every report is sent inline.

    >>> inline_bytes("auto", 100, has_outputs=True), inline_bytes("file", 100, has_outputs=True)
    (100, 0)
    """
    if storage == "inline" or not has_outputs:
        return MAX_INLINE_BYTES
    return 0 if storage == "file" else limit


def refused_names(names: Iterable[str]) -> list[str]:
    """Return the names of inputs and outputs that the launcher refuses, each once.

    It refuses names that lead out of the slot, names that the client or the launcher uses, and
    names that differ from an earlier name only in case.

    >>> refused_names(["in", "../x", "BOINC_x", "Out", "out"])
    ['../x', 'BOINC_x', 'out']
    """
    seen: set[str] = set()
    refused: dict[str, None] = {}
    for name in names:
        folded = name.lower()
        parts = name.split("/")
        leads_out = ".." in name or "\\" in name or "\n" in name or not {"", "."}.isdisjoint(parts)
        if leads_out or _RESERVED.fullmatch(name) or folded in seen:
            refused[name] = None
        seen.add(folded)
    return list(refused)


def encode(text: str) -> str:
    """Encode a text in characters that no client or shell changes.

    >>> encode("it's <5%")
    'it%047s%040%0745%045'
    """
    escaped = _UNSAFE.sub(lambda match: b"%%%03o" % match[0][0], text.encode())
    return escaped.decode("ascii") or _EMPTY


def _list(words: Iterable[str]) -> str:
    return "+".join(encode(word) for word in words)


def _split(command: str) -> list[str]:
    """Split a command like a shell without expansion, or at blanks if quotes are unbalanced."""
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()
