"""Reads the file of BOINC-wide teams, boinc_teams.xml.

These teams exist on all projects.  The elements are those that BOINC's `team_export.php` writes.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from scheduler.boinc.wire.xml import INT64, read_tree, to_int, unescape

if TYPE_CHECKING:
    from scheduler.boinc.wire.xml import Node

#: Founders may have written markup into these elements.
_RAW: Final = frozenset({"name_html", "description"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamRecord:
    """A BOINC-wide team.  Texts are "", and numbers 0, if they are missing."""

    id: int
    name: str
    type: int
    url: str
    description: str
    country: str
    founder_email: str
    founder_name: str


def read_teams(body: bytes) -> list[TeamRecord]:
    """Return the teams of a file; raise `BadXml` for anything but a whole `<teams>`."""
    nodes = read_tree(body, "teams", raw=_RAW)
    return [_record(node[1]) for node in nodes if node[0] == "team" and isinstance(node[1], list)]


def _record(nodes: list[Node]) -> TeamRecord:
    texts = {name: content for name, content, _ in nodes if isinstance(content, str)}

    def text(name: str) -> str:
        return unescape(texts.get(name, "")).strip()

    return TeamRecord(
        id=to_int(text("id"), INT64),
        name=text("name"),
        type=to_int(text("type")),
        url=text("url"),
        description=text("description"),
        country=text("country"),
        # BOINC hides the addresses from programs that collect them.
        founder_email=codecs.encode(text("user_email_munged"), "rot13").lower(),
        founder_name=text("user_name"),
    )
