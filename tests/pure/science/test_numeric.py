"""Numbers within tolerances: agreement, disagreement, unreadable outputs."""

from __future__ import annotations

import pytest

from daemons.science import numeric
from daemons.science.interfaces import BadOptions, BadOutput, ReportedOutput


@pytest.fixture
def agree(tmp_path):
    """Return a function that compares two texts as outputs, with validator options."""

    def asked(one, other, name="out.txt", **options):
        evidence = []
        for number, text in enumerate((one, other)):
            path = tmp_path / f"{number}"
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
            outputs = [ReportedOutput(0, name, path=str(path), sha256="-")]
            evidence.append(numeric.prepare(outputs, options))
        assert numeric.agree(*evidence) == numeric.agree(*reversed(evidence))
        return numeric.agree(*evidence)

    return asked


# Numbers


@pytest.mark.parametrize(
    ("one", "other", "options", "expected"),
    [
        ("1.0", "1.0000000001", {}, True),
        ("1.0", "1.00001", {}, False),
        ("1.0", "1.05", {"absolute": 0.1}, True),
        ("1.0", "1.2", {"absolute": 0.1}, False),
        ("1000", "1009", {"relative": 0.01}, True),
        ("1000", "1011", {"relative": 0.01}, False),
        ("0", "1e-12", {}, False),
        ("0", "1e-12", {"absolute": 1e-9}, True),
        ("-1", "1", {"relative": 1}, False),
        ("1e400", "1e400", {}, True),
        ("1e400", "2e400", {"relative": 1}, False),
        ("1" * 5000, "2" * 5000, {"relative": 1}, False),
        ("inf", "Infinity", {}, True),
        ("inf", "-inf", {"absolute": 1e300}, False),
        ("1", "inf", {"relative": 1}, False),
        ("nan", "NaN", {}, True),
        ("nan", "nan", {"nan": "differ"}, False),
        ("nan", "1", {"absolute": 1e300}, False),
        ("9007199254740993", "9007199254740992", {"relative": 0}, False),
        ("1" * 400, "2" * 400, {"relative": 0.1}, False),
        ("1.5D+3", "1500.0", {}, True),
        ("+.5", "0.50", {}, True),
    ],
)
def test_numbers_agree_within_the_tolerances(agree, one, other, options, expected):
    assert agree(one, other, **options) is expected


# Text


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("energy = 1.0 eV", "energy  =\t1.0000000001 eV\n\n", True),
        ("energy = 1.0 eV", "energy = 1.0 J", False),
        ("1.0 2.0", "1.0", False),
        ("1.0\n2.0", "1.0 2.0", False),
        ("1\n", "1\n1\n", False),
        ("a1b", "a2b", False),
        ("version 1.2.3", "version 1.2.4", False),
        ("(1.0,2.0)", "( 1.0,2.0)", False),
        ("x=1.0;y=2", "x=1.0000000001;y=2", True),
        ("", "", True),
        ("", "1", False),
        ("1.0\r\n2.0\r\n", "1.0\n2.0\n", True),
        ("\ufeff1.0", "1.0", True),
    ],
)
def test_texts_are_compared_by_words_and_numbers(agree, one, other, expected):
    assert agree(one, other) is expected


def test_lines_that_match_ignore_lines_are_not_compared(agree):
    one, other = "# run on monday\n1.0\ntime: 17 s", "# run on friday\n1.0\ntime: 23 s"
    assert not agree(one, other)
    assert agree(one, other, ignore_lines=["^#", "^time:"])


def test_additional_line_disagrees_unless_it_is_ignored(agree):
    assert not agree("1\n# a", "1")
    assert agree("1\n# a", "1", ignore_lines=["^#"])


def test_output_that_is_not_text_is_a_bad_output(agree):
    with pytest.raises(BadOutput, match="not UTF-8 text"):
        agree(b"\xff\xfe\x00", "1")


# CSV


@pytest.mark.parametrize(
    ("one", "other", "options", "expected"),
    [
        ("a,b\n1,2\n", "a,b\n1.0,2\n", {}, True),
        ("a,b\n1,2\n", "a,b\n1,3\n", {}, False),
        ("a,b\n1,2\n", "a,c\n1,2\n", {}, False),
        ("a,b\n1,2\n", "a,b\n1,2,3\n", {}, False),
        ("a,b\n1,2\n", "a,b\n1,2\n1,2\n", {}, False),
        ("a,b\n1,x\n", "a,b\n1,y\n", {}, False),
        ("a,b\n1,\n", "a,b\n1,0\n", {}, False),
        ('a,b\n1,"x, y"\n', "a,b\n1,x, y\n", {}, False),
        ("a,b\n1,2\n", "a,b\n1,2.5\n", {"columns": {"b": {"absolute": 1}}}, True),
        ("a,b\n1,2\n", "a,b\n1.5,2\n", {"columns": {"b": {"absolute": 1}}}, False),
        ("a,b\n1,2\n", "a,b\n1,2.5\n", {"columns": {"2": {"absolute": 1}}}, True),
        ("a,b\n1,2\n", "a,b\n1,9\n", {"ignore_columns": ["b"]}, True),
        ("1;2\n", "1;9\n", {"ignore_columns": ["2"], "delimiter": ";", "header": False}, True),
        ("1,2\n3,4\n", "1.5,2\n3,4\n", {}, False),
        ("1,2\n3,4\n", "1.5,2\n3,4\n", {"header": False, "absolute": 0.5}, True),
        ("# x\na\n1\n", "# y\na\n1\n", {"ignore_lines": ["^#"]}, True),
        ("a\n\n1\n", "a\n1\n", {}, True),
        ("a\n17\n", "a\n17 \n", {}, True),
        ("", "", {}, True),
    ],
)
def test_csv_is_compared_by_cells(agree, one, other, options, expected):
    assert agree(one, other, "table.csv", **options) is expected


def test_invalid_csv_is_a_bad_output(agree):
    with pytest.raises(BadOutput, match="not CSV"):
        agree('a\n"unfinished', "a\n1", "table.csv")


# JSON


@pytest.mark.parametrize(
    ("one", "other", "options", "expected"),
    [
        ('{"a": 1, "b": [2]}', '{"b": [2.0], "a": 1}', {}, True),
        ('{"a": 1}', '{"a": 2}', {}, False),
        ('{"a": 1}', '{"b": 1}', {}, False),
        ('{"a": 1}', '{"a": 1, "b": 1}', {}, False),
        ("[1, 2]", "[1, 2, 3]", {}, False),
        ("[1, 2]", "[2, 1]", {}, False),
        ("[]", "{}", {}, False),
        ("true", "1", {}, False),
        ("null", "0", {}, False),
        ('"1"', "1", {}, False),
        ('"x"', '"y"', {}, False),
        ('{"a": NaN}', '{"a": NaN}', {}, True),
        ("1e400", "2e400", {"relative": 1}, False),
        (
            '{"e": {"x": 1}, "f": 1}',
            '{"e": {"x": 2}, "f": 1}',
            {"keys": {"e.*": {"absolute": 1}}},
            True,
        ),
        (
            '{"e": {"x": 1}, "f": 1}',
            '{"e": {"x": 1}, "f": 2}',
            {"keys": {"e.*": {"absolute": 1}}},
            False,
        ),
        ('{"t": "now", "f": 1}', '{"t": "then", "f": 1}', {"ignore_keys": ["t"]}, True),
        ('{"t": "now", "f": 1}', '{"f": 1}', {"ignore_keys": ["t"]}, True),
        ('[{"t": 1, "f": 1}]', '[{"t": 2, "f": 1}]', {"ignore_keys": ["*.t"]}, True),
        ('{"a.b": 1}', '{"a": {"b": 1}}', {}, False),
    ],
)
def test_json_is_compared_by_values_at_paths(agree, one, other, options, expected):
    assert agree(one, other, "answer.json", **options) is expected


@pytest.mark.parametrize("text", ["", "{", "{'a': 1}", "[" * 100_000, "1" * 5000])
def test_invalid_json_is_a_bad_output(agree, text):
    with pytest.raises(BadOutput, match="not JSON"):
        agree(text, "1", "answer.json")


# Outputs


def test_format_option_applies_to_all_outputs(agree):
    one, other = '{"a": 1, "b": 2}', '{"b": 2, "a": 1}'
    assert not agree(one, other, "out")
    assert agree(one, other, "out", format="json")


def test_outputs_that_are_not_validated_are_not_read(tmp_path):
    outputs = [
        ReportedOutput(0, "out", optional=True),
        ReportedOutput(1, "log", path=str(tmp_path / "nowhere"), sha256="-", no_validate=True),
    ]
    evidence = numeric.prepare(outputs, {})
    assert numeric.agree(evidence, evidence)
    assert numeric.prepare([ReportedOutput(0, "out"), *outputs], {}) is None


def test_optional_output_present_in_only_one_result_disagrees(tmp_path):
    (tmp_path / "empty").touch()
    came = ReportedOutput(0, "out", path=str(tmp_path / "empty"), sha256="-", optional=True)
    one, other = (
        numeric.prepare([its], {}) for its in (came, ReportedOutput(0, "out", optional=True))
    )
    assert not numeric.agree(one, other)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"absolut": 1}, "did you mean 'absolute'"),
        ({"absolute": -1}, "'absolute'"),
        ({"relative": float("nan")}, "'relative'"),
        ({"relative": 2}, "'relative'"),
        ({"relative": "1e-6"}, "'relative'"),
        ({"absolute": True}, "'absolute'"),
        ({"format": "xml"}, "one of auto, text, csv, json"),
        ({"nan": True}, "one of equal, differ"),
        ({"delimiter": "::"}, "one character"),
        ({"header": 1}, "true or false"),
        ({"ignore_lines": ["("]}, "regular expressions"),
        ({"ignore_columns": "a"}, "a list of texts"),
        ({"columns": ["a"]}, "an object of names"),
        ({"columns": {"a": {"abs": 1}}}, "column 'a'"),
        ({"keys": {"a": {"absolute": -1}}}, "key 'a'"),
        ([], "not a JSON object"),
    ],
)
def test_invalid_options_are_refused(options, sentence):
    with pytest.raises(BadOptions, match=sentence):
        numeric.check_options(options)
