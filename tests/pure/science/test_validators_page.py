"""The examples of docs/validators.md behave as the page describes."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from pathlib import Path

import pytest

from daemons.science import validators
from daemons.science.comparison import Question, compare
from daemons.science.interfaces import BadOptions, ReportedOutput
from scheduler.apps.rules import plugins

PAGE = Path("docs/validators.md").read_text(encoding="utf-8")


def blocks(kind):
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_built_in_validators_are_named_in_the_rules_for_plug_ins():
    assert set(plugins.BUILT_IN["validator"]) == set(validators._BUILT_IN)


@pytest.fixture
def ask(tmp_path):
    """Return a function that compares texts as outputs of results, numbered from 1."""

    def asked(name, options, *texts, open_name="out"):
        results = {}
        for number, text in enumerate(texts, 1):
            path = tmp_path / f"output{number}"
            path.write_text(text)
            digest = hashlib.sha256(text.encode()).hexdigest()
            results[number] = [ReportedOutput(0, open_name, path=str(path), sha256=digest)]
        return compare(Question(name, options, str(tmp_path), results))

    return asked


def test_page_has_a_row_for_every_validator():
    rows = set(re.findall(r"^\| (?:plug-in with the target )?`([\w:.]+)` \| ", PAGE, re.MULTILINE))
    assert rows >= set(validators.CHOICES)


@pytest.mark.parametrize(
    ("name", "options", "texts", "agreeing", "bad"),
    [
        ("bitwise", {}, ("1.0", "1.0", "1.00"), {(1, 2)}, set()),
        ("trivial", {}, ("1.0", "x", ""), {(1, 2), (1, 3), (2, 3)}, set()),
        ("numeric", {}, ("e 1.0", "e 1.00", "e 1.1", "f 1.0"), {(1, 2)}, set()),
        (
            "substring",
            {"text": "done", "output": 0},
            ("1 done", "2 done", "3 failed"),
            {(1, 2)},
            {3},
        ),
    ],
)
def test_each_built_in_validator_applies_its_rule(ask, name, options, texts, agreeing, bad):
    validators.check(name, options)
    answer = ask(name, options, *texts)
    assert answer.agreeing == agreeing
    assert set(answer.bad) == bad


def test_built_in_validators_are_bitwise_trivial_numeric_and_substring():
    built_in = [name for name in validators.CHOICES if ":" not in name]
    assert built_in == ["bitwise", "trivial", "numeric", "substring"]


def test_numeric_example_of_the_page_works(ask):
    [options] = [json.loads(block) for block in blocks("json") if "absolute" in block]
    one = {"energies": {"total": 1.0}, "x": 2.0, "host": "a", "run": {"seconds": 3}}
    other = {"energies": {"total": 1.09}, "x": 2.0005, "host": "b", "run": {"seconds": 9}}
    odd = one | {"x": 2.1}
    texts = [json.dumps(answer) for answer in (one, other, odd)]
    answer = ask("numeric", options, *texts, open_name="answer.json")
    assert answer.agreeing == {(1, 2)}


def test_substring_example_of_the_page_is_valid():
    [options] = [json.loads(block) for block in blocks("json") if "text" in block]
    validators.check("substring", options)


def test_program_example_of_the_page_works(ask, tmp_path):
    [program] = blocks("sh")
    (tmp_path / "judge").write_text(program)
    (tmp_path / "judge").chmod(0o755)
    answer = ask("script:judge", {}, "1\nmonday\n", "1\nfriday\n", "2\n", "")
    assert answer.agreeing == {(1, 2)}
    assert set(answer.bad) == {4}


def test_two_script_example_of_the_page_works(ask, tmp_path):
    [options] = [json.loads(block) for block in blocks("json") if "compare_program" in block]
    for name, test in (("init.sh", '[ "$#" = 1 ]'), ("compare.sh", 'cmp -s "$1" "$2"')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{test}\n")
        (tmp_path / name).chmod(0o755)
    assert ask("script:init.sh", options, "1", "1", "2").agreeing == {(1, 2)}


def test_python_class_example_of_the_page_works(ask, tmp_path, monkeypatch):
    [module] = blocks("python")
    (tmp_path / "orbits.py").write_text(module)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, "orbits", raising=False)
    texts = [json.dumps({"end": [x, 0], "seconds": x}) for x in (0.5, 3.0, 4.0, 9.0)]
    answer = ask("python:orbits.Orbits", {"metres": 2}, *texts, "no orbit")
    assert answer.agreeing == {(2, 3)}
    assert answer.outliers == {1}
    assert "It is no orbit" in answer.bad[5]
    with pytest.raises(BadOptions, match="Orbits takes 'metres' alone"):
        validators.find("python:orbits.Orbits", {"feet": 6}, folder=str(tmp_path))
    sys.modules.pop("orbits")
