"""The commands `app list`, `app show`, `app create` and `app publish`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from scientist.commands.context import Context
from scientist.commands.options import (
    Commands,
    add_quorum_options,
    add_resource_options,
    workunit_fields,
)
from scientist.display import key_value_table
from scientist.errors import NotFoundError, UsageError
from scientist.inputs import fields_of
from scientist.models import AppInfo, AppVersionInfo
from scientist.uploads import checked
from scientist.words import count, local, span

KINDS = ("native", "script", "command", "container")
RULES = ("exit_code", "empty_stderr", "both", "validator")
#: Options of `publish` that are fields of a publication.
_PUBLICATION_FIELDS = (
    *("version", "plan_class", "main_program", "cmdline"),
    *("source_url", "image", "signatures"),
)


def describe(commands: Commands) -> None:
    """Add `app` and its four subcommands to the parser."""
    app = commands.group("app", help="list, show, create and publish apps")
    app.add("list", list_apps, help="list the apps")
    show = app.add("show", show_app, help="show an app and its versions")
    show.add_argument("app", metavar="NAME")
    create = app.add("create", create_app, help="create an app")
    create.add_argument("app", metavar="NAME")
    _describe_rules(create, "default native")
    _describe_publish(app.add("publish", publish_app, help="publish a program"))


def _describe_rules(command: argparse.ArgumentParser, default_kind: str) -> None:
    add = command.add_argument_group("the app").add_argument
    add("--title", metavar="T", help="title that volunteers see")
    text = "kind of its programs: a BOINC executable, an archive with run.sh, a command line or a "
    add("--kind", choices=KINDS, help=f"{text}container ({default_kind})")
    add("--success-rule", choices=RULES, help="rule that decides whether a result is a success")
    text = "what to do with a workunit that every active account has tried without an answer"
    add("--when-all-tried", choices=("wait", "fail"), help=f"{text} (default wait)")
    add("--input-template", type=Path, metavar="FILE", help="BOINC's XML template")
    add("--output-template", type=Path, metavar="FILE", help="BOINC's XML template")
    group = command.add_argument_group("defaults of its workunits")
    add_quorum_options(group)
    text = "output file and its maximal size"
    group.add_argument("--output", action="append", metavar="NAME[:SIZE]", help=text)
    add_resource_options(group)


def _describe_publish(publish: argparse.ArgumentParser) -> None:
    add = publish.add_argument
    add("app", metavar="NAME")
    text = "an executable, an archive or a folder with run.sh, and further files; or a URL"
    add("source", metavar="SOURCE", nargs="*", help=text)
    add("--version", metavar="V", default="1.00", help="version number (default 1.00)")
    text = "platform; repeatable (default: the platforms of the app's kind)"
    add("--platform", action="append", metavar="P", help=text)
    add("--plan-class", metavar="C", help="plan class, which sets requirements for the computer")
    add("--main-program", metavar="FILE", help="the file to start, if there are several files")
    add("--cmdline", metavar="WORDS", help="arguments for the program in every workunit")
    add("--source-url", metavar="URL", help="URL from which the project downloads the program")
    add("--image", metavar="IMAGE", help="container image, with its digest")
    add("--signatures", metavar="DIR", type=Path, help="folder of .sig files from the operator")
    add("--create", action="store_true", help="create the app if it does not exist")
    default_kind = (
        "default: script for an archive, a .sh file or a folder with run.sh, container with "
        "--image, else native"
    )
    _describe_rules(publish, default_kind)
    publish.set_defaults(extra_names_target="source")


def list_apps(context: Context) -> None:
    columns = ("name", "kind", "versions>", "", "title")
    empty = (
        "There are no apps yet. Hint: scientist app publish NAME SOURCE --create creates an app."
    )
    context.listing(list(context.project.apps()), columns, _app_row, empty)


def _app_row(app: AppInfo) -> list[RenderableType]:
    name, state = Text(app.name, style="bold"), Text(_state(app), style="yellow")
    return [name, app.kind, str(app.versions), state, _title(app)]


def _state(info: AppInfo | AppVersionInfo) -> str:
    return "deprecated" if info.deprecated else "beta" if info.beta else ""


def _title(app: AppInfo) -> str:
    return app.user_friendly_name if app.user_friendly_name != app.name else ""


def show_app(context: Context) -> None:
    name = context.options.app
    app, versions = context.project.app(name), list(context.project.versions(name))
    context.answer({"app": app, "versions": versions}, _described(app))
    if versions and not context.json:
        context.out.print()
        columns = ("version", "platform", "plan class", "published")
        context.table(columns, map(_version_row, versions))


def _described(app: AppInfo) -> Any:  # noqa: ANN401  any renderable of rich
    defaults = dict(app.workunit_defaults)
    outputs = [
        entry if isinstance(entry, str) else entry.get("open_name", "")
        for entry in defaults.pop("outputs", ())
    ]
    seconds = defaults.pop("delay_bound_seconds", None)
    rows: dict[str, RenderableType | None] = {
        "app": Text(app.name, style="bold"),
        "title": _title(app),
        "kind": app.kind,
        "success rule": app.success_rule.replace("_", " "),
        "state": _state(app),
        "quorum": str(defaults.pop("min_quorum", "")),
        "deadline": "" if seconds is None else seconds if seconds == "inf" else span(seconds),
        "outputs": ", ".join(outputs),
        "other defaults": json.dumps(defaults) if defaults else "",
    }
    return key_value_table(rows)


def _version_row(info: AppVersionInfo) -> tuple[str, str, str, str]:
    state = f" ({_state(info)})" if _state(info) else ""
    return info.version, info.platform, info.plan_class, local(info.created_at) + state


def _rules(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options that describe a new app as fields of the API."""
    return {
        "user_friendly_name": options.title,
        "kind": options.kind,
        "success_rule": options.success_rule,
        "fail_when_all_tried": options.when_all_tried and options.when_all_tried == "fail",
        "workunit_defaults": fields_of(workunit_fields(options)) or None,
        "input_template": _text(options.input_template),
        "output_template": _text(options.output_template),
    }


def _text(path: Path | None) -> str | None:
    if path is None:
        return None
    checked(path)
    return path.read_text(encoding="utf-8")


def create_app(context: Context) -> None:
    app = context.project.create_app(context.options.app, **_rules(context.options))
    context.answer(app, f"created app {app.name} ({app.kind})")


def publish_app(context: Context) -> None:
    options = context.options
    for source in options.source:
        if "://" not in source and not source.startswith("rsync:") and not Path(source).is_dir():
            checked(Path(source))
    if options.create:
        _create_if_missing(context)
    ids_before = {version.id for version in context.project.versions(options.app)}
    fields = {name: getattr(options, name) for name in _PUBLICATION_FIELDS}
    versions = context.project.publish(
        options.app, options.source, platforms=options.platform, **fields
    )
    names = [version.platform for version in versions]
    max_named = 3
    platforms = ", ".join(names) if len(names) <= max_named else count(len(names), "platform")
    title = f"{options.app} {options.version} for {platforms or 'no platform'}"
    is_new = any(version.id not in ids_before for version in versions)
    text = f"published {title}" if is_new else f"{title} was published before, with the same files"
    context.answer({"app": options.app, "versions": versions}, text)


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
    """Return the kind of a new app, which depends on the source of its first version.

    Raises UsageError if the options contain no source and no image.
    """
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
