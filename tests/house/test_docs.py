"""Every name in the docs exists, and everything that must be documented is."""

from __future__ import annotations

import ast
import re
import shlex
from functools import cache
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class

from docs import _generate
from tests.house.tracked import ROOT
from tests.story import console_pages, consoles

PAGES = sorted(
    str(path.relative_to(ROOT)) for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
)
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
STORY = "tests/story/test_life_of_a_workunit.py"


@cache
def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def prose(name):
    return FENCED.sub("", read(name))


def anchor(heading):
    """Return the anchor of a heading, as code hosts generate it."""
    text = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def headings(name):
    return re.findall(r"^#+ (.*)$", prose(name), re.MULTILINE)


def commands_of(page):
    """Return the words of every command in a page's console blocks."""
    shown = [block for block in consoles.blocks(page) if block.kind == "console"]
    lines = [one.text.replace("\\\n", "") for block in shown for one in block.commands()]
    return [words for line in lines if (words := shlex.split(line, comments=True))]


# Everything that exists is documented


def test_code_map_lists_every_module():
    assert _generate.code_map() in read("docs/reference/code.md"), "Hint: make docs"


@pytest.mark.parametrize("name", _generate.commands())
def test_command_help_is_in_the_reference(name):
    assert f"### `manage.py {name}`" in read("docs/reference/cli.md"), "Hint: make docs"


def test_every_daemon_is_described_on_the_operating_page():
    from daemons.registry import DAEMONS

    for daemon in DAEMONS:
        assert f"| `{daemon.name}` |" in read("docs/operating.md")


def test_every_environment_variable_is_described_in_the_configuration_reference():
    for variable in _generate.variables():
        assert variable.field or variable.name in _generate.MEANINGS
        assert f"| `{variable.name}` |" in read("docs/reference/configuration.md"), (
            "Hint: make docs"
        )
    known = {variable.name for variable in _generate.variables()}
    assert _generate.MEANINGS.keys() | _generate.DEFAULTS.keys() <= known


def test_every_project_option_is_described_in_the_configuration_reference():
    from dataclasses import fields

    from scheduler.config import ProjectConfig

    meanings = _generate.option_meanings()
    assert list(meanings) == [field.name for field in fields(ProjectConfig)]
    for meaning in meanings.values():
        assert _generate._one_line(meaning) in read("docs/reference/configuration.md")


@pytest.mark.parametrize(
    ("program", "prefix"), [("volunteer", "VOLUNTEER"), ("scientist", "MANYHANDS")]
)
def test_every_client_environment_variable_is_in_the_configuration_reference(program, prefix):
    used = {
        name
        for path in (ROOT / "client" / program).rglob("*.py")
        for name in re.findall(rf'environ\.get\("({prefix}_\w+)"', path.read_text())
    }
    assert used
    for name in used:
        assert f"| `{name}` |" in read("docs/reference/configuration.md")


def events():
    """Return every log event of the server: the first argument of logger calls."""
    found = {}
    methods = {"debug", "info", "warning", "error", "exception", "critical"}
    for path in _generate.modules():
        if path.parts[0] not in {"project", "scheduler", "daemons"}:
            continue
        for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name("log" | "logger"), attr=method),
                    args=[event, *_],
                ) if method in methods:
                    assert isinstance(event, ast.Constant), f"{path}: an event's name is fixed"
                    found[event.value] = str(path)
    return found


def test_events_page_lists_every_log_event_and_no_other():
    table = read("docs/reference/events.md")
    told = set(re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE))
    assert {event: where for event, where in events().items() if event not in told} == {}
    assert told - events().keys() == set()


def test_headings_of_the_workunit_life_page_equal_the_steps_of_the_story_test():
    tree = ast.parse(read(STORY))
    story = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and "life" in n.name)
    lines = read(STORY).splitlines()[story.lineno : story.end_lineno]
    steps = [line.strip()[2:] for line in lines if line.startswith("    # ")]
    assert headings("docs/life-of-a-workunit.md")[1:] == steps


# Every name exists


def has_heading(page, part):
    return part in map(anchor, headings(str(page.resolve().relative_to(ROOT))))


@pytest.mark.parametrize("page", PAGES)
def test_every_relative_link_has_an_existing_target(page):
    broken = []
    for link in LINK.findall(prose(page)):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, part = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        if not (target.exists() and (not part or has_heading(target, part))):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES)
def test_commands_shown_on_a_page_are_accepted_by_their_parsers(page):
    for words in commands_of(page):
        if words[0] == "make":
            goal = words[1]
            assert re.search(rf"^{goal}:", read("Makefile"), re.MULTILINE), goal
        if words[0] == "scientist":
            parse_scientist(words[1:])
        for program, check in (("manage.py", parse_managed), ("client", parse_volunteer)):
            if any(word == program for word in words[1:]):
                check(words[words.index(program) + 1 :])


def parse_managed(words):
    """Parse the arguments of a management command; fail if it does not accept them."""
    name, *options = words
    assert name in get_commands(), name
    if name in _generate.commands():
        load_command_class(str(get_commands()[name]), name).create_parser(
            "manage.py", name
        ).parse_args(options)


def parse_volunteer(words):
    from volunteer import cli

    given = [word for word in words if word not in {">", "&"} and not word.endswith(".log")]
    cli.parser().parse_args(given)


def parse_scientist(words):
    from scientist import cli

    ends = [place for place, word in enumerate(words) if word in {"|", ">", "<", "&&"}]
    cli.parse(words[: ends[0]] if ends else words)


@cache
def words_of_the_code():
    rooms = ("project", "scheduler", "daemons", "client")
    paths = [path for room in rooms for path in (ROOT / room).rglob("*") if path.is_file()]
    text = " ".join(path.read_text() for path in paths if path.suffix in {".py", ".sql"})
    return set(re.findall(r"\w+", text)) | {path.name for path in paths}


@pytest.mark.parametrize(
    "page",
    ["ARCHITECTURE.md", "docs/life-of-a-workunit.md", *(p for p in PAGES if "/decisions/" in p)],
)
def test_code_names_on_a_page_exist_in_the_code(page):
    named = re.findall(r"`(\w+\.sql|\w+(?:\.\w+)?)`", prose(page))
    known = words_of_the_code()
    assert [n for n in named if n not in known and n.rpartition(".")[2] not in known] == []


def test_first_commands_of_the_readme_are_make_demo_and_make_test():
    first, second, *_ = commands_of("README.md")
    assert (first, second) == (["make", "demo"], ["make", "test"])
    shown = FENCED.search(read("README.md"))
    assert shown
    for proof in ("17 Mersenne primes found", "INVALID", "fsck: 0 violations"):
        assert proof in shown[2]


def test_program_on_the_first_project_page_writes_the_shown_output(tmp_path, monkeypatch, capsys):
    page = read("docs/first-project.md")
    [program] = [body for kind, body in FENCED.findall(page) if kind == "python"]
    monkeypatch.chdir(tmp_path)
    Path("in").write_text("1 30\n")
    exec(compile(program, "collatz.py", "exec"), {"__name__": "__main__"})
    assert Path("out").read_text() == "27 112\n"
    assert "`27 112`" in page


def cited():
    """Return the sections and traps of the protocol that the code refers to."""
    sections, traps = {}, {}
    for room in ("project", "scheduler", "daemons", "client", "demo", "tests"):
        for path in (ROOT / room).rglob("*"):
            if path.suffix not in {".py", ".sql"}:
                continue
            text = path.read_text(encoding="utf-8", errors="replace")
            for section in re.findall(r"PROTOCOL (\d+\.\d+)", text):
                sections.setdefault(section, path)
            for trap in re.findall(r"(?:PROTOCOL |\()trap (\d+)", text):
                traps.setdefault(trap, path)
    return sections, traps


def test_protocol_sections_and_traps_cited_in_code_exist_on_the_protocol_page():
    page = read("docs/protocol.md")
    sections, traps = cited()
    assert sections
    has = set(re.findall(r"^#+ .*?(\d+\.\d+)", page, re.MULTILINE))
    has |= {n for heading in headings("docs/protocol.md") for n in re.findall(r"\d+\.\d+", heading)}
    numbered = set(re.findall(r"^(\d+)\. ", page.partition("## 11. Traps")[2], re.MULTILINE))
    assert {s: str(p) for s, p in sections.items() if s not in has} == {}
    assert {t: str(p) for t, p in traps.items() if t not in numbered} == {}


def test_workunit_example_on_the_protocol_page_occurs_in_golden_files():
    said = "".join(
        line.strip()
        for folder in ("tests/golden/replies", "tests/golden/captured")
        for path in sorted((ROOT / folder).rglob("*"))
        if path.is_file()
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines()
    )
    [work] = [b for k, b in FENCED.findall(read("docs/protocol.md")) if "<workunit>" in b]
    for line in work.splitlines():
        assert line.strip() in said or "..." in line


# Form


def test_decisions_are_numbered_and_have_context_choice_and_consequence():
    pages = sorted(path for path in PAGES if path.startswith("docs/decisions/"))
    numbers = [int(Path(page).name[:4]) for page in pages]
    assert numbers == list(range(1, len(pages) + 1))
    for page, number in zip(pages, numbers, strict=True):
        assert read(page).startswith(f"# {number}. ")
        said = re.findall(r"^\*\*(\w+)\.\*\*", read(page), re.MULTILINE)
        assert said == ["Context", "Choice", "Consequence"], page


def test_newest_changelog_version_equals_the_project_version():
    version = re.search(r'^version = "(.*)"', read("pyproject.toml"), re.MULTILINE)
    newest = re.search(r"^## (\S+)", read("CHANGELOG.md"), re.MULTILINE)
    assert version
    assert newest
    assert newest[1] == version[1]


@pytest.mark.parametrize("page", PAGES)
def test_page_has_exactly_one_title(page):
    assert len(re.findall(r"^# ", prose(page), re.MULTILINE)) == 1


# Consoles


@pytest.mark.parametrize("page", consoles.PAGES)
def test_every_console_block_is_run_by_a_test_or_marked_with_a_reason(page):
    typed = console_pages.PAGES.keys() | console_pages.SIGNING.keys()
    faults = []
    for block in consoles.blocks(page):
        commands = block.commands()
        mark = consoles.MARK.fullmatch(block.mark) if block.mark else None
        if block.kind != "console":
            faults += [f"line {block.line}: a {block.kind} block has commands"] if commands else []
        elif mark is None:
            faults += [] if page in typed and commands else [f"line {block.line}: nothing types it"]
        elif mark["test"] and page not in read(mark["test"]):
            faults += [f"line {block.line}: {mark['test']} does not name this page"]
    assert faults == []


def test_every_page_of_the_console_tests_has_console_blocks():
    for page in console_pages.PAGES.keys() | console_pages.SIGNING.keys():
        assert consoles.typed_blocks(page), page


@pytest.mark.parametrize(
    ("text", "shown", "output", "is_same"),
    [
        ("ls", "", "anything", True),
        ("ls", "saved 3 files", "saved 1 000 files\n", True),
        ("ls", "saved 3 files", "saved no files", False),
        ("ls", "saved 3 files", "saved 3 files\nand more", False),
        ("ls", "first\n...\nlast", "first\n1\n2\nlast", True),
        ("ls", "first\n...\nlast", "first\nlast", True),
        ("ls", "first\n...\nlast", "first\n1\n2", False),
        ("ls", "...\n  3  last", "  4  last", True),
        ("ls", "...\n  3  last", "first\n  4  last", True),
        ("ls", "key: 3fa2 of 12.0 MB", "key: bead of 7 B", True),
        ("ls", "Password:\nlogged in", "logged in", True),
        ("cat out", "27 112", "27 113", False),
        ("curl -s $URL", '{"id":...,"status":304}', '{"id":1,"status":304}', True),
        ("curl -s $URL", '{"id":...,"status":304}', '{"id":1,"status":200}', False),
        ("volunteer run --slots 1", "12:00 b done\n12:01 a done", "9:00 a done\n9:00 b done", True),
        ("volunteer run --slots 1", "12:00 b done\n12:01 a done", "9:00 a done", False),
    ],
)
def test_shown_output_is_compared_with_rules_for_numbers_and_omissions(
    text, shown, output, is_same
):
    assert (consoles.compare(consoles.Command(text, shown), output) is not None) is is_same


def test_choosing_page_has_a_row_for_every_refusal_reason():
    from scheduler.dispatch.rules.fit import RefusalReason

    rows = re.findall(r"^\| (`[^|]*) \|", read("docs/choosing.md"), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert {refusal.value for refusal in RefusalReason} <= named
