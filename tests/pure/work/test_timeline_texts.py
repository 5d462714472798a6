"""The sentences of the steps of a volunteer's result."""

from __future__ import annotations

import pytest

from scheduler.lifecycle import MOVES, Axis, Because, Move, ResultState, ValidateState
from scheduler.work.volunteers import timeline_texts
from scheduler.work.volunteers.timeline_texts import SENTENCES, sentence_of

#: The moves before a result is sent, which the timeline leaves out.
BEFORE = {ResultState.INACTIVE, ResultState.UNSENT}
SHOWN = [
    move
    for move in MOVES
    if (move.axis is Axis.RESULT and move.target not in BEFORE) or move.axis is Axis.VALIDATION
]


@pytest.mark.parametrize("move", SHOWN, ids=str)
def test_every_move_of_a_sent_result_has_a_sentence(move: Move):
    sentence = sentence_of(move.axis, move.target, move.because)
    assert sentence != timeline_texts._UNKNOWN
    assert sentence.endswith(".")
    assert sentence in SENTENCES


def test_every_sentence_belongs_to_a_legal_move():
    legal = {(move.axis, move.target, move.because) for move in SHOWN}
    assert timeline_texts._SENTENCES.keys() == legal


def test_sentence_depends_on_the_axis_and_on_the_reason():
    valid = sentence_of(Axis.VALIDATION, ValidateState.VALID, Because.AGREES)
    assert valid == "Found valid: the output agrees with the accepted answer."
    assert "finished without an error" in sentence_of(
        Axis.RESULT, ResultState.SUCCESS, Because.REPORTED
    )
    late = sentence_of(Axis.RESULT, ResultState.SUCCESS, Because.REPORTED_LATE)
    assert late.startswith("Reported after the deadline")


def test_unknown_move_has_a_general_sentence():
    assert sentence_of(99, 99, 99) == "The state of the result changed."
