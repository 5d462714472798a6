"""Validates results by the exit status of a program.

``PROGRAM init FILE...`` is called for each result to check that its outputs can be read.
``PROGRAM compare FILE... OTHER_FILE...`` is called for each pair of results to check whether they
agree.  Exit status 0 means yes, 1 means no, and 3 requests a retry.  Any other exit status is a
failure of the program.  Options can set other arguments, statuses and a second program, as in
BOINC's script validator.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from daemons.science.checking import checked, number, text, texts
from daemons.science.interfaces import BadOptions, BadOutput, TransientScienceError
from daemons.science.kernel import die_with_parent, ending

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from daemons.science.interfaces import Options, ReportedOutput

FILES, OTHER_FILES = "{files}", "{other_files}"
_INIT, _COMPARE = ("init", FILES), ("compare", FILES, OTHER_FILES)
_MAX_EXCERPT = 4000


class ScriptFailed(Exception):
    """The program failed without a verdict.  The error text contains the end of its output."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The parsed options of the script validator.

    `init` and `compare` are the arguments of the two calls; if `init` is None, there is no first
    call.  `compare_program` is the program of the second call, or empty if it is the same program.
    `invalid` and `transient` are the exit statuses for "no" and for a retry.  `time_limit` is the
    time limit of each call in seconds.
    """

    init: tuple[str, ...] | None = _INIT
    compare: tuple[str, ...] = _COMPARE
    compare_program: str = ""
    invalid: int = 1
    transient: int = 3
    time_limit: float | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """The paths of a result's compared outputs, and the parsed options of the validator.

    The path of a missing, optional output is None.
    """

    paths: tuple[str | None, ...]
    rules: Rules


@dataclass(frozen=True, slots=True)
class Script:
    """A validator that runs the program with the path `program`."""

    program: str

    def check_options(self, options: Options) -> None:
        """Raise `BadOptions` if an option is not valid."""
        _rules(options)

    def prepare(self, outputs: Sequence[ReportedOutput], options: Options) -> Evidence | None:
        """Run the program to check a result's outputs; raises `BadOutput` if they are not valid."""
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
            if not _accepts(command, rules):
                raise BadOutput(f"{self.program} reports that the outputs are not valid.")
        return evidence

    def agree(self, first: Evidence, second: Evidence) -> bool:
        """Run the program to compare two results; they must have the same optional outputs."""
        if [path is None for path in first.paths] != [path is None for path in second.paths]:
            return False
        program = Path(self.program).parent / (first.rules.compare_program or self.program)
        return _accepts([str(program), *_filled(first.rules.compare, first, second)], first.rules)


def _accepts(command: list[str], rules: Rules) -> bool:
    status, excerpt = _run(command, rules.time_limit)
    if status in (0, rules.invalid):
        return status == 0
    sentence = f"{' '.join(command[:2])} ended with {ending(status)}"
    if status == rules.transient:
        raise TransientScienceError(f"{sentence}: try again later. {excerpt}".rstrip())
    raise ScriptFailed(f"{sentence}.\n{excerpt}".rstrip())


def _run(command: list[str], seconds: float | None) -> tuple[int, str]:
    """Run a program; return its exit status and the end of its standard output and error."""
    with tempfile.TemporaryFile() as output:
        process = start(command, output, output)
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            excerpt = end_of(output, _MAX_EXCERPT)
            words = f"{' '.join(command[:2])} was killed after {seconds:g} s.\n{excerpt}"
            raise ScriptFailed(words.rstrip()) from None
        return status, end_of(output, _MAX_EXCERPT)


def start(
    command: list[str], stdout: IO[bytes], stderr: IO[bytes], **options: Any
) -> subprocess.Popen[bytes]:
    """Start a program in the worker's process group; it ends when the worker ends.

    Raises `ScriptFailed`, or `TransientScienceError` for a lack of processes or memory.
    """
    try:
        return subprocess.Popen(  # noqa: S603 - the program that the operator chose
            command,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            preexec_fn=partial(die_with_parent, os.getpid(), signal.SIGKILL),  # noqa: PLW1509 - the worker has no other threads
            **options,
        )
    except BlockingIOError as error:
        raise TransientScienceError(f"{command[0]} cannot be started now: {error}") from error
    except OSError as error:
        hint = "Hint: does it exist, is it executable, and is its interpreter installed?"
        raise ScriptFailed(f"{command[0]} cannot be started: {error}. {hint}") from error


def end_of(file: IO[bytes], nbytes: int) -> str:
    """Return the last `nbytes` of a file as text."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - nbytes))
    return file.read().decode(errors="replace")


def _filled(words: Sequence[str], first: Evidence, second: Evidence | None = None) -> list[str]:
    """Return a command line with paths in place of the placeholders for files."""
    filled: list[str] = []
    for word in words:
        if word == FILES:
            filled += [path for path in first.paths if path is not None]
        elif word == OTHER_FILES and second is not None:
            filled += [path for path in second.paths if path is not None]
        else:
            filled.append(word)
    return filled


def _rules(options: Options) -> Rules:
    rules = Rules(**checked("script", options, _OPTIONS))
    if rules.invalid == rules.transient:
        hint = "'invalid' and 'transient' must differ."
        raise BadOptions(f"Exit status {rules.invalid} is set for two options. Hint: {hint}")
    return rules


def _words(*needed: str) -> Callable[[Any], tuple[str, ...]]:
    """Return a reader of the words of a command line, which must include `needed`."""

    def read(value: object) -> tuple[str, ...]:
        words: tuple[str, ...] = texts(value)
        if not set(needed) <= set(words):
            raise ValueError(f"a list of texts with {' and '.join(needed)}")
        return words

    return read


def _init_words(value: object) -> tuple[str, ...] | None:
    """Return the words of the `init` command, or None if the option is false."""
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
