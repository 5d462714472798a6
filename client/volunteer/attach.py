"""Logs in to a project and reads its configuration and scheduler addresses."""

from __future__ import annotations

from dataclasses import dataclass

from volunteer.transport import HttpTransport, Response, UnreachableError
from volunteer.wire.web import (
    NO_SUCH_ACCOUNT,
    WRONG_PASSWORD,
    ProjectConfig,
    canonical_url,
    decode_account,
    decode_project_config,
    find_scheduler_urls,
    is_web_url,
    password_hash,
    web_rpc_url,
)
from volunteer.wire.xml import BadXmlError

_HINTS = {
    NO_SUCH_ACCOUNT: "check the address, or register with --create --name NAME.",
    WRONG_PASSWORD: "check the password, or ask the project's staff for a new one.",
}


class NoProjectError(Exception):
    """The server at an address cannot be used as a project. The message contains a hint."""


class RefusedError(Exception):
    """The project refused the log-in or the registration."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The volunteer's credentials: an account key, or an e-mail address and a password.

    `new_name` is the user name of an account to create, or empty to log in. `invitation` is the
    code that some projects require for a new account.
    """

    key: str = ""
    email: str = ""
    password: str = ""
    new_name: str = ""
    invitation: str = ""


@dataclass(frozen=True, slots=True)
class ProjectLogin:
    """The address, name and schedulers of a project, and the key of the volunteer's account."""

    url: str
    key: str
    name: str
    scheduler_urls: tuple[str, ...]


def look_up_project(transport: HttpTransport, url: str, credentials: Credentials) -> ProjectLogin:
    """Return the address, name and schedulers of a project, and the account key.

    If the credentials have no key, this function logs in or creates an account. Raises
    NoProjectError if the server cannot be used as a project, and RefusedError if the project
    refuses the log-in or the registration.
    """
    url = canonical_url(url)
    if not is_web_url(url):
        raise NoProjectError(
            f"{url} is not the address of a project.\nHint: it must begin with https:// or http://."
        )
    config = _read_config(transport, url)
    if config.is_account_manager:
        raise NoProjectError(
            f"{url} is an account manager.\nHint: attach to the projects themselves."
        )
    schedulers = read_master_page(transport, url)
    key = credentials.key or _log_in(transport, _log_in_base(url, config), credentials)
    return ProjectLogin(url, key, config.name, schedulers)


def _log_in_base(url: str, config: ProjectConfig) -> str:
    """Return the base address of the web RPCs that log in and create accounts.

    It is the address of the project unless the configuration sets another address. Raises
    NoProjectError if that address is not a web address, or if it uses http and the project's
    address uses https.
    """
    base = config.web_rpc_url_base
    if not base:
        return url
    if not is_web_url(base) or (url.startswith("https:") and not base.lower().startswith("https:")):
        raise NoProjectError(
            f"The log-in address of {url} is {base!r:.80}, which is not an https address.\n"
            "Hint: copy your account key from the project's web site and use --key-file."
        )
    return base


def _get(
    transport: HttpTransport, url: str, hint: str, *, has_credentials: bool = False
) -> Response:
    """Send a GET request and return the response.

    Raises NoProjectError with `hint` if the server returns no usable response.
    """
    try:
        return transport.get(url, has_credentials=has_credentials)
    except UnreachableError as error:
        raise NoProjectError(f"{error}.\nHint: {hint}.") from error


def _read_config(transport: HttpTransport, url: str) -> ProjectConfig:
    """Return the project's configuration, or the defaults if the server returns none.

    Raises NoProjectError if the server cannot be reached.
    """
    address = web_rpc_url(url, "get_project_config.php")
    response = _get(transport, address, f"check the address {url} and the network")
    try:
        return decode_project_config(response.content) if response.is_good else ProjectConfig()
    except BadXmlError:
        return ProjectConfig()


def read_master_page(transport: HttpTransport, url: str) -> tuple[str, ...]:
    """Return the scheduler addresses in the master page of a project.

    If the project uses https, http addresses are returned only if there are no https addresses.
    Raises NoProjectError if the page cannot be read or has no address.
    """
    response = _get(transport, url, f"check the address {url} and the network")
    if not response.is_good:
        raise NoProjectError(
            f"{url} answers HTTP {response.status}.\nHint: check the address of the project."
        )
    urls = find_scheduler_urls(response.content)
    encrypted = tuple(scheduler for scheduler in urls if scheduler.lower().startswith("https:"))
    if url.startswith("https:") and encrypted:
        # Requests contain the account key, so only the encrypted addresses are used.
        urls = encrypted
    if not urls:
        raise NoProjectError(
            f"{url} has no scheduler address.\nHint: check the address of the project."
        )
    return urls


def _log_in(transport: HttpTransport, base: str, credentials: Credentials) -> str:
    """Log in, or create an account if `new_name` is set, and return the account key.

    Raises RefusedError if the project reports an error, and NoProjectError if the server returns no
    valid reply.
    """
    email = credentials.email.strip().lower()
    values = {"email_addr": email, "passwd_hash": password_hash(email, credentials.password)}
    name = "lookup_account.php"
    if credentials.new_name:
        name = "create_account.php"
        values["user_name"] = credentials.new_name
        if credentials.invitation:
            values["invite_code"] = credentials.invitation
    address = web_rpc_url(base, name, **values)
    response = _get(transport, address, "check the network and try again", has_credentials=True)
    try:
        reply = decode_account(response.content)
    except BadXmlError as error:
        raise NoProjectError(
            f"{base}{name} did not return an account reply (HTTP {response.status}).\n"
            "Hint: copy your account key from the project's web site and use --key."
        ) from error
    if reply.key:
        return reply.key
    hint = _HINTS.get(
        reply.error_num, "ask the project's staff, or use --key with the key from its web site."
    )
    reason = reply.error.strip().rstrip(".") or "the project gave no reason"
    raise RefusedError(f"{base} refused: {reason} ({reply.error_num}).\nHint: {hint}")
