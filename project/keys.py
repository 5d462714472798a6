"""Creates and reads the project's random secrets, one file each."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING

from project.env import BadSetting

if TYPE_CHECKING:
    from pathlib import Path


def secret_key(keys: Path) -> str:
    """Return the key in the file secret_key of the folder `keys`; create it if it is missing.

    Only the owner can read the folder and the file. If several processes create a key at the same
    time, all return the same key: each process writes a temporary file and links it to the name,
    which fails if the name exists.

    Raises BadSetting if the file can be neither read nor created.
    """
    path = keys / "secret_key"
    try:
        return secret(path)
    except OSError as error:
        accepted = f"a value, because {path} can be neither read nor created ({error.strerror})"
        raise BadSetting("SECRET_KEY", "", accepted) from None


def secret(path: Path) -> str:
    """Return the random text in the file `path`; create the file if it is missing or empty.

    Raises OSError if the file can be neither read nor created.
    """
    return _read(path) or _make(path)


def write_private(path: Path, text: str) -> None:
    """Write `text` as a line into a new file that only its owner can read.

    An existing file at `path` is deleted first.
    """
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
    # If root creates the file, the owner of the folder must be able to read it.
    if os.geteuid() == 0:
        os.fchown(descriptor, path.parent.stat().st_uid, path.parent.stat().st_gid)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(48) + "\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)
        except FileExistsError:
            # An empty file would be a key that everyone could guess.
            if not _read(path):
                draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return _read(path)
