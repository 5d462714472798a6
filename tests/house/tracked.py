"""Lists the files of the project: files that git tracks, or all files without git."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("project", "scheduler", "daemons", "client", "demo", "bench", "tests")
LEFT_BEHIND = {".git", ".venv", "var", "__pycache__", "build"}


@cache
def tracked() -> tuple[str, ...]:
    """Return the path of every file of the project, relative to its root, sorted."""
    git = shutil.which("git")
    if git and (ROOT / ".git").exists():
        listed = subprocess.run(
            [git, "-c", "safe.directory=*", "ls-files", "-z"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split("\0")
    else:
        listed = [
            str(path.relative_to(ROOT))
            for path in ROOT.rglob("*")
            if path.is_file() and not LEFT_BEHIND & set(path.relative_to(ROOT).parts)
        ]
    return tuple(sorted(name for name in listed if name and (ROOT / name).is_file()))


def modules() -> list[str]:
    """Return every Python module except migrations."""
    return [
        name
        for name in tracked()
        if name.endswith(".py") and name.startswith(ROOMS) and "/migrations/" not in name
    ]


def statements() -> list[str]:
    """Return every file with a SQL statement."""
    return [name for name in tracked() if name.endswith(".sql")]


def statement_name(path: str) -> str:
    """Return the name by which code runs a statement; in `scheduler`, with its package."""
    stem = path.removesuffix(".sql")
    if stem.startswith("scheduler/") and "/invariant_sql/" not in stem:
        return stem.removeprefix("scheduler/")
    return stem.rpartition("/")[2]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")
