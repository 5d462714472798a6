"""A folder of outputs: whole workunits, renamed into place, once each."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scientist import archive, models
from scientist.errors import ScientistError
from scientist.naming import flat_names, parts_of, workunit_name

MANIFEST = "MANIFEST.ndjson"
_KEPT = ".scientist"
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
            said = f"The folder {self.folder} cannot be used: {error.strerror}."
            raise UnwritableFolder(said, "choose another.") from None
        address = hashlib.sha256(url.encode()).hexdigest()[:8]
        self._state = self.folder / _KEPT / f"batch-{batch.id}-{address}.json"
        self._incoming = self.folder / _KEPT / f"incoming-{batch.id}-{address}-{os.getpid()}"
        self.known = {one["name"]: one.get("status") for one in self._lines()}

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

    def place(self, entry: models.ManifestEntry) -> None:
        """Move a workunit whose files agree to where it is looked for."""
        name = workunit_name(entry.name)
        here = self._incoming / name
        paths = [archive.path_of(one) for one in entry.outputs if not one.missing]
        if self._layout.flat:
            for path, flat in zip(paths, flat_names(name, paths), strict=True):
                here.joinpath(*parts_of(path)).replace(self.folder / flat)
            shutil.rmtree(here, ignore_errors=True)
        elif not paths:
            (self.folder / name).mkdir(exist_ok=True)
        elif (self.folder / name).exists():
            for path in paths:
                goal = (self.folder / name).joinpath(*parts_of(path))
                goal.parent.mkdir(parents=True, exist_ok=True)
                here.joinpath(*parts_of(path)).replace(goal)
        else:
            here.rename(self.folder / name)
        self.note(entry)

    def place_text(self, workunit: str, text: str) -> None:
        """Put the stderr of a failed workunit where its outputs would be."""
        goal = self.folder / f"{workunit_name(workunit)}.stderr.txt"
        if not self._layout.flat:
            (self.folder / workunit).mkdir(exist_ok=True)
            goal = self.folder / workunit / "stderr.txt"
        part = self.folder / _KEPT / f"{workunit}.part"
        part.write_text(text, encoding="utf-8", errors="replace")
        part.replace(goal)

    def note(self, entry: models.ManifestEntry) -> None:
        """Write a line into the folder's manifest, once."""
        if self.known.get(entry.name) == entry.status:
            return
        line = json.dumps({**asdict(entry), "batch": self._batch.id}, ensure_ascii=False)
        with (self.folder / MANIFEST).open("a+b") as file:
            # A half line of a run that was killed must not spoil this one.
            if file.tell() and _last_byte(file) != b"\n":
                file.write(b"\n")
            file.write(line.encode() + b"\n")
        self.known[entry.name] = entry.status

    def drop(self, workunit: str) -> None:
        """Forget what arrived of a workunit."""
        shutil.rmtree(self._incoming / workunit_name(workunit), ignore_errors=True)

    def clean(self) -> None:
        """Forget what is not in place, also what runs left behind that were killed."""
        for left in (self.folder / _KEPT).glob("incoming-*"):
            pid = left.name.rpartition("-")[2]
            if left == self._incoming or not Path(f"/proc/{pid}").exists():
                shutil.rmtree(left, ignore_errors=True)


def _last_byte(file: Any) -> bytes:  # noqa: ANN401  a binary file
    file.seek(-1, os.SEEK_END)
    return bytes(file.read(1))
