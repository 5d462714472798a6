"""Compares the results of a workunit by a validator, in the worker process."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daemons.science.interfaces import BadOptions, BadOutput, ReportedOutput, TransientScienceError
from daemons.science.messages import BadMessage, a_list, a_text, an_object, one_of
from daemons.science.validators import find
from scheduler.apps.rules.plugins import UnknownPlugin

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from daemons.science.interfaces import Validator

#: The function that a daemon calls in the worker.
TARGET = f"{__name__}:compare_message"


@dataclass(frozen=True, slots=True)
class Question:
    """The results to compare, by id, with their outputs.

    `validator` is the name of a built-in validator, or a target of the allow-list.  If `canonical`
    is set, the other results are compared only with this result.  Otherwise, results are compared
    only if at least `at_least` of them are readable.  `folder` contains the project's own science
    programs and modules.
    """

    validator: str
    options: Mapping[str, Any]
    folder: str
    results: Mapping[int, Sequence[ReportedOutput]]
    canonical: int | None = None
    at_least: int = 1

    def message(self) -> dict[str, Any]:
        """Return the question as JSON; `results` is a list, because JSON has no integer keys."""
        message = asdict(self)
        return {**message, "results": list(message["results"].items())}


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of a comparison by the validator.

    `bad` maps result ids to the reason why their outputs cannot be read.  `agreeing` contains the
    pairs of results that agree, the lower id first.  `suspicious` results must not be accepted
    unless another result agrees.  The run times of `outliers` are not used for averages.
    `unusable` is the error if the validator cannot be used at all.
    """

    bad: Mapping[int, str] = field(default_factory=dict)
    agreeing: frozenset[tuple[int, int]] = frozenset()
    outliers: frozenset[int] = frozenset()
    suspicious: frozenset[int] = frozenset()
    unusable: str = ""

    def agree(self, first: int, second: int) -> bool:
        """Return whether two results agree; a result agrees with itself."""
        return first == second or (min(first, second), max(first, second)) in self.agreeing


def compare_message(question: dict[str, Any]) -> dict[str, Any]:
    """Call `compare` in the worker; the question and the answer are JSON."""
    results = {
        result_id: [ReportedOutput(**output) for output in outputs]
        for result_id, outputs in question["results"]
    }
    answer = compare(Question(**{**question, "results": results}))
    return {
        "bad": [[result_id, why] for result_id, why in answer.bad.items()],
        "agreeing": [list(pair) for pair in answer.agreeing],
        "outliers": list(answer.outliers),
        "suspicious": list(answer.suspicious),
        "unusable": answer.unusable,
    }


def read_answer(question: Question, value: object) -> Answer:
    """Read the worker's answer to a question; raises `BadMessage`.

    The answer may contain only results of the question.  The lower id of a pair must be the first.
    """
    names = ("bad", "agreeing", "outliers", "suspicious", "unusable")
    answer = an_object(value, "The answer", names)
    result_ids = question.results.keys()
    count = len(result_ids)
    bad = {}
    for entry in a_list(answer["bad"], "bad", count):
        result_id, why = _pair(entry, "an entry of bad")
        bad[one_of(result_id, "a bad result", result_ids)] = a_text(why, "a reason")
    readable = result_ids - bad.keys()
    agreeing = set()
    for entry in a_list(answer["agreeing"], "agreeing", count * (count - 1) // 2):
        result_id, other_id = (
            one_of(each, "an agreeing result", readable) for each in _pair(entry, "a pair")
        )
        if result_id >= other_id:
            raise BadMessage(f"A pair is in the wrong order: {result_id}, {other_id}.")
        agreeing.add((result_id, other_id))
    if question.canonical in bad:
        raise BadMessage("The canonical result must not be in bad.")
    return Answer(
        bad,
        frozenset(agreeing),
        _ids(answer["outliers"], "outliers", readable),
        _ids(answer["suspicious"], "suspicious", readable),
        a_text(answer["unusable"], "unusable"),
    )


def _pair(value: object, what: str) -> tuple[Any, Any]:
    items = a_list(value, what, 2)
    if len(items) != 2:  # noqa: PLR2004 - a pair
        raise BadMessage(f"{what} has {len(items)} items.")
    return items[0], items[1]


def _ids(value: object, what: str, result_ids: Collection[int]) -> frozenset[int]:
    return frozenset(
        one_of(item, what, result_ids) for item in a_list(value, what, len(result_ids))
    )


class CanonicalUnreadable(Exception):
    """The canonical result's outputs cannot be read.  No other result becomes invalid by this."""


def compare(question: Question) -> Answer:
    """Compare the results of a question with its validator; return the answer.

    `Answer.bad` contains the results with a missing output, or for which `prepare` returns None or
    raises `BadOutput`.  Raises `CanonicalUnreadable` if the canonical result is one of these.
    Raises `TransientScienceError` if an output file cannot be read now, and all other exceptions of
    the validator.  Calls `tidy` for all evidence, even after an error.
    """
    try:
        validator = find(question.validator, question.options, folder=question.folder)
    except (UnknownPlugin, BadOptions) as error:
        return Answer(unusable=str(error))
    evidence: dict[int, Any] = {}
    bad: dict[int, str] = {}
    with ExitStack() as tidying:
        for result_id in sorted(question.results):
            try:
                evidence[result_id] = _evidence(validator, question, result_id, tidying)
            except BadOutput as error:
                bad[result_id] = str(error)
        if question.canonical in bad:
            raise CanonicalUnreadable(bad[question.canonical])
        agreeing = frozenset(
            (first, second)
            for first, second in _pairs(question, sorted(evidence))
            if validator.agree(evidence[first], evidence[second])
        )
        outliers = _matching_ids(validator, "runtime_outlier", evidence)
        suspicious = _matching_ids(validator, "suspicious", evidence)
    return Answer(bad, agreeing, outliers, suspicious)


def _matching_ids(
    validator: Validator[Any], name: str, evidence: Mapping[int, Any]
) -> frozenset[int]:
    """Return the ids of results for which the validator's optional function `name` returns True."""
    matches = getattr(validator, name, None) or _never
    return frozenset(result_id for result_id, entry in evidence.items() if matches(entry))


def _evidence(
    validator: Validator[Any], question: Question, result_id: int, tidying: ExitStack
) -> object:
    outputs = question.results[result_id]
    _check_arrived(outputs)
    try:
        evidence = validator.prepare(outputs, question.options)
    except OSError as error:
        # The files existed a moment ago, so the disk failed, which may be transient.
        if error.filename in {output.path for output in outputs}:
            raise TransientScienceError(f"An output cannot be read now: {error}") from error
        raise
    if evidence is None:
        raise BadOutput("The validator returned no evidence for the outputs.")
    tidy = getattr(validator, "tidy", None)
    if tidy is not None:
        tidying.callback(tidy, evidence)
    return evidence


def _check_arrived(outputs: Sequence[ReportedOutput]) -> None:
    """Raise `BadOutput` if an output is missing.

    Raises `TransientScienceError` if the disk cannot be read now.
    """
    for output in outputs:
        if output.is_missed:
            raise BadOutput(f"Output {output.position} is missing.")
        if output.sha256 is None or not output.path:
            continue
        path = Path(output.path)
        try:
            path.stat()
        except FileNotFoundError as error:
            # If the disk is not mounted, all files are missing, and the results are not at fault.
            if not path.parent.parent.is_dir():
                msg = f"The folder of outputs does not exist: {path.parent.parent}"
                raise TransientScienceError(msg) from error
            raise BadOutput(f"Output {output.position} is no longer on disk.") from error
        except OSError as error:
            raise TransientScienceError(f"An output cannot be read now: {error}") from error


def _pairs(question: Question, ids: Sequence[int]) -> list[tuple[int, int]]:
    if question.canonical is not None:
        truth = question.canonical
        return [(min(truth, other), max(truth, other)) for other in ids if other != truth]
    return list(combinations(ids, 2)) if len(ids) >= question.at_least else []


def _never(_evidence: object) -> bool:
    return False
