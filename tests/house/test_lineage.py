"""Rows of lineage.md and features.md are unique; tests and code named there exist."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from functools import cache
from importlib import import_module

import pytest

from scheduler.lifecycle import MOVES, state_label
from tests.house.tracked import ROOT, read

LINEAGE, FEATURES = "docs/lineage.md", "docs/features.md"
#: Pages of BOINC's web interface for operators, by name, because they have no numbers.
OPERATOR_PAGES = (
    "browse tables",
    "sizes and counts of tables",
    "log of the database",
    "apps and versions",
    "cancel work",
    "force a transition",
    "validate again",
    "assigned work",
    "operations of an app",
    "charts over time",
    "search logs",
    "screen profiles",
    "badges",
    "privileges",
    "rights to submit",
    "letters to all",
    "keys of ownership",
    "error summaries",
    "workunits with errors",
    "block a host",
    "let a host ask at once",
    "classes of computers",
    "run times",
    "database upgrade",
    "repair",
)
NUMBERS = {
    LINEAGE: sorted({*(f"B{n}" for n in range(1, 47)), "B8a", "B8b"}),
    FEATURES: [
        *(str(n) for n in range(1, 103)),
        *(f"O{n}" for n in range(1, len(OPERATOR_PAGES) + 1)),
    ],
}
NEEDS = ("must", "should", "nice")
STATES = ("done", "in part", "missing")
A_ROW = re.compile(r"^\| ([BO]?\d+[ab]?) \| (.*) \|$", re.MULTILINE)
A_KEEPER = re.compile(r"^- \*\*([BO]?\d+[ab]?)\*\* (.*(?:\n  .*)*)", re.MULTILINE)
A_STATE = re.compile(r"(done|in part(?=: )|missing)(?:: (\S.*))?")
A_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
MOST_COLUMNS = 120


def rows(page):
    """Return the rows of a page's tables: (number, cells)."""
    return [
        (row, [cell.strip() for cell in cells.split(" | ")]) for row, cells in A_ROW.findall(page)
    ]


def keepers(page):
    """Return the code and tests that each row names in code spans."""
    return [(row, re.findall(r"`([^`]+)`", said)) for row, said in A_KEEPER.findall(page)]


@cache
def features():
    """Return the features by number: name, meaning, need, state and missing part."""
    found = {}
    for row, (feature, meaning, need, its_state) in rows(read(FEATURES)):
        said = A_STATE.fullmatch(its_state)
        assert said, f"{row}: {its_state!r} is not one of {', '.join(STATES)}"
        found[row] = (feature, meaning, need, said[1], said[2] or "")
    return found


def missing_features():
    return {row for row, (*_, its_state, _lacks) in features().items() if its_state == "missing"}


@pytest.mark.parametrize(("page", "numbers"), NUMBERS.items())
def test_every_row_number_occurs_once_in_the_table_and_once_in_the_list(page, numbers):
    told = [row for row, _ in rows(read(page))]
    kept = [row for row, _ in keepers(read(page))]
    assert Counter(told) == Counter(numbers)
    assert Counter(kept) == Counter(numbers)


def test_every_boinc_operator_page_has_a_feature_row():
    named = {row: A_LINK.sub(r"\1", feature) for row, (feature, *_) in features().items()}
    expected = {f"O{n}": name for n, name in enumerate(OPERATOR_PAGES, start=1)}
    assert {row: name for row, name in named.items() if row.startswith("O")} == expected


@pytest.mark.parametrize("page", NUMBERS)
def test_every_row_names_code_and_a_test(page):
    absent = missing_features() if page == FEATURES else set()
    for row, named in keepers(read(page)):
        tests = [name for name in named if "::" in name]
        assert bool(tests) is (row not in absent), row
        assert bool(len(named) - len(tests)) is (row not in absent), row


def test_no_feature_row_cites_a_house_test():
    for row, named in keepers(read(FEATURES)):
        assert not [name for name in named if name.startswith("tests/house/")], row


def named_tests():
    """Return every test that a page names, with the first row that names it."""
    found = {}
    for page in NUMBERS:
        for row, named in keepers(read(page)):
            for name in named:
                if "::" in name:
                    found.setdefault(name, f"{page}, {row}")
    for name in re.findall(r"`(tests/[^`]+::[^`]+)`", read("docs/scenarios.md")):
        found.setdefault(name, "docs/scenarios.md")
    return found


@pytest.mark.parametrize("name", named_tests())
def test_every_cited_test_exists_and_is_not_skipped(name):
    path, *inside = name.split("::")
    assert (ROOT / path).is_file()
    test = import_module(path.removesuffix(".py").replace("/", "."))
    for attribute in inside:
        test = getattr(test, attribute)
    assert inspect.isfunction(test)
    assert test.__name__.startswith("test_")
    marks = {mark.name for mark in getattr(test, "pytestmark", ())}
    assert not marks & {"skip", "skipif", "xfail"}


def named_code():
    """Return the other names of code that a page's rows refer to."""
    named = (name for page in NUMBERS for _, names in keepers(read(page)) for name in names)
    return sorted({name for name in named if "::" not in name})


@pytest.mark.parametrize("name", named_code())
def test_cited_code_exists(name):
    if "/" in name:
        assert (ROOT / name).is_file()
    else:
        module, _, attribute = name.partition(":")
        assert hasattr(import_module(module), attribute)


def test_every_feature_has_a_need_and_a_state():
    for row, (feature, meaning, need, its_state, lacks) in features().items():
        assert feature, row
        assert meaning, row
        assert need in NEEDS, row
        assert bool(lacks) or its_state != "in part", row
        assert not lacks or its_state != "done", row


def test_feature_links_to_a_page_unless_it_is_missing():
    for row, (feature, *_, its_state, _lacks) in features().items():
        assert bool(A_LINK.search(feature)) is (its_state != "missing"), row


def test_feature_counts_by_need_and_state_are_correct():
    counts = Counter((need, its_state) for _, _, need, its_state, _ in features().values())
    for need in NEEDS:
        numbers = " | ".join(str(counts[need, its_state]) for its_state in STATES)
        assert f"\n| {need} | {numbers} |\n" in read(FEATURES)


def test_lifecycle_page_lists_every_move():
    page = read("docs/lifecycle.md")
    for move in MOVES:
        source, target = (state_label(move.axis, code) for code in (move.source, move.target))
        row = f"| {source} | {target} | {move.because.label} | {move.by.label} |"
        assert row in page, "Hint: make docs"


@pytest.mark.parametrize("page", NUMBERS)
def test_table_lines_are_no_wider_than_a_terminal(page):
    tables = [line for line in read(page).splitlines() if line.startswith("|")]
    plain = [A_LINK.sub(r"\1", line) for line in tables]
    assert [line for line in plain if len(line) > MOST_COLUMNS] == []
