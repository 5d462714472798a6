"""Random secrets of the project, each in a file that is created on first use."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING

from project.env import BadSetting

if TYPE_CHECKING:
    from pathlib import Path


def secret_key(keys: Path) -> str:
    """Return the key kept in `keys`/secret_key, making it on the first call.

    The folder is readable by its owner only, and so is the file. Of several processes that make
    a key at the same moment, one wins and all return the winner's: a finished temporary file is
    linked to its name, which fails if the name is taken.

    Raises BadSetting when the file cannot be read or made.
    """
    path = keys / "secret_key"
    try:
        return secret(path)
    except OSError as error:
        accepted = f"a value, for {path} can be neither read nor made ({error.strerror})"
        raise BadSetting("SECRET_KEY", "", accepted) from None


def secret(path: Path) -> str:
    """Return the random text kept in the file `path`, making it on the first call.

    Raises OSError when the file cannot be read or made.
    """
    return _read(path) or _make(path)


def write_private(path: Path, text: str) -> None:
    """Write one line into a new file that only its owner can read, replacing an older one."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(f"{text}\n")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return ""


def _make(path: Path) -> str:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.parent.chmod(0o700)
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    if os.geteuid() == 0:  # in a project of an ordinary user, that user must read it
        os.fchown(descriptor, path.parent.stat().st_uid, path.parent.stat().st_gid)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(48) + "\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)
        except FileExistsError:
            if not _read(path):  # an empty file is nobody's key, and would be everybody's
                draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return _read(path)
