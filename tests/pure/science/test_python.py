"""Finding validators by name, including scientists' classes, and comparing."""

from __future__ import annotations

import sys

import pytest

from daemons.science import bitwise, numeric, validators
from daemons.science.comparison import Answer, CanonicalUnreadable, Question, compare
from daemons.science.interfaces import BadOptions, ReportedOutput, TransientScienceError
from daemons.science.script import Script
from daemons.science.validators import check, find
from scheduler.apps.rules.plugins import Plugins, UnknownPlugin

MODULE = """
from daemons.science.interfaces import BadOptions, BadOutput
from pathlib import Path

class Lengths:
    tidied = []
    asked = []

    def check_options(self, options):
        if options.get("slack", 0) < 0:
            raise BadOptions("Slack is negative. Hint: give a number from 0.")

    def prepare(self, outputs, options):
        if options.get("directly"):
            return open(options["directly"]).read()
        text = Path(outputs[0].path).read_text()
        if text == "bad":
            raise BadOutput("It is bad.")
        return (len(text), options.get("slack", 0))

    def agree(self, one, other):
        self.asked.append((one[0], other[0]))
        if one[0] == 99:
            raise RuntimeError("99")
        return abs(one[0] - other[0]) <= one[1]

    def tidy(self, evidence):
        self.tidied.append(evidence[0])

    def runtime_outlier(self, evidence):
        return evidence[0] > 90

class Half:
    def prepare(self, outputs, options):
        return None
"""
NAME = "python:lengths_of_texts.Lengths"

pytestmark = pytest.mark.usefixtures("targets_allowed")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "lengths_of_texts.py").write_text(MODULE)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, "lengths_of_texts", raising=False)
    yield str(tmp_path)
    sys.modules.pop("lengths_of_texts", None)


@pytest.fixture
def ask(folder, tmp_path):
    """Return a function that compares texts, numbered from 1, with the class above."""
    (tmp_path / "upload" / "f0").mkdir(parents=True)

    def asked(*texts, options=None, **fields):
        results = {}
        for number, text in enumerate(texts, 1):
            path = tmp_path / "upload" / "f0" / str(number)
            if text is not None:
                path.write_text(text)
            results[number] = [ReportedOutput(0, "out", path=str(path), sha256="-")]
        question = Question(NAME, options or {}, folder, results, **fields)
        return compare(question), sys.modules["lengths_of_texts"].Lengths

    return asked


# Names


@pytest.mark.parametrize(
    ("name", "found"), [("bitwise", bitwise), ("numeric", numeric), ("script:/x/y", Script("/x/y"))]
)
def test_validator_is_found_by_name(name, found):
    assert find(name, {}, folder="/science") == found


def test_program_without_a_path_is_in_the_science_folder():
    assert find("script:judge", {}, folder="/science") == Script("/science/judge")


def test_class_is_loaded_from_the_science_folder(folder):
    assert type(find(NAME, {}, folder=folder)).__name__ == "Lengths"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("bitwize", "did you mean 'bitwise'"),
        ("whatever", "use one of: bitwise, trivial, numeric, substring"),
        ("script:judge", "no validator 'script:judge'"),
        ("python:os.system", "no validator 'python:os.system'"),
    ],
)
def test_disallowed_name_is_refused_without_running_code(name, sentence, settings):
    settings.PLUGINS = Plugins()
    with pytest.raises(UnknownPlugin, match=sentence):
        check(name, {})


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("python:no.such.Class", "cannot be loaded: No module named 'no'"),
        ("python:lengths_of_texts.Widths", "has no attribute 'Widths'"),
        ("python:lengths_of_texts.Half", "has no function 'agree'"),
    ],
)
def test_error_of_a_class_that_cannot_be_loaded_gives_the_reason(folder, name, sentence):
    check(name, {})
    with pytest.raises(UnknownPlugin, match=sentence):
        find(name, {}, folder=folder)


def test_options_are_checked_by_the_validator_class(folder):
    find(NAME, {"whatever": 1}, folder=folder)
    with pytest.raises(BadOptions, match="Slack is negative"):
        find(NAME, {"slack": -1}, folder=folder)
    with pytest.raises(BadOptions, match="did you mean 'absolute'"):
        check("numeric", {"absolut": 1})


def test_fast_validators_are_bitwise_and_trivial():
    assert set(validators.FAST_VALIDATORS) == {"bitwise", "trivial"}


# Comparing


def test_each_pair_is_compared_once(ask):
    answer, lengths = ask("a", "bb", "c", "bad")
    assert answer == Answer(bad={4: "It is bad."}, agreeing=frozenset({(1, 3)}))
    assert lengths.asked == [(1, 2), (1, 1), (2, 1)]
    assert answer.agree(3, 1)
    assert answer.agree(2, 2)
    assert not answer.agree(1, 2)


def test_with_a_canonical_result_other_results_are_compared_only_with_it(ask):
    answer, lengths = ask("aa", "bb", "c", canonical=2)
    assert answer.agreeing == frozenset({(1, 2)})
    assert len(lengths.asked) == 2


def test_results_below_the_quorum_are_read_but_not_compared(ask):
    answer, lengths = ask("a", "bad", at_least=2)
    assert answer.bad == {2: "It is bad."}
    assert lengths.asked == []


def test_evidence_is_cleaned_up_even_after_a_failure(ask):
    assert ask("a", "bad", "ccc")[1].tidied == [3, 1]
    with pytest.raises(RuntimeError, match="99"):
        ask("x" * 99, "b")
    assert sys.modules["lengths_of_texts"].Lengths.tidied[-2:] == [1, 99]


def test_options_are_passed_to_the_validator_class(ask):
    assert ask("a", "bb", options={"slack": 1})[0].agreeing == frozenset({(1, 2)})


def test_outliers_are_returned_in_the_answer(ask):
    assert ask("a" * 95, "b")[0].outliers == frozenset({1})


def test_missing_output_is_bad_and_missing_canonical_output_raises(ask):
    assert ask("a", None)[0].bad == {2: "Output 0 is no longer on disk."}
    with pytest.raises(CanonicalUnreadable, match="no longer on disk"):
        ask("a", None, canonical=2)


def test_missing_folder_of_outputs_is_a_transient_error(folder):
    away = [ReportedOutput(0, "out", path="/nowhere/at/all/file", sha256="-")]
    with pytest.raises(TransientScienceError, match="does not exist: /nowhere/at"):
        compare(Question("numeric", {}, folder, {1: away}))


def test_unreadable_output_is_a_transient_error(ask, tmp_path):
    path = tmp_path / "upload" / "f0" / "1"
    path.mkdir(parents=True)
    question = [ReportedOutput(0, "out", path=str(path), sha256="-")]
    with pytest.raises(TransientScienceError, match="cannot be read now"):
        compare(Question("numeric", {}, "", {1: question}))


def test_missing_file_of_the_validator_itself_raises(ask, tmp_path):
    with pytest.raises(FileNotFoundError):
        ask("a", options={"directly": str(tmp_path / "nowhere")})


def test_unusable_validator_is_reported_with_the_reason():
    answer = compare(Question("python:no.such.Class", {}, "/science", {}))
    assert "is it on PYTHONPATH, or in /science?" in answer.unusable
    assert "'absolute'" in compare(Question("numeric", {"absolut": 1}, "", {})).unusable
