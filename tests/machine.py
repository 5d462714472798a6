"""Programs that some tests need, and the Debian packages that contain them.

`@pytest.mark.needs("busybox")` on a test, or `needs("busybox")` inside a test or fixture: without the
program the test is skipped, with one line that names the package; in CI (CI=true), which installs
all of them, it fails.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

#: Program -> names of the Debian packages that it needs.
PACKAGES = {
    "bash": "bash",
    "boinc": "boinc-client",
    "busybox": "busybox",
    "c++": "g++",
    "cc": "gcc libc6-dev",
    "chromium": "chromium",
    "curl": "curl",
    "dash": "dash",
    "bwrap": "bubblewrap",
    "nginx": "nginx-light",
    "openssl": "openssl",
    "prometheus": "prometheus",
    "promtool": "prometheus",
    "redis-server": "redis-server",
    "rsync": "rsync",
    "systemd-analyze": "systemd",
}


#: File -> name of the Debian package that contains it.
FILES = {"/usr/include/boinc/boinc_api.h": "libboinc-app-dev"}


def find(program: str) -> str | None:
    """Return the path of a program in PATH or in /usr/sbin, or None."""
    path = os.environ.get("PATH", "")
    if "/usr/bin" in path.split(os.pathsep):
        path = f"{path}{os.pathsep}/usr/sbin"
    return shutil.which(program, path=path)


def needs(program: str) -> str:
    """Return the path of a program; skip the test without it, or fail in CI."""
    if found := find(program):
        return found
    return _lacking(program, PACKAGES[program])


def needs_file(path: str) -> Path:
    """Return the path of a file; skip the test without it, or fail in CI."""
    if Path(path).exists():
        return Path(path)
    return _lacking(path, FILES[path])


def boinc_wrapper() -> Path:
    """Return the program that `BOINC_WRAPPER` names; skip the test if it names none, also in CI.

    No Debian package contains BOINC's wrapper, so CI cannot install it (CONTRIBUTING.md).
    """
    path = os.environ.get("BOINC_WRAPPER", "")
    if not path:
        pytest.skip("no BOINC wrapper here: build samples/wrapper and set BOINC_WRAPPER")
    if not os.access(path, os.X_OK):
        pytest.fail(f"BOINC_WRAPPER is {path!r}, which is not a program", pytrace=False)
    return Path(path)


def _lacking(what: str, packages: str) -> NoReturn:
    reason = f"no {what} here: apt install {packages}"
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI needs every program: {reason}", pytrace=False)
    pytest.skip(reason)
