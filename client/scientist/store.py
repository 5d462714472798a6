"""Stores logins with their tokens in a file that only its owner can read."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

from scientist.errors import ScientistError


@dataclass(frozen=True, slots=True)
class Login:
    """A token for a project, with the e-mail address of its account and its scopes."""

    token: str
    email: str = ""
    token_id: int | None = None
    scopes: tuple[str, ...] = ()


@dataclass(slots=True)
class Logins:
    """All logins, by the address of their project.

    `default` is the address of the last login, or of another login after a logout.
    """

    default: str = ""
    projects: dict[str, Login] = field(default_factory=dict)


class UnreadableLogins(ScientistError):
    """The file with the logins is damaged or cannot be read."""


def folder() -> Path:
    """Return the folder of the logins, $MANYHANDS_CONFIG or ~/.config/manyhands."""
    configured = os.environ.get("MANYHANDS_CONFIG")
    return Path(configured).expanduser() if configured else Path.home() / ".config" / "manyhands"


def _path() -> Path:
    return folder() / "logins.json"


def load() -> Logins:
    """Return the stored logins, or empty Logins if there is no file.  Raises UnreadableLogins."""
    try:
        content = json.loads(_path().read_text(encoding="utf-8"))
        projects = {
            str(url): Login(
                str(login["token"]),
                str(login.get("email", "")),
                login.get("token_id"),
                tuple(login.get("scopes", ())),
            )
            for url, login in content["projects"].items()
        }
        return Logins(str(content.get("default", "")), projects)
    except FileNotFoundError:
        return Logins()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        hint = "remove the file and run scientist login again."
        raise UnreadableLogins(f"The logins in {_path()} cannot be read: {error}", hint) from None


def save(logins: Logins) -> Path:
    """Write the logins to the file atomically, with mode 0600; return the path of the file."""
    parent = folder()
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    content = {
        "default": logins.default,
        "projects": {url: asdict(login) for url, login in sorted(logins.projects.items())},
    }
    # mkstemp creates the file with mode 0600, before the tokens are written.
    descriptor, name = tempfile.mkstemp(dir=parent, prefix=".logins-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=2)
            file.write("\n")
        Path(name).replace(_path())
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return _path()
