"""Manages plan classes, and checks which hosts meet their requirements."""

from __future__ import annotations

import json
from argparse import RawDescriptionHelpFormatter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from scheduler.apps import plan_class_store as operations
from scheduler.dispatch.rules import plan_classes
from scheduler.hosts.machines import Usage
from scheduler.management.base import Answer, JsonCommand, plural, require

_ACTIONS = ("list", "show", "set", "remove", "try")

_EXAMPLES = """\
Examples of FILE.json (docs/plan-classes.md lists all keys):
  mt            {"max_threads": 16, "nthreads_cmdline": true}
  avx2          {"cpu_features": ["avx2", "fma"]}
  cuda12        {"gpu_type": "nvidia", "cuda": true, "min_cuda_version": 12000,
                 "min_nvidia_compcap": 700, "min_gpu_ram_mb": 4096, "cpu_frac": 0.05}
  opencl_amd    {"gpu_type": "amd", "opencl": true, "min_opencl_version": 102}
  docker_mt     {"docker": true, "max_threads": 4}
  vbox64        {"virtualbox": true, "vm_accel_required": true}
"""


class Command(JsonCommand):
    """``plan_class list | show NAME | set NAME FILE | remove NAME | try NAME [--host ID]``."""

    help = (
        "List, show, set (NAME FILE), remove or try plan classes, which define the requirements of "
        "app versions on a host."
    )
    refusals = (
        operations.BadSpec,
        operations.PlanClassInUse,
        operations.UnknownHost,
        operations.UnknownPlanClass,
        plan_classes.BadPlanClass,
    )

    parser_options = {"epilog": _EXAMPLES, "formatter_class": RawDescriptionHelpFormatter}

    def add_options(self, parser: CommandParser) -> None:
        self.add_action(parser, _ACTIONS)
        parser.add_argument("name", metavar="NAME", nargs="?", help="name of the plan class")
        parser.add_argument(
            "file", metavar="FILE", nargs="?", type=Path, help="set, try: definition in JSON"
        )
        parser.add_argument("--host", metavar="ID", type=int, help="try: only on this host")
        parser.add_argument("--dry-run", action="store_true", help="only print what would be done")

    def answer(self, options: Mapping[str, Any]) -> Answer:
        action, name = options["action"], options["name"]
        if action == "list":
            return _list()
        hint = f"Hint: `manage.py plan_class {action} NAME`."
        require(name is not None, f"No plan class is named. {hint}")
        if action == "show":
            return _show(name)
        if action == "remove":
            return _remove(name, dry_run=options["dry_run"])
        if action == "try":
            return _try(name, options["file"], options["host"])
        hint = f"Hint: `manage.py plan_class set {name} FILE.json`."
        require(options["file"] is not None, f"FILE is missing. {hint}")
        return _set(name, options["file"], dry_run=options["dry_run"])


def _list() -> Answer:
    rows = operations.listing()
    facts = [{"name": name, "spec": spec, "app_versions": used} for name, spec, used in rows]
    width = max((len(name) for name, _spec, _used in rows), default=0)
    lines = [
        f"{name:<{width}}  {plural(used, 'app version')}  "
        f"{'NOT DEFINED' if spec is None else json.dumps(spec)}"
        for name, spec, used in rows
    ]
    warnings = [
        f"Plan class {name} is not defined, so no host can run the {plural(used, 'app version')} "
        f"of this class. Hint: `manage.py plan_class set {name} FILE.json`."
        for name, spec, used in rows
        if spec is None
    ]
    empty = "There is no plan class. Hint: `manage.py plan_class set NAME FILE.json`."
    return Answer("\n".join(lines) or empty, {"plan_classes": facts}, warnings)


def _show(name: str) -> Answer:
    row, users = operations.find(name), operations.users_of(name)
    lines = [json.dumps(row.spec, indent=2), *(f"Used by {version}." for version in users)]
    return Answer("\n".join(lines), {"name": name, "spec": row.spec, "app_versions": list(users)})


def _set(name: str, file: Path, *, dry_run: bool) -> Answer:
    now = timezone.now()
    done = operations.write(name, _text_of(file), source=str(file), now=now, dry_run=dry_run)
    verb = "created" if done.created else "changed" if done.changed else "unchanged"
    users = plural(len(done.versions), "app version")
    trial = operations.try_on_hosts(done.plan, now=now)
    sentence = (
        f"{'Would be ' * dry_run}{verb}: plan class {name}, used by {users}; "
        f"{len(trial.fit)} of {plural(len(trial.fit) + len(trial.unfit), 'host')} can run it."
    )
    return Answer(
        sentence[0].upper() + sentence[1:],
        {
            "name": name,
            "created": done.created,
            "changed": done.changed,
            "dry_run": dry_run,
            "app_versions": list(done.versions),
            "hosts_fit": len(trial.fit),
            "hosts_unfit": len(trial.unfit),
        },
    )


def _remove(name: str, *, dry_run: bool) -> Answer:
    operations.remove(name, now=timezone.now(), dry_run=dry_run)
    verb = "Would remove" if dry_run else "Removed"
    sentence = f"{verb} plan class {name}; no app version uses it."
    return Answer(sentence, {"name": name, "dry_run": dry_run})


def _try(name: str, file: Path | None, host_id: int | None) -> Answer:
    if file is None:
        plan = plan_classes.parse(name, operations.find(name).spec)
    else:
        plan, _spec = operations.judge(name, _text_of(file), source=str(file))
    trial = operations.try_on_hosts(plan, host_id=host_id, now=timezone.now())
    facts = {
        "name": name,
        "fit": {str(pk): asdict(usage) for pk, usage in trial.fit.items()},
        "unfit": {str(pk): sentence for pk, sentence in trial.unfit.items()},
    }
    if host_id:
        return Answer(_of_one_host(host_id, trial), facts)
    total = len(trial.fit) + len(trial.unfit)
    lines = [f"{len(trial.fit)} of {plural(total, 'host')} of the last 30 days can run {name}."]
    lines += [f"{count:>6}  {sentence}" for sentence, count in trial.reasons]
    return Answer("\n".join(lines), facts)


def _of_one_host(host_id: int, trial: operations.Trial) -> str:
    if host_id in trial.unfit:
        return f"Host {host_id} cannot run it: {trial.unfit[host_id]}"
    usage: Usage = trial.fit[host_id]
    gpus = f" and {usage.gpu_count:g} {usage.gpu_kind} GPU" if usage.gpu_kind else ""
    options = f", with {usage.cmdline}" if usage.cmdline else ""
    return (
        f"Host {host_id} can run it, using {usage.avg_ncpus:.3g} CPUs{gpus}{options}; "
        f"projected {usage.projected_flops / 1e9:.2f} GFLOPS, at best {usage.peak_flops / 1e9:.2f}."
    )


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{file} cannot be read: {error}. Hint: check the path."
        raise CommandError(msg) from error
