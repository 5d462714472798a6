"""Modules have a summary line of at most 80 characters, and descriptive names."""

from __future__ import annotations

import ast
from pathlib import PurePath

import pytest

from tests.house.tracked import modules, read

#: Names without meaning, and *job*, which the glossary excludes.
BANNED = {
    "util",
    "utils",
    "helper",
    "helpers",
    "common",
    "misc",
    "manager",
    "managers",
    "base_utils",
}
BANNED_WORDS = {"job", "jobs"}

#: Packages that may repeat the name of a module of a domain package, for the same noun.
FACES = ("admin", "api", "management", "models", "storage", "web")
#: File names that several packages have -> the reason.
REPEATED = {
    "__init__.py": "every package has one",
    "facts.py": "the facts of a room's rules",
    "replies.py": "of the two protocols of BOINC: of clients and of submitters",
    "requests.py": "of the two protocols of BOINC: of clients and of submitters",
    "templates.py": "templates as XML, and as a submission uses them",
    "uploads.py": "uploads as HTTP, and as bytes",
    "urls.py": "the addresses of a protocol",
}


@pytest.mark.parametrize("module", [module for module in modules() if read(module).strip()])
def test_module_docstring_begins_with_a_sentence_of_at_most_80_characters(module):
    source = read(module)
    docstring = ast.get_docstring(ast.parse(source))
    assert docstring, f"{module} does not say what it is"
    first = docstring.splitlines()[0]
    assert first.endswith((".", "?", "!")), f"{module}: {first!r} does not end with a full stop"
    assert len(first) <= 80, f"{module}: {first!r} has {len(first)} characters"


def test_no_module_has_a_meaningless_name():
    named = {module: PurePath(module).stem.strip("_") for module in modules()}
    wrong = [
        m for m, stem in named.items() if stem in BANNED or BANNED_WORDS & set(stem.split("_"))
    ]
    assert wrong == []


def test_no_function_name_begins_with_handle_or_process_except_django_hooks():
    # The signatures of Django's middleware, and of servers in the standard library.
    hooks = {
        "handle_error",
        "process_exception",
        "process_response",
        "process_template_response",
        "process_view",
    }
    wrong = [
        f"{module}: {node.name}"
        for module in modules()
        for node in ast.walk(ast.parse(read(module)))
        if isinstance(node, ast.FunctionDef) and node.name.startswith(("handle_", "process_"))
        if node.name not in hooks
    ]
    assert wrong == []


def test_scheduler_packages_share_only_file_names_with_a_stated_reason():
    rooms = [PurePath(m) for m in modules() if m.startswith("scheduler/") and m.count("/") > 1]
    names = [path.name for path in rooms if path.parts[1] not in FACES]
    assert {name for name in names if names.count(name) > 1} == set(REPEATED)


def test_no_folder_of_the_scheduler_holds_more_than_20_modules():
    folders = [PurePath(m).parent.as_posix() for m in modules() if m.startswith("scheduler/")]
    full = {f for f in folders if folders.count(f) > 20 and not f.endswith("management/commands")}
    assert full == set()
