"""The help of commands fits a screen, and commands named in the docs exist."""

from __future__ import annotations

import re

import pytest
from django.core.management import get_commands, load_command_class

from tests.house.tracked import ROOMS, read, tracked

OURS = sorted(name for name, app in get_commands().items() if str(app) in ROOMS)
LINES_OF_A_SCREEN = 48


def targets() -> set[str]:
    phony = re.search(r"^\.PHONY:(.*)$", read("Makefile"), re.MULTILINE)
    assert phony
    return set(phony[1].split())


@pytest.mark.parametrize("name", OURS)
def test_command_help_begins_with_a_sentence_and_fits_a_screen(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    command = load_command_class(str(get_commands()[name]), name)
    parser = command.create_parser("manage.py", name)
    said = str(parser.description)
    assert said[:1].isupper()
    assert said.rstrip().endswith(".")
    assert len(parser.format_help().splitlines()) <= LINES_OF_A_SCREEN


@pytest.mark.parametrize("name", OURS)
def test_command_does_not_load_all_pages_in_order_to_check_them(name):
    command = load_command_class(str(get_commands()[name]), name)
    assert list(command.requires_system_checks) == []


def test_every_daemon_has_a_command_with_its_name():
    from daemons.registry import DAEMONS

    assert {daemon.name for daemon in DAEMONS} <= set(OURS)


def test_every_make_target_has_a_description():
    described = set(re.findall(r"^([a-z-]+):.*## \S", read("Makefile"), re.MULTILINE))
    assert described == targets()


#: Folders with captures of other programs, which name other commands.
OUR_PAGES = [
    name for name in tracked() if name.endswith(".md") and not name.startswith("tests/golden/")
]


@pytest.mark.parametrize("page", OUR_PAGES)
def test_every_command_named_on_a_page_exists(page):
    text = read(page)
    # A command stands at the start of a line, after a prompt, or in back quotes.
    made = set(re.findall(r"(?:^|`|\$ |&& )make ([a-z][a-z-]*)", text, re.MULTILINE))
    managed = set(re.findall(r"manage\.py ([a-z][a-z0-9_]*)", text))
    assert made <= targets()
    assert managed <= set(get_commands()) | {"help"}
