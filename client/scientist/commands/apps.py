"""The commands `app list`, `app show`, `app create` and `app publish`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from scientist.commands.context import HELP, OK, Context, argument_type, non_negative, positive
from scientist.commands.sources import output_of
from scientist.display import key_value_table
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


def _describe_rules(command: argparse.ArgumentParser, default_kind: str) -> None:
    rules = command.add_argument_group("the app")
    rules.add_argument("--title", metavar="T", help="title that volunteers see")
    rules.add_argument(
        "--kind", choices=KINDS, help="kind of its programs: a BOINC executable, an archive "
        f"with run.sh, a command line or a container ({default_kind})",
    )  # fmt: skip
    rules.add_argument("--success-rule", choices=RULES, help="how success is determined")
    rules.add_argument(
        "--when-all-tried", choices=("wait", "fail"), help="what to do with a workunit that every "
        "active account has tried without an answer (default wait)",
    )  # fmt: skip
    rules.add_argument("--input-template", type=Path, metavar="FILE", help="BOINC's XML template")
    rules.add_argument("--output-template", type=Path, metavar="FILE", help="BOINC's XML template")
    usual = command.add_argument_group("defaults of its workunits")
    usual.add_argument(
        "--quorum", type=argument_type(positive), metavar="N", help="results that must agree"
    )
    usual.add_argument(
        "--max-errors", type=argument_type(non_negative), metavar="N", help=HELP["max_errors"]
    )
    usual.add_argument(
        "--deadline", type=argument_type(duration), metavar="T", help=HELP["deadline"]
    )
    usual.add_argument(
        "--output", action="append", metavar="NAME[:SIZE]", help="output file and its maximal size"
    )
    usual.add_argument("--takes", type=argument_type(duration), metavar="T", help=HELP["takes"])
    usual.add_argument("--fpops", type=float, metavar="N", help=HELP["fpops"])
    usual.add_argument("--memory", type=argument_type(size), metavar="SIZE", help=HELP["memory"])
    usual.add_argument("--disk", type=argument_type(size), metavar="SIZE", help=HELP["disk"])


def _describe_publish(publish: argparse.ArgumentParser) -> None:
    publish.add_argument("app", metavar="NAME")
    publish.add_argument(
        "source", metavar="SOURCE", nargs="*",
        help="an executable, an archive or folder with run.sh, further files; or a URL",
    )  # fmt: skip
    publish.add_argument(
        "--version", metavar="V", default="1.00", help="such as 1.02 (default 1.00)"
    )
    publish.add_argument(
        "--platform", action="append", metavar="P", help="default: the platforms of the app's kind"
    )
    publish.add_argument(
        "--plan-class", metavar="C", help="plan class: requirements of the computer"
    )
    publish.add_argument(
        "--main-program", metavar="FILE", help="the file to start, if there are several"
    )
    publish.add_argument(
        "--cmdline", metavar="WORDS", help="arguments for the program in every workunit"
    )
    publish.add_argument(
        "--source-url", metavar="URL", help="URL from which the project downloads it"
    )
    publish.add_argument("--image", metavar="IMAGE", help="container image, with its digest")
    publish.add_argument(
        "--signatures", metavar="DIR", type=Path, help="folder of .sig files from the operator"
    )
    publish.add_argument(
        "--create", action="store_true", help="create the app if it does not exist"
    )
    default_kind = (
        "default: script for an archive, a .sh file or a folder with run.sh, container with "
        "--image, else native"
    )
    _describe_rules(publish, default_kind)
    publish.set_defaults(command=publish_app, extra_names_target="source")


def list_apps(context: Context) -> int:
    """Carry out `app list`."""
    apps = list(context.project.apps())
    if context.json:
        context.answer(apps)
        return OK
    if not apps:
        context.out.print("There are no apps yet. scientist app publish NAME SOURCE --create")
        return OK
    columns = [("name", False), ("kind", False), ("versions", True), ("", False), ("title", False)]
    rows = [
        (
            Text(app.name, style="bold"),
            app.kind,
            str(app.versions),
            Text("deprecated" if app.deprecated else "beta" if app.beta else "", style="yellow"),
            app.user_friendly_name if app.user_friendly_name != app.name else "",
        )
        for app in apps
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
        context.table(columns, [_version_row(version) for version in versions])
    return OK


def _described(app: AppInfo) -> Any:  # noqa: ANN401  what rich draws
    defaults = dict(app.workunit_defaults)
    outputs = [
        entry if isinstance(entry, str) else entry.get("open_name", "")
        for entry in defaults.pop("outputs", ())
    ]
    seconds = defaults.pop("delay_bound_seconds", None)
    rows: dict[str, RenderableType | None] = {
        "app": Text(app.name, style="bold"),
        "title": app.user_friendly_name if app.user_friendly_name != app.name else "",
        "kind": app.kind,
        "success rule": app.success_rule.replace("_", " "),
        "state": "deprecated" if app.deprecated else "beta" if app.beta else "",
        "quorum": str(defaults.pop("min_quorum", "")),
        "deadline": "" if seconds is None else span(seconds),
        "outputs": ", ".join(outputs),
        "other defaults": json.dumps(defaults) if defaults else "",
    }
    return key_value_table(rows)


def _version_row(info: AppVersionInfo) -> tuple[str, str, str, str]:
    state = " (deprecated)" if info.deprecated else " (beta)" if info.beta else ""
    return info.version, info.platform, info.plan_class, local(info.created_at) + state


def _rules(options: argparse.Namespace) -> dict[str, Any]:
    """Return the API's fields of a new app."""
    defaults = fields_of(
        {
            "quorum": options.quorum,
            "max_errors": options.max_errors,
            "deadline": options.deadline,
            "outputs": [output_of(text) for text in options.output or ()] or None,
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
        "workunit_defaults": defaults or None,
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
    for source in options.source:
        if "://" not in source and not source.startswith("rsync:") and not Path(source).is_dir():
            checked(Path(source))
    if options.create:
        _create_if_missing(context)
    ids_before = {version.id for version in context.project.versions(options.app)}
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
    names = [version.platform for version in versions]
    max_named = 3
    platforms = ", ".join(names) if len(names) <= max_named else count(len(names), "platform")
    title = f"{options.app} {options.version} for {platforms or 'no platform'}"
    is_new = any(version.id not in ids_before for version in versions)
    text = f"published {title}" if is_new else f"{title} was published before, with the same files"
    context.answer({"app": options.app, "versions": versions}, text)
    return OK


def _create_if_missing(context: Context) -> None:
    options, rules = context.options, _rules(context.options)
    try:
        context.project.app(options.app)
    except NotFoundError:
        rules["kind"] = rules["kind"] or _default_kind(options)
        app = context.project.create_app(options.app, **rules)
        if not context.json:
            context.out.print(f"created app {app.name} ({app.kind})")


def _default_kind(options: argparse.Namespace) -> str:
    """Return the kind of a new app by its first version.  Raises UsageError without a source."""
    if options.image:
        return "container"
    sources = [*options.source, *([options.source_url] if options.source_url else [])]
    endings = (".sh", ".tar", ".gz", ".tgz", ".bz", ".bz2", ".tbz2", ".zip")
    is_single = len(sources) == 1
    if is_single and (sources[0].endswith(endings) or (Path(sources[0]) / "run.sh").is_file()):
        return "script"
    if not sources:
        raise UsageError("There is nothing to publish.", "name a SOURCE, --source-url or --image.")
    return "native"
