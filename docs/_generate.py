"""Generates the parts of the docs that describe the code; called by cog."""

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
#: The packages of the code map, in reading order.
ROOMS = ("project", "scheduler", "daemons", "client", "demo", "bench", "docs")
EXCLUDED = {"migrations", "__pycache__", "build", "tests"}
COLUMNS = "88"


# The code map


def modules() -> Iterator[Path]:
    """Yield the path of every module, relative to the root, folder by folder."""
    yield Path("manage.py")
    for room in ROOMS:
        files = (ROOT / room).rglob("*.py")
        paths = [path.relative_to(ROOT) for path in files if not EXCLUDED & set(path.parts)]
        yield from sorted(paths, key=lambda path: (path.parts[:-1], path.name))


def first_line(path: Path) -> str:
    """Return the first line of a module's docstring, or ""."""
    docstring = ast.get_docstring(ast.parse((ROOT / path).read_text(encoding="utf-8")))
    return docstring.splitlines()[0] if docstring else ""


def code_map() -> str:
    """Return a list for each folder: its modules with their first lines."""
    folders: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for path in modules():
        if summary := first_line(path):
            folders[path.parent.as_posix()].append((path.name, summary))
    parts = []
    for folder, members in folders.items():
        about = dict(members).get("__init__.py", "")
        heading = "**`./`**" if folder == "." else f"**`{folder}/`**"
        parts.append(f"{heading} {about}".rstrip() + "\n")
        parts += [f"- `{name}` {summary}" for name, summary in members if name != "__init__.py"]
        parts.append("")
    return _page(parts)


def statements() -> str:
    """Return a list for each folder of statements, with the first sentence of each."""
    parts = []
    for folder in sorted({path.parent for room in ROOMS for path in (ROOT / room).rglob("*.sql")}):
        parts.append(f"## `{folder.relative_to(ROOT).as_posix()}/`\n")
        parts += [f"- `{path.stem}` {_purpose(path)}" for path in sorted(folder.glob("*.sql"))]
        parts.append("")
    return _page(parts)


def _purpose(path: Path) -> str:
    """Return the first sentence of a statement's leading comment."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("--"):
            break
        lines.append(line.removeprefix("--").strip())
    return re.split(r"(?<=\.)\s", " ".join(lines), maxsplit=1)[0]


# The law


def lifecycle() -> str:
    """Return the diagram and the table of moves for each axis."""
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
        labels = [f"{' or '.join(reasons)} ({actor})" for actor, reasons in owners.items()]
        lines.append(f"    {source} --> {target}" + (f" : {' · '.join(labels)}" if labels else ""))
    lines += [
        f"    {state.name} --> [*]" for state in STATES[axis] if not next_moves(axis, int(state))
    ]
    return [*lines, "```"]


def _node(axis: Axis, code: int) -> str:
    from scheduler.lifecycle import STATES, state_label

    return "[*]" if state_label(axis, code) == "nothing" else STATES[axis](code).name


def actors() -> str:
    """Return a table of the moves by actor and axis."""
    from scheduler.lifecycle import MOVES, Actor, Axis, state_label

    parts = ["| actor | axis | moves |", "|---|---|---|"]
    for actor in Actor:
        for axis in Axis:
            own = [m for m in MOVES if m.by is actor and m.axis is axis]
            arrows = dict.fromkeys(
                f"{state_label(axis, m.source)} → {state_label(axis, m.target)}" for m in own
            )
            if arrows:
                parts.append(f"| {actor.label} | {axis.label} | {', '.join(arrows)} |")
    return _page(parts)


def error_bits() -> str:
    """Return a table of the bits of ``error_mask``, with the reasons that set them."""
    from scheduler.lifecycle import ERROR_BITS, ErrorMask

    reasons = {bit: because.label for because, bit in ERROR_BITS.items()}
    parts = ["| bit | name | set because |", "|---|---|---|"]
    parts += [
        f"| {bit.value} | {bit.name} | {reasons.get(bit, 'never set here')} |" for bit in ErrorMask
    ]
    return _page(parts)


# Invariants


def invariants() -> str:
    """Return a table of the invariants that fsck checks."""
    _set_up_django()
    from scheduler.health import invariants as checked

    parts = ["| invariant | meaning |", "|---|---|"]
    parts += [f"| `{each.name}` | {each.sentence} |" for each in checked.invariants()]
    return _page(parts)


# Metrics


def metrics() -> str:
    """Return a table of the exported metrics, with their labels."""
    _set_up_django()
    from project.monitoring.database_metrics import FAMILIES
    from scheduler.boinc import rpc_counts  # noqa: F401 - adds the reasons to send no work
    from scheduler.metrics import REGISTRY

    rows: list[tuple[str, str, tuple[str, ...], str]] = []
    for metric in REGISTRY.collect():
        found = {name: None for sample in metric.samples for name in sample.labels if name != "le"}
        own_labels = ("pid",) if metric.type == "gauge" else tuple(found)
        rows.append((metric.name, metric.type, own_labels, metric.documentation))
    rows += [(family.name, family.kind, family.label_names, family.help) for family in FAMILIES]
    parts = ["| metric | type | labels | meaning |", "|---|---|---|---|"]
    for name, kind, labels, meaning in sorted(rows):
        suffix = "_total" if kind == "counter" else ""
        shown = ", ".join(f"`{label}`" for label in labels)
        parts.append(f"| `{name}{suffix}` | {kind} | {shown} | {meaning} |")
    return _page(parts)


# The command line


def commands() -> tuple[str, ...]:
    """Return the names of the project's commands, in alphabetical order."""
    _set_up_django()
    from django.core.management import get_commands

    apps = {"project", "scheduler", "daemons"}
    return tuple(sorted(name for name, app in get_commands().items() if str(app) in apps))


def manage_help() -> str:
    """Return the help of every command of the project, without Django's common options."""
    from django.core.management import get_commands, load_command_class

    parts = []
    for name in commands():
        command = load_command_class(str(get_commands()[name]), name)
        parser = command.create_parser("manage.py", name)
        _hide_djangos(parser)
        parts.append(_help(f"manage.py {name}", parser))
    return _page(parts)


def volunteer_help() -> str:
    """Return the help of the program `volunteer` and of its commands."""
    from volunteer import cli

    return _page(_helps("volunteer", cli.parser()))


def scientist_help() -> str:
    """Return the help of the program `scientist` and of its commands."""
    from scientist import cli

    return _page(_helps("scientist", cli.parser()))


def _helps(title: str, parser: argparse.ArgumentParser) -> list[str]:
    """Return the help of a program, its commands and their subcommands."""
    parts = [_help(title, parser)]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                parts += _helps(f"{title} {name}", command)
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

#: The meanings of variables that are not fields of ProjectConfig.
MEANINGS = {
    "VAR_DIR": "Where files, keys, archive, signs of life and the embedded database are.",
    "FILE_UMASK": "The umask of new files, in octal: `0027` denies access to other users and lets "
    "the group read; use `0022` if a proxy of another user and group serves downloads.",
    "SUBMIT_FOLDER": "A folder of this machine whose files submitters may name by path (mode "
    "`local` of `submit_rpc_handler.php`); empty: none.",
    "STORAGE_URL": "The store of files for clients, if they are not in `VAR_DIR`: "
    "`s3://bucket/prefix?endpoint=...` ([files.md](../files.md)). Keys are read from "
    "`AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`.",
    "UPLOAD_FSYNC": "Whether an upload is synced to disk before it is acknowledged to the client. "
    "If not, the validator detects uploads that a power failure has lost, and they are computed "
    "again.",
    "PLUGINS": "The TOML or JSON file with the allow-list of plug-ins ([plug-ins.md]"
    "(../plug-ins.md)); without it, apps can use built-in science only.",
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
    "many may read slowly; if there are more, the slowest are disconnected, and reconnect later.",
    "MIN_FREE_BYTES": "Uploads and submissions are refused if fewer bytes than this would stay "
    "free in VAR_DIR.",
    "DEBUG": "Whether error pages show tracebacks. Never on a server that others can reach.",
    "SECRET_KEY": "Signs sessions of the admin, and encrypts positions in links to later pages.",
    "ALLOWED_HOSTS": "Names under which the web server answers.",
    "TRUSTED_PROXIES": "Proxies whose `X-Forwarded-For` contains the client's address.",
    "METRICS_TOKEN": "The token with which programs may read `/metrics` ([monitoring.md]"
    "(../monitoring.md)); if empty, no token is accepted.",
    "METRICS_WITHOUT_TOKEN": "Whether programs on this machine may read `/metrics` without a "
    "token. Never behind a proxy on this machine that sets no forwarding headers.",
    "DATABASE_URL": "The PostgreSQL (15 or later) to use, in the format of psql; without one, the "
    "embedded server is used, and started if needed.",
    "DATABASE_POOL": "Connections that one process of the web server shares among its threads; 0, "
    "for commands, means one per thread.",
    "GUARD_TRIGGER": "Whether a trigger in the database refuses moves that are not in the law; see "
    "also `manage.py guard_trigger`.",
    "CELERY_BROKER_URL": "The broker, if Celery runs the daemons.",
    "EMAIL_URL": "The mail server: `smtp://user:password@host:587/?tls=starttls` (or `implicit`, "
    "`none`); if empty, the project sends no mail ([mail.md](../mail.md)).",
    "MAIL_FROM": "The sender of the project's mail, without a display name.",
    "ALERT_MAIL": "Where the beginning and the end of each alert is reported by mail.",
    "ALERT_WEBHOOK": "Where the beginning and the end of each alert is posted as JSON. The address "
    "is treated as a secret.",
    "LOG_FORMAT": "Columns for people, or JSON lines for machines.",
    "LOG_LEVEL": "The minimum level of records that are written.",
}
#: Defaults that are expressions in the settings.
DEFAULTS = {
    "VAR_DIR": "`var` in the checkout",
    "FILE_UMASK": "`0027`",
    "SECRET_KEY": "created once, stored in `var/keys/secret_key`",
    "ALLOWED_HOSTS": (
        "the hosts of `MASTER_URL` and of former addresses, `localhost`, `127.0.0.1`, `[::1]`"
    ),
    "DATABASE_URL": "the embedded PostgreSQL",
    "ACCOUNT_CREATION": "`open`",
    "MAIL_FROM": "`noreply@` and the host of `MASTER_URL`",
    "ONLINE_SIGNING": "`true`, but `false` if `MASTER_URL` begins with https",
    "SITE_LANGUAGES": "`en,de`",
    "STAFF_SECOND_FACTOR": "`false`, but `true` if `MASTER_URL` begins with https",
    "MIN_FREE_BYTES": "`100000000`, plus `max_wal_size` if the database is on the same disk",
}


@dataclass(frozen=True, slots=True)
class Variable:
    """One environment variable: its type and default, and the option that it sets, or None."""

    name: str
    kind: str
    default: str
    field: str | None


def variables() -> list[Variable]:
    """Return every environment variable that the settings read, in their order."""
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
    argument = call.args[1] if len(call.args) > 1 else options.get("default")
    default = DEFAULTS.get(name) or (f"`{ast.literal_eval(argument)}`" if argument else "")
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
        "secret": "text",
        "boolean": "`true` or `false`",
        "account_creation": "`open`, `invitation` or `closed`",
        "words": "words, separated by commas",
        "networks": "addresses or networks, separated by commas",
        "languages": "`en` and `de`, separated by commas",
        "contacts": "e-mail addresses and pages, separated by commas",
        "umask": "octal digits",
        "pattern": "regular expression",
        "folder": "folder",
        "web_url": "http(s) address",
        "store_url": "address of a bucket",
        "broker_url": "address of a broker",
        "mail_url": "address of a mail server",
        "mail_sender": "e-mail address",
        "mail_addresses": "e-mail addresses, separated by commas",
        "webhook_url": "https address",
        "database_url": "address of a database",
        "plugins": "path of a file",
        "login_providers": "path of a TOML file",
        "file_text": "path of a text file",
    }[reader]


def option_meanings() -> dict[str, str]:
    """Return the description of each field of ProjectConfig: the string below it."""
    from scheduler.config import ProjectConfig

    [tree] = ast.parse(inspect.getsource(ProjectConfig)).body
    assert isinstance(tree, ast.ClassDef)
    meanings = {}
    for field, below in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
            assert isinstance(below.value, ast.Constant)
            meanings[_name(field.target)] = inspect.cleandoc(str(below.value.value))
    return meanings


def configuration() -> str:
    """Return the table of environment variables."""
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
    """Return the table of options that no environment variable sets, with their values."""
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
    """Join parts to lines, without an empty line at the end."""
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
