"""Every option of the project is read by some code."""

from __future__ import annotations

import ast
from dataclasses import fields
from pathlib import Path

import pytest

from scheduler.config import ProjectConfig

ROOT = Path(__file__).resolve().parents[2]


def names_read():
    """Return the names of all attributes that the program reads."""
    found = set()
    for room in ("scheduler", "daemons", "project", "demo"):
        for path in (ROOT / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                    found.add(node.attr)
    return found


READ = names_read()


@pytest.mark.parametrize("name", [field.name for field in fields(ProjectConfig)])
def test_project_option_is_read_by_the_code(name):
    assert name in READ
