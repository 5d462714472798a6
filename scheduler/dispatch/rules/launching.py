"""How a launcher is told what to run, so that it survives every client [pure].

Theory of operation.  Clients split a command line in ways of their own, keep it in files in which
``<`` and ``&`` are lost, and know at most 99 words.  So the launcher of an app version that is no
BOINC program (``launcher.sh``) gets a few ``KEY=VALUE`` words, each of letters that no client
changes: every other byte is written ``%OOO`` in octal, and lists have ``+`` between.  Then come
``--`` and the words that the version itself wants.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from typing import Final

#: The kind of app whose workunits' command lines are a shell's.
COMMAND: Final = "command"

_TOUCHED = re.compile(rb"[^A-Za-z0-9_./,:@=-]")
#: Shells drop empty words: this stands for one.
_EMPTY = "%"
#: Names that the launcher and the client use in a slot; the launcher refuses them.
_RESERVED = re.compile(r"(?i)_launcher.*|boinc_.*|init_data\.xml|program/.*|program")

#: The error text where kind `command` is refused.
COMMANDS_ARE_OFF: Final = (
    "apps of kind command are switched off: the commands they run on hosts are not signed. "
    "Hint: make a script app; or, if every host is trusted, set COMMAND_APPS=true."
)


def command_line(
    said: str,
    *,
    kind: str,
    success_rule: str,
    inputs: Iterable[str] = (),
    outputs: Iterable[str] = (),
    optional: Iterable[str] = (),
) -> str:
    """What a client is told to start a program with, from a workunit's command line.

    `inputs` and `outputs` are the names that the program opens, in their order; the `optional`
    outputs are among them.

    >>> command_line("-n 3 'a b'", kind="script", success_rule="both", inputs=["in"])
    'rule=both in=in out= words=-n+3+a%040b --'
    >>> command_line("echo A; sleep 2", kind="command", success_rule="exit_code", outputs=["out"])
    'rule=exit_code in= out=out shell=echo%040A%073%040sleep%0402 --'
    """
    words = [f"rule={success_rule}", f"in={_list(inputs)}", f"out={_list(outputs)}"]
    if may_lack := _list(optional):
        words.append(f"opt={may_lack}")
    if said.strip():
        words.append(f"shell={encode(said)}" if kind == COMMAND else f"words={_list(_split(said))}")
    return " ".join([*words, "--"])


def refused_names(names: Iterable[str]) -> list[str]:
    """Return the names of inputs and outputs that the launcher refuses, each once.

    It refuses names that lead out of the slot, that the client or the launcher uses itself, or that
    differ from another only in upper and lower case.

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
    """Write a text in letters that nobody touches.

    >>> encode("it's <5%")
    'it%047s%040%0745%045'
    """
    escaped = _TOUCHED.sub(lambda found: b"%%%03o" % found[0][0], text.encode())
    return escaped.decode("ascii") or _EMPTY


def _list(words: Iterable[str]) -> str:
    return "+".join(encode(word) for word in words)


def _split(said: str) -> list[str]:
    """Split as a shell does, but expand nothing; what has unbalanced quotes, at blanks."""
    try:
        return shlex.split(said)
    except ValueError:
        return said.split()
