"""The arguments of a launcher survive the command-line handling of every client."""

from __future__ import annotations

import re
import shlex

from hypothesis import given, strategies

from scheduler.dispatch.rules import launching

TEXTS = strategies.text(strategies.characters(blacklist_characters="\0", codec="utf-8"))


def decoded(word: str) -> str:
    octal = re.compile(rb"%([0-7]{3})")
    return octal.sub(lambda m: bytes([int(m[1], 8)]), word.encode()).decode()


@given(TEXTS)
def test_encoded_text_uses_only_safe_characters_and_decodes_back(text: str) -> None:
    written = launching.encode(text)
    assert re.fullmatch(r"[A-Za-z0-9_./,:@=%-]+", written)
    assert decoded(written) == text or (text, written) == ("", "%")


@given(strategies.lists(TEXTS.filter(lambda text: "\n" not in text), max_size=4))
def test_words_are_split_like_in_a_shell_and_encoded_separately(words: list[str]) -> None:
    line = launching.command_line(shlex.join(words), kind="script", success_rule="both")
    match = re.fullmatch(r"rule=both in= out=(?: words=(\S+))? --", line)
    assert match
    encoded_words = match[1].split("+") if match[1] else []
    assert ["" if word == "%" else decoded(word) for word in encoded_words] == words


def test_unbalanced_quotes_are_kept_as_part_of_words() -> None:
    line = launching.command_line("it's on", kind="script", success_rule="exit_code")
    assert line == "rule=exit_code in= out= words=it%047s+on --"


def test_command_is_one_argument_and_optional_outputs_are_marked() -> None:
    line = launching.command_line(
        "a | b",
        kind="command",
        success_rule="validator",
        inputs=["in", "data/a b"],
        outputs=["out", "log"],
        optional=["log"],
    )
    assert line == "rule=validator in=in+data/a%040b out=out+log opt=log shell=a%040%174%040b --"
