"""Gives, removes and shows permissions to submit work."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from scheduler.management.base import Answer, JsonCommand, account_of, plural, require
from scheduler.models import Account, App
from scheduler.people import account_keys, quotas
from scheduler.people import submitters as operations
from scheduler.rights import Right

_ACTIONS = ("allow", "forbid", "show")


class Command(JsonCommand):
    """``submitter allow EMAIL (--app NAME... | --all-apps) | forbid EMAIL | show EMAIL``."""

    help = (
        "Manage permissions to submit work. allow EMAIL --app NAME [--manage] or --all-apps, with "
        "limits; forbid EMAIL; show EMAIL. Roles can also give the permission (see `role`)."
    )

    def add_options(self, parser: CommandParser) -> None:
        self.add_action(parser, _ACTIONS)
        add = parser.add_argument
        add("email", metavar="EMAIL", help="the account's e-mail address")
        add(
            "--app",
            action="append",
            default=[],
            metavar="NAME",
            help="allow: for this app; may be repeated",
        )
        add("--all-apps", action="store_true", help="allow: for all apps, also future ones")
        add("--manage", action="store_true", help="allow: also manage and publish these apps")
        add(
            "--max-unfinished-workunits",
            type=_count,
            metavar="N",
            help="allow: maximum number of unfinished workunits",
        )
        add("--max-kept-bytes", type=_count, metavar="N", help="allow: maximum bytes of files")

    def answer(self, options: Mapping[str, Any]) -> Answer:
        account = account_of(options["email"])
        if options["action"] == "allow":
            return _allow(account, options)
        return _forbid(account) if options["action"] == "forbid" else _show(account)


def _count(text: str) -> int:
    is_valid = re.fullmatch(r"[0-9]{1,20}", text) and int(text) < 2**63
    require(is_valid, f"{text!r} is not a number of 0 or more. Hint: leave it out for no limit.")
    return int(text)


def _allow(account: Account, options: Mapping[str, Any]) -> Answer:
    names, all_apps = options["app"], options["all_apps"]
    hint = "Hint: give --app NAME, once for each app, or --all-apps."
    require(bool(names) != bool(all_apps), f"No app is named. {hint}")
    hint = "Hint: give --app NAME with --manage."
    require(
        not (all_apps and options["manage"]), f"--manage cannot be used with --all-apps. {hint}"
    )
    apps = list(App.objects.filter(name__in=names))
    if missing := set(names) - {app.name for app in apps}:
        msg = f"There is no app {min(missing)!r}. Hint: create it first, or check its spelling."
        raise CommandError(msg)
    now = timezone.now()
    operations.allow(
        account,
        apps=None if all_apps else apps,
        may_manage=options["manage"],
        max_unfinished_workunits=options["max_unfinished_workunits"],
        max_kept_bytes=options["max_kept_bytes"],
        now=now,
    )
    key = account_keys.first_submission_key(account=account, now=now)
    shown = _show(account)
    about_key = (
        f"The submission key for BOINC's web RPCs, shown only now: {key}"
        if key
        else f"The account has a submission key; `manage.py account_key make {account.email} "
        "--kind submission` creates another."
    )
    return replace(
        shown,
        sentence=f"{shown.sentence}\n{about_key}",
        facts={**shown.facts, "submission_key": key},
    )


def _forbid(account: Account) -> Answer:
    forbidden = operations.forbid(account, now=timezone.now())
    outcome = "can no longer submit" if forbidden else "could not submit before"
    role = ""
    if account.has_right(Right.SUBMIT_FOR_EVERY_APP):
        role = " The account can still submit for every app by a role: see `manage.py role`."
    return Answer(
        f"{account.email} {outcome}. Submitted work continues.{role}",
        {"email": account.email, "forbidden": forbidden},
    )


def _show(account: Account) -> Answer:
    rights = quotas.rights(account)
    apps = [row.app.name for row in rights.apps]
    what = "every app" if rights.all_apps else (", ".join(apps) or "no app")
    managed = [row.app.name for row in rights.apps if row.may_manage]
    unfinished = quotas.unfinished_workunits(account)
    outputs = quotas.kept_output_bytes(account)
    kept = quotas.kept_bytes(account) + outputs
    by_role = account.has_right(Right.SUBMIT_FOR_EVERY_APP)
    sentences = [f"{account.email} may submit for {what}{' by a role' if by_role else ''}."]
    if managed:
        sentences.append(f"May publish versions of {', '.join(managed)}.")
    sentences.append(
        f"Has {plural(unfinished, 'unfinished workunit')}"
        f"{_limit(rights.max_unfinished_workunits)}, and keeps "
        f"{plural(kept, 'byte')}{_limit(rights.max_kept_bytes)}, {outputs} of them outputs."
    )
    return Answer(
        " ".join(sentences),
        {
            "email": account.email,
            "is_staff": account.is_staff,
            "all_apps": rights.all_apps,
            "apps": [{"name": row.app.name, "may_manage": row.may_manage} for row in rights.apps],
            "max_unfinished_workunits": rights.max_unfinished_workunits,
            "unfinished_workunits": unfinished,
            "max_kept_bytes": rights.max_kept_bytes,
            "kept_bytes": kept,
            "kept_output_bytes": outputs,
        },
    )


def _limit(limit: int | None) -> str:
    return "" if limit is None else f" of at most {limit:,}".replace(",", " ")
