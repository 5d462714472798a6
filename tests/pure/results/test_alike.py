"""Judging equal workunits once gives the verdicts of judging each of them."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from daemons import transitioner
from scheduler.results.facts import ResultFacts, WorkunitFacts
from scheduler.results.rules.replication import judge
from tests.builders import WORDS, a_workunit
from tests.conftest import NOON

LATE = NOON + timedelta(hours=1)


def rows_of(workunit: WorkunitFacts) -> tuple[tuple, list[tuple]]:
    """Return the rows of a workunit and its results, as the transitioner reads them."""
    row = tuple(getattr(workunit, name) for name in transitioner._WORKUNIT)
    results = [
        tuple(getattr(result, name) for name in transitioner._RESULT) for result in workunit.results
    ]
    return row, results


def numbered(workunit: WorkunitFacts, number: int) -> WorkunitFacts:
    """Return a copy of the workunit with other ids, names and priority."""
    ids = {result.id: 100 * number + result.id for result in workunit.results}
    return replace(
        workunit,
        id=number,
        name=f"wu{number}",
        priority=number,
        transition_at=None,
        canonical_result_id=ids.get(workunit.canonical_result_id or 0),
        results=tuple(
            replace(
                result,
                id=ids[result.id],
                workunit_id=number,
                name=f"wu{number}_{result.attempt}",
                report_deadline=None,
            )
            for result in workunit.results
        ),
    )


@st.composite
def workunits(draw) -> WorkunitFacts:
    words = draw(st.lists(st.sampled_from(sorted(WORDS)), max_size=3))
    valid = [place for place, word in enumerate(words, 1) if word == "valid"]
    return a_workunit(
        " ".join(words),
        canonical_result_id=draw(st.sampled_from([None, *valid])),
        assimilate_state=draw(st.sampled_from([0, 1, 2])) if valid else 0,
        need_validate=draw(st.booleans()),
        unsendable_at=draw(st.sampled_from([None, NOON])),
        cancel_requested_at=draw(st.sampled_from([None, None, NOON])),
        revalidate_requested_at=draw(st.sampled_from([None, None, NOON])),
    )


@given(st.lists(workunits(), min_size=1, max_size=12))
def test_judging_together_gives_the_same_verdicts(drawn):
    each = [numbered(workunit, number) for number, workunit in enumerate(drawn, 1)]
    read = [rows_of(workunit) for workunit in each]
    judged = transitioner.judge_by_situation(
        [row for row, _ in read], [result for _, results in read for result in results], now=LATE
    )
    found = {}
    for alike in judged:
        first = [result.id for result in alike.verdict.workunit.results]
        for workunit_id, ids in zip(alike.workunit_ids, alike.result_ids, strict=True):
            places = dict(zip(first, ids, strict=True))
            found[workunit_id] = said(alike.verdict, places)
    assert found == {
        one.id: said(judge(one, now=LATE), {r.id: r.id for r in one.results}) for one in each
    }


def said(verdict, ids):
    """Return the parts of a verdict, with result ids mapped by `ids`, without the workunit."""
    moves = [replace(move, result_id=ids[move.result_id]) for move in verdict.result_moves]
    facts = {
        field.name: getattr(verdict, field.name)
        for field in fields(verdict)
        if field.name not in {"workunit", "result_moves"}
    }
    return facts, moves, verdict.error_mask, verdict.workunit_moves


def test_workunits_that_differ_only_in_names_and_ids_are_judged_together():
    each = [rows_of(numbered(a_workunit("valid valid", canonical_result_id=1), n)) for n in (1, 2)]
    other = rows_of(numbered(a_workunit("valid valid", canonical_result_id=2), 3))
    read = [*each, other]
    judged = transitioner.judge_by_situation(
        [row for row, _ in read], [result for _, results in read for result in results], now=NOON
    )
    assert [alike.workunit_ids for alike in judged] == [[1, 2], [3]]


def test_every_fact_field_is_part_of_the_situation_or_excluded_explicitly():
    left_out = {"transition_at", "woken_at", "results"}
    assert {field.name for field in fields(WorkunitFacts)} == {*transitioner._WORKUNIT, *left_out}
    unread = {"name", "report_deadline"}
    assert {field.name for field in fields(ResultFacts)} == {*transitioner._RESULT, *unread}
