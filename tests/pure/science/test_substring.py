"""The substring validator: a text that must or must not be in the output."""

from __future__ import annotations

import pytest

from daemons.science import substring
from daemons.science.interfaces import STDERR, BadOptions, BadOutput, ReportedOutput


@pytest.fixture
def outputs(tmp_path):
    (tmp_path / "out").write_bytes(b"\xff answer: 42")
    return [
        ReportedOutput(0, "out", path=str(tmp_path / "out"), sha256="-"),
        ReportedOutput(STDERR, "stderr", sha256="", text="converged after 3 steps"),
    ]


@pytest.mark.parametrize(
    ("options", "is_valid"),
    [
        ({"text": "converged"}, True),
        ({"text": "diverged"}, False),
        ({"text": "converged", "reject": True}, False),
        ({"text": "diverged", "reject": True}, True),
        ({"text": "answer: 42", "output": 0}, True),
        ({"text": "converged", "output": 0}, False),
    ],
)
def test_output_is_valid_by_presence_or_absence_of_a_text(outputs, options, is_valid):
    substring.check_options(options)
    if not is_valid:
        with pytest.raises(BadOutput, match=options["text"]):
            substring.prepare(outputs, options)
    else:
        evidence = substring.prepare(outputs, options)
        assert evidence is not None
        assert substring.agree(evidence, evidence)


def test_result_with_a_missing_output_gives_no_evidence(outputs):
    assert substring.prepare([*outputs, ReportedOutput(1, "more")], {"text": "converged"}) is None


def test_unknown_output_in_the_options_is_an_error_of_the_options(outputs):
    with pytest.raises(LookupError, match="no output 7"):
        substring.prepare(outputs, {"text": "x", "output": 7})


@pytest.mark.parametrize("options", [{}, {"text": ""}, {"text": "a", "output": -1}, {"texts": "a"}])
def test_invalid_options_are_refused(options):
    with pytest.raises(BadOptions):
        substring.check_options(options)
