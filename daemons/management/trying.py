"""Runs an app's validator on files, as the daemon would."""

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
from daemons.science.comparison import Answer, Question
from daemons.science.interfaces import BadOptions, ReportedOutput, TransientScienceError
from daemons.science.validators import allowed
from scheduler.apps.rules.plugins import UnknownPlugin
from scheduler.models import App, Workunit
from scheduler.results.rules import quorum


class UsageError(ValueError):
    """The arguments are not valid. Hint: see the error text."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A validator and its input.

    `results` maps the names of results to the paths of their outputs.
    """

    validator: str
    options: Mapping[str, Any]
    min_quorum: int
    time_limit: timedelta
    results: Mapping[str, Sequence[Path]]
    listed: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a trial.

    `verdicts` maps the names of results to verdicts.  It is empty if the validator failed; then
    `failure` is the error.
    """

    names: tuple[str, ...]
    answer: Answer
    canonical: str | None
    verdicts: Mapping[str, str]
    seconds: float
    failure: str = ""
    traceback: str = ""


def results_of(files: list[Path], *, outputs: int) -> dict[str, list[Path]]:
    """Return the output files of each result, by the result's name.

    Each folder is one result.  If `files` are not folders, each group of `outputs` files is one
    result.  Raises `UsageError`.
    """
    for path in files:
        if not path.exists():
            raise UsageError(
                f"{path} does not exist. Hint: give one file or one folder per result."
            )
    if all(path.is_dir() for path in files):
        results = {
            str(folder): sorted(path for path in folder.iterdir() if path.is_file())
            for folder in files
        }
    elif any(path.is_dir() for path in files):
        raise UsageError("Files and folders cannot be mixed. Hint: give either files or folders.")
    elif len(files) % outputs:
        hint = "give the same number of files for each result, result by result."
        raise UsageError(
            f"{len(files)} files cannot be divided into {outputs} per result. Hint: {hint}"
        )
    else:
        results = {
            " ".join(map(str, files[start : start + outputs])): files[start : start + outputs]
            for start in range(0, len(files), outputs)
        }
    if len(results) < 2 or len({len(paths) for paths in results.values()}) > 1:  # noqa: PLR2004 - a pair
        counts = ", ".join(f"{name}: {len(paths)}" for name, paths in results.items())
        hint = "give at least two different results with the same number of outputs."
        raise UsageError(f"The results cannot be compared ({counts}). Hint: {hint}")
    return results


def listed_outputs(app: App, count: int) -> tuple[str, list[dict[str, Any]]]:
    """Return the name and output list of the app's newest workunit.

    Both are empty unless this workunit has `count` outputs.
    """
    newest = Workunit.objects.filter(app=app).order_by("-id").first()
    if newest is None or len(newest.outputs) != count:
        return "", []
    return newest.name, newest.outputs


def parse_options(text: str) -> dict[str, Any]:
    """Parse options from JSON; raises `UsageError`."""
    try:
        options = json.loads(text)
    except ValueError as error:
        raise UsageError(
            f"Options {text!r} are not JSON: {error}. Hint: write an object."
        ) from error
    if not isinstance(options, dict):
        raise UsageError(f"Options {text!r} are not a JSON object. Hint: write {{...}}.")
    return options


def run(trial: Trial) -> Outcome:
    """Run the validator in a worker and return the outcome.

    Raises `UsageError` if the validator cannot be used.
    """
    names = dict(enumerate(trial.results, 1))
    try:
        target, options, plugin = allowed(trial.validator, trial.options, settings.PLUGINS)
    except (UnknownPlugin, BadOptions) as error:
        raise UsageError(str(error)) from error
    question = Question(
        validator=target,
        options=options,
        folder=str(settings.VAR_DIR / "science"),
        results={
            number: [
                _reported_output(position, path, trial.listed)
                for position, path in enumerate(trial.results[name])
            ]
            for number, name in names.items()
        },
    )
    began = monotonic()
    answer, failure, traceback = Answer(), "", ""
    try:
        # A confined worker can read only these folders.
        folders = {str(path.resolve().parent) for paths in trial.results.values() for path in paths}
        reads = tuple(sorted(folders))
        answer = worker.compare(question, plugin, trial.time_limit, reads=reads)
    except TransientScienceError as error:
        failure = f"transient, try again later: {error}"
    except worker.ScienceFailed as error:
        failure, traceback = str(error), error.traceback
    seconds = monotonic() - began
    if answer.unusable:
        raise UsageError(answer.unusable)
    verdicts, canonical = ({}, None) if failure else _verdicts(trial, names, answer)
    return Outcome(tuple(names.values()), answer, canonical, verdicts, seconds, failure, traceback)


def _reported_output(
    position: int, path: Path, listed: Sequence[Mapping[str, Any]]
) -> ReportedOutput:
    entry: Mapping[str, Any] = listed[position] if listed else {"open_name": path.name}
    return ReportedOutput(
        position,
        entry.get("open_name", ""),
        str(path.resolve()),
        hashlib.sha256(path.read_bytes()).hexdigest(),
        optional=bool(entry.get("optional")),
        no_validate=bool(entry.get("no_validate")),
    )


def _verdicts(
    trial: Trial, names: Mapping[int, str], answer: Answer
) -> tuple[dict[str, str], str | None]:
    candidates = [
        quorum.Candidate(number, None if number in answer.bad else number) for number in names
    ]
    consensus = quorum.check_set(candidates, min_quorum=trial.min_quorum, agree=answer.agree)
    consensus = quorum.doubt_suspicious(consensus, answer.suspicious)
    words = {
        **dict.fromkeys(names, "not judged: too few for a quorum"),
        **dict.fromkeys(consensus.inconclusive, "inconclusive"),
        **dict.fromkeys(consensus.invalid, "invalid"),
        **dict.fromkeys(consensus.valid, "valid"),
        **{number: f"error: {answer.bad[number]}" for number in consensus.missing},
    }
    for number in answer.outliers.intersection(consensus.valid):
        words[number] = "valid, outlier"
    canonical = consensus.canonical
    if canonical is not None:
        words[canonical] += ", canonical"
    return {names[number]: words[number] for number in names}, names.get(canonical or 0)
