"""Checks names of files, and derives their paths and URLs."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Final
from urllib.parse import quote

from django.conf import settings

#: BOINC's default number of folders per hierarchy (PROTOCOL 7.4).
FANOUT: Final = 1024

_MAX_NAME_BYTES: Final = 255
_BAD_CHARACTERS: Final = re.compile(r"[\x00-\x1f\x7f%/\\<>&\"\ud800-\udfff]")


class BadFileName(ValueError):
    """A physical file name that BOINC's clients or this server cannot use."""


def fan_out(name: str) -> str:
    """Return the folder of a file by BOINC's directory hash (PROTOCOL 7.4).

    The hash is the second to eighth hexadecimal digit of the name's MD5, modulo `FANOUT`.

    >>> fan_out("wu_1_0_r0")
    '2b'
    """
    digits = hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()
    return f"{int(digits[1:8], 16) % FANOUT:x}"


def check_name(name: str) -> None:
    """Raise BadFileName unless clients, file systems and this package can all use the name.

    Clients refuse ``..`` and ``%``, store 255 bytes of a name, and do not escape names in XML.  A
    slash would lead to another folder, a leading dot is reserved for partial uploads, and white
    space at the ends is lost in the protocol.
    """
    if not name:
        message = "File name is empty."
    elif _BAD_CHARACTERS.search(name):
        message = f'File name {name!r} has a control character or one of / \\ % < > & ".'
    elif name[0] == "." or ".." in name:
        message = f"File name {name!r} begins with a dot or contains '..'."
    elif name[0].isspace() or name[-1].isspace():
        message = f"File name {name!r} begins or ends with white space."
    elif len(name.encode()) > _MAX_NAME_BYTES:
        message = f"File name {name[:40]!r}... is longer than {_MAX_NAME_BYTES} bytes."
    else:
        return
    hint = (
        "Hint: use letters, digits, '_', '-' and '.', with a version or content hash in the name."
    )
    raise BadFileName(message + "\n" + hint)


def download_path(name: str) -> Path:
    """Return the path of a published file; raises BadFileName."""
    return Path(path_of("download", name))


def upload_path(name: str) -> Path:
    """Return the path of a finished upload; raises BadFileName."""
    return Path(upload_file(name))


def upload_file(name: str) -> str:
    """Return the path of a finished upload as text, which is faster; raises BadFileName."""
    return path_of("upload", name)


def download_url_path(name: str) -> str:
    """Return the path of a published file below the master URL, quoted for a URL."""
    check_name(name)
    return f"download/{fan_out(name)}/{quote(name)}"


def path_of(hierarchy: str, name: str) -> str:
    """Return the path of a file in ``upload`` or ``download``; raises BadFileName."""
    check_name(name)
    return f"{settings.VAR_DIR}/{hierarchy}/{fan_out(name)}/{name}"


def beside(path: str, suffix: str) -> str:
    """Return the path of a hidden file ``.<name>.<suffix>`` in the same folder.

    A name that is too long for a suffix is replaced by its MD5.
    """
    folder, _, name = path.rpartition("/")
    if len(name) > _MAX_NAME_BYTES // 4 - 8 and len(name.encode()) > _MAX_NAME_BYTES - 8:
        name = hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()
    return f"{folder}/.{name}.{suffix}"
