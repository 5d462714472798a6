"""Workunits made from documents and a template."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.work.submission.rules import document_templates
from scheduler.work.submission.rules.document_templates import (
    BadDocuments,
    expand,
    read_csv,
    read_json_lines,
)


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ({"priority": "document.n"}, {"priority": 7}),
        ({"meta": {"a": "document.meta.study", "b": ["document.n"]}}, {"meta": {"a": 3, "b": [7]}}),
        ({"name": "w_{document.n}_{document.name}"}, {"name": "w_7_it's"}),
        (
            {"command_line": "--n {document.n} {document.name}"},
            {"command_line": """--n 7 'it'"'"'s'"""},
        ),
        ({"command_line": "document.name"}, {"command_line": "it's"}),
        ({"name": "document"}, {"name": "document"}),
        ({"name": "my document.n"}, {"name": "my document.n"}),
        ({"name": "{document}"}, {"name": "{document}"}),
        ({"held": True, "meta": {"document.n": 1}}, {"held": True, "meta": {"document.n": 1}}),
        ({"meta": "document.meta"}, {"meta": {"study": 3}}),
        ({"priority": "document.none"}, {"priority": None}),
    ],
)
def test_references_are_replaced_by_fields(template, filled):
    document = {"n": 7, "name": "it's", "meta": {"study": 3}, "none": None}
    assert list(expand(template, [document])) == [filled]


@given(st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_value_stays_one_argument_of_a_command(value):
    [fields] = expand({"command_line": "run {document.x} end"}, [{"x": value}])
    assert shlex.split(fields["command_line"]) == ["run", value, "end"]


@pytest.mark.parametrize(
    ("template", "sentence"),
    [
        ({"name": "document.missing"}, "Document 0 has no field 'missing'. Hint: its fields are n"),
        ({"name": "x{document.n.deeper}"}, "Document 0 has no field 'n.deeper'"),
        ({"name": "x{document.o}"}, "is an object or a list"),
    ],
)
def test_references_that_cannot_be_replaced_are_refused(template, sentence):
    with pytest.raises(BadDocuments, match="Hint: ") as refused:
        list(expand(template, [{"n": 1, "o": {}}]))
    assert sentence in str(refused.value)


def test_numbers_of_documents_bytes_and_levels_are_limited(monkeypatch):
    with pytest.raises(BadDocuments, match="more than 10000 documents"):
        list(expand({}, [{}] * 10_001))
    monkeypatch.setattr(document_templates, "MAX_DOCUMENTS", 2)
    assert len(list(expand({}, [{}] * 2))) == 2
    with pytest.raises(BadDocuments, match="more than 2 documents"):
        list(expand({}, [{}] * 3))
    monkeypatch.setattr(document_templates, "MAX_TOTAL_BYTES", 50)
    with pytest.raises(BadDocuments, match="more than 50 bytes"):
        list(expand({"name": "document.x"}, [{"x": "x" * 51}]))
    deep = {"a": {}}
    for _ in range(20):
        deep = {"a": deep}
    with pytest.raises(BadDocuments, match="levels"):
        list(expand(deep, [{}]))


def test_csv_has_numbers_texts_and_quoted_commas():
    rows = list(read_csv('\ufeffseed,name\r\n7,"a, b"\n007,-3\n\n'))
    assert rows == [{"seed": 7, "name": "a, b"}, {"seed": "007", "name": -3}]


@pytest.mark.parametrize(
    "text", ["", "a,a\n1,2", "a b\n1", ",\n1,2", "a,b\n1", 'a\n"x', "a,b\n1,2,3", 'a\n"x"y']
)
def test_text_that_is_no_csv_is_refused_with_a_hint(text):
    with pytest.raises(BadDocuments, match="Hint: "):
        list(read_csv(text))


def test_json_lines_are_objects():
    assert list(read_json_lines('{"a": 1}\n\n{"a": [2]}\n')) == [{"a": 1}, {"a": [2]}]
    for bad in ("[1]", "x", "{", "[" * 100_000):
        with pytest.raises(BadDocuments, match="Line 1 is"):
            list(read_json_lines(bad))
