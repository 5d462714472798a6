"""`login`, `logout` and `whoami`: whose work it is."""

from __future__ import annotations

import argparse
import getpass
import os
import socket
import sys
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from scientist import store
from scientist.commands.context import OK, Context, first_line
from scientist.display import pairs
from scientist.errors import NotLoggedIn, ScientistError, UsageError
from scientist.project import found_login
from scientist.transport import Transport, project_url
from scientist.words import count, nbytes

SCOPES = ("read", "submit", "publish", "manage", "administer")


def describe(commands: Any, common: argparse.ArgumentParser) -> None:  # noqa: ANN401  argparse's own
    """Add the three commands."""
    login = commands.add_parser("login", parents=[common], help="get a token and keep it")
    login.add_argument("address", metavar="URL", nargs="?", help="address of the project")
    login.add_argument("--email", metavar="E", help="e-mail address of your account")
    passwords = login.add_mutually_exclusive_group()
    passwords.add_argument(
        "--password-file",
        metavar="FILE",
        help="file with its password in the first line, - for standard input "
        "(default: $MANYHANDS_PASSWORD, or a prompt)",
    )
    passwords.add_argument(
        "--password", metavar="P", help="the same; other users of this computer see it in ps"
    )
    login.add_argument(
        "--scope",
        action="append",
        choices=SCOPES,
        help="a scope of the token; repeatable (default: read, submit, and those of "
        "publish and manage that the account may have)",
    )
    login.add_argument("--name", metavar="N", help="what the token is called (default this host)")
    login.set_defaults(command=log_in)
    logout = commands.add_parser("logout", parents=[common], help="revoke the token and forget it")
    logout.add_argument("address", metavar="URL", nargs="?", help="default: the last login's")
    logout.set_defaults(command=log_out)
    whoami = commands.add_parser("whoami", parents=[common], help="show whose token it is, quotas")
    whoami.set_defaults(command=who_am_i)


def log_in(context: Context) -> int:
    """Carry out `login`: by password, or with a token that was made elsewhere."""
    options = context.options
    address = options.address or options.url or os.environ.get("MANYHANDS_URL")
    if not address:
        raise UsageError("Which project?", "scientist login http://project.example/ --email E")
    url = project_url(address)
    if options.token:
        said: dict[str, Any] = {"token": options.token, "id": None}
    else:
        said = _ask_for_token(options, url)
    transport = Transport(url, said["token"])
    try:
        me = transport.get("me")
    finally:
        transport.close()
    login = store.Login(
        said["token"], me["account"]["email"], said.get("id"), tuple(me.get("scopes", ()))
    )
    logins = store.load()
    logins.projects[url], logins.default = login, url
    path = store.save(logins)
    facts = {"url": url, "email": login.email, "scopes": login.scopes, "kept_in": str(path)}
    context.answer(
        facts, f"logged in to {url} as {login.email} ({', '.join(login.scopes) or 'no scopes'})"
    )
    return OK


def _ask_for_token(options: argparse.Namespace, url: str) -> dict[str, Any]:
    if not options.email:
        hint = "give --email E, or --token-file FILE with a token that you have."
        raise UsageError("Who are you?", hint)
    password = options.password
    if options.password_file:
        password = first_line(options.password_file)
    password = password or os.environ.get("MANYHANDS_PASSWORD")
    if not password and sys.stdin.isatty():
        password = getpass.getpass("Password: ")
    if not password:
        hint = "give --password-file FILE (- for standard input) or set MANYHANDS_PASSWORD."
        raise UsageError("The password is missing.", hint)
    transport = Transport(url)
    wishes: dict[str, Any] = {
        "email": options.email,
        "password": password,
        "name": options.name or f"scientist on {socket.gethostname()}"[:60],
    }
    if options.scope:  # else the project gives the scopes that the account may have
        wishes["scopes"] = list(dict.fromkeys(options.scope))
    try:
        return dict(transport.post("tokens", wishes, repeatable=False))
    finally:
        transport.close()


def log_out(context: Context) -> int:
    """Carry out `logout`: the token is revoked on the project, and forgotten here in any case."""
    options = context.options
    logins = store.load()
    address = options.address or options.url or logins.default
    url = project_url(address) if address else ""
    login = logins.projects.pop(url, None)
    if login is None:
        there = ", ".join(logins.projects) or "none"
        raise NotLoggedIn(f"Not logged in to {url or 'any project'}.", f"logins here: {there}.")
    if logins.default == url:
        logins.default = next(iter(logins.projects), "")
    store.save(logins)
    revoked = False
    if login.token_id is not None:
        transport = Transport(url, login.token, patience=5.0)
        try:
            transport.delete(f"tokens/{login.token_id}")
            revoked = True
        except ScientistError as error:
            context.warn(f"the token is forgotten here, but not revoked: {error.sentence}")
        finally:
            transport.close()
    context.answer({"url": url, "revoked": revoked}, f"logged out of {url}")
    return OK


def who_am_i(context: Context) -> int:
    """Carry out `whoami`."""
    url, token = found_login(context.options.url, context.options.token)
    if token is None:
        raise NotLoggedIn(f"There is no token for {url}", f"scientist login {url} --email E")
    me = context.project.me()
    account, quota = me["account"], me.get("quota", {})
    may = me.get("may_submit", {})
    apps = [one["name"] + " (manages)" * bool(one.get("may_manage")) for one in may.get("apps", ())]
    shown: dict[str, RenderableType | None] = {
        "account": Text.assemble(
            (account["email"], "bold"), f" · {account['name']}", " · staff" * account["is_staff"]
        ),
        "project": url,
        "scopes": ", ".join(me.get("scopes", ())),
        "rights": ", ".join(account.get("rights", ())).replace("_", " ") or None,
        "may submit": "to every app" if may.get("all_apps") else ", ".join(apps) or "to no app",
        "unfinished": _of(quota, "unfinished_workunits", "max_unfinished_workunits", _workunits),
        "kept files": _of(quota, "kept_bytes", "max_kept_bytes", nbytes),
    }
    context.answer({"url": url, **me}, pairs(shown))
    return OK


def _workunits(number: float) -> str:
    return count(number, "workunit")


def _of(quota: dict[str, Any], used: str, most: str, write: Any) -> str:  # noqa: ANN401  a function
    limit = quota.get(most)
    return f"{write(quota.get(used) or 0)}{'' if limit is None else f' of {write(limit)}'}"
