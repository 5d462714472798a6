"""Positions in lists are unreadable, authenticated and bound to their list."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from decimal import Decimal

import pytest

from scheduler.sealed_positions import MAX_TOKEN, BadPosition, seal, unseal


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (Decimal("12.500000"), "12.500000"),
        (1e-06, "1e-06"),
        (1 / 3, repr(1 / 3)),
        ("a name  ", "a name  "),
        ("", ""),
        (" \n\t☃", " \n\t☃"),
    ],
)
def test_position_is_read_as_it_was_sealed(key, text):
    assert unseal("list", seal("list", key, 7)) == (text, 7)


def test_position_is_valid_in_its_own_list_only(settings):
    token = seal("list", 5, 7)
    with pytest.raises(BadPosition):
        unseal("another list", token)
    settings.SECRET_KEY = "another"
    with pytest.raises(BadPosition):
        unseal("list", token)


def test_every_changed_byte_is_noticed():
    token = urlsafe_b64decode(seal("list", 5, 7))
    for place in range(len(token)):
        changed = bytearray(token)
        changed[place] ^= 1
        with pytest.raises(BadPosition):
            unseal("list", urlsafe_b64encode(changed).decode())


@pytest.mark.parametrize("text", ["", " ", "5_7", "=", "☃", "\ud800", "\0", "A" * 3000])
def test_other_texts_are_refused(text):
    with pytest.raises(BadPosition, match="not a position in this list"):
        unseal("list", text)


def test_length_does_not_disclose_the_credit():
    amounts = (Decimal("0.000001"), Decimal("999999999999999999.999999"), 1e-300, 5)
    ids = (1, 2**63 - 1)
    assert len({len(seal("list", credit, row_id)) for credit in amounts for row_id in ids}) == 1


def test_longest_name_makes_an_accepted_token():
    assert len(seal("list", "😀" * 254, 2**63 - 1)) <= MAX_TOKEN
