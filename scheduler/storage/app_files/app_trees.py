"""Reads app versions in BOINC's folder layout: app/version/platform__planclass."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scheduler.storage.app_files.archives import UnreadablePackage

#: The maximum size of a list of plan classes, in bytes.
_MAX_SPECS: Final = 1 << 20
PLAN_CLASSES: Final = "plan_class_spec.xml"


@dataclass(frozen=True, slots=True)
class VersionFolder:
    """The folder of a version; `platform` is its last part, PLATFORM or PLATFORM__PLANCLASS."""

    app: str
    version: str
    platform: str
    path: Path

    @property
    def name(self) -> str:
        """The path of the folder within the tree."""
        return f"{self.app}/{self.version}/{self.platform}"


def version_folders(tree: str | Path) -> tuple[list[VersionFolder], list[str]]:
    """Return the folders of versions, sorted by name, and the paths of unexpected files and links.

    Links are not followed.  Raises `UnreadablePackage` if there is no folder of a version.
    """
    top = Path(tree)
    if not top.is_dir():
        msg = f"There is no folder {top}. Hint: name the folder apps/ of a BOINC project."
        raise UnreadablePackage(msg)
    versions: list[VersionFolder] = []
    others: list[str] = []
    folders = [top]
    for level in range(3):
        below = sorted(path for folder in folders for path in folder.iterdir())
        folders = [path for path in below if path.is_dir() and not path.is_symlink()]
        others += [
            path.relative_to(top).as_posix()
            for path in below
            if path not in folders and not (level == 0 and path.name == PLAN_CLASSES)
        ]
    for path in folders:
        app, version_name, platform = path.relative_to(top).parts
        versions.append(VersionFolder(app, version_name, platform, path))
    if not versions:
        msg = f"{top} has no folder APP/VERSION/PLATFORM. Hint: name the folder apps/ itself."
        raise UnreadablePackage(msg)
    return versions, others


def find_plan_classes(tree: str | Path) -> Path | None:
    """Return the path of a tree's `plan_class_spec.xml`, or None.

    The file is in the tree, or beside the tree, as on BOINC's servers.
    """
    top = Path(tree)
    candidates = (top / PLAN_CLASSES, top.resolve().parent / PLAN_CLASSES)
    return next((path for path in candidates if path.is_file()), None)


def read_plan_classes(path: str | Path) -> bytes:
    """Return the content of a `plan_class_spec.xml`; raises `UnreadablePackage`."""
    try:
        with Path(path).open("rb") as file:
            text = file.read(_MAX_SPECS + 1)
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror}. Hint: check the path."
        raise UnreadablePackage(msg) from error
    if len(text) > _MAX_SPECS:
        msg = f"{path} is longer than {_MAX_SPECS} bytes. Hint: name a {PLAN_CLASSES}."
        raise UnreadablePackage(msg)
    return text
