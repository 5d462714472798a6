"""What all commands of a scientist's shell have in common."""

from __future__ import annotations

import argparse

import pytest

from scientist.cli import parser


def commands_of(parser, words=()):
    """Every command that does something, by the words that one types."""
    inner = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    if not inner:
        yield " ".join(words), parser
    for action in inner:
        for word, below in action.choices.items():
            yield from commands_of(below, (*words, word))


COMMANDS = dict(commands_of(parser()))


def test_the_commands_are_those_that_are_promised():
    assert set(COMMANDS) >= {
        *("login", "app create", "app publish", "submit", "watch", "fetch"),
        *("list", "show", "cancel", "retry", "stats"),
    }


@pytest.mark.parametrize("words", sorted(COMMANDS))
def test_every_command_answers_machines_too(words):
    assert "--json" in COMMANDS[words]._option_string_actions
