"""The commands `login`, `logout` and `whoami`."""

from __future__ import annotations

import argparse
import getpass
import os
import socket
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from scientist import store
from scientist.commands.context import Context, first_line
from scientist.commands.options import Commands
from scientist.display import key_value_table
from scientist.errors import NotLoggedIn, ScientistError, UsageError
from scientist.project import resolve_login
from scientist.transport import Transport, project_url
from scientist.words import count, nbytes

SCOPES = ("read", "submit", "publish", "manage", "administer")


def describe(commands: Commands) -> None:
    """Add `login`, `logout` and `whoami` to the parser."""
    login = commands.add("login", log_in, help="create a token and store it")
    login.add_argument("address", metavar="URL", nargs="?", help="address of the project")
    login.add_argument("--email", metavar="E", help="e-mail address of your account")
    passwords = login.add_mutually_exclusive_group()
    passwords.add_argument(
        "--password-file",
        metavar="FILE",
        help="file with the password in the first line, - for standard input "
        "(default: $MANYHANDS_PASSWORD, or a prompt)",
    )
    passwords.add_argument(
        "--password", metavar="P", help="the password; other users of this computer see it in ps"
    )
    login.add_argument(
        "--scope",
        action="append",
        choices=SCOPES,
        help="a scope of the token; repeatable (default: read and submit, also publish and manage "
        "if the account may have them)",
    )
    login.add_argument("--name", metavar="N", help="name of the token (default: this host)")
    logout = commands.add("logout", log_out, help="revoke and delete the token")
    text = "address of the project (default: the address of the last login)"
    logout.add_argument("address", metavar="URL", nargs="?", help=text)
    commands.add("whoami", who_am_i, help="show the account of the token and its quotas")


def log_in(context: Context) -> None:
    """Run `login`: create a token with a password, or test an existing token; store the token."""
    options = context.options
    address = options.address or options.url or os.environ.get("MANYHANDS_URL")
    if not address:
        hint = "scientist login http://project.example/ --email E"
        raise UsageError("No project was given.", hint)
    url = project_url(address)
    token = {"token": options.token} if options.token else _create_token(options, url)
    with closing(Transport(url, token["token"])) as transport:
        me = transport.get("me")
    login = store.Login(
        token["token"], me["account"]["email"], token.get("id"), tuple(me.get("scopes", ()))
    )
    logins = store.load()
    logins.projects[url], logins.default = login, url
    path = store.save(logins)
    facts = {"url": url, "email": login.email, "scopes": login.scopes, "kept_in": str(path)}
    scopes = ", ".join(login.scopes) or "no scopes"
    context.answer(facts, f"logged in to {url} as {login.email} ({scopes})")


def _create_token(options: argparse.Namespace, url: str) -> dict[str, Any]:
    if not options.email:
        hint = "give --email E, or --token-file FILE with an existing token."
        raise UsageError("The e-mail address is missing.", hint)
    password = options.password
    if options.password_file:
        password = first_line(options.password_file)
    password = password or os.environ.get("MANYHANDS_PASSWORD")
    if not password and sys.stdin.isatty():
        password = getpass.getpass("Password: ")
    if not password:
        hint = "give --password-file FILE (- for standard input) or set MANYHANDS_PASSWORD."
        raise UsageError("The password is missing.", hint)
    request: dict[str, Any] = {
        "email": options.email,
        "password": password,
        "name": options.name or f"scientist on {socket.gethostname()}"[:60],
    }
    if options.scope:  # else the project chooses the scopes
        request["scopes"] = list(dict.fromkeys(options.scope))
    with closing(Transport(url)) as transport:
        return dict(transport.post("tokens", request, repeatable=False))


def log_out(context: Context) -> None:
    """Run `logout`: delete the stored token, and revoke it if `login` created it.

    If the token cannot be revoked, a warning is printed.  Raises NotLoggedIn if no token is stored.
    """
    options = context.options
    logins = store.load()
    address = options.address or options.url or logins.default
    url = project_url(address) if address else ""
    login = logins.projects.pop(url, None)
    if login is None:
        stored = ", ".join(logins.projects) or "none"
        raise NotLoggedIn(f"Not logged in to {url or 'any project'}.", f"stored logins: {stored}.")
    if logins.default == url:
        logins.default = next(iter(logins.projects), "")
    store.save(logins)
    revoked = False
    if login.token_id is not None:
        try:
            with closing(Transport(url, login.token, patience=5.0)) as transport:
                transport.delete(f"tokens/{login.token_id}")
            revoked = True
        except ScientistError as error:
            context.warn(f"the token is deleted here, but not revoked: {error.sentence}")
    context.answer({"url": url, "revoked": revoked}, f"logged out of {url}")


def who_am_i(context: Context) -> None:
    url, token = resolve_login(context.options.url, context.options.token)
    if token is None:
        raise NotLoggedIn(f"There is no token for {url}.", f"scientist login {url} --email E")
    me = context.project.me()
    account, quota = me["account"], me.get("quota", {})
    may = me.get("may_submit", {})
    apps = [app["name"] + " (manages)" * bool(app.get("may_manage")) for app in may.get("apps", ())]
    rows: dict[str, RenderableType | None] = {
        "account": Text.assemble(
            (account["email"], "bold"), f" · {account['name']}", " · staff" * account["is_staff"]
        ),
        "project": url,
        "scopes": ", ".join(me.get("scopes", ())),
        "rights": ", ".join(account.get("rights", ())).replace("_", " ") or None,
        "may submit": "to every app" if may.get("all_apps") else ", ".join(apps) or "to no app",
        "unfinished": _usage(quota, "unfinished_workunits", partial(count, noun="workunit")),
        "kept files": _usage(quota, "kept_bytes", nbytes),
    }
    context.answer({"url": url, **me}, key_value_table(rows))


def _usage(quota: dict[str, Any], name: str, text: Callable[[float], str]) -> str:
    limit = quota.get(f"max_{name}")
    return f"{text(quota.get(name) or 0)}{'' if limit is None else f' of {text(limit)}'}"
