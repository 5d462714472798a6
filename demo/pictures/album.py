"""Lists the pictures, and checks a picture's file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).resolve().parent.parent.parent / "docs" / "screenshots"
#: Larger pictures make a clone of the repository slow.
MAX_BYTES: Final = 150_000
DESKTOP_WIDTH: Final = 1280
PHONE_WIDTH: Final = 390
_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
#: A PNG begins with its signature, and with the length and the name of its first chunk.
_WIDTH_AT: Final = 16
VISITOR, VOLUNTEER, OPERATOR = "visitor", "volunteer", "operator"


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture: its file name, the path of the page, and who sees the page.

    `path` is a format string with the names of `content.Scene.ids`.  The sizes are in pixels.
    """

    name: str
    path: str
    viewer: str = VISITOR
    scheme: str = "light"
    width: int = DESKTOP_WIDTH
    height: int = 900

    @property
    def file(self) -> Path:
        """The file of the picture."""
        return FOLDER / f"{self.name}.png"

    def url_path(self, ids: Mapping[str, int]) -> str:
        """Return the path of the page in a project with these ids."""
        return self.path.format_map(ids)


PICTURES: Final = (
    Picture("front", "/"),
    Picture("front-dark", "/", scheme="dark"),
    Picture("front-phone", "/", width=PHONE_WIDTH, height=844),
    Picture("status", "/#workunits", height=1000),
    Picture("leaderboard", "/leaderboards/"),
    Picture("account", "/account/", VOLUNTEER),
    Picture("computers", "/account/computers/", VOLUNTEER, height=620),
    Picture("computer", "/account/computers/{computer}/", VOLUNTEER),
    Picture("results", "/account/results/", VOLUNTEER, height=860),
    Picture("results-phone", "/account/results/", VOLUNTEER, width=PHONE_WIDTH, height=844),
    Picture("dashboard", "/admin/", OPERATOR, height=840),
    Picture("charts", "/admin/?period=week#charts", OPERATOR),
    Picture("workunit", "/admin/scheduler/workunit/{workunit}/change/", OPERATOR, height=920),
)


def faults(picture: Picture) -> list[str]:
    """Return a sentence for each fault of the picture's file: missing, no PNG, width or size."""
    name = picture.file.name
    if not picture.file.is_file():
        return [f"{name} is missing."]
    content = picture.file.read_bytes()
    if not content.startswith(_SIGNATURE):
        return [f"{name} is not a PNG."]
    found_faults = []
    width = int.from_bytes(content[_WIDTH_AT : _WIDTH_AT + 4], "big")
    if width != picture.width:
        found_faults.append(f"{name} is {width} pixels wide, not {picture.width}.")
    if len(content) > MAX_BYTES:
        found_faults.append(f"{name} has {len(content):,} bytes, more than {MAX_BYTES:,}.")
    return found_faults
