"""Texts on the scientist's command line: durations, sizes, parameters, names."""

from __future__ import annotations

import doctest
import importlib
import itertools
import pkgutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

import scientist
from scheduler.work.submission.rules.new_workunits import NAME_PATTERN
from scientist import naming, template, words
from scientist.errors import UnsafeName, UsageError

MODULES = [one.name for one in pkgutil.walk_packages(scientist.__path__, "scientist.")]


@pytest.mark.parametrize("module", [name for name in MODULES if not name.endswith("__main__")])
def test_doctests_of_a_module_pass(module):
    assert doctest.testmod(importlib.import_module(module)).failed == 0


@pytest.mark.parametrize("text", ["", "3", "d", "-3d", "3 days", "1e3s", "9" * 400 + "d", "3d2h"])
def test_invalid_duration_is_refused_with_an_example(text):
    with pytest.raises(UsageError, match="Hint: write 90s"):
        words.duration(text)


@pytest.mark.parametrize("text", ["", "big", "-1", "10X", "1.2.3k"])
def test_invalid_size_is_refused_with_an_example(text):
    with pytest.raises(UsageError, match="Hint: write 1500"):
        words.size(text)


@pytest.mark.parametrize("text", ["tomorrow", "2027-13-01", ""])
def test_invalid_time_is_refused_with_an_example(text):
    with pytest.raises(UsageError, match="Hint: write 2027"):
        words.moment(text)


@given(st.text(max_size=300))
def test_label_from_any_text_is_valid_in_a_workunit_name(text):
    label = words.label(text)
    assert NAME_PATTERN.fullmatch(f"b_{label}")
    assert ".." not in label


def test_labels_of_names_in_other_scripts_differ():
    assert words.label("蛋白質") != words.label("細胞")


@pytest.mark.parametrize(
    "text",
    ["seed", "=1..3", "seed=", "seed=3..1", "seed=1..3..0", "seed=a..b", "1x=1..2", "s=1..nan"],
)
def test_invalid_parameter_is_refused_with_a_hint(text):
    with pytest.raises(UsageError, match="Hint: "):
        template.parameter(text)


@pytest.mark.parametrize("name", template.STANDARD_PLACEHOLDERS)
def test_parameter_with_a_reserved_name_is_refused(name):
    with pytest.raises(UsageError, match="is reserved"):
        template.parameter(f"{name}=1..3")


def test_range_of_a_hundred_million_values_is_not_expanded_in_memory():
    values = template.parameter("seed=1..100000000").values
    assert len(values) == 100_000_000
    assert list(itertools.islice(values, 2)) == ["1", "2"]


def test_parameters_are_combined_with_the_last_changing_fastest():
    given_ = [template.parameter("a=1..2"), template.parameter("b=x,y")]
    assert template.count_combinations(given_) == 4
    assert [(one["a"], one["b"]) for one in template.combinations(given_)] == [
        ("1", "x"),
        ("1", "y"),
        ("2", "x"),
        ("2", "y"),
    ]


def test_parameter_values_are_read_from_a_file(tmp_path):
    path = tmp_path / "items.txt"
    path.write_text("one\n\ntwo words\n")
    assert template.parameter(f"item=@{path}").values == ["one", "two words"]
    with pytest.raises(UsageError, match="cannot be read"):
        template.parameter(f"item=@{tmp_path}/none")


def test_unknown_placeholder_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match=r"Unknown placeholder \{sed\}.*\n.*\{index\}, \{seed\}"):
        template.check("--seed {sed}", ["index", "seed"])


def test_braces_that_are_not_placeholders_are_kept():
    assert template.fill('{{"a": {seed}}} {', {"seed": 1}) == '{"a": 1} {'


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "a/../b",
        "/etc/passwd",
        "a//b",
        "",
        "a/",
        ".",
        "..\\x",
        "C:x",
        "c:/x",
        "a\x00b",
        "a\nb",
    ],
)
def test_name_that_leaves_its_folder_is_refused(name):
    with pytest.raises(UnsafeName):
        naming.parts_of(name)


@pytest.mark.parametrize("name", ["aux", "a/CON.txt", "x.", "y ", "a:b", "com1.log", "q?"])
def test_names_reserved_by_windows_are_refused_on_windows(name):
    with pytest.raises(UnsafeName):
        naming.parts_of(name, windows=True)
    if ":" not in name:
        assert naming.parts_of(name, windows=False)


@pytest.mark.parametrize("name", ["", "../w", "a/b", ".w", "w w", "w..w", "w\n", "w" * 201])
def test_unsafe_workunit_name_is_refused_as_a_folder_name(name):
    with pytest.raises(UnsafeName):
        naming.workunit_name(name)


@given(st.text(max_size=60))
def test_archive_member_name_of_any_output_is_a_safe_path(open_name):
    assert naming.parts_of(naming.member_name(open_name))


@given(st.text(min_size=1, max_size=60))
def test_server_and_client_use_the_same_archive_member_names(open_name):
    from scheduler.storage.bundles import member_name

    assert member_name("w", open_name) == f"w/{naming.member_name(open_name)}"
