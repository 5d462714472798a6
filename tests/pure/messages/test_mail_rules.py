"""Addresses and subjects of mail are one line of allowed characters."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduler.messages.rules import mail_rules
from scheduler.messages.rules.mail_rules import BadMail


@pytest.mark.parametrize(
    "address",
    ["ada@example.org", "a.b+tag@sub.example.org", "o'hara_1@localhost", "noreply@127.0.0.1"],
)
def test_usual_addresses_are_accepted(address):
    assert mail_rules.check_address(address) == address


@pytest.mark.parametrize(
    "address",
    [
        *("", "ada", "@example.org", "ada@", "ada@ex ample.org", "ada@example.org "),
        *("Ada <ada@example.org>", '"a b"@example.org', "a@b@c", "a@-b.org", "a@b..org"),
        *("a@example.org,b@example.org", "a@example.org;b@x", "ädä@example.org", "a@exämple.org"),
        *("a..b@example.org", ".a@example.org", "a.@example.org", "=?utf-8?q?a?=@example.org"),
        "a" * 65 + "@example.org",
        "a@" + "b" * 253,
    ],
)
def test_other_addresses_are_refused_with_a_hint(address):
    with pytest.raises(BadMail, match="Hint:"):
        mail_rules.check_address(address)


@pytest.mark.parametrize("subject", ["", "   ", "x" * 201, "a\nb", "a\tb", "a\x85b", "a\u2028b"])
def test_subjects_that_are_not_one_line_are_refused(subject):
    with pytest.raises(BadMail, match="Hint:"):
        mail_rules.check_subject(subject)


def test_a_text_with_a_nul_or_of_excessive_length_is_refused():
    with pytest.raises(BadMail):
        mail_rules.check_text("a\0b")
    with pytest.raises(BadMail):
        mail_rules.check_text("x" * 100_001)
    assert mail_rules.check_text("a\nb") == "a\nb"


def test_delays_double_up_to_an_hour_and_then_the_message_is_parked():
    delays = [mail_rules.next_delay(attempt) for attempt in range(1, mail_rules.MAX_ATTEMPTS + 1)]
    assert delays[:3] == [timedelta(seconds=30), timedelta(minutes=1), timedelta(minutes=2)]
    assert delays[-2:] == [timedelta(hours=1), None]
    assert delays[:-1] == sorted(delays[:-1])
