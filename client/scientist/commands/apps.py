"""`app list`, `app show`, `app create` and `app publish`: what is computed."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from scientist.commands.context import HELP, OK, Context, positive, typed, whole
from scientist.commands.sources import output_of
from scientist.display import pairs
from scientist.errors import NotFoundError, UsageError
from scientist.inputs import fields_of
from scientist.models import AppInfo, AppVersionInfo
from scientist.uploads import checked
from scientist.words import count, duration, local, size, span

KINDS = ("native", "script", "command", "container")
RULES = ("exit_code", "empty_stderr", "both", "validator")


def describe(commands: Any, common: argparse.ArgumentParser) -> None:  # noqa: ANN401  argparse's own
    """Add `app` and its four commands."""
    app = commands.add_parser("app", parents=[common], help="list, show, create, publish apps")
    inner = app.add_subparsers(title="commands", metavar="COMMAND", required=True)
    listing = inner.add_parser("list", parents=[common], help="list the apps")
    listing.set_defaults(command=list_apps)
    show = inner.add_parser("show", parents=[common], help="show an app and its versions")
    show.add_argument("app", metavar="NAME")
    show.set_defaults(command=show_app)
    create = inner.add_parser("create", parents=[common], help="create an app")
    create.add_argument("app", metavar="NAME")
    _describe_rules(create, "default native")
    create.set_defaults(command=create_app)
    _describe_publish(inner.add_parser("publish", parents=[common], help="publish a program"))


def _describe_rules(command: argparse.ArgumentParser, usual_kind: str) -> None:
    rules = command.add_argument_group("the app")
    rules.add_argument("--title", metavar="T", help="what volunteers read")
    rules.add_argument(
        "--kind", choices=KINDS, help="what a program of it is: BOINC's own executable, an archive "
        f"with run.sh, a command line or a container ({usual_kind})",
    )  # fmt: skip
    rules.add_argument("--success-rule", choices=RULES, help="when a run has succeeded")
    rules.add_argument(
        "--when-all-tried", choices=("wait", "fail"), help="what becomes of a workunit without an "
        "answer once every account that is about had its turn (default wait)",
    )  # fmt: skip
    rules.add_argument("--input-template", type=Path, metavar="FILE", help="BOINC's, in XML")
    rules.add_argument("--output-template", type=Path, metavar="FILE", help="BOINC's, in XML")
    usual = command.add_argument_group("its workunits, unless a submission says otherwise")
    usual.add_argument(
        "--quorum", type=typed(positive), metavar="N", help="results that must agree"
    )
    usual.add_argument("--max-errors", type=typed(whole), metavar="N", help=HELP["max_errors"])
    usual.add_argument("--deadline", type=typed(duration), metavar="T", help=HELP["deadline"])
    usual.add_argument("--output", action="append", metavar="NAME[:SIZE]", help="what they bring")
    usual.add_argument("--takes", type=typed(duration), metavar="T", help=HELP["takes"])
    usual.add_argument("--fpops", type=float, metavar="N", help=HELP["fpops"])
    usual.add_argument("--memory", type=typed(size), metavar="SIZE", help=HELP["memory"])
    usual.add_argument("--disk", type=typed(size), metavar="SIZE", help=HELP["disk"])


def _describe_publish(publish: argparse.ArgumentParser) -> None:
    publish.add_argument("app", metavar="NAME")
    publish.add_argument(
        "source", metavar="SOURCE", nargs="*",
        help="an executable, an archive or folder with run.sh, further files; or an address",
    )  # fmt: skip
    publish.add_argument(
        "--version", metavar="V", default="1.00", help="such as 1.02 (default 1.00)"
    )
    publish.add_argument(
        "--platform", action="append", metavar="P", help="default: those of the app's kind"
    )
    publish.add_argument("--plan-class", metavar="C", help="what it needs of a computer")
    publish.add_argument("--main-program", metavar="FILE", help="which of several files is started")
    publish.add_argument("--cmdline", metavar="WORDS", help="said to the program by every workunit")
    publish.add_argument("--source-url", metavar="URL", help="the project fetches it from there")
    publish.add_argument("--image", metavar="IMAGE", help="of a container, by its digest")
    publish.add_argument(
        "--signatures", metavar="DIR", type=Path, help="folder of .sig files made by its operator"
    )
    publish.add_argument("--create", action="store_true", help="create the app if there is none")
    guess = (
        "default: script for an archive, a .sh file or a folder with run.sh, container with "
        "--image, else native"
    )
    _describe_rules(publish, guess)
    publish.set_defaults(command=publish_app, names_go_to="source")


def list_apps(context: Context) -> int:
    """Carry out `app list`."""
    found = list(context.project.apps())
    if context.json:
        context.answer(found)
        return OK
    if not found:
        context.out.print("There are no apps yet. scientist app publish NAME SOURCE --create")
        return OK
    columns = [("name", False), ("kind", False), ("versions", True), ("", False), ("title", False)]
    rows = [
        (
            Text(one.name, style="bold"),
            one.kind,
            str(one.versions),
            Text("deprecated" if one.deprecated else "beta" if one.beta else "", style="yellow"),
            one.user_friendly_name if one.user_friendly_name != one.name else "",
        )
        for one in found
    ]
    context.table(columns, rows)
    return OK


def show_app(context: Context) -> int:
    """Carry out `app show`."""
    name = context.options.app
    app, versions = context.project.app(name), list(context.project.versions(name))
    if context.json:
        context.answer({"app": app, "versions": versions})
        return OK
    context.out.print(_described(app))
    if versions:
        context.out.print()
        columns = [
            ("version", False),
            ("platform", False),
            ("plan class", False),
            ("published", False),
        ]
        context.table(columns, [_version_row(one) for one in versions])
    return OK


def _described(app: AppInfo) -> Any:  # noqa: ANN401  what rich draws
    usual = dict(app.workunit_defaults)
    outputs = [
        one if isinstance(one, str) else one.get("open_name", "")
        for one in usual.pop("outputs", ())
    ]
    seconds = usual.pop("delay_bound_seconds", None)
    rows: dict[str, RenderableType | None] = {
        "app": Text(app.name, style="bold"),
        "title": app.user_friendly_name if app.user_friendly_name != app.name else "",
        "kind": app.kind,
        "succeeds by": app.success_rule.replace("_", " "),
        "is": "deprecated" if app.deprecated else "beta" if app.beta else "",
        "quorum": str(usual.pop("min_quorum", "")),
        "deadline": "" if seconds is None else span(seconds),
        "outputs": ", ".join(outputs),
        "also": json.dumps(usual) if usual else "",
    }
    return pairs(rows)


def _version_row(one: AppVersionInfo) -> tuple[str, str, str, str]:
    state = " (deprecated)" if one.deprecated else " (beta)" if one.beta else ""
    return one.version, one.platform, one.plan_class, local(one.created_at) + state


def _rules(options: argparse.Namespace) -> dict[str, Any]:
    """What an app is created with."""
    usual = fields_of(
        {
            "quorum": options.quorum,
            "max_errors": options.max_errors,
            "deadline": options.deadline,
            "outputs": [output_of(one) for one in options.output or ()] or None,
            "takes": options.takes,
            "fpops": options.fpops,
            "memory": options.memory,
            "disk": options.disk,
        }
    )
    return {
        "user_friendly_name": options.title,
        "kind": options.kind,
        "success_rule": options.success_rule,
        "fail_when_all_tried": options.when_all_tried and options.when_all_tried == "fail",
        "workunit_defaults": usual or None,
        "input_template": _text(options.input_template),
        "output_template": _text(options.output_template),
    }


def _text(path: Path | None) -> str | None:
    if path is None:
        return None
    checked(path)
    return path.read_text(encoding="utf-8")


def create_app(context: Context) -> int:
    """Carry out `app create`."""
    app = context.project.create_app(context.options.app, **_rules(context.options))
    context.answer(app, f"created app {app.name} ({app.kind})")
    return OK


def publish_app(context: Context) -> int:
    """Carry out `app publish`."""
    options = context.options
    for one in options.source:
        if "://" not in one and not one.startswith("rsync:") and not Path(one).is_dir():
            checked(Path(one))
    if options.create:
        _create_unless_there(context)
    before = {one.id for one in context.project.versions(options.app)}
    versions = context.project.publish(
        options.app,
        options.source,
        version=options.version,
        platforms=options.platform,
        plan_class=options.plan_class,
        main_program=options.main_program,
        cmdline=options.cmdline,
        source_url=options.source_url,
        image=options.image,
        signatures=options.signatures,
    )
    names = [one.platform for one in versions]
    most = 3
    platforms = ", ".join(names) if len(names) <= most else count(len(names), "platform")
    what = f"{options.app} {options.version} for {platforms or 'no platform'}"
    is_new = any(one.id not in before for one in versions)
    said = f"published {what}" if is_new else f"{what} was published before, with the same files"
    context.answer({"app": options.app, "versions": versions}, said)
    return OK


def _create_unless_there(context: Context) -> None:
    options, rules = context.options, _rules(context.options)
    try:
        context.project.app(options.app)
    except NotFoundError:
        rules["kind"] = rules["kind"] or _guessed(options)
        made = context.project.create_app(options.app, **rules)
        if not context.json:
            context.out.print(f"created app {made.name} ({made.kind})")


def _guessed(options: argparse.Namespace) -> str:
    """The kind of a new app, from what is published of it first."""
    if options.image:
        return "container"
    named = [*options.source, *([options.source_url] if options.source_url else [])]
    endings = (".sh", ".tar", ".gz", ".tgz", ".bz", ".bz2", ".tbz2", ".zip")
    if len(named) == 1 and (named[0].endswith(endings) or (Path(named[0]) / "run.sh").is_file()):
        return "script"
    if not named:
        raise UsageError("What shall be published?", "name a SOURCE, --source-url or --image.")
    return "native"
