"""What is kept of logins: one file of tokens that only its owner can read."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

from scientist.errors import ScientistError


@dataclass(frozen=True, slots=True)
class Login:
    """A token for a project, and whose it is."""

    token: str
    email: str = ""
    token_id: int | None = None
    scopes: tuple[str, ...] = ()


@dataclass(slots=True)
class Logins:
    """All logins, by address; `default` is the last one made."""

    default: str = ""
    projects: dict[str, Login] = field(default_factory=dict)


class UnreadableLogins(ScientistError):
    """The file of logins is damaged or another's."""


def folder() -> Path:
    """Where logins are kept: $MANYHANDS_CONFIG or ~/.config/manyhands."""
    chosen = os.environ.get("MANYHANDS_CONFIG")
    return Path(chosen).expanduser() if chosen else Path.home() / ".config" / "manyhands"


def _path() -> Path:
    return folder() / "logins.json"


def load() -> Logins:
    """Read the logins; none if there is no file.  Raises UnreadableLogins."""
    try:
        said = json.loads(_path().read_text(encoding="utf-8"))
        projects = {
            str(url): Login(
                str(one["token"]),
                str(one.get("email", "")),
                one.get("token_id"),
                tuple(one.get("scopes", ())),
            )
            for url, one in said["projects"].items()
        }
        return Logins(str(said.get("default", "")), projects)
    except FileNotFoundError:
        return Logins()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        hint = "remove the file and run scientist login again."
        raise UnreadableLogins(f"The logins in {_path()} cannot be read: {error}", hint) from None


def save(logins: Logins) -> Path:
    """Replace the file by rename, mode 0600; gives its path."""
    here = folder()
    here.mkdir(mode=0o700, parents=True, exist_ok=True)
    said = {
        "default": logins.default,
        "projects": {url: asdict(one) for url, one in sorted(logins.projects.items())},
    }
    # mkstemp makes it readable by its owner alone, before anything is in it.
    descriptor, name = tempfile.mkstemp(dir=here, prefix=".logins-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(said, file, indent=2)
            file.write("\n")
        Path(name).replace(_path())
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return _path()
