"""Results are judged by a program of the scientist's own, by its exit status.

For each result ``PROGRAM init FILE...`` says whether its outputs can be read, for each two
``PROGRAM compare FILE... OTHER_FILE...`` whether they agree: 0 yes, 1 no, 3 try again later.  Any
other end is a fault of the program.  Source: the manners of BOINC's script validator, whose two
scripts can be named by options.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from daemons.science.checking import checked, number, text, texts
from daemons.science.interfaces import BadOptions, BadOutput, TransientScienceError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from daemons.science.interfaces import Brought, Options

FILES, OTHER_FILES = "{files}", "{other_files}"
_INIT, _COMPARE = ("init", FILES), ("compare", FILES, OTHER_FILES)
_LAST_WORDS = 4000
_PR_SET_PDEATHSIG = 1


class ScriptFailed(Exception):
    """The program ended neither with yes nor with no; the message has the end of what it said."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The options as they are applied: words, a program and exit statuses."""

    init: tuple[str, ...] | None = _INIT
    compare: tuple[str, ...] = _COMPARE
    compare_program: str = ""
    invalid: int = 1
    transient: int = 3
    time_limit: float | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """The paths of a result's compared outputs (None: an optional one left out), and the rules."""

    paths: tuple[str | None, ...]
    rules: Rules


@dataclass(frozen=True, slots=True)
class Script:
    """A program as a validator; `program` is its path."""

    program: str

    def check_options(self, options: Options) -> None:
        """Raise `BadOptions`."""
        _rules(options)

    def prepare(self, outputs: Sequence[Brought], options: Options) -> Evidence | None:
        """Ask the program whether a result's outputs can be read; raises `BadOutput` if not."""
        if any(output.is_missed for output in outputs):
            return None
        paths = tuple(
            None if output.sha256 is None else output.path
            for output in outputs
            if not output.no_validate
        )
        rules = _rules(options)
        evidence = Evidence(paths, rules)
        if rules.init is not None:
            command = [self.program, *_filled(rules.init, evidence)]
            if not _says_yes(command, rules):
                raise BadOutput(f"{self.program} says that the outputs are not valid.")
        return evidence

    def agree(self, one: Evidence, other: Evidence) -> bool:
        """Ask the program; results that left out different optional outputs do not agree."""
        if [path is None for path in one.paths] != [path is None for path in other.paths]:
            return False
        program = Path(self.program).parent / (one.rules.compare_program or self.program)
        return _says_yes([str(program), *_filled(one.rules.compare, one, other)], one.rules)


def _says_yes(command: list[str], rules: Rules) -> bool:
    status, said = _run(command, rules.time_limit)
    if status in (0, rules.invalid):
        return status == 0
    sentence = f"{' '.join(command[:2])} ended with {_ending(status)}"
    if status == rules.transient:
        raise TransientScienceError(f"{sentence}: try again later. {said}".rstrip())
    raise ScriptFailed(f"{sentence}.\n{said}".rstrip())


def _run(command: list[str], seconds: float | None) -> tuple[int, str]:
    """Run a program to its end; its exit status, and the end of what it said on either channel."""
    with tempfile.TemporaryFile() as said:
        try:
            process = subprocess.Popen(  # noqa: S603 - the program that the operator chose
                command,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                preexec_fn=_end_with_worker,  # noqa: PLW1509 - the worker has no other threads
            )
        except BlockingIOError as error:
            raise TransientScienceError(f"{command[0]} cannot be started now: {error}") from error
        except OSError as error:
            hint = "Hint: is it there, executable, and does its first line name its interpreter?"
            raise ScriptFailed(f"{command[0]} cannot be started: {error}. {hint}") from error
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            words = f"{' '.join(command[:2])} was killed after {seconds:g} s.\n{_end_of(said)}"
            raise ScriptFailed(words.rstrip()) from None
        return status, _end_of(said)


def _end_of(said: IO[bytes]) -> str:
    size = said.seek(0, os.SEEK_END)
    said.seek(max(0, size - _LAST_WORDS))
    return said.read().decode(errors="replace")


def _filled(words: Sequence[str], one: Evidence, other: Evidence | None = None) -> list[str]:
    """Put the paths where the words say that they stand."""
    filled: list[str] = []
    for word in words:
        if word == FILES:
            filled += [path for path in one.paths if path is not None]
        elif word == OTHER_FILES and other is not None:
            filled += [path for path in other.paths if path is not None]
        else:
            filled.append(word)
    return filled


def _rules(options: Options) -> Rules:
    rules = Rules(**checked("script", options, _OPTIONS))
    if rules.invalid == rules.transient:
        hint = "'invalid' and 'transient' must differ."
        raise BadOptions(f"Exit status {rules.invalid} means two things. Hint: {hint}")
    return rules


def _words(*needed: str) -> Callable[[Any], tuple[str, ...]]:
    """Words of a command line, among them those that stand for the files."""

    def read(value: object) -> tuple[str, ...]:
        words: tuple[str, ...] = texts(value)
        if not set(needed) <= set(words):
            raise ValueError(f"a list of texts with {' and '.join(needed)}")
        return words

    return read


def _init_words(value: object) -> tuple[str, ...] | None:
    """False leaves the first question out."""
    return None if value is False else _words(FILES)(value)


def _exit_status(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 255:  # noqa: PLR2004 - a byte
        raise ValueError("an exit status from 1 to 255")
    return value


_OPTIONS: dict[str, Callable[[Any], Any]] = {
    "init": _init_words,
    "compare": _words(FILES, OTHER_FILES),
    "compare_program": text,
    "invalid": _exit_status,
    "transient": _exit_status,
    "time_limit": number(0.1, 86_400),
}


def _ending(status: int) -> str:
    return f"exit status {status}" if status >= 0 else signal.Signals(-status).name


def _end_with_worker() -> None:
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
