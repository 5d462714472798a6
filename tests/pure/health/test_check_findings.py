"""Findings of checks have a bounded size, and stay open until a new check."""

from __future__ import annotations

import json

import pytest

from scheduler.health.rules import check_findings
from scheduler.health.rules.check_findings import MAX_LENGTH, MAX_ROWS, Finding, Unchecked


def a_finding(name: str, count: int = 1, rows: int = 1) -> Finding:
    pairs = [(f"{name} {number}", "is wrong") for number in range(rows)]
    return Finding.of(name, f"No {name} is wrong.", pairs, count=count, hint="Hint: repair it.")


def counts(findings: list[Finding]) -> dict[str, int]:
    return {finding.name: finding.count for finding in findings}


def test_a_finding_has_the_first_rows_and_the_number_of_all():
    finding = a_finding("host", count=1000, rows=1000)
    assert len(finding.rows) == MAX_ROWS
    assert finding.rows[0] == ("host 0", "is wrong")
    assert finding.count == 1000
    limited = Finding.of("host", "", [("a", ""), ("b", "")], count=2, max_rows=1)
    assert limited.rows == (("a", ""),)


def test_a_stored_finding_is_read_back_unchanged():
    finding = a_finding("host", rows=3)
    assert Finding.from_json(json.loads(json.dumps(finding.as_json()))) == finding


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("x" * MAX_LENGTH, "x" * MAX_LENGTH),
        ("x" * (MAX_LENGTH + 1), "x" * (MAX_LENGTH - 1) + "…"),
        ("a\0b", "ab"),
        ("file \udc80 of bytes", "file ? of bytes"),
    ],
)
def test_texts_are_shortened_and_have_only_characters_that_json_can_have(text, stored):
    assert check_findings.cleaned(text) == stored
    assert Finding.of("n", "", [(text, text)], count=1).rows == ((stored, stored),)


def test_email_addresses_are_not_stored_because_they_would_outlive_the_account():
    detail = "address ada@example.org, rows bob@localhost, eve@x.org"
    finding = Finding.of("accounts", "", [("account 5", detail)], count=1)
    assert finding.rows == (("account 5", "address (address), rows (address), (address)"),)


def test_a_row_without_a_name_or_description_is_stored_as_empty_text():
    assert Finding.of("n", "", [(None, None)], count=1).rows == (("", ""),)


def test_findings_of_one_name_are_added_up_with_the_first_rows():
    first, other = a_finding("host", count=2, rows=2), a_finding("team")
    merged = check_findings.merged([first, other], a_finding("host", count=5, rows=5), max_rows=3)
    assert counts(merged) == {"host": 7, "team": 1}
    assert [row for row, _ in merged[0].rows] == ["host 0", "host 1", "host 0"]
    assert counts(check_findings.merged([other], first, max_rows=3)) == {"team": 1, "host": 2}


def test_unchecked_parts_of_one_name_are_added_up_with_the_first_reason():
    parts = [Unchecked("hosts", "s", "too slow", 3), Unchecked("teams", "s", "too slow")]
    [hosts, teams] = check_findings.merged_unchecked(parts, Unchecked("hosts", "s", "refused", 4))
    assert hosts == Unchecked("hosts", "s", "too slow", 7)
    assert teams == parts[1]
    assert check_findings.merged_unchecked([], hosts) == [hosts]


def test_findings_that_were_not_checked_again_stay_open():
    earlier = [a_finding("files", 3), a_finding("hosts", 2)]
    carried = check_findings.not_checked_again(earlier, ["hosts"])
    assert counts(carried) == {"files": 3}
    own = [a_finding("hosts", 1)]
    assert counts(check_findings.still_open(own, carried)) == {"hosts": 1, "files": 3}


@pytest.mark.parametrize(("own", "carried", "both"), [(2, 5, 5), (6, 5, 6)])
def test_a_finding_of_a_limited_run_does_not_replace_a_larger_one(own, carried, both):
    open_findings = check_findings.still_open(
        [a_finding("apps", own)], [a_finding("apps", carried)]
    )
    assert counts(open_findings) == {"apps": both}
