"""Reads BOINC's templates and builds workunits from them.

Theory of operation.  A template is a text in a field of an app, in a file of ``VAR_DIR/templates``
(to which the folder `templates` of a BOINC project may be copied), or in a submission.  A template
in a field is parsed before it is stored, to report errors; every template is parsed when it is
used.  `rules.templated` makes workunits from templates and descriptions; this module resolves their
input files.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from scheduler import storage
from scheduler.boinc_submission.facts import InputTemplate, OutputTemplate
from scheduler.boinc_submission.rules.templated import (
    PlacedFile,
    RemoteFile,
    Templated,
    TwoCommandLines,
    WorkunitDescription,
    WrongFiles,
    templated,
)
from scheduler.boinc_submission.wire import template_elements
from scheduler.boinc_submission.wire import templates as wire
from scheduler.models import App
from scheduler.work.submission.facts import NewFile, NewWorkunit

BadTemplate = template_elements.BadTemplate

_MAX_NAMES_SHOWN = 10
#: The maximum number of parsed templates that are cached.
_CACHE_SIZE = 256


class NoTemplate(LookupError):
    """There is no template file of this name. Hint: put it into var/templates."""


@dataclass(frozen=True, slots=True)
class Templates:
    """The texts of two templates; if `output` is None, the app's default outputs are used."""

    input: str
    output: str | None = None


def faults(app: App, columns: Container[str]) -> Iterator[tuple[str, str]]:
    """Yield (column, error message) for each template column in `columns` with an invalid text."""
    read: Callable[[str], object]
    for column, read in (("input_template", _input), ("output_template", _output)):
        if column in columns and (text := getattr(app, column)).strip():
            try:
                read(text)
            except BadTemplate as error:
                yield column, str(error)


def wanted_files(text: str) -> int:
    """Return the number of files that a submission names per workunit; raises `BadTemplate`."""
    return _input(text).wanted


def by_name(name: str) -> str:
    """Return the text of a template file; raises `NoTemplate`, `storage.BadFileName`."""
    text = storage.read_template(name)
    if text is None:
        names = storage.template_names()
        listed = f"it contains {', '.join(names[:_MAX_NAMES_SHOWN])}" if names else "it is empty"
        msg = f"There is no template {name!r}. Hint: put it into var/templates; {listed}."
        raise NoTemplate(msg)
    return text


def of_app(app: App) -> Templates | None:
    """Return the app's templates, from its fields or from the files `<app>_in` and `<app>_out`."""
    input_text = app.input_template.strip() or storage.read_template(f"{app.name}_in")
    output_text = app.output_template.strip() or storage.read_template(f"{app.name}_out")
    return Templates(input_text, output_text or None) if input_text else None


def wrapped_texts(templates: Templates) -> tuple[str, str]:
    """Return the texts of both templates in their wrapper elements, for `get_templates`."""
    return (
        wire.wrapped(templates.input, "input_template"),
        wire.wrapped(templates.output or "", "output_template"),
    )


def workunits(
    descriptions: Sequence[tuple[Templates, WorkunitDescription]],
    *,
    app: App,
    numbers: Mapping[str, float] | None = None,
) -> list[Templated]:
    """Build a workunit from each description and its templates; input files are not resolved yet.

    `numbers` apply to all workunits.  Raises `BadTemplate`, `WrongFiles` or `TwoCommandLines`, with
    the index of the workunit in a note.
    """
    drafts = []
    for index, (templates, description) in enumerate(descriptions):
        try:
            drafts.append(
                templated(
                    description,
                    inputs=_input(templates.input),
                    outputs=_output(templates.output) if templates.output else None,
                    numbers=numbers or {},
                    defaults=app.workunit_defaults,
                )
            )
        except (BadTemplate, WrongFiles, TwoCommandLines) as fault:
            fault.add_note(str(index))
            raise
    return drafts


def with_files(draft: Templated, physical_names: Mapping[str, str]) -> NewWorkunit:
    """Return the workunit with its input files.

    `physical_names` maps the `names` of stored files and the `key_of` each remote file to physical
    names.
    """
    return replace(
        draft.workunit,
        input_files=tuple(_resolved(placed, physical_names) for placed in draft.inputs),
    )


def names(drafts: Iterable[Templated]) -> set[str]:
    """Return the names of the stored files that are inputs of the workunits."""
    return {
        name
        for draft in drafts
        for each in draft.inputs
        for name in (each.constant, each.file.known_as)
        if name is not None
    }


def number(text: str, name: str) -> float:
    """Return a number of an input template, or 0 if it is missing; raises `BadTemplate`."""
    return _input(text).numbers.get(name, 0.0)


def remotes(drafts: Iterable[Templated]) -> dict[str, RemoteFile]:
    """Return the remote files of the workunits, by the key that `key_of` returns."""
    return {
        key_of(each.remote): each.remote
        for draft in drafts
        for each in draft.inputs
        if each.remote is not None
    }


def key_of(remote: RemoteFile) -> str:
    """Return the key of a remote file: its URLs, MD5 and size, one per line.

    Names of files have no line breaks, so the key is different from all of them.
    """
    return "\n".join([*remote.urls, remote.md5, str(remote.nbytes)])


def _resolved(placed: PlacedFile, physical_names: Mapping[str, str]) -> NewFile:
    name = placed.constant
    if name is None:
        name = key_of(placed.remote) if placed.remote else placed.file.known_as
    return placed.file if name is None else replace(placed.file, known_as=physical_names[name])


@lru_cache(maxsize=_CACHE_SIZE)
def _input(text: str) -> InputTemplate:
    return wire.read_input_template(text)


@lru_cache(maxsize=_CACHE_SIZE)
def _output(text: str) -> OutputTemplate:
    return wire.read_output_template(text)
