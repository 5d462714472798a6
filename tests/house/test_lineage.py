"""Lineage, features, law: every row stands once, and what keeps it exists."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from functools import cache
from importlib import import_module

import pytest

from scheduler.lifecycle import MOVES, state_label
from tests.house.tracked import ROOT, read

PROMISES = sorted({*(f"B{n}" for n in range(1, 47)), "B8a", "B8b"})
FEATURES = [str(n) for n in range(1, 75)]
PAGES = {"docs/lineage.md": PROMISES, "docs/features.md": FEATURES}
A_ROW = re.compile(r"^\| (B?\d+[ab]?) \| (.*) \|$", re.MULTILINE)
A_KEEPER = re.compile(r"^- \*\*(B?\d+[ab]?)\*\* (.*(?:\n  .*)*)", re.MULTILINE)
MOST_COLUMNS = 120


def rows(page):
    """Every row of a page's tables: its number, and its cells."""
    return [
        (row, [cell.strip() for cell in cells.split(" | ")]) for row, cells in A_ROW.findall(page)
    ]


def keepers(page):
    """What each row names as its keepers, in code spans."""
    return [(row, re.findall(r"`([^`]+)`", said)) for row, said in A_KEEPER.findall(page)]


def state(cells):
    feature, meaning, need, its_state, *_page = cells
    assert all((feature, meaning, need, its_state)), cells
    return need, its_state


@cache
def left_undone():
    """The features of which nothing is there."""
    return {row for row, cells in rows(read("docs/features.md")) if state(cells)[1] == "not"}


@pytest.mark.parametrize(("page", "numbers"), PAGES.items())
def test_every_row_stands_once_and_is_kept_once(page, numbers):
    told = [row for row, _ in rows(read(page))]
    kept = [row for row, _ in keepers(read(page))]
    assert Counter(told) == Counter(numbers)
    assert Counter(kept) == Counter(numbers)


@pytest.mark.parametrize("page", PAGES)
def test_every_row_names_code_and_a_test(page):
    undone = left_undone() if page == "docs/features.md" else set()
    for row, named in keepers(read(page)):
        tests = [name for name in named if "::" in name]
        assert bool(tests) is (row not in undone), row
        assert bool(len(named) - len(tests)) is (row not in undone), row


def named_tests():
    """Every test that a page names, with the first row that does."""
    found = {}
    for page in PAGES:
        for row, named in keepers(read(page)):
            for name in named:
                if "::" in name:
                    found.setdefault(name, f"{page}, {row}")
    for name in re.findall(r"`(tests/[^`]+::[^`]+)`", read("docs/scenarios.md")):
        found.setdefault(name, "docs/scenarios.md")
    return found


@pytest.mark.parametrize("name", named_tests())
def test_every_test_that_is_named_is_there_and_runs(name):
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
    """Everything else that a page names as a keeper."""
    named = (name for page in PAGES for _, names in keepers(read(page)) for name in names)
    return sorted({name for name in named if "::" not in name})


@pytest.mark.parametrize("name", named_code())
def test_all_code_that_is_named_is_there(name):
    if "/" in name:
        assert (ROOT / name).is_file()
    else:
        module, _, attribute = name.partition(":")
        assert hasattr(import_module(module), attribute)


def test_all_that_a_project_must_or_should_have_is_done():
    for row, cells in rows(read("docs/features.md")):
        need, its_state = state(cells)
        assert need in {"must", "should", "nice"}, row
        assert re.fullmatch(r"done|partly: \S.*|not", its_state), row
        assert its_state == "done" or need == "nice", row


def test_the_page_of_the_law_shows_every_move():
    page = read("docs/lifecycle.md")
    for move in MOVES:
        source, target = (state_label(move.axis, code) for code in (move.source, move.target))
        row = f"| {source} | {target} | {move.because.label} | {move.by.label} |"
        assert row in page, "Hint: make docs"


@pytest.mark.parametrize("page", PAGES)
def test_tables_fit_a_terminal(page):
    tables = [line for line in read(page).splitlines() if line.startswith("|")]
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line) for line in tables]
    assert [line for line in plain if len(line) > MOST_COLUMNS] == []
