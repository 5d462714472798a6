"""Creates and updates the teams of a file of BOINC-wide teams.

Theory of operation.  The rules are those of BOINC's `team_import.php`: a team is found by its name
and changed only if its founder has the same e-mail address as in the file, so that the file changes
no team of another person.  Each team is created or changed in a transaction of its own; a second
import of the same file changes nothing.  `dry_run` decides the same, and writes nothing.

A team is created for an account that has confirmed its address: otherwise the founder of a team
could be a person who has only typed the address.  A founder without an account gets one without a
password, whose owner sets a password with a link to the address.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import Enum
from itertools import islice
from typing import Any, Final

from allauth.account.models import EmailAddress
from django.db import transaction

from scheduler.boinc.wire.team_files import TeamRecord, read_teams
from scheduler.boinc.wire.xml import BadXml
from scheduler.models import Account, Team
from scheduler.people import accounts
from scheduler.people.account_keys import AccountRefused, good_name
from scheduler.people.teams import TeamProfile, TeamRefused, boinc_wide
from scheduler.people.teams.team_profiles import (
    MAX_COUNTRY,
    MAX_DESCRIPTION,
    MAX_URL,
    checked_fields,
)

#: Limits that keep a wrong file from filling the memory.
MAX_BYTES: Final = 64 * 1024 * 1024
MAX_TEAMS: Final = 30_000
#: Teams whose rows are looked up with one statement for each table.
_CHUNK: Final = 500
#: The columns that an import changes; new members stay accepted or not.
_CHANGED: Final = ("kind", "url", "description", "country")


class BadTeamFile(ValueError):
    """The file is not a list of BOINC-wide teams. Hint: see the message."""


class State(Enum):
    """The outcome of a team."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Line:
    """The outcome of a team; `reason` is why it was skipped, or what changed."""

    name: str
    state: State
    reason: str = ""


class _Skipped(Exception):
    """The team is not created or changed, for the reason in the message."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of the database for the records of a chunk.

    `by_id` has deleted teams, too.  `founders` are accounts by address.
    """

    by_name: dict[str, Team]
    by_id: dict[int, Team]
    founders: dict[str, Account]
    confirmed_ids: frozenset[int]


def import_teams(body: bytes, *, dry_run: bool, now: datetime) -> list[Line]:
    """Import the teams of a file, and return the outcome of each.

    Raises `BadTeamFile` before any change.
    """
    records = _records(body)
    lines: list[Line] = []
    # The ids, names and new founders of the file so far.
    earlier: set[tuple[str, object]] = set()
    remaining = iter(records)
    while chunk := list(islice(remaining, _CHUNK)):
        rows = _read_rows(chunk)
        lines += [_import(record, rows, earlier, dry_run=dry_run, now=now) for record in chunk]
    return lines


def _records(body: bytes) -> list[TeamRecord]:
    if len(body) > MAX_BYTES:
        raise BadTeamFile(f"The file is longer than {MAX_BYTES} bytes. Hint: check its name.")
    try:
        records = read_teams(body)
    except BadXml as error:
        raise BadTeamFile(
            f"This is not a file of BOINC-wide teams: {error} Hint: fetch boinc_teams.xml again."
        ) from error
    if len(records) > MAX_TEAMS:
        raise BadTeamFile(
            f"The file has {len(records)} teams, and at most {MAX_TEAMS} are imported. "
            "Hint: divide it."
        )
    return records


def _read_rows(records: Sequence[TeamRecord]) -> _Rows:
    emails = [record.founder_email for record in records]
    founders = {each.email: each for each in Account.objects.filter(email__in=emails)}
    confirmed = EmailAddress.objects.filter(user__in=founders.values(), verified=True)
    named = Team.objects.filter(name__in=[record.name for record in records])
    every_team = Team._base_manager  # noqa: SLF001  with those that were deleted
    numbered = every_team.filter(boinc_wide_id__in=[record.id for record in records])
    return _Rows(
        by_name={team.name: team for team in named},
        by_id={team.boinc_wide_id: team for team in numbered if team.boinc_wide_id is not None},
        founders=founders,
        confirmed_ids=frozenset(confirmed.values_list("user_id", flat=True)),
    )


def _import(
    record: TeamRecord,
    rows: _Rows,
    earlier: set[tuple[str, object]],
    *,
    dry_run: bool,
    now: datetime,
) -> Line:
    try:
        _check_first(record, earlier)
        profile = _profile(record)
        team = _existing(record, rows)
        if team is None:
            _create(record, profile, rows, earlier, dry_run=dry_run, now=now)
            return Line(record.name, State.CREATED)
        changed = _update(record, profile, team, rows, dry_run=dry_run, now=now)
    except (_Skipped, TeamRefused, AccountRefused) as refusal:
        return Line(record.name, State.SKIPPED, str(refusal))
    state = State.UPDATED if changed else State.UNCHANGED
    return Line(record.name, state, ", ".join(changed))


def _check_first(record: TeamRecord, earlier: set[tuple[str, object]]) -> None:
    """Raise `_Skipped` for a record without an id, or whose id or name occurred before."""
    if record.id <= 0:
        raise _Skipped("It has no id.")
    keys = {("id", record.id), ("name", record.name)}
    if keys & earlier:
        raise _Skipped("Its id or name occurs twice in the file.")
    earlier |= keys


def _profile(record: TeamRecord) -> TeamProfile:
    """Return the profile of a team, with shortened texts, and without an invalid web address."""
    url = record.url if "://" in record.url or not record.url else f"http://{record.url}"
    try:
        checked_fields({"url": url})
    except TeamRefused:
        url = ""
    return TeamProfile(
        name=good_name(record.name),
        kind=record.type if record.type in Team.Kind.values else Team.Kind.NONE,
        url=url[:MAX_URL],
        description=checked_fields({"description": record.description[:MAX_DESCRIPTION]})[
            "description"
        ],
        country="" if record.country == "None" else record.country[:MAX_COUNTRY],
    )


def _existing(record: TeamRecord, rows: _Rows) -> Team | None:
    """Return the team that has the record's name, None if neither name nor id is used here."""
    team, numbered = rows.by_name.get(record.name), rows.by_id.get(record.id)
    if numbered is not None and numbered.deleted_at is not None:
        raise _Skipped("It was deleted here.")
    if numbered is not None and (team is None or numbered.pk != team.pk):
        raise _Skipped(f"Its id belongs to {numbered.name} here. Hint: rename that team.")
    if team is not None and team.boinc_wide_id not in {None, record.id}:
        raise _Skipped(f"The team here has the BOINC-wide id {team.boinc_wide_id}.")
    return team


def _create(
    record: TeamRecord,
    profile: TeamProfile,
    rows: _Rows,
    earlier: set[tuple[str, object]],
    *,
    dry_run: bool,
    now: datetime,
) -> None:
    email = accounts.good_email(record.founder_email)
    founder = rows.founders.get(email)
    if ("founder", email) in earlier or (founder is not None and founder.team_id is not None):
        raise _Skipped("Its founder is a member of another team here.")
    if founder is not None and not founder.is_active:
        raise _Skipped("The account of its founder is not active.")
    if founder is not None:
        _require_confirmed(founder, rows)
    name = good_name(record.founder_name or email.partition("@")[0])
    if not dry_run:
        with transaction.atomic():
            if founder is None:
                founder = accounts.create_without_password(email=email, name=name, now=now)
            boinc_wide.create(record.id, profile, founder=founder, now=now)
    earlier.add(("founder", email))


def _require_confirmed(founder: Account, rows: _Rows) -> None:
    """Raise `_Skipped` for an account that a person who only typed the address may have created."""
    if founder.pk not in rows.confirmed_ids:
        raise _Skipped(
            "The account of its founder has not confirmed its address. "
            "Hint: the founder can do it on the account page."
        )


def _update(
    record: TeamRecord,
    profile: TeamProfile,
    team: Team,
    rows: _Rows,
    *,
    dry_run: bool,
    now: datetime,
) -> list[str]:
    """Update a team from its record; return the names of the changed columns."""
    founder = rows.founders.get(record.founder_email)
    if founder is None or team.founder_id != founder.pk:
        raise _Skipped("The team here has another founder.")
    if team.boinc_wide_id is None:
        _require_confirmed(founder, rows)
    values = asdict(profile)
    fields: dict[str, Any] = {
        name: values[name] for name in _CHANGED if values[name] != getattr(team, name)
    }
    changed = [*fields, *([] if team.boinc_wide_id else ["boinc_wide_id"])]
    if changed and not dry_run:
        boinc_wide.update(team.pk, record.id, fields, founder=founder, now=now)
    return changed


def count(lines: Iterable[Line], state: State) -> int:
    """Return the number of teams with this outcome."""
    return sum(line.state is state for line in lines)
