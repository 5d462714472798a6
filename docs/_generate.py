"""Writes what the docs say about the code from the code itself; cog calls it."""

from __future__ import annotations

import argparse
import ast
import inspect
import os
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduler.lifecycle import Axis

ROOT = Path(__file__).resolve().parent.parent
#: The rooms of the code map, in the order in which a newcomer meets them.
ROOMS = ("project", "scheduler", "daemons", "client", "demo", "bench", "docs")
LEFT_OUT = {"migrations", "__pycache__", "build", "tests"}
COLUMNS = "88"


# The code map


def modules() -> Iterator[Path]:
    """Every module that people write, relative to the root, folder by folder."""
    yield Path("manage.py")
    for room in ROOMS:
        found = (ROOT / room).rglob("*.py")
        paths = [path.relative_to(ROOT) for path in found if not LEFT_OUT & set(path.parts)]
        yield from sorted(paths, key=lambda path: (path.parts[:-1], path.name))


def first_line(path: Path) -> str:
    """The first line of a module's docstring; empty for an empty module."""
    docstring = ast.get_docstring(ast.parse((ROOT / path).read_text(encoding="utf-8")))
    return docstring.splitlines()[0] if docstring else ""


def code_map() -> str:
    """One list per folder: each module and its first line."""
    folders: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for path in modules():
        if said := first_line(path):
            folders[path.parent.as_posix()].append((path.name, said))
    parts = []
    for folder, members in folders.items():
        about = dict(members).get("__init__.py", "")
        heading = "**`./`**" if folder == "." else f"**`{folder}/`**"
        parts.append(f"{heading} {about}".rstrip() + "\n")
        parts += [f"- `{name}` {said}" for name, said in members if name != "__init__.py"]
        parts.append("")
    return _page(parts)


def statements() -> str:
    """One list per folder of statements: each and its first comment line."""
    parts = []
    for folder in sorted({path.parent for room in ROOMS for path in (ROOT / room).rglob("*.sql")}):
        parts.append(f"## `{folder.relative_to(ROOT).as_posix()}/`\n")
        parts += [f"- `{path.stem}` {_purpose(path)}" for path in sorted(folder.glob("*.sql"))]
        parts.append("")
    return _page(parts)


def _purpose(path: Path) -> str:
    """The first paragraph of a statement's comment, up to its first full stop."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("--"):
            break
        lines.append(line.removeprefix("--").strip())
    return re.split(r"(?<=\.)\s", " ".join(lines), maxsplit=1)[0]


# The law


def lifecycle() -> str:
    """For each axis: its diagram, its table of moves."""
    from scheduler.lifecycle import Axis

    return _page([_axis(axis) for axis in Axis])


def _axis(axis: Axis) -> str:
    from scheduler.lifecycle import MOVES, state_label

    rows = [
        f"| {state_label(axis, m.source)} | {state_label(axis, m.target)} "
        f"| {m.because.label} | {m.by.label} |"
        for m in MOVES
        if m.axis is axis
    ]
    return "\n".join(
        [
            f"## {axis.label.capitalize()}\n",
            *_diagram(axis),
            "",
            "| from | to | because | by |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


def _diagram(axis: Axis) -> list[str]:
    from scheduler.lifecycle import INITIAL, MOVES, STATES, next_moves, state_label

    moves = [m for m in MOVES if m.axis is axis]
    arrows: dict[tuple[str, str], dict[str, list[str]]] = defaultdict(dict)
    births = {m.target for m in moves if state_label(axis, m.source) == "nothing"}
    for state in INITIAL[axis]:
        if state not in births:
            arrows["[*]", state.name] = {}
    for move in moves:
        owners = arrows[_node(axis, move.source), _node(axis, move.target)]
        owners.setdefault(move.by.label, []).append(move.because.label)
    lines = ["```mermaid", "stateDiagram-v2"]
    for (source, target), owners in arrows.items():
        labels = [f"{' or '.join(reasons)} ({who})" for who, reasons in owners.items()]
        lines.append(f"    {source} --> {target}" + (f" : {' · '.join(labels)}" if labels else ""))
    lines += [
        f"    {state.name} --> [*]" for state in STATES[axis] if not next_moves(axis, int(state))
    ]
    return [*lines, "```"]


def _node(axis: Axis, code: int) -> str:
    from scheduler.lifecycle import STATES, state_label

    return "[*]" if state_label(axis, code) == "nothing" else STATES[axis](code).name


def actors() -> str:
    """Who moves what: one row per actor and axis."""
    from scheduler.lifecycle import MOVES, Actor, Axis, state_label

    parts = ["| who | axis | moves |", "|---|---|---|"]
    for actor in Actor:
        for axis in Axis:
            own = [m for m in MOVES if m.by is actor and m.axis is axis]
            said = dict.fromkeys(
                f"{state_label(axis, m.source)} → {state_label(axis, m.target)}" for m in own
            )
            if said:
                parts.append(f"| {actor.label} | {axis.label} | {', '.join(said)} |")
    return _page(parts)


def error_bits() -> str:
    """The bits of ``error_mask``, each with the reason that sets it."""
    from scheduler.lifecycle import ERROR_BITS, ErrorMask

    reasons = {bit: because.label for because, bit in ERROR_BITS.items()}
    parts = ["| bit | name | set because |", "|---|---|---|"]
    parts += [
        f"| {bit.value} | {bit.name} | {reasons.get(bit, 'never set here')} |" for bit in ErrorMask
    ]
    return _page(parts)


# What always holds


def invariants() -> str:
    """What fsck checks: the name of each invariant and its sentence."""
    _set_up_django()
    from scheduler.health import invariants as checked

    parts = ["| `fsck` says | what always holds |", "|---|---|"]
    parts += [f"| `{one.name}` | {one.sentence} |" for one in checked.invariants()]
    return _page(parts)


# The command line


def commands() -> tuple[str, ...]:
    """The names of the commands that are ours, in alphabetical order."""
    _set_up_django()
    from django.core.management import get_commands

    ours = {"project", "scheduler", "daemons"}
    return tuple(sorted(name for name, app in get_commands().items() if str(app) in ours))


def manage_help() -> str:
    """The help of every command of ours; Django's own options are left out."""
    from django.core.management import get_commands, load_command_class

    parts = []
    for name in commands():
        command = load_command_class(str(get_commands()[name]), name)
        parser = command.create_parser("manage.py", name)
        _hide_djangos(parser)
        parts.append(_help(f"manage.py {name}", parser))
    return _page(parts)


def volunteer_help() -> str:
    """The help of the volunteer's program and of each of its commands."""
    from volunteer import cli

    return _page(_helps("volunteer", cli.parser()))


def scientist_help() -> str:
    """The help of the scientist's program and of each of its commands."""
    from scientist import cli

    return _page(_helps("scientist", cli.parser()))


def _helps(title: str, parser: argparse.ArgumentParser) -> list[str]:
    """The help of a program and of its commands, and theirs."""
    parts = [_help(title, parser)]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, one in action.choices.items():
                parts += _helps(f"{title} {name}", one)
    return parts


def _help(title: str, parser: argparse.ArgumentParser) -> str:
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = COLUMNS
    try:
        text = "\n".join(line.rstrip() for line in parser.format_help().strip().splitlines())
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
    return f"### `{title}`\n\n```text\n{text}\n```\n"


def _hide_djangos(parser: argparse.ArgumentParser) -> None:
    from django.core.management.base import BaseCommand

    common = {
        option
        for action in BaseCommand().create_parser("manage.py", "x")._actions
        for option in action.option_strings
    } - {"-h", "--help"}
    for action in parser._actions:
        if common & set(action.option_strings):
            action.help = argparse.SUPPRESS


def _set_up_django() -> None:
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    django.setup()


# The configuration

#: What the variables mean that are no field of ProjectConfig.
MEANINGS = {
    "VAR_DIR": "Where files, keys, archive, signs of life and the embedded database are.",
    "FILE_UMASK": "What other users of the machine may not do with new files, in octal: `0027` "
    "keeps them out and lets the group read; `0022` where a proxy of another user and group "
    "serves downloads.",
    "SUBMIT_FOLDER": "A folder of this machine whose files submitters may name by path (mode "
    "`local` of `submit_rpc_handler.php`); empty: none.",
    "STORAGE_URL": "Where files live that clients download, if not in `VAR_DIR`: "
    "`s3://bucket/prefix?endpoint=...` ([files.md](../files.md)). Keys are read from "
    "`AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`.",
    "UPLOAD_FSYNC": "Whether an upload is on disk for good before the client is told that it "
    "arrived. Without, what a power cut loses is found by the validator and computed again.",
    "PLUGINS": "The TOML or JSON file with the allow-list of plug-ins ([operating.md]"
    "(../operating.md#plug-ins-and-confinement)); without it, apps can use built-in science only.",
    "SCIENCE_SOCKET": "The Unix socket of the science service; if empty, each daemon starts its "
    "own workers.",
    "SCIENCE_CONFINEMENT": "How workers are confined; `auto` uses the first form that works.",
    "SCIENCE_MEMORY_MB": "Memory of one process of science code, in MiB of addresses.",
    "SCIENCE_FILE_MB": "Largest file that science code can write, in MiB.",
    "SCIENCE_PROCESSES": "How many processes and threads a worker's science can have.",
    "SCIENCE_CPU_SECONDS": "CPU time of one process of science code; calls have the app's "
    "`science_time_limit` as well.",
    "AUDIT_LOG": "A file to which every entry of the audit log is appended as a line of JSON "
    "([roles.md](../roles.md#the-audit-log)); if empty, entries go to the common log.",
    "AUDIT_KEPT_DAYS": "How many days entries of the audit log are kept in the database.",
    "MAX_SLOW_CLIENTS": "How many clients of one web process may send slowly at a time, and how "
    "many may read slowly; above that the slowest are disconnected, and reconnect later.",
    "MIN_FREE_BYTES": "Uploads and submissions are refused while fewer bytes than this would stay "
    "free in VAR_DIR.",
    "DEBUG": "Whether error pages show tracebacks. Never on a server that others can reach.",
    "SECRET_KEY": "Signs sessions of the admin.",
    "ALLOWED_HOSTS": "Names under which the web server answers.",
    "TRUSTED_PROXIES": "Proxies in front whose `X-Forwarded-For` says whom a request came from.",
    "DATABASE_URL": "The PostgreSQL (15 or later) to use, as psql takes it; without one, the "
    "embedded server is found or started.",
    "DATABASE_POOL": "Connections that one process of the web server shares among its threads; 0, "
    "for commands, means one a thread.",
    "GUARD_TRIGGER": "Whether the database itself refuses a move that the law does not name; see "
    "also `manage.py guard_trigger`.",
    "CELERY_BROKER_URL": "The broker, where Celery drives the daemons.",
    "LOG_FORMAT": "Columns for people, or JSON lines for machines.",
    "LOG_LEVEL": "The least level that is written.",
}
#: Defaults that are expressions in the settings.
DEFAULTS = {
    "VAR_DIR": "`var` in the checkout",
    "FILE_UMASK": "`0027`",
    "SECRET_KEY": "made once, kept in `var/keys/secret_key`",
    "ALLOWED_HOSTS": "the host of `MASTER_URL`, `localhost`, `127.0.0.1`, `[::1]`",
    "DATABASE_URL": "the embedded PostgreSQL",
    "ACCOUNT_CREATION": "`open`",
    "ONLINE_SIGNING": "`true`, and `false` where `MASTER_URL` begins with https",
    "MIN_FREE_BYTES": "`100000000`, and `max_wal_size` if the database is on the same disk",
}


@dataclass(frozen=True, slots=True)
class Variable:
    """One environment variable: how it is read, and the option it sets, if it is one."""

    name: str
    kind: str
    default: str
    field: str | None


def variables() -> list[Variable]:
    """Every environment variable that the settings read, in their order."""
    tree = ast.parse((ROOT / "project/settings.py").read_text(encoding="utf-8"))
    fields = {
        id(call): keyword.arg
        for config in ast.walk(tree)
        if isinstance(config, ast.Call) and _name(config.func) == "ProjectConfig"
        for keyword in config.keywords
        for call in ast.walk(keyword.value)
    }
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and _name(node.func.value) == "env"
        and node.args
    ]
    calls.sort(key=lambda call: (call.lineno, call.col_offset))
    return [_variable(call, fields.get(id(call))) for call in calls]


def _variable(call: ast.Call, field: str | None) -> Variable:
    assert isinstance(call.func, ast.Attribute)
    assert isinstance(call.args[0], ast.Constant)
    name = str(call.args[0].value)
    options = {word.arg: word.value for word in call.keywords}
    given = call.args[1] if len(call.args) > 1 else options.get("default")
    default = DEFAULTS.get(name) or (f"`{ast.literal_eval(given)}`" if given else "")
    return Variable(name, _kind(call.func.attr, options), default, field)


def _kind(reader: str, options: dict[str | None, ast.expr]) -> str:
    if reader == "choice":
        return " or ".join(sorted(f"`{word}`" for word in ast.literal_eval(options["among"])))
    if reader == "integer":
        low = ast.literal_eval(options["at_least"]) if "at_least" in options else 0
        high = f" to {ast.literal_eval(options['at_most'])}" if "at_most" in options else ""
        return f"whole number from {low}{high}"
    return {
        "text": "text",
        "boolean": "`true` or `false`",
        "account_creation": "`open`, `invitation` or `closed`",
        "words": "words, separated by commas",
        "networks": "addresses or networks, separated by commas",
        "contacts": "e-mail addresses and pages, separated by commas",
        "umask": "octal digits",
        "pattern": "regular expression",
        "folder": "folder",
        "web_url": "http(s) address",
        "store_url": "address of a bucket",
        "broker_url": "address of a broker",
        "database_url": "address of a database",
        "plugins": "path of a file",
    }[reader]


def option_meanings() -> dict[str, str]:
    """What each field of ProjectConfig means: the text below it."""
    from scheduler.config import ProjectConfig

    [tree] = ast.parse(inspect.getsource(ProjectConfig)).body
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for field, below in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
            assert isinstance(below.value, ast.Constant)
            found[_name(field.target)] = inspect.cleandoc(str(below.value.value))
    return found


def configuration() -> str:
    """The table of environment variables."""
    options = option_meanings()
    parts = ["| variable | value | default | meaning |", "|---|---|---|---|"]
    for variable in variables():
        meaning = options[variable.field] if variable.field else MEANINGS[variable.name]
        timed = {"request_delay", "purge_after", "login_throttle_window"}
        seconds = ", in seconds" if variable.field in timed else ""
        parts.append(
            f"| `{variable.name}` | {variable.kind}{seconds} | {variable.default} "
            f"| {_one_line(meaning)} |"
        )
    return _page(parts)


def fixed_options() -> str:
    """The options that no environment variable sets, with their values."""
    from scheduler.config import ProjectConfig

    read = {variable.field for variable in variables()}
    config = ProjectConfig()
    parts = ["| option | value | meaning |", "|---|---|---|"]
    parts += [
        f"| `{name}` | `{getattr(config, name)}` | {_one_line(meaning)} |"
        for name, meaning in option_meanings().items()
        if name not in read
    ]
    return _page(parts)


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _one_line(text: str) -> str:
    return " ".join(text.replace("``", "`").split())


def _page(parts: list[str]) -> str:
    """Parts as lines, without an empty one at the end."""
    return "\n".join(parts).rstrip("\n")


# The protocol


def number_ranges() -> str:
    """Return a table of the ranges of all numbers in scheduler requests, by range."""
    from scheduler.boinc.wire import requests
    from scheduler.messages.rules.trickle_texts import MAX_VALUES

    paths: dict[tuple[str, str], list[str]] = defaultdict(list)
    for field in requests.number_fields():
        kept = field.range
        bounds = f"{_number(kept.low)} to {_number(kept.high)}"
        bounds += ", or 0: not measured" if kept.zero_is_unknown else ""
        paths[bounds, kept.unit].append(field.path)
    for name, high in MAX_VALUES.items():
        unit = {"fraction_done": "fraction", "gpu_usage": "fraction", "memory_bytes": "bytes"}
        paths[f"0 to {_number(high)}", unit.get(name, "seconds")].append(f"msg_from_host/{name}")
    lines = ["| range | unit | elements |", "|---|---|---|"]
    lines += [
        f"| {bounds} | {unit} | {', '.join(f'`{path}`' for path in sorted(elements))} |"
        for (bounds, unit), elements in paths.items()
    ]
    return "\n".join(lines)


def _number(value: float) -> str:
    """Return a bound as text: powers of two as such, large numbers with an exponent."""
    for power in (31, 33, 63):
        if abs(value) in {2**power, 2**power - 1}:
            sign = "-" if value < 0 else ""
            return f"{sign}2^{power}" + (" - 1" if abs(value) == 2**power - 1 else "")
    return f"{value:g}" if abs(value) >= 1e6 else f"{int(value):,}".replace(",", " ")  # noqa: PLR2004
