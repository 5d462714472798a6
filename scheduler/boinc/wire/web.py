"""Encodes the replies of web RPCs: project configuration, log-in and errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from scheduler.boinc.wire import shapes
from scheduler.boinc.wire.shapes import BIT, FLAG, INT, TEXT, Row, Shape, rows

_PROLOG: Final = '<?xml version="1.0" encoding="UTF-8" ?>\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """A platform for which the project has an app version."""

    platform_name: str
    user_friendly_name: str = ""
    plan_class: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectConfig:
    """The content of `get_project_config.php` (PROTOCOL 1.2)."""

    name: str
    master_url: str
    web_rpc_url_base: str = ""
    min_passwd_length: int = 6
    account_manager: bool = False
    uses_username: bool = False
    account_creation_disabled: bool = False
    client_account_creation_disabled: bool = False
    invite_code_required: bool = False
    web_stopped: bool = False
    sched_stopped: bool = False
    min_client_version: int = 0
    platforms: tuple[Platform, ...] = ()
    terms_of_use: str = ""


_PLATFORM: Final = Shape(Platform, rows(TEXT, "platform_name user_friendly_name plan_class"))
_CONFIG: Final = Shape(
    ProjectConfig,
    [
        *rows(TEXT, "name master_url web_rpc_url_base"),
        Row("min_passwd_length", INT, always=True),
        *rows(BIT, "account_manager uses_username", always=True),
        *rows(BIT, "account_creation_disabled client_account_creation_disabled", always=True),
        Row("invite_code_required", FLAG),
        *rows(BIT, "web_stopped sched_stopped", always=True),
        Row("min_client_version", INT),
        Row("platforms", shapes.listed("platform", shapes.nested(_PLATFORM)), always=True),
        Row("terms_of_use", shapes.text(shapes.TEXT_LIMIT)),
    ],
)


def encode_project_config(config: ProjectConfig) -> bytes:
    """Return the reply of `get_project_config.php`."""
    return _document("project_config", _CONFIG.write(config, "    "))


def encode_account_out(authenticator: str | None) -> bytes:
    """Return the reply to a log-in or a new account.

    If `authenticator` is None, the reply only confirms that the account exists.
    """
    if authenticator is None:
        return _document("account_out", "    <success/>\n")
    return _document("account_out", TEXT.write("authenticator", authenticator, "    "))


def encode_error(error_num: int, error_msg: str) -> bytes:
    """Return the reply of a web RPC that failed; PROTOCOL 0.3 has a list of error numbers."""
    inside = INT.write("error_num", error_num, "    ")
    return _document("error", inside + shapes.text(1023).write("error_msg", error_msg, "    "))


def _document(root: str, inside: str) -> bytes:
    return f"{_PROLOG}<{root}>\n{inside}</{root}>\n".encode("utf-8", "replace")
