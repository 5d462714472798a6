"""Behavior that all commands of the scientist client share."""

from __future__ import annotations

import argparse

import pytest
from rich.console import Console

from scientist.cli import parse, parser
from scientist.commands.submitting import _SendingState
from scientist.display import TransferBars
from scientist.errors import problem
from scientist.submission import CHUNK_BYTES


def commands_of(parser, words=()):
    """Return every command without subcommands, by its words on the command line."""
    inner = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    if not inner:
        yield " ".join(words), parser
    for action in inner:
        for word, below in action.choices.items():
            yield from commands_of(below, (*words, word))


COMMANDS = dict(commands_of(parser()))


def test_documented_commands_exist():
    assert set(COMMANDS) >= {
        *("login", "app create", "app publish", "submit", "watch", "fetch"),
        *("list", "show", "cancel", "retry", "stats"),
    }


@pytest.mark.parametrize("words", sorted(COMMANDS))
def test_every_command_has_a_json_option(words):
    assert "--json" in COMMANDS[words]._option_string_actions


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["submit", "fold", "--deadline", "-5d"], "'-5d' is not a duration. Hint: write 90s"),
        (["submit", "fold", "--memory", "lots"], "'lots' is not a size. Hint: "),
        (["submit"], "scientist submit: the following arguments are required: APP. Hint: "),
        (["submit", "fold", "--quorom", "2"], "--quorom 2. Hint: did you mean --quorum?"),
        # Options of other subcommands are not suggested.
        (["list", "workunits", "--batch", "4"], "`scientist list --help` shows all options."),
        (["queue", "create", "q", "--limt", "4"], "--limt 4. Hint: did you mean --limit?"),
        (["submitt"], "Hint: `scientist --help` "),
    ],
)
def test_usage_error_is_one_line_without_the_usage_text(words, complaint, capsys):
    with pytest.raises(SystemExit) as ended:
        parse(words)
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert complaint in said
    assert len(said.splitlines()) == 1


def test_negative_number_is_accepted_as_an_option_value():
    assert parse(["submit", "fold", "--priority", "-5"]).priority == -5


def test_help_of_app_publish_describes_how_the_kind_is_chosen():
    said = " ".join(COMMANDS["app publish"].format_help().split())
    assert "default native" not in said
    assert "default: script for an archive, a .sh file or a folder with run.sh" in said
    assert "container with --image, else native" in said
    assert "(default native)" in " ".join(COMMANDS["app create"].format_help().split())


def test_hint_repeated_in_a_fault_is_shown_once():
    hint = "give the name of an app."
    fault = {"line": 2, "pointer": "/app", "detail": "app is 3.", "hint": hint}
    for body in (
        {"detail": "1 fault in 1 workunit: app is 3.", "hint": hint, "errors": [fault]},
        {"detail": f"app is 3. Hint: {hint}", "hint": hint},
        {"detail": f"app is 3. Hint: {hint}"},
    ):
        error = problem(422, body)
        assert str(error).count(hint) == 1
        assert error.hint == hint


def test_body_counts_as_possibly_complete_only_near_its_last_chunk():
    with TransferBars(Console(), live=False) as bars:
        sending = _SendingState(bars)
        sending.update("sending", 0, 10 * CHUNK_BYTES)
        sending.update("sending", 8 * CHUNK_BYTES, 10 * CHUNK_BYTES)
        assert (sending.has_begun, sending.may_be_whole) == (True, False)
        sending.update("sending", 9 * CHUNK_BYTES, 10 * CHUNK_BYTES)
        assert sending.may_be_whole
