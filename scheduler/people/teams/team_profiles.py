"""The fields of a team that its founder sets, and their checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.core.exceptions import ValidationError
from django.core.validators import URLValidator

from scheduler.models import Team
from scheduler.people.account_keys import good_name
from scheduler.people.teams.team_refusals import TeamRefused

MAX_DESCRIPTION, MAX_COUNTRY, MAX_URL = 10_000, 64, 200
#: Fields that everybody can see; a new value needs a confirmed address.
PUBLIC_TEXTS: Final = ("name", "url", "description", "country")
_check_url = URLValidator(schemes=["http", "https"])


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamProfile:
    """The fields of a team that its founder sets."""

    name: str
    kind: int = Team.Kind.NONE
    url: str = ""
    description: str = ""
    country: str = ""
    joinable: bool = True


def with_plain_line_ends(text: str) -> str:
    r"""Return a text with LF instead of CRLF, which forms of browsers send, and of CR.

    >>> with_plain_line_ends("a\r\nb\rc\n")
    'a\nb\nc\n'
    """
    return text.replace("\r\n", "\n").replace("\r", "\n")


def checked_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields in their stored form; raise `BadName` or `TeamRefused`."""
    checked = dict(fields)
    if "name" in checked:
        checked["name"] = good_name(str(checked["name"]))
    if "description" in checked:
        checked["description"] = with_plain_line_ends(str(checked["description"]))
    if "kind" in checked and checked["kind"] not in Team.Kind.values:
        raise TeamRefused(
            f"{checked['kind']} is not a type of teams. Hint: use 0 to {max(Team.Kind.values)}."
        )
    if url := checked.get("url"):
        try:
            _check_url(url)
        except ValidationError:
            raise TeamRefused(
                f"{url[:60]!r} is not a web address. Hint: begin it with https://."
            ) from None
    for name, limit in (
        ("url", MAX_URL),
        ("country", MAX_COUNTRY),
        ("description", MAX_DESCRIPTION),
    ):
        value = str(checked.get(name, ""))
        if len(value) > limit or "\0" in value:
            raise TeamRefused(
                f"The {name} has {len(value)} characters. Hint: give at most {limit}, without NUL."
            )
    return checked
