"""Tries an app's validator on files, as the daemon would run it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Any

from django.conf import settings

from daemons.science import worker
from daemons.science.asking import ask
from daemons.science.comparison import Answer, Question
from daemons.science.interfaces import BadOptions, Brought, TransientScienceError
from daemons.science.validators import UnknownValidator, allowed
from scheduler.models import App, Workunit
from scheduler.results.rules import quorum


class WrongUse(ValueError):
    """What was asked cannot be tried. Hint: the message says what to give instead."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What is tried; `results` holds the paths of each result's outputs, by what it is called."""

    validator: str
    options: Mapping[str, Any]
    min_quorum: int
    time_limit: timedelta
    results: Mapping[str, Sequence[Path]]
    listed: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it: `verdicts` by result, and `failure` instead if the science failed."""

    names: tuple[str, ...]
    answer: Answer
    canonical: str | None
    verdicts: Mapping[str, str]
    seconds: float
    failure: str = ""
    traceback: str = ""


def results_of(files: Sequence[Path], *, outputs: int) -> dict[str, list[Path]]:
    """Each file is one result, or each folder, or each so many files; raises `WrongUse`."""
    for path in files:
        if not path.exists():
            raise WrongUse(f"There is no {path}. Hint: give one file per result, or one folder.")
    if all(path.is_dir() for path in files):
        found = {
            str(folder): sorted(path for path in folder.iterdir() if path.is_file())
            for folder in files
        }
    elif any(path.is_dir() for path in files):
        raise WrongUse("Some are files and some folders. Hint: give one kind of them.")
    elif len(files) % outputs:
        hint = "give as many for each result, those of the first result first."
        raise WrongUse(f"{len(files)} files are not {outputs} for each result. Hint: {hint}")
    else:
        found = {
            _name(files[start : start + outputs]): list(files[start : start + outputs])
            for start in range(0, len(files), outputs)
        }
    if len(found) < 2 or len({len(paths) for paths in found.values()}) > 1:  # noqa: PLR2004 - a pair
        counts = ", ".join(f"{name}: {len(paths)}" for name, paths in found.items())
        hint = "give at least two different results with as many outputs each."
        raise WrongUse(f"These cannot be compared ({counts}). Hint: {hint}")
    return found


def _name(paths: Sequence[Path]) -> str:
    return " ".join(map(str, paths))


def listed_outputs(app: App, count: int) -> tuple[str, list[dict[str, Any]]]:
    """How the app's newest workunit lists its outputs, if there are so many, with its name."""
    newest = Workunit.objects.filter(app=app).order_by("-id").first()
    if newest is None or len(newest.outputs) != count:
        return "", []
    return newest.name, newest.outputs


def parse_options(text: str) -> dict[str, Any]:
    """Options as JSON; raises `WrongUse`."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise WrongUse(f"Options {text!r} are no JSON: {error}. Hint: write an object.") from error
    if not isinstance(found, dict):
        raise WrongUse(f"Options {text!r} are no JSON object. Hint: write {{...}}.")
    return found


def run(trial: Trial) -> Outcome:
    """Compare in the worker, under the time limit; raises `WrongUse` for an unusable validator."""
    names = dict(enumerate(trial.results, 1))
    try:
        target, options, plugin = allowed(trial.validator, trial.options, settings.PLUGINS)
    except (UnknownValidator, BadOptions) as error:
        raise WrongUse(str(error)) from error
    question = Question(
        validator=target,
        options=options,
        folder=str(settings.VAR_DIR / "science"),
        results={
            number: [
                _brought(position, path, trial.listed)
                for position, path in enumerate(trial.results[name])
            ]
            for number, name in names.items()
        },
    )
    began = monotonic()
    answer, failure, traceback = Answer(), "", ""
    try:
        answer = ask(question, plugin, trial.time_limit, reads=_folders(trial))
    except TransientScienceError as error:
        failure = f"It is to be tried again later: {error}"
    except worker.ScienceFailed as error:
        failure, traceback = str(error), error.traceback
    seconds = monotonic() - began
    if answer.unusable:
        raise WrongUse(answer.unusable)
    verdicts, canonical = ({}, None) if failure else _verdicts(trial, names, answer)
    return Outcome(tuple(names.values()), answer, canonical, verdicts, seconds, failure, traceback)


def _folders(trial: Trial) -> tuple[str, ...]:
    """Return the folders of the files, so that a confined worker can read them."""
    return tuple(
        sorted({str(path.resolve().parent) for paths in trial.results.values() for path in paths})
    )


def _brought(position: int, path: Path, listed: Sequence[Mapping[str, Any]]) -> Brought:
    its: Mapping[str, Any] = listed[position] if listed else {"open_name": path.name}
    return Brought(
        position,
        its.get("open_name", ""),
        str(path.resolve()),
        hashlib.sha256(path.read_bytes()).hexdigest(),
        optional=bool(its.get("optional")),
        no_validate=bool(its.get("no_validate")),
    )


def _verdicts(
    trial: Trial, names: Mapping[int, str], answer: Answer
) -> tuple[dict[str, str], str | None]:
    candidates = [quorum.Candidate(one, None if one in answer.bad else one) for one in names]
    found = quorum.check_set(candidates, min_quorum=trial.min_quorum, agree=answer.agree)
    found = quorum.doubt(found, answer.suspicious)
    words = {
        **dict.fromkeys(names, "not judged: too few for a quorum"),
        **dict.fromkeys(found.inconclusive, "inconclusive"),
        **dict.fromkeys(found.invalid, "invalid"),
        **dict.fromkeys(found.valid, "valid"),
        **{one: f"error: {answer.bad[one]}" for one in found.missing},
    }
    for one in answer.outliers.intersection(found.valid):
        words[one] = "valid, outlier"
    canonical = found.canonical
    if canonical is not None:
        words[canonical] += ", canonical"
    return {names[one]: words[one] for one in names}, names.get(canonical or 0)
