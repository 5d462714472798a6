"""BOINC's templates: the one door by which other rooms use them.

Theory of operation.  A template is text, and stays text where it is kept: in an app's two fields,
in a file of ``VAR_DIR/templates`` (where a BOINC project's own folder of that name may be put), or
in a submission.  It is read when it is written down, so that faults are found there, and again when
it is used.  `rules.templated` makes workunits of a template and descriptions; this
module finds the files that they name.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from scheduler import storage
from scheduler.boinc_submission.facts import InputTemplate, OutputTemplate
from scheduler.boinc_submission.rules.templated import (
    Described,
    GivenFile,
    Placed,
    RemoteFile,
    Templated,
    TwoCommandLines,
    WrongFiles,
    templated,
)
from scheduler.boinc_submission.wire import templates as wire
from scheduler.boinc_submission.wire.template_elements import BadTemplate
from scheduler.models import App
from scheduler.work.submission.facts import NewFile, NewWorkunit

__all__ = [
    "BadTemplate",
    "Described",
    "GivenFile",
    "NoTemplate",
    "RemoteFile",
    "Templated",
    "Templates",
    "TwoCommandLines",
    "WrongFiles",
    "check",
    "faults",
    "named",
    "of_app",
    "said",
    "wanted_files",
    "workunits",
]

_SHOWN = 10
#: So many different templates are kept read.
_KEPT = 256


class NoTemplate(LookupError):
    """There is no such template. Hint: the message says where one is looked for."""


@dataclass(frozen=True, slots=True)
class Templates:
    """The texts that describe workunits; without an output template the app's outputs hold."""

    input: str
    output: str | None = None


def check(text: str, *, kind: str | None = None) -> tuple[str, ...]:
    """Read a template that somebody wants to keep; returns warnings, raises `BadTemplate`.

    `kind` is ``input`` or ``output``; None finds out.  An empty text is no template, and fine.
    """
    if not text.strip():
        return ()
    if kind == "input" or (kind is None and wire.is_input_template(text)):
        return _input(text).warnings
    return _output(text).warnings


def faults(app: App, columns: Container[str]) -> Iterator[tuple[str, str]]:
    """Yield each template column among `columns` whose text is no template, and why."""
    for kind in ("input", "output"):
        column = f"{kind}_template"
        if column in columns:
            try:
                check(getattr(app, column), kind=kind)
            except BadTemplate as error:
                yield column, str(error)


def wanted_files(text: str) -> int:
    """How many files a submission names for each workunit; raises `BadTemplate`."""
    return _input(text).wanted


def named(name: str) -> str:
    """The text of a template file; raises `NoTemplate`, `storage.BadFileName`."""
    found = storage.read_template(name)
    if found is None:
        known = storage.template_names()
        there = f"there are {', '.join(known[:_SHOWN])}" if known else "there is none yet"
        msg = f"There is no template {name!r}. Hint: staff puts it into var/templates; {there}."
        raise NoTemplate(msg)
    return found


def of_app(app: App) -> Templates | None:
    """The app's own templates: of its fields, or of the files that BOINC would take for it."""
    given = app.input_template.strip() or storage.read_template(f"{app.name}_in")
    brought = app.output_template.strip() or storage.read_template(f"{app.name}_out")
    return Templates(given, brought or None) if given else None


def said(templates: Templates) -> tuple[str, str]:
    """Both templates as `get_templates` says them, each in its wrapper."""
    return (
        wire.wrapped(templates.input, "input_template"),
        wire.wrapped(templates.output or "", "output_template"),
    )


def workunits(
    described: Sequence[tuple[Templates, Described]],
    *,
    app: App,
    numbers: Mapping[str, float] | None = None,
) -> list[Templated]:
    """What each description and its templates make together; the input files are to be found yet.

    `numbers` hold for all of them.  Raises `BadTemplate`, `WrongFiles`, `TwoCommandLines`, the
    latter two with the number of the workunit in a note.
    """
    made = []
    for index, (templates, one) in enumerate(described):
        try:
            made.append(
                templated(
                    one,
                    inputs=_input(templates.input),
                    outputs=_output(templates.output) if templates.output else None,
                    numbers=numbers or {},
                    defaults=app.workunit_defaults,
                )
            )
        except (BadTemplate, WrongFiles, TwoCommandLines) as fault:
            fault.add_note(str(index))
            raise
    return made


def finished(made: Templated, found: Mapping[str, str]) -> NewWorkunit:
    """The workunit with its files, `found` saying the physical name of each that has one already.

    Its keys are the `names` of files that are known, and the `key_of` each that lies elsewhere.
    """
    return replace(
        made.workunit, input_files=tuple(_finished(placed, found) for placed in made.inputs)
    )


def names(made: Iterable[Templated]) -> set[str]:
    """The names of the files that some workunits need and that must be known already."""
    return {
        name
        for one in made
        for each in one.inputs
        for name in (each.constant, each.file.known_as)
        if name is not None
    }


def number(text: str, name: str) -> float:
    """A number that an input template says, 0 if it does not; raises `BadTemplate`."""
    return _input(text).numbers.get(name, 0.0)


def remotes(made: Iterable[Templated]) -> dict[str, RemoteFile]:
    """The files that hosts fetch elsewhere, by their `key_of`."""
    return {
        key_of(each.remote): each.remote
        for one in made
        for each in one.inputs
        if each.remote is not None
    }


def key_of(remote: RemoteFile) -> str:
    """What tells a file elsewhere from others: addresses, MD5 and size; never a file's name."""
    return "\n".join([*remote.urls, remote.md5, str(remote.nbytes)])


def _finished(placed: Placed, found: Mapping[str, str]) -> NewFile:
    if placed.constant is not None:
        return replace(placed.file, known_as=found[placed.constant])
    if placed.remote is not None:
        return replace(placed.file, known_as=found[key_of(placed.remote)])
    if placed.file.known_as is not None:
        return replace(placed.file, known_as=found[placed.file.known_as])
    return placed.file


@lru_cache(maxsize=_KEPT)
def _input(text: str) -> InputTemplate:
    return wire.read_input_template(text)


@lru_cache(maxsize=_KEPT)
def _output(text: str) -> OutputTemplate:
    return wire.read_output_template(text)
