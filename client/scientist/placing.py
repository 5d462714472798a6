"""Writes outputs to a folder: a workunit is moved when its files are verified."""

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
_STATE_FOLDER = ".scientist"
FAILED = "failed"
_HINT = "choose another folder."
_CHUNK_BYTES = 1 << 18


class UnwritableFolder(ScientistError):
    """The target folder of a fetch cannot be used."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The target folder of a fetch, and the paths of the files in it.

    The path of an output is ``<workunit>/<open_name>``, or ``<workunit>.<ext>`` if `flat` is set.
    If `failed` is set, the folder also gets the stderr of failed workunits.
    """

    folder: Path
    flat: bool = False
    failed: bool = False


class Store:
    """A folder of fetched outputs with its manifest.

    `statuses` has the status of each workunit in the manifest: `done`, `failed` (failed, and its
    stderr is in the folder) or `noted` (failed, but its stderr is not in the folder).
    """

    def __init__(self, layout: Layout, url: str, batch: models.BatchInfo) -> None:
        self._layout, self.folder = layout, layout.folder
        self._url, self._batch = url, batch
        try:
            (self.folder / _STATE_FOLDER).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._unwritable(error.strerror or str(error)) from None
        for name in (_STATE_FOLDER, MANIFEST, table.NAME):
            if (self.folder / name).is_symlink():
                raise self._unwritable(f"its {name} is a link to somewhere else")
        if not table.is_manifest_table(self.folder / table.NAME):
            reason = f"{self.folder / table.NAME} is not the table of an earlier fetch."
            raise UnwritableFolder(reason, "move it away and fetch again.")
        address = hashlib.sha256(url.encode()).hexdigest()[:8]
        self._state = self.folder / _STATE_FOLDER / f"batch-{batch.id}-{address}.json"
        self._incoming = (
            self.folder / _STATE_FOLDER / f"incoming-{batch.id}-{address}-{os.getpid()}"
        )
        lines = {line["name"]: line for line in self._lines()}
        self.statuses = {name: _status(line) for name, line in lines.items()}
        self._output_hashes = {
            name: _hash((o.get("open_name"), o.get("sha256")) for o in line.get("outputs", ()))
            for name, line in lines.items()
        }
        #: The path of an existing file or folder that is in the way of a workunit, by the
        #: workunit's name.  Such a workunit was not placed.
        self.conflicts: dict[str, Path] = {}

    def _unwritable(self, reason: str) -> UnwritableFolder:
        return UnwritableFolder(f"The folder {self.folder} cannot be used: {reason}.", _HINT)

    def has(self, entry: models.ManifestEntry) -> bool:
        """Return whether the outputs of this workunit, with these digests, are in place.

        If the project no longer has the outputs, the digests are not compared.
        """
        if self.statuses.get(entry.name) != "done":
            return False
        outputs = entry.outputs
        is_gone = not outputs or any(output.missing or output.damaged for output in outputs)
        return is_gone or self._output_hashes[entry.name] == _hash_of(entry)

    def _lines(self) -> Iterator[dict[str, Any]]:
        with contextlib.suppress(FileNotFoundError), (self.folder / MANIFEST).open("rb") as file:
            for line in file:
                # The last line of a run that was killed may be incomplete.
                with contextlib.suppress(ValueError):
                    yield json.loads(line)

    @property
    def cursor(self) -> str | None:
        """The cursor that the last fetch saved; None without a cursor or after another layout."""
        try:
            state = json.loads(self._state.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        saved_layout = (state.get("flat"), state.get("failed"))
        is_same = saved_layout == (self._layout.flat, self._layout.failed)
        return state.get("cursor") if is_same else None

    def save_cursor(self, cursor: str) -> None:
        """Save the cursor.  All workunits before the cursor must be in place."""
        state = {"url": self._url, "batch": self._batch.id, "name": self._batch.name}
        state |= {"cursor": cursor, "flat": self._layout.flat, "failed": self._layout.failed}
        part = self._state.with_suffix(".part")
        part.write_text(json.dumps(state) + "\n", encoding="utf-8")
        part.replace(self._state)

    def receive(self, member: archive.Member, on_bytes: Callable[[int], None]) -> tuple[int, str]:
        """Write a file to the staging folder; return its length in bytes and its SHA-256.

        `on_bytes` is called with the length of each chunk in bytes.
        """
        path = self._incoming.joinpath(member.workunit, *parts_of(member.path))
        path.parent.mkdir(parents=True, exist_ok=True)
        digest, nbytes = hashlib.sha256(), 0
        with path.open("wb") as file:
            while chunk := member.content.read(_CHUNK_BYTES):
                digest.update(chunk)
                nbytes += len(chunk)
                file.write(chunk)
                on_bytes(len(chunk))
        return nbytes, digest.hexdigest()

    def place(self, entry: models.ManifestEntry) -> bool:
        """Move the verified files of a workunit into place, and record the workunit.

        Returns True.  If another file is in the way, no file is moved, the path of the other file
        is added to `conflicts`, and False is returned.
        """
        name = workunit_name(entry.name)
        staged = self._incoming / name
        paths = [archive.path_of(output) for output in entry.outputs if not output.missing]
        sources = [staged.joinpath(*parts_of(path)) for path in paths]
        if self._layout.flat:
            targets = [self.folder / flat for flat in flat_names(name, paths)]
        else:
            targets = [(self.folder / name).joinpath(*parts_of(path)) for path in paths]
        conflict = self._conflict(sources, targets or [self.folder / name])
        if conflict is not None:
            self.conflicts[name] = conflict
            self.drop(name)
            return False
        if not self._layout.flat and paths and not (self.folder / name).exists():
            staged.rename(self.folder / name)
        elif not self._layout.flat and not paths:
            (self.folder / name).mkdir(exist_ok=True)
        else:
            for source, target in zip(sources, targets, strict=True):
                target.parent.mkdir(parents=True, exist_ok=True)
                source.replace(target)
            self.drop(name)
        self.record(entry)
        return True

    def _conflict(self, sources: Sequence[Path], targets: Sequence[Path]) -> Path | None:
        """Return the path of the first conflict between targets and existing files, or None.

        A target is a conflict if a file with other content exists at its path, if it has the name
        of a manifest, or if one of its folders is a link or a file.  A file with the same content
        is not a conflict, because an interrupted run can have placed it.
        """
        if len({source.stat().st_ino for source in sources}) < len(sources):
            # Two of the names are the same file on this file system (case-insensitive).
            return targets[0]
        for source, target in zip(sources, targets, strict=False):
            if os.path.lexists(target) and not (
                target.is_file()
                and not target.is_symlink()
                and filecmp.cmp(source, target, shallow=False)
            ):
                return target
        for target in targets:
            relative = target.relative_to(self.folder)
            if relative.parts[0].casefold() in {MANIFEST.casefold(), table.NAME.casefold()}:
                return target
            parents = [self.folder / parent for parent in relative.parents[:-1]]
            for folder in parents if sources else [target]:
                if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
                    return folder
        return None

    def place_text(self, entry: models.ManifestEntry, text: str) -> bool:
        """Write the stderr of a failed workunit, and record the workunit.

        Returns True.  If another file is in the way, nothing is written, the path of the other file
        is added to `conflicts`, and False is returned.
        """
        name = workunit_name(entry.name)
        target = self.folder / f"{name}.stderr.txt"
        if not self._layout.flat:
            target = self.folder / name / "stderr.txt"
        part = self.folder / _STATE_FOLDER / f"{name}.part"
        part.write_text(text, encoding="utf-8", errors="replace")
        conflict = self._conflict([part], [target])
        if conflict is not None:
            self.conflicts[name] = conflict
            part.unlink()
            return False
        target.parent.mkdir(exist_ok=True)
        part.replace(target)
        self.record(entry, has_stderr=True)
        return True

    def write_table(self) -> None:
        """Write `MANIFEST.csv`, the table of all workunits in the manifest."""
        part = self.folder / _STATE_FOLDER / f"{table.NAME}-{os.getpid()}.part"
        with part.open("w", encoding="utf-8", errors="replace", newline="") as file:
            table.write(file, self._lines, self._paths_of)
        part.replace(self.folder / table.NAME)

    def _paths_of(self, entry: models.ManifestEntry) -> list[str]:
        """Return the path of each output in the folder, or "" for an output without a file."""
        try:
            name = workunit_name(entry.name)
            paths = [archive.path_of(output) for output in entry.outputs]
            flat = flat_names(name, paths)
            targets = flat if self._layout.flat else ["/".join((name, *parts_of(p))) for p in paths]
        except ScientistError:
            return [""] * len(entry.outputs)
        return [target if (self.folder / target).is_file() else "" for target in targets]

    def record(self, entry: models.ManifestEntry, *, has_stderr: bool = False) -> None:
        """Append a workunit to the folder's manifest, unless the manifest has the same entry.

        A second line is appended for a failed workunit when its stderr is in the folder.
        """
        facts: dict[str, Any] = {**asdict(entry), "batch": self._batch.id}
        facts |= {"has_stderr": True} if has_stderr else {}
        if self.has(entry) or self.statuses.get(entry.name) in {FAILED, _status(facts)} - {"done"}:
            return
        line = json.dumps(facts, ensure_ascii=False)
        with (self.folder / MANIFEST).open("a+b") as file:
            # If a run was killed, its last line may have no line break.
            if file.tell() and _last_byte(file) != b"\n":
                file.write(b"\n")
            file.write(line.encode() + b"\n")
        self.statuses[entry.name] = _status(facts)
        self._output_hashes[entry.name] = _hash_of(entry)

    def drop(self, workunit: str) -> None:
        """Delete the staged files of a workunit."""
        shutil.rmtree(self._incoming / workunit_name(workunit), ignore_errors=True)

    def clean(self) -> None:
        """Delete the staged files of this run, and of runs whose process no longer exists."""
        for staging in (self.folder / _STATE_FOLDER).glob("incoming-*"):
            pid = staging.name.rpartition("-")[2]
            if staging == self._incoming or not Path(f"/proc/{pid}").exists():
                shutil.rmtree(staging, ignore_errors=True)


def _status(line: dict[str, Any]) -> str | None:
    """Return the status of a line of the manifest, as `Store.statuses` has it."""
    status = line.get("status")
    return "noted" if status == FAILED and not line.get("has_stderr") else status


def _hash_of(entry: models.ManifestEntry) -> int:
    return _hash((output.open_name, output.sha256) for output in entry.outputs)


def _hash(names_and_digests: Iterable[tuple[str, str | None]]) -> int:
    # Only the hash is kept, to save memory in a batch of 100 000 workunits.
    return hash(tuple(names_and_digests))


def _last_byte(file: Any) -> bytes:  # noqa: ANN401  a binary file
    file.seek(-1, os.SEEK_END)
    return bytes(file.read(1))
