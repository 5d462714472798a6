"""Settings variables are read by type; an error names the invalid variable."""

from __future__ import annotations

import os
import re
import runpy
from pathlib import Path
from typing import get_type_hints

import pytest

from docs import _generate
from project.env import BadSetting
from scheduler.config import AccountCreation, ProjectConfig
from tests.house.tracked import ROOT

VARIABLES = _generate.variables()

#: Kind of variable -> a text that is invalid for it.  Texts and lists of words are always valid.
NONSENSE = {
    "`true` or `false`": "maybe",
    "`open`, `invitation` or `closed`": "maybe",
    "addresses or networks, separated by commas": "everybody",
    "e-mail addresses and pages, separated by commas": "ada",
    "octal digits": "0999",
    "regular expression": "(",
    "folder": __file__,
    "http(s) address": "ftp://example.org/",
    "address of a bucket": "https://example.org/",
}
ANY_TEXT = {"text", "words, separated by commas"}


def nonsense(variable):
    """Return a value that the variable refuses, or None if it accepts every text."""
    if variable.kind in ANY_TEXT:
        return None
    return NONSENSE.get(variable.kind, "nonsense")


@pytest.fixture
def read(monkeypatch, tmp_path):
    """Return a function that runs the settings module with only these variables set."""
    umask = os.umask(0o777)
    os.umask(umask)
    for variable in VARIABLES:
        monkeypatch.delenv(variable.name, raising=False)
    monkeypatch.setenv("VAR_DIR", str(tmp_path))
    monkeypatch.setenv("SECRET_KEY", "secret")
    monkeypatch.setenv("DATABASE_URL", "postgresql://ada@db.example/manyhands")

    def run(**variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return runpy.run_path(str(ROOT / "project" / "settings.py"))

    yield run
    os.umask(umask)


def test_settings_without_variables_are_the_documented_defaults(read):
    project = read()["PROJECT"]
    assert project == ProjectConfig(chance_key="secret")
    for name, kind in get_type_hints(ProjectConfig).items():
        value = getattr(project, name)
        assert isinstance(value, getattr(kind, "__origin__", kind)), name


@pytest.mark.parametrize("variable", [v for v in VARIABLES if nonsense(v)], ids=lambda v: v.name)
def test_invalid_variable_is_refused_when_settings_are_read(read, variable):
    with pytest.raises(BadSetting, match=rf"^{variable.name}="):
        read(**{variable.name: nonsense(variable)})


def another_value(variable):
    """Return a valid text for the variable that is not the default of its option."""
    default = getattr(ProjectConfig(), variable.field)
    if bounds := re.match(r"whole number from (\d+)(?: to (\d+))?", variable.kind):
        # No default has this number of seconds or days.
        return bounds[2] or str(int(bounds[1]) + 12_345)
    return {
        "`true` or `false`": str(not default),
        "`open`, `invitation` or `closed`": AccountCreation.CLOSED.value,
        "`auto` or `file` or `inline`": "file",
        "e-mail addresses and pages, separated by commas": "ada@example.org",
        "http(s) address": "https://example.org/",
        "`en` and `de`, separated by commas": "de",
        "path of a text file": __file__,
        "path of a TOML file": str(Path(__file__).with_name("login_providers.toml")),
    }.get(variable.kind, "other")


@pytest.mark.parametrize("variable", [v for v in VARIABLES if v.field], ids=lambda v: v.name)
def test_a_variable_sets_its_option(read, variable):
    value = another_value(variable)
    project = read(**{variable.name: value})["PROJECT"]
    option = getattr(project, variable.field)
    assert option != getattr(ProjectConfig(), variable.field)
    kind = get_type_hints(ProjectConfig)[variable.field]
    assert isinstance(option, getattr(kind, "__origin__", kind))
