"""Prints, applies and checks the rights of database roles."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import Error, connection

from scheduler.management.base import Answer, JsonCommand, plural
from scheduler.sql import database_roles, table_rights

_PREFIX = re.compile(r"[a-z_][a-z0-9_]{0,50}")


class Command(JsonCommand):
    """``database_roles print | create | grant | check``."""

    help = (
        "Manage database roles of least privilege: PREFIX_owner for migrations, PREFIX_web, "
        "PREFIX_daemons and PREFIX_science. print: the SQL; create: the roles, as a superuser; "
        "grant: their rights, as the owner of the tables, after each migration; check: the rights "
        "of the current role."
    )
    refusals = (Error,)

    def add_options(self, parser: CommandParser) -> None:
        self.add_action(parser, _ACTIONS)
        parser.add_argument(
            "--prefix",
            type=_prefix,
            default="manyhands",
            help="first part of the names of the roles (manyhands)",
        )
        parser.add_argument(
            "--role",
            choices=table_rights.ROLES,
            help="check: the role to compare with (the closest one)",
        )

    def answer(self, options: Mapping[str, Any]) -> Answer:
        return _ACTIONS[options["action"]](options)


def _prefix(text: str) -> str:
    if _PREFIX.fullmatch(text):
        return text
    msg = f"{text!r} is not a prefix. Hint: use up to 50 lower-case letters, digits and _."
    raise ArgumentTypeError(msg)


def _print(options: Mapping[str, Any]) -> Answer:
    prefix, name = options["prefix"], str(connection.settings_dict["NAME"])
    roles = database_roles.role_statements(prefix, name)
    grants = database_roles.grant_statements(prefix)
    purposes = [f"--   {prefix}_{role}: {use}" for role, use in database_roles.PURPOSES.items()]
    lines = [
        "-- As a superuser, in the project's database. Passwords: \\password NAME in psql.",
        *purposes,
        *(f"{line};" for line in roles),
        "-- As the owner of the tables, after each migration.",
        "BEGIN;",
        *(f"{line};" for line in grants),
        "COMMIT;",
    ]
    return Answer("\n".join(lines), {"roles": roles, "grants": grants})


def _create(options: Mapping[str, Any]) -> Answer:
    prefix = options["prefix"]
    database_roles.create_roles(prefix)
    names = [f"{prefix}_{role}" for role in database_roles.PURPOSES]
    return Answer(
        f"The roles {', '.join(names)} exist. Set their passwords with \\password NAME in psql.",
        {"roles": names},
    )


def _grant(options: Mapping[str, Any]) -> Answer:
    prefix = options["prefix"]
    undecided = database_roles.undecided_tables()
    warnings = [
        f"No role has rights on the table {table}. Hint: if it is not yours, report it."
        for table in undecided
    ]
    database_roles.grant(prefix)
    names = [f"{prefix}_{role}" for role in table_rights.ROLES]
    return Answer(
        f"{', '.join(names)} have their rights on {plural(len(table_rights.TABLES), 'table')}.",
        {"roles": names, "undecided": undecided},
        warnings,
    )


def _check(options: Mapping[str, Any]) -> Answer:
    if role := options["role"]:
        difference = database_roles.compare(role)
    else:
        role, difference = database_roles.closest()
    if difference.excess or difference.missing:
        lines = [
            *(f"  too much: {right}" for right in difference.excess),
            *(f"  missing: {right}" for right in difference.missing),
        ]
        raise CommandError(
            f"The database role differs from the role {role}:\n"
            + "\n".join(lines)
            + f"\nHint: {database_roles.HINT}"
        )
    return Answer(
        f"The database role has exactly the rights of the role {role}.",
        {"role": role, "excess": [], "missing": []},
    )


_ACTIONS = {"print": _print, "create": _create, "grant": _grant, "check": _check}
