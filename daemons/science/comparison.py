"""Has a validator compare the results of one workunit; runs in the worker process."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daemons.science.interfaces import BadOptions, BadOutput, Brought, TransientScienceError
from daemons.science.messages import BadMessage, a_list, a_text, an_object, one_of
from daemons.science.validators import UnknownValidator, find

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from daemons.science.interfaces import Validator

#: How a daemon calls it.
TARGET = f"{__name__}:compare_message"


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be compared: results by id, with what each brought.

    `validator` is built in, or a target of the allow-list.  With `canonical`, one of the results,
    the others are compared with it alone.  Fewer than `at_least` readable results are not compared.
    `folder` contains programs and modules of the project's own science.
    """

    validator: str
    options: Mapping[str, Any]
    folder: str
    results: Mapping[int, Sequence[Brought]]
    canonical: int | None = None
    at_least: int = 1

    def message(self) -> dict[str, Any]:
        """Return the question as JSON for the worker; JSON has no keys that are numbers."""
        return {
            "validator": self.validator,
            "options": dict(self.options),
            "folder": self.folder,
            "results": [
                [result_id, [asdict(output) for output in outputs]]
                for result_id, outputs in self.results.items()
            ],
            "canonical": self.canonical,
            "at_least": self.at_least,
        }


@dataclass(frozen=True, slots=True)
class Answer:
    """What the validator said.

    `bad` says by result why its outputs cannot be read; `agreeing` has each two results that agree,
    the lower id first.  `suspicious` are those that it would not believe alone.  `unusable` says
    why the validator can compare nothing at all: no fault of this workunit.
    """

    bad: Mapping[int, str] = field(default_factory=dict)
    agreeing: frozenset[tuple[int, int]] = frozenset()
    outliers: frozenset[int] = frozenset()
    suspicious: frozenset[int] = frozenset()
    unusable: str = ""

    def agree(self, one: int, other: int) -> bool:
        """Whether two results agree; each does with itself."""
        return one == other or (min(one, other), max(one, other)) in self.agreeing


def compare_message(question: dict[str, Any]) -> dict[str, Any]:
    """Run `compare` on a question in JSON and return the answer as JSON; runs in the worker."""
    results = {
        result_id: [Brought(**its) for its in outputs] for result_id, outputs in question["results"]
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

    It may contain only results of the question, and each pair at most once.
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
        raise BadMessage("The canonical result cannot be bad.")
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
    """The canonical result's outputs cannot be read: no other result is to blame for that."""


def compare(question: Question) -> Answer:
    """Prepare each result, ask for each two whether they agree, and tidy up whatever happens."""
    try:
        validator = find(question.validator, question.options, folder=question.folder)
    except (UnknownValidator, BadOptions) as error:
        return Answer(unusable=str(error))
    evidence: dict[int, Any] = {}
    bad: dict[int, str] = {}
    with ExitStack() as tidying:
        for one in sorted(question.results):
            try:
                evidence[one] = _evidence(validator, question, one, tidying)
            except BadOutput as error:
                bad[one] = str(error)
        if question.canonical in bad:
            raise CanonicalUnreadable(bad[question.canonical])
        agreeing = frozenset(
            (one, other)
            for one, other in _pairs(question, sorted(evidence))
            if validator.agree(evidence[one], evidence[other])
        )
        outliers = _of_whom(validator, "runtime_outlier", evidence)
        suspicious = _of_whom(validator, "suspicious", evidence)
    return Answer(bad, agreeing, outliers, suspicious)


def _of_whom(
    validator: Validator[Any], question: str, evidence: Mapping[int, Any]
) -> frozenset[int]:
    """The results of which the validator says yes to a question that it need not know."""
    says_yes = getattr(validator, question, None) or _never
    return frozenset(one for one, its in evidence.items() if says_yes(its))


def _evidence(
    validator: Validator[Any], question: Question, one: int, tidying: ExitStack
) -> object:
    outputs = question.results[one]
    _check_arrived(outputs)
    try:
        evidence = validator.prepare(outputs, question.options)
    except OSError as error:
        # They are there, as was just seen: it is the disk's fault, and may heal.
        if error.filename in {output.path for output in outputs}:
            raise TransientScienceError(f"An output cannot be read now: {error}") from error
        raise
    if evidence is None:
        raise BadOutput("The validator found no evidence in its outputs.")
    tidy = getattr(validator, "tidy", None)
    if tidy is not None:
        tidying.callback(tidy, evidence)
    return evidence


def _check_arrived(outputs: Sequence[Brought]) -> None:
    """Raise `BadOutput` for what did not come, or is no longer on a disk that is there."""
    for output in outputs:
        if output.is_missed:
            raise BadOutput(f"Output {output.position} is missing.")
        if output.sha256 is None or not output.path:
            continue
        path = Path(output.path)
        try:
            path.stat()
        except FileNotFoundError as error:
            # A disk that is not mounted takes all files along: their results are not to blame.
            if not path.parent.parent.is_dir():
                msg = f"The folder of outputs is away: {path.parent.parent}"
                raise TransientScienceError(msg) from error
            raise BadOutput(f"Output {output.position} is no longer on disk.") from error
        except OSError as error:
            raise TransientScienceError(f"An output cannot be read now: {error}") from error


def _pairs(question: Question, ids: Sequence[int]) -> list[tuple[int, int]]:
    if question.canonical is not None:
        truth = question.canonical
        return [(min(truth, one), max(truth, one)) for one in ids if one != truth]
    return list(combinations(ids, 2)) if len(ids) >= question.at_least else []


def _never(_evidence: object) -> bool:
    return False
