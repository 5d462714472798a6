"""The number of avoided words and names in each file does not grow."""

from __future__ import annotations

import json

import pytest

from tests.house import language

STORED = json.loads(language.COUNTS.read_text(encoding="utf-8"))
FILES = frozenset(language.files())


@pytest.mark.parametrize("path", sorted({*STORED, *FILES}))
def test_counts_of_avoided_words_in_a_file_equal_the_stored_counts(path):
    """After a reduction, store the counts with `python -m tests.house.language --write`."""
    places = language.places(path) if path in FILES else []
    counted = {}
    for place in places:
        counted[place.rule] = counted.get(place.rule, 0) + 1
    lines = "\n".join(f"{p.path}:{p.line}: {p.rule}: {p.text}" for p in places)
    assert counted == STORED.get(path, {}), lines
