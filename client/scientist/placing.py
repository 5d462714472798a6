"""A folder of outputs: whole workunits, renamed into place, once each."""

from __future__ import annotations

import contextlib
import filecmp
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scientist import archive, models, table
from scientist.errors import ScientistError
from scientist.naming import flat_names, parts_of, workunit_name

MANIFEST = "MANIFEST.ndjson"
_KEPT = ".scientist"
FAILED = "failed"
_CHUNK = 1 << 18


class UnwritableFolder(ScientistError):
    """The folder of a fetch cannot be used."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where things go: ``folder/<workunit>/<open_name>``, or flat, with stderr of the failed."""

    folder: Path
    flat: bool = False
    failed: bool = False


class Store:
    """A folder of outputs, and what is known of it."""

    def __init__(self, layout: Layout, url: str, batch: models.BatchInfo) -> None:
        self._layout, self.folder = layout, layout.folder
        self._url, self._batch = url, batch
        try:
            (self.folder / _KEPT).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._unwritable(error.strerror or str(error)) from None
        for name in (_KEPT, MANIFEST, table.NAME):
            if (self.folder / name).is_symlink():
                raise self._unwritable(f"its {name} is a link to somewhere else")
        if not table.is_ours(self.folder / table.NAME):
            said = f"{self.folder / table.NAME} is not the table of an earlier fetch."
            raise UnwritableFolder(said, "move it away and fetch again.")
        address = hashlib.sha256(url.encode()).hexdigest()[:8]
        self._state = self.folder / _KEPT / f"batch-{batch.id}-{address}.json"
        self._incoming = self.folder / _KEPT / f"incoming-{batch.id}-{address}-{os.getpid()}"
        lines = {one["name"]: one for one in self._lines()}
        self.known = {name: _status(one) for name, one in lines.items()}
        self._marks = {
            name: _mark((out.get("open_name"), out.get("sha256")) for out in one.get("outputs", ()))
            for name, one in lines.items()
        }
        #: What could not be put in place, for something else is there: workunit -> where.
        self.taken: dict[str, Path] = {}

    def _unwritable(self, reason: str) -> UnwritableFolder:
        said = f"The folder {self.folder} cannot be used: {reason}."
        return UnwritableFolder(said, "choose another.")

    def has(self, entry: models.ManifestEntry) -> bool:
        """Whether these outputs were put in place, not another project's of that name."""
        if self.known.get(entry.name) != "done":
            return False
        is_gone = not entry.outputs or any(one.missing or one.damaged for one in entry.outputs)
        return is_gone or self._marks[entry.name] == _mark_of(entry)

    def _lines(self) -> Iterator[dict[str, Any]]:
        with contextlib.suppress(FileNotFoundError), (self.folder / MANIFEST).open("rb") as file:
            for line in file:
                # The last line may be half, of a run that was killed.
                with contextlib.suppress(ValueError):
                    yield json.loads(line)

    @property
    def cursor(self) -> str | None:
        """Up to where an earlier fetch came, in the same layout."""
        try:
            said = json.loads(self._state.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        same = said.get("flat") == self._layout.flat and said.get("failed") == self._layout.failed
        return said.get("cursor") if same else None

    def keep_cursor(self, cursor: str) -> None:
        """Everything up to here is in place."""
        said = {"url": self._url, "batch": self._batch.id, "name": self._batch.name}
        said |= {"cursor": cursor, "flat": self._layout.flat, "failed": self._layout.failed}
        part = self._state.with_suffix(".part")
        part.write_text(json.dumps(said) + "\n", encoding="utf-8")
        part.replace(self._state)

    def receive(self, member: archive.Member, heard: Callable[[int], None]) -> tuple[int, str]:
        """Write a file aside; gives its length and digest."""
        path = self._incoming.joinpath(member.workunit, *parts_of(member.path))
        path.parent.mkdir(parents=True, exist_ok=True)
        digest, nbytes = hashlib.sha256(), 0
        with path.open("wb") as file:
            while chunk := member.content.read(_CHUNK):
                digest.update(chunk)
                nbytes += len(chunk)
                file.write(chunk)
                heard(len(chunk))
        return nbytes, digest.hexdigest()

    def place(self, entry: models.ManifestEntry) -> bool:
        """Move a workunit whose files agree to where it is looked for.

        If anything else is there, nothing is moved, and `taken` says where.
        """
        name = workunit_name(entry.name)
        here = self._incoming / name
        paths = [archive.path_of(one) for one in entry.outputs if not one.missing]
        came = [here.joinpath(*parts_of(path)) for path in paths]
        if self._layout.flat:
            goals = [self.folder / flat for flat in flat_names(name, paths)]
        else:
            goals = [(self.folder / name).joinpath(*parts_of(path)) for path in paths]
        taken = self._not_free(came, goals or [self.folder / name])
        if taken is not None:
            self.taken[name] = taken
            self.drop(name)
            return False
        if not self._layout.flat and paths and not (self.folder / name).exists():
            here.rename(self.folder / name)
        elif not self._layout.flat and not paths:
            (self.folder / name).mkdir(exist_ok=True)
        else:
            for path, goal in zip(came, goals, strict=True):
                goal.parent.mkdir(parents=True, exist_ok=True)
                path.replace(goal)
            self.drop(name)
        self.note(entry)
        return True

    def _not_free(self, came: Sequence[Path], goals: Sequence[Path]) -> Path | None:
        """The first place where something else is, or to which a link leads.

        What is there with the same content is ours, from a run that was killed.
        """
        if len({path.stat().st_ino for path in came}) < len(came):
            # The file system takes two of the names for one.
            return goals[0]
        for path, goal in zip(came, goals, strict=False):
            if os.path.lexists(goal) and not (
                goal.is_file() and not goal.is_symlink() and filecmp.cmp(path, goal, shallow=False)
            ):
                return goal
        for goal in goals:
            within = goal.relative_to(self.folder)
            if within.parts[0].casefold() in {MANIFEST.casefold(), table.NAME.casefold()}:
                return goal
            above = [self.folder / one for one in within.parents[:-1]]
            for folder in above if came else [goal]:
                if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
                    return folder
        return None

    def place_text(self, entry: models.ManifestEntry, text: str) -> bool:
        """Put the stderr of a failed workunit where its outputs would be, as `place` does."""
        name = workunit_name(entry.name)
        goal = self.folder / f"{name}.stderr.txt"
        if not self._layout.flat:
            goal = self.folder / name / "stderr.txt"
        part = self.folder / _KEPT / f"{name}.part"
        part.write_text(text, encoding="utf-8", errors="replace")
        taken = self._not_free([part], [goal])
        if taken is not None:
            self.taken[name] = taken
            part.unlink()
            return False
        goal.parent.mkdir(exist_ok=True)
        part.replace(goal)
        self.note(entry, has_stderr=True)
        return True

    def write_table(self) -> None:
        """Write the table of all that the manifest has."""
        part = self.folder / _KEPT / f"{table.NAME}-{os.getpid()}.part"
        with part.open("w", encoding="utf-8", errors="replace", newline="") as file:
            table.write(file, self._lines, self._path_of)
        part.replace(self.folder / table.NAME)

    def _path_of(self, entry: models.ManifestEntry) -> list[str]:
        """Return the paths of a workunit's outputs in the folder; empty for missing ones."""
        try:
            name = workunit_name(entry.name)
            paths = [archive.path_of(one) for one in entry.outputs]
            flat = flat_names(name, paths)
            goals = flat if self._layout.flat else ["/".join((name, *parts_of(p))) for p in paths]
        except ScientistError:
            return [""] * len(entry.outputs)
        return [goal if (self.folder / goal).is_file() else "" for goal in goals]

    def note(self, entry: models.ManifestEntry, *, has_stderr: bool = False) -> None:
        """Write a line into the folder's manifest, once; of a failed one again with its stderr."""
        facts: dict[str, Any] = {**asdict(entry), "batch": self._batch.id}
        facts |= {"has_stderr": True} if has_stderr else {}
        if self.has(entry) or self.known.get(entry.name) in {FAILED, _status(facts)} - {"done"}:
            return
        line = json.dumps(facts, ensure_ascii=False)
        with (self.folder / MANIFEST).open("a+b") as file:
            # A half line of a run that was killed must not spoil this one.
            if file.tell() and _last_byte(file) != b"\n":
                file.write(b"\n")
            file.write(line.encode() + b"\n")
        self.known[entry.name] = _status(facts)
        self._marks[entry.name] = _mark_of(entry)

    def drop(self, workunit: str) -> None:
        """Forget what arrived of a workunit."""
        shutil.rmtree(self._incoming / workunit_name(workunit), ignore_errors=True)

    def clean(self) -> None:
        """Forget what is not in place, also what runs left behind that were killed."""
        for left in (self.folder / _KEPT).glob("incoming-*"):
            pid = left.name.rpartition("-")[2]
            if left == self._incoming or not Path(f"/proc/{pid}").exists():
                shutil.rmtree(left, ignore_errors=True)


def _status(line: dict[str, Any]) -> str | None:
    """The state of a workunit in the folder: `done`, `failed` with its stderr, or `noted`."""
    status = line.get("status")
    return "noted" if status == FAILED and not line.get("has_stderr") else status


def _mark_of(entry: models.ManifestEntry) -> int:
    return _mark((one.open_name, one.sha256) for one in entry.outputs)


def _mark(names_and_digests: Iterable[tuple[str, str | None]]) -> int:
    # Of a hundred thousand workunits: a number takes less room than what it stands for.
    return hash(tuple(names_and_digests))


def _last_byte(file: Any) -> bytes:  # noqa: ANN401  a binary file
    file.seek(-1, os.SEEK_END)
    return bytes(file.read(1))
