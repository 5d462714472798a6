"""Reads the public addresses that a project has had, from a file in VAR_DIR.

`project rename-url` writes them, the current one first.  MASTER_URL may still be set to an earlier
address: it then stands for the current one.  Clients that attached by an earlier address identify
the project by it, so the server continues to answer there (`former`).
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from project.env import BadSetting

if TYPE_CHECKING:
    from pathlib import Path

#: The name of the file, without `.json`.
NOTICE: Final = "addresses"


def recorded(var: Path) -> tuple[str, ...]:
    """Return the recorded addresses, the current one first; () if the address never changed.

    Raises BadSetting if the file is damaged.
    """
    path = var / f"{NOTICE}.json"
    try:
        addresses = json.loads(path.read_text(encoding="utf-8"))["addresses"]
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise BadSetting(
            "VAR_DIR", str(path), f"a file of `project rename-url` ({error})"
        ) from None
    if not isinstance(addresses, list) or not all(
        isinstance(address, str) and re.fullmatch(r"https?://[^\s?#\"'<>&]+/", address)
        for address in addresses
    ):
        raise BadSetting("VAR_DIR", str(path), "a list of addresses")
    return tuple(addresses)


def current(addresses: tuple[str, ...], configured: str) -> str:
    """Return the current address of a project whose MASTER_URL is `configured`.

    >>> current(("https://new.org/", "http://old.org/"), "http://old.org/")
    'https://new.org/'
    >>> current((), "http://old.org/")
    'http://old.org/'
    """
    return addresses[0] if configured in addresses else configured


def former(addresses: tuple[str, ...], master_url: str) -> tuple[str, ...]:
    """Return the recorded addresses other than `master_url`."""
    return tuple(address for address in addresses if address != master_url)
