"""Rows of lineage.md and features.md are unique, and what they name exists."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from functools import cache
from importlib import import_module

import pytest

from scheduler.lifecycle import MOVES, state_label
from tests.house.tracked import ROOT, read
from tests.mutate import lineage
from tests.mutate.switches import SWITCHES

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
#: The 172 rows of the five designs.  B8 is stated in two ways, B8a and B8b, which belong to it.
ROWS_PER_DESIGN = {"B": 46, "T2": 25, "T": 39, "E": 34, "D": 28}
PARTS_OF_B8 = ("B8a", "B8b")
LINEAGE_NUMBERS = [
    f"{design}{'' if design == 'B' else '-'}{number}"
    for design, count in ROWS_PER_DESIGN.items()
    for number in range(1, count + 1)
]
FEATURE_NUMBERS = [
    *(str(n) for n in range(1, 103)),
    *(f"O{n}" for n in range(1, len(OPERATOR_PAGES) + 1)),
    "W40",
]
NEEDS = ("must", "should", "nice")
STATES = ("done", "in part", "missing")
A_ROW = re.compile(r"^\| ([OW]?\d+) \| (.*) \|$", re.MULTILINE)
A_KEEPER = re.compile(r"^- \*\*([OW]?\d+)\*\* (.*(?:\n  .*)*)", re.MULTILINE)
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
        match = A_STATE.fullmatch(its_state)
        assert match, f"{row}: {its_state!r} is not one of {', '.join(STATES)}"
        found[row] = (feature, meaning, need, match[1], match[2] or "")
    return found


def missing_features():
    return {row for row, (*_, its_state, _lacks) in features().items() if its_state == "missing"}


def rows_of_lineage():
    return lineage.read_rows(read(LINEAGE))


def rules_of_lineage():
    return [row for row in rows_of_lineage() if not row.reason]


def test_the_five_designs_have_172_rows():
    assert len(set(LINEAGE_NUMBERS)) == len(LINEAGE_NUMBERS) == 172


def test_every_row_of_the_lineage_occurs_once_in_a_table_and_once_in_a_list():
    expected = Counter([*LINEAGE_NUMBERS, *PARTS_OF_B8])
    assert Counter(number for number, _ in lineage.table_rows(read(LINEAGE))) == expected
    assert Counter(row.number for row in rows_of_lineage()) == expected


def test_every_row_of_the_lineage_names_code_tests_and_switches_or_is_no_rule():
    for row in rows_of_lineage():
        if row.reason:
            assert len(row.reason) > 20, row.number
            assert "`tests/" not in row.reason, row.number
        else:
            assert row.code, row.number
            assert row.tests, row.number
            assert row.switches, row.number


def test_every_switch_of_the_lineage_exists():
    known = {switch.rule for switch in SWITCHES}
    named = {(row.number, rule) for row in rules_of_lineage() for rule in row.switches}
    assert {(number, rule) for number, rule in named if rule not in known} == set()


def test_no_row_of_the_lineage_is_left_for_later():
    unfinished = re.compile(r"(later|missing|in part|not yet|planned|to do)\b", re.IGNORECASE)
    here = {number: cells[-1] for number, cells in lineage.table_rows(read(LINEAGE))}
    assert {number: text for number, text in here.items() if unfinished.match(text)} == {}


def test_features_occur_once_in_the_table_and_once_in_the_list():
    assert Counter(row for row, _ in rows(read(FEATURES))) == Counter(FEATURE_NUMBERS)
    assert Counter(row for row, _ in keepers(read(FEATURES))) == Counter(FEATURE_NUMBERS)


def test_every_boinc_operator_page_has_a_feature_row():
    named = {row: A_LINK.sub(r"\1", feature) for row, (feature, *_) in features().items()}
    expected = {f"O{n}": name for n, name in enumerate(OPERATOR_PAGES, start=1)}
    assert {row: name for row, name in named.items() if row.startswith("O")} == expected


def test_every_feature_that_is_not_missing_names_code_and_a_test():
    absent = missing_features()
    for row, named in keepers(read(FEATURES)):
        tests = [name for name in named if "::" in name]
        assert bool(tests) is (row not in absent), row
        assert bool(len(named) - len(tests)) is (row not in absent), row


def test_no_feature_row_cites_a_house_test():
    for row, named in keepers(read(FEATURES)):
        assert not [name for name in named if name.startswith("tests/house/")], row


def named_tests():
    """Return every test that a page names, with the first row that names it."""
    found = {}
    for row in rules_of_lineage():
        for name in row.tests:
            found.setdefault(name, f"{LINEAGE}, {row.number}")
    for row, named in keepers(read(FEATURES)):
        for name in named:
            if "::" in name:
                found.setdefault(name, f"{FEATURES}, {row}")
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
    """Return the code that rows of both pages refer to."""
    features_code = {name for _, names in keepers(read(FEATURES)) for name in names}
    lineage_code = {name for row in rules_of_lineage() for name in row.code}
    return sorted(lineage_code | {name for name in features_code if "::" not in name})


@pytest.mark.parametrize("name", named_code())
def test_cited_code_exists(name):
    if "/" in name:
        assert (ROOT / name).is_file()
    else:
        module, _, path = name.partition(":")
        place = import_module(module)
        for attribute in path.split("."):
            place = getattr(place, attribute)


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


@pytest.mark.parametrize("page", [LINEAGE, FEATURES])
def test_table_lines_are_no_wider_than_a_terminal(page):
    tables = [line for line in read(page).splitlines() if line.startswith("|")]
    plain = [A_LINK.sub(r"\1", line) for line in tables]
    assert [line for line in plain if len(line) > MOST_COLUMNS] == []
