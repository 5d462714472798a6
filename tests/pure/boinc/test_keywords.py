"""BOINC's list of keywords."""

from __future__ import annotations

import pytest

from scheduler.boinc.rules.keywords import KEYWORDS, Category, level


def test_numbers_are_those_of_boincs_list() -> None:
    assert KEYWORDS.keys() == set(range(1, 72)) - {19}
    names = [keyword.name for keyword in KEYWORDS.values()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("number", "name", "category", "parent"),
    [
        (1, "Astronomy", Category.SCIENCE, 0),
        (14, "Cancer research", Category.SCIENCE, 13),
        (18, "Australia", Category.LOCATION, 17),
        (37, "Charles University in Prague", Category.LOCATION, 36),
        (64, "COVID-19 and virology", Category.SCIENCE, 13),
        (71, "Egypt", Category.LOCATION, 70),
    ],
)
def test_keyword_has_its_name_and_place(
    number: int, name: str, category: Category, parent: int
) -> None:
    keyword = KEYWORDS[number]
    assert (keyword.name, keyword.category, keyword.parent) == (name, category, parent)


def test_parents_stand_before_their_children_in_the_same_tree() -> None:
    """Lists indent a keyword below its parent, without a keyword of another branch between."""
    above: list[int] = []
    for keyword in KEYWORDS.values():
        del above[level(keyword.number) :]
        assert (above[-1] if above else 0) == keyword.parent
        assert not keyword.parent or KEYWORDS[keyword.parent].category == keyword.category
        above.append(keyword.number)
    assert max(map(level, KEYWORDS)) == 2, "Hint: add a class levelN to account.css."
