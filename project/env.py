"""Reads typed values from environment variables; invalid values raise BadSetting."""

from __future__ import annotations

import json
import os
import re
import tomllib
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from project import proxies
from scheduler.apps.rules.plugins import BadPlugins, Plugins
from scheduler.apps.rules.plugins import read as read_plugins
from scheduler.config import AccountCreation, LoginProvider, MailConfig, MailSecurity, StoreConfig
from scheduler.files.rules import sources
from scheduler.messages.rules import mail_rules

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from project.proxies import Network

TRUE = frozenset({"1", "true", "yes", "on"})
FALSE = frozenset({"0", "false", "no", "off"})

#: libpq's parameters that have separate keys in Django's settings.
DJANGO_KEYS = {
    "dbname": "NAME",
    "user": "USER",
    "password": "PASSWORD",
    "host": "HOST",
    "port": "PORT",
}

#: The options after `?` in the address of a store, with their defaults.
STORE_OPTIONS = {
    "endpoint": "",
    "public": "",
    "region": "us-east-1",
    "downloads": "redirect",
    "new": "store",
    "expires": "3600",
}
#: The ports of mail servers by the encryption of the connection.
MAIL_PORTS = {MailSecurity.STARTTLS: 587, MailSecurity.IMPLICIT: 465, MailSecurity.NONE: 25}
#: Names of this machine, to which a password may be sent without encryption.
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
#: Clients read at most 64 KB of one text, escaped as XML.
_MAX_TEXT_FILE_BYTES = 32_768
#: Bounds on the validity of signed URLs; S3 accepts at most seven days.
_MIN_EXPIRES_SECONDS, _MAX_EXPIRES_SECONDS = 60, 604_800


class BadSetting(Exception):
    """The value of an environment variable is invalid.  The error text describes valid values."""

    def __init__(self, name: str, value: str, accepted: str) -> None:
        super().__init__(f"{name}={value!r} cannot be used: expected {accepted}.")


def text(name: str, default: str) -> str:
    """Return the value of the variable `name`, or the default if the variable is blank or unset."""
    return os.environ.get(name, "").strip() or default


def secret(name: str, *, min_length: int) -> str:
    """Read a secret of ASCII characters; return an empty string if the variable is unset.

    Error texts do not contain the value.
    """
    value = text(name, "")
    if value and (len(value) < min_length or not value.isascii() or " " in value):
        accepted = f"at least {min_length} ASCII characters without spaces (openssl rand -hex 24)"
        raise BadSetting(name, "***", accepted)
    return value


def boolean(name: str, *, default: bool) -> bool:
    """Read a boolean: true/false, yes/no, on/off or 1/0, in upper or lower case."""
    value = text(name, "")
    if not value:
        return default
    if value.lower() in TRUE:
        return True
    if value.lower() in FALSE:
        return False
    raise BadSetting(name, value, "true or false (also yes/no, on/off, 1/0)")


def integer(name: str, default: int, *, at_least: int = 0, at_most: int = 2**31 - 1) -> int:
    """Read a whole number from `at_least` to `at_most`."""
    value = text(name, str(default))
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", value) or not at_least <= int(value) <= at_most:
        raise BadSetting(name, value, f"a whole number from {at_least} to {at_most}")
    return int(value)


def umask(name: str, default: int) -> int:
    """Read a umask in octal digits.  It must not remove rights of the owner."""
    value = text(name, f"{default:04o}")
    if not re.fullmatch(r"0?0[0-7]{2}", value):
        raise BadSetting(name, value, "a umask that starts with 0, such as 0027 or 0022")
    return int(value, 8)


def choice(name: str, default: str, *, among: Collection[str]) -> str:
    """Read a word that must be one of `among`."""
    value = text(name, default)
    if value not in among:
        raise BadSetting(name, value, " or ".join(sorted(among)))
    return value


def account_creation(name: str) -> AccountCreation:
    """Read the policy for account creation, which is open if the variable is unset.

    The value may also be a boolean: true means open, false means closed.
    """
    value = text(name, AccountCreation.OPEN).lower()
    if value in TRUE:
        return AccountCreation.OPEN
    if value in FALSE:
        return AccountCreation.CLOSED
    if value in set(AccountCreation):
        return AccountCreation(value)
    raise BadSetting(name, value, "open, invitation or closed (also true, false)")


def words(name: str, default: list[str]) -> list[str]:
    """Read words separated by commas; return the default if there are no words."""
    return [word.strip() for word in text(name, "").split(",") if word.strip()] or default


def languages(name: str, default: tuple[str, ...]) -> tuple[str, ...]:
    """Read codes of languages separated by commas; each must be one of the default."""
    chosen = tuple(dict.fromkeys(words(name, list(default))))
    if not set(chosen) <= set(default):
        raise BadSetting(name, ",".join(chosen), f"{' or '.join(default)}, separated by commas")
    return chosen


def contacts(name: str) -> tuple[str, ...]:
    """Read contacts separated by commas; return them as URIs, as RFC 9116 requires.

    A contact is an e-mail address, or a URI with the scheme mailto, https or tel.
    """
    uris = []
    for word in words(name, []):
        address = f"mailto:{word}" if "@" in word and ":" not in word else word
        is_mail = re.fullmatch(r"mailto:[^@\s]+@[^@\s]+", address)
        if not is_mail and not re.fullmatch(r"https://[^\s/]+\S*|tel:\+?[0-9-]{3,}", address):
            accepted = "e-mail addresses, https: or tel: URLs, separated by commas"
            raise BadSetting(name, word, accepted)
        uris.append(address)
    return tuple(uris)


def networks(name: str) -> tuple[Network, ...]:
    """Read IP addresses and networks separated by commas; return () if the variable is unset."""
    try:
        return proxies.networks(words(name, []))
    except ValueError:
        raise BadSetting(
            name, text(name, ""), "addresses or networks, such as 10.0.0.7,fd00::/8"
        ) from None


def pattern(name: str) -> str:
    """Read a regular expression; return an empty string if the variable is unset."""
    value = text(name, "")
    try:
        re.compile(value)
    except re.error as error:
        raise BadSetting(name, value, f"a regular expression ({error})") from error
    return value


def folder(name: str, default: Path) -> Path:
    """Read the path of a folder, and return it as an absolute path.

    The folder need not exist, but the path must not be that of a file.
    """
    path = Path(text(name, str(default))).expanduser().resolve()
    if path.exists() and not path.is_dir():
        raise BadSetting(name, str(path), "a folder, and this is a file")
    return path


def web_url(name: str, default: str) -> str:
    """Read an http or https URL, which must not have a query or a fragment.

    The returned URL ends with exactly one slash.
    """
    return as_web_url(name, text(name, default))


def as_web_url(name: str, value: str) -> str:
    """Return the URL `value` with exactly one slash at its end, or raise BadSetting."""
    if not _is_web_url(value):
        accepted = "an address such as http://example.org/ or https://example.org/project/"
        raise BadSetting(name, value, accepted)
    return value.rstrip("/") + "/"


def _is_web_url(value: str) -> bool:
    try:
        parts = urlsplit(value)
        whole = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # For instance a port that is not a number, or an open bracket.
        return False
    return whole and not re.search(r"[?#\s\"'<>&]", value)


def broker_url(name: str, default: str) -> str:
    """Read the address of a message broker that Celery supports."""
    value = text(name, default)
    schemes = ("redis", "rediss", "redis+socket", "amqp", "amqps", "pyamqp", "memory", "sentinel")
    if value.partition("://")[0] not in schemes or "://" not in value:
        raise BadSetting(name, without_password(value), "redis://host:6379/0 or amqp://host//")
    return value


def database_url(name: str) -> dict[str, Any] | None:
    """Read a PostgreSQL URL; return Django's settings of this database.

    Returns None if the variable is unset.  The URL must contain the name of the database.  libpq
    parses the URL, so percent escapes, a socket folder as ``?host=/run/postgresql``, ``sslmode``
    and libpq's other options are valid.
    """
    value = text(name, "")
    if not value:
        return None
    accepted = "an address such as postgresql://user:password@host:5432/name"
    if not value.startswith(("postgresql://", "postgres://")):
        raise BadSetting(name, without_password(value), accepted)
    try:
        parameters = conninfo_to_dict(value)
    except ProgrammingError as error:
        reason = f"{accepted} ({without_password(str(error).strip())})"
        raise BadSetting(name, without_password(value), reason) from None
    if not parameters.get("dbname"):
        raise BadSetting(name, without_password(value), f"the name of a database, as in {accepted}")
    settings: dict[str, Any] = {
        key: str(parameters.pop(parameter))
        for parameter, key in DJANGO_KEYS.items()
        if parameter in parameters
    }
    settings["OPTIONS"] = parameters
    return settings


def store_url(name: str) -> StoreConfig | None:
    """Read the URL of the object store of downloads, as ``s3://bucket/prefix?endpoint=...``.

    Returns None if the variable is unset; then downloads are on disk.  The options are `endpoint`
    and `public` (URLs), `region`, `downloads` (redirect or stream), `new` (store or disk) and
    `expires` (seconds).
    """
    value = text(name, "")
    if not value:
        return None
    accepted = (
        "an address such as s3://bucket/prefix?endpoint=https://s3.example.org&region=us-east-1; "
        "keys come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    )
    parts = urlsplit(value)
    if parts.scheme != "s3" or not re.fullmatch(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", parts.netloc):
        raise BadSetting(name, without_password(value), accepted)
    unknown_options = dict(parse_qsl(parts.query, keep_blank_values=True, separator="&"))
    options = {key: unknown_options.pop(key, default) for key, default in STORE_OPTIONS.items()}
    if unknown_options:
        accepted = (
            f"no option {', '.join(sorted(unknown_options))}: there are {', '.join(STORE_OPTIONS)}"
        )
        raise BadSetting(name, value, accepted)
    for key in ("endpoint", "public"):
        if options[key] and not _is_web_url(options[key]):
            raise BadSetting(name, value, f"an address such as https://s3.example.org as {key}")
    prefix = parts.path.strip("/")
    if not re.fullmatch(r"[A-Za-z0-9_./-]*", prefix) or ".." in prefix:
        raise BadSetting(name, value, "a prefix of letters, digits, dots, dashes and slashes")
    return StoreConfig(
        bucket=parts.netloc,
        prefix=prefix,
        endpoint=options["endpoint"] or None,
        public=options["public"] or None,
        region=options["region"],
        redirects=_one_of(name, value, "downloads", options, ("redirect", "stream")) == "redirect",
        writes=_one_of(name, value, "new", options, ("store", "disk")) == "store",
        expires=timedelta(seconds=_seconds(name, value, options["expires"])),
    )


def mail_url(name: str) -> MailConfig | None:
    """Read the URL of a mail server, as ``smtp://user:password@host:587/?tls=starttls``.

    Returns None if the variable is unset; then no mail is sent.  The option `tls` is starttls,
    implicit (also by the scheme ``smtps``) or none.  Errors never contain the value, because the
    position of the password in an invalid URL is unknown.
    """
    value = text(name, "")
    if not value:
        return None
    accepted = (
        "an address such as smtp://user:password@mail.example.org:587/?tls=starttls, with special "
        "characters of the password as percent escapes"
    )
    refusal = BadSetting(name, "(not shown)", accepted)
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError:
        raise refusal from None
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    default = MailSecurity.IMPLICIT if parts.scheme == "smtps" else MailSecurity.STARTTLS
    security = options.pop("tls", default)
    host, user = parts.hostname or "", unquote(parts.username or "")
    is_valid = (
        parts.scheme in {"smtp", "smtps"}
        and re.fullmatch(r"[A-Za-z0-9._:-]+", host)
        and port != 0
        and parts.path in {"", "/"}
        and not (options or parts.fragment)
        and security in set(MailSecurity)
        and (parts.scheme == "smtp" or security == MailSecurity.IMPLICIT)
    )
    if not is_valid:
        raise refusal
    if user and security == MailSecurity.NONE and host not in _LOOPBACK:
        accepted = "tls=starttls or tls=implicit: a password is not sent over a network in clear"
        raise BadSetting(name, "(not shown)", accepted)
    return MailConfig(
        host=host,
        port=port or MAIL_PORTS[MailSecurity(security)],
        user=user,
        password=unquote(parts.password or ""),
        security=MailSecurity(security),
    )


def mail_addresses(name: str) -> tuple[str, ...]:
    """Read e-mail addresses separated by commas."""
    return tuple(_mail_address(name, word) for word in words(name, []))


def mail_sender(name: str, *, host: str | None) -> str:
    """Read one e-mail address without a display name; the default is ``noreply@`` and `host`."""
    # An IPv6 address is not the domain of an e-mail address.
    domain = "localhost" if not host or ":" in host else host
    return _mail_address(name, text(name, f"noreply@{domain}"))


def _mail_address(name: str, value: str) -> str:
    try:
        return mail_rules.check_address(value)
    except mail_rules.BadMail:
        raise BadSetting(name, value, "an e-mail address such as you@example.org") from None


def webhook_url(name: str, *, private_hosts: Collection[str]) -> str:
    """Read the URL of a webhook; return an empty string if the variable is unset.

    An address without encryption is accepted only for a host in `private_hosts`.  Errors do not
    contain the value, because the path of a webhook is often a secret.
    """
    value = text(name, "")
    if not value:
        return ""
    try:
        place = sources.read_web(value)
    except sources.BadSource:
        place = None
    if place is None or (place.scheme != "https" and place.host not in private_hosts):
        accepted = "an https address, or an http address of a host in WEBHOOK_HOSTS"
        raise BadSetting(name, "(not shown)", accepted)
    return value


def plugins(name: str) -> Plugins:
    """Read the allow-list of plug-ins from a TOML or JSON file.

    The variable contains the path of the file.  If it is unset, the list is empty.
    """
    value = text(name, "")
    if not value:
        return Plugins()
    path = Path(value).expanduser()
    try:
        content = path.read_text(encoding="utf-8")
        is_json = path.suffix == ".json"
        return read_plugins(json.loads(content) if is_json else tomllib.loads(content))
    except OSError as error:
        raise BadSetting(name, value, f"a file that can be read ({error.strerror})") from None
    except (ValueError, BadPlugins) as error:  # tomllib's and json's errors are ValueErrors
        raise BadSetting(name, value, f"a list of plug-ins ({error})") from None


def login_providers(name: str) -> tuple[LoginProvider, ...]:
    """Read the OpenID Connect providers from a TOML file: a table for each.

    The variable contains the path of the file.  If it is unset, the tuple is empty.
    """
    value = text(name, "")
    if not value:
        return ()
    try:
        tables = tomllib.loads(Path(value).expanduser().read_text(encoding="utf-8"))
    except OSError as error:
        raise BadSetting(name, value, f"a file that can be read ({error.strerror})") from None
    except ValueError as error:  # of tomllib, or for text that is not UTF-8
        raise BadSetting(name, value, f"a TOML file ({error})") from None
    return tuple(_login_provider(name, value, key, table) for key, table in tables.items())


def _login_provider(name: str, value: str, key: str, table: object) -> LoginProvider:
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,29}", key) or not isinstance(table, dict):
        raise BadSetting(name, value, f"tables such as [orcid], and not {key!r}")
    needed = {"name", "server", "client_id", "client_secret"}
    texts: dict[str, Any] = {word: table.get(word) for word in needed}
    origins = table.get("origins", [])
    all_texts = [*texts.values(), *(origins if isinstance(origins, list) else [None])]
    if not needed <= set(table) <= needed | {"origins"} or not all(
        isinstance(each, str) and each and each.isprintable() for each in all_texts
    ):
        words = ", ".join(sorted(needed))
        raise BadSetting(name, value, f"in [{key}] the texts {words}, and a list origins if needed")
    for url in (texts["server"], *origins):
        parts = urlsplit(url) if _is_web_url(url) else None
        if parts is None or (parts.scheme != "https" and parts.hostname not in _LOOPBACK):
            raise BadSetting(name, value, f"https addresses in [{key}]")
    server = str(texts["server"]).rstrip("/")
    texts["server"] = server.removesuffix("/.well-known/openid-configuration")
    return LoginProvider(id=key, **texts, origins=tuple(map(_origin, origins)))


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def file_text(name: str) -> str:
    """Return the content of a text file without surrounding white space.

    The variable contains the path of the file.  If it is unset, the text is empty.
    """
    value = text(name, "")
    if not value:
        return ""
    try:
        content = Path(value).expanduser().read_text(encoding="utf-8").strip()
    except OSError as error:
        raise BadSetting(name, value, f"a file that can be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise BadSetting(name, value, "a text file in UTF-8") from None
    if not content or len(content.encode()) > _MAX_TEXT_FILE_BYTES:
        raise BadSetting(name, value, f"a file of 1 to {_MAX_TEXT_FILE_BYTES} bytes")
    return content


def _one_of(
    name: str, value: str, key: str, options: Mapping[str, str], among: Collection[str]
) -> str:
    if options[key] not in among:
        raise BadSetting(name, value, f"{' or '.join(among)} as {key}")
    return options[key]


def _seconds(name: str, value: str, seconds: str) -> int:
    if (
        not re.fullmatch(r"[0-9]{1,6}", seconds)
        or not _MIN_EXPIRES_SECONDS <= int(seconds) <= _MAX_EXPIRES_SECONDS
    ):
        raise BadSetting(
            name, value, f"{_MIN_EXPIRES_SECONDS} to {_MAX_EXPIRES_SECONDS} seconds as expires"
        )
    return int(seconds)


def without_password(url: str) -> str:
    """Return the URL with asterisks in place of its password.

    >>> without_password("postgresql://ada:secret@host/x")
    'postgresql://ada:***@host/x'
    """
    hidden = re.sub(r"(://[^:/@]*:)[^/]*@", r"\1***@", url)
    return re.sub(r"(password=)[^&\s\"]*", r"\1***", hidden)
