"""Reads and writes folders of task files, which are not part of VAR_DIR."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

#: A task file has seven or ten lines; a larger file is not one.
MAX_TASK_BYTES = 1_000_000


class BadTree(Exception):
    """A folder cannot be read or written. Hint: see the message."""


@dataclass(frozen=True, slots=True)
class TaskFile:
    """A task file: its path below the folder, as parts, and its text.

    `fault` is the reason why the text could not be read, else empty.  `has_errors` is whether a
    file ``.err`` that is not empty lies beside it, `has_output` the same of any ``.out``.
    """

    parts: tuple[str, ...]
    text: str
    fault: str = ""
    has_errors: bool = False
    has_output: bool = False

    @property
    def path(self) -> str:
        return "/".join(self.parts)

    @property
    def stem(self) -> str:
        return self.parts[-1].removesuffix(".task")


def read_tree(folder: str) -> tuple[list[TaskFile], list[str]]:
    """Return the task files of a folder and its subfolders, and the paths of other files.

    Files ``.out`` and ``.err`` are not listed.  Symbolic links are not followed: one to a folder is
    listed as another file.  Raises `BadTree` if the folder cannot be read.
    """
    root = Path(folder)
    if not root.is_dir():
        raise BadTree(f"{folder} is not a folder. Hint: name a folder with task files.")
    tasks: list[TaskFile] = []
    others: list[str] = []
    for path in _files(root):
        if path.suffix == ".task":
            tasks.append(_read(root, path))
        elif path.suffix not in {".out", ".err"}:
            others.append(str(path.relative_to(root)))
    return tasks, others


def _files(root: Path) -> Iterator[Path]:
    def refuse(error: OSError) -> None:
        raise BadTree(f"{error.filename!r}: {error.strerror}. Hint: check its permissions.")

    for place, folders, names in os.walk(root, onerror=refuse):
        folders.sort()
        links = [name for name in folders if Path(place, name).is_symlink()]
        yield from (Path(place) / name for name in sorted([*names, *links]))


def _read(root: Path, path: Path) -> TaskFile:
    parts = path.relative_to(root).parts
    text, fault = "", ""
    try:
        content = _content(path)
        if content is None:
            fault = "The file is a symbolic link, or not a regular file."
        elif len(content) > MAX_TASK_BYTES:
            fault = f"The file has more than {MAX_TASK_BYTES} bytes."
        else:
            text = content.decode("utf-8")
    except UnicodeDecodeError:
        fault = "The file is not text in UTF-8."
    except OSError as error:
        fault = f"The file cannot be read: {error.strerror}."
    errors, output = path.with_suffix(".err"), path.with_suffix(".out")
    return TaskFile(
        parts,
        text,
        fault,
        has_errors=errors.is_file() and errors.stat().st_size > 0,
        has_output=output.is_file(),
    )


def _content(path: Path) -> bytes | None:
    """Return the first bytes of a regular file; None for any other, such as a link or a device."""
    if not stat.S_ISREG(path.lstat().st_mode):
        return None
    # Between the two calls, another program may replace the file: open neither follows a link nor
    # waits for the writer of a pipe.
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        is_regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
        return file.read(MAX_TASK_BYTES + 1) if is_regular else None


class TreeWriter:
    """Writes a new tree of task files; raises `BadTree` if the folder exists and is not empty."""

    def __init__(self, folder: str) -> None:
        self._root = Path(folder)
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            if any(self._root.iterdir()):
                msg = f"{folder} is not empty. Hint: name a new folder, or empty it."
                raise BadTree(msg)
        except OSError as error:
            raise self._failed(error) from None

    def add_folder(self, *parts: str) -> None:
        """Create a folder below the tree's root, if it does not exist; may raise `BadTree`."""
        try:
            self._root.joinpath(*parts).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._failed(error) from None

    def add(self, content: bytes, *parts: str) -> None:
        """Write a file below the tree's root; may raise `BadTree`."""
        self.add_folder(*parts[:-1])
        try:
            self._root.joinpath(*parts).write_bytes(content)
        except OSError as error:
            raise self._failed(error) from None

    def copy(self, source: BinaryIO, *parts: str) -> None:
        """Write a file in pieces, so that a large one does not fill the memory."""
        self.add_folder(*parts[:-1])
        try:
            with self._root.joinpath(*parts).open("wb") as target:
                shutil.copyfileobj(source, target)
        except OSError as error:
            raise self._failed(error) from None

    def _failed(self, error: OSError) -> BadTree:
        where = error.filename or str(self._root)
        return BadTree(f"{where!r} cannot be written: {error.strerror}. Hint: name another folder.")
