"""The statistics export has BOINC's format and omits accounts without consent."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from datetime import timedelta
from decimal import Decimal
from io import StringIO
from xml.etree import ElementTree as ET

import pytest
from django.core.management import CommandError, call_command

from daemons import housekeeper
from scheduler import storage
from scheduler.boinc import statistics_export as queries
from scheduler.management import statistics
from scheduler.management.statistics import BadFolder, export
from scheduler.models import AccountBadge, Badge, StatisticsDeletion, Team, TeamBadge
from scheduler.people.personal_data import consents
from tests import rows
from tests.conftest import NOON

pytestmark = pytest.mark.django_db

SINCE = int(NOON.timestamp())
GAINS = {"total_credit": Decimal("12.5"), "expavg_credit": 2.25, "expavg_at": NOON}
CREDIT = {
    "total_credit": "12.500000",
    "expavg_credit": "2.250000",
    "expavg_time": f"{SINCE}.000000",
}


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "stats"


def exported(folder, name):
    """Export and return the elements of a file, each as a dict of texts."""
    export(folder, now=NOON)
    text = gzip.decompress((folder / f"{name}.gz").read_bytes()).decode()
    assert text.startswith('<?xml version="1.0" encoding="utf-8"?>\n')
    root = ET.fromstring(text.encode())
    assert root.tag == f"{name}s"
    assert {element.tag for element in root} <= {name}
    return [{field.tag: field.text or "" for field in element} for element in root]


#: PROTOCOL 8.1: the root and the row of each file, and the row's elements in order; those with a
#: question mark may be missing.
CREDIT_ELEMENTS = "total_credit expavg_credit expavg_time"
DOCUMENTS = {
    "user.gz": (
        "users/user",
        f"id name create_time {CREDIT_ELEMENTS} cpid country? url? teamid? has_profile?",
    ),
    "team.gz": (
        "teams/team",
        (
            f"id type name userid {CREDIT_ELEMENTS} founder_name create_time url? name_html? "
            "description? country?"
        ),
    ),
    "host.gz": (
        "hosts/host",
        (
            f"id userid? {CREDIT_ELEMENTS} p_vendor p_model os_name os_version misc create_time "
            "rpc_time timezone ncpus p_fpops p_iops p_membw m_nbytes m_cache m_swap d_total d_free "
            "n_bwup n_bwdown avg_turnaround credit_per_cpu_sec host_cpid"
        ),
    ),
    "user_deleted.gz": ("users_deleted/user", "id cpid"),
    "host_deleted.gz": ("hosts_deleted/host", "id host_cpid"),
    "badge_user.gz": ("badge_users/badge_user", "user_id badge_id create_time"),
    "badge_team.gz": ("badge_teams/badge_team", "team_id badge_id create_time"),
    "tables.xml": (
        "tables",
        (
            "update_time credit_by_app? nusers_total nteams_total nhosts_total nusers_deleted_total? "
            "nhosts_deleted_total? total_credit applications badges"
        ),
    ),
}


def faults(name: str, data: bytes) -> list[str]:
    """Return what in an export file differs from PROTOCOL 8.1."""
    text = (gzip.decompress(data) if name.endswith(".gz") else data).decode()
    if not text.startswith('<?xml version="1.0" encoding="utf-8"?>\n'):
        return [f"{name} has no prolog"]
    root = ET.fromstring(text.encode())
    path, elements = DOCUMENTS[name]
    root_tag, _, row_tag = path.partition("/")
    pattern = "".join(
        f"(?:{each.rstrip('?')} )" + ("?" if each.endswith("?") else "")
        for each in elements.split()
    )
    rows = list(root) if row_tag else [root]
    wrong = [] if root.tag == root_tag else [f"{name}: <{root.tag}>"]
    wrong += [f"{name}: <{row.tag}>" for row in rows if row.tag != (row_tag or root_tag)]
    sequences = ["".join(f"{child.tag} " for child in row) for row in rows]
    return wrong + [f"{name}: {each}" for each in sequences if not re.fullmatch(pattern, each)]


def a_volunteer(name="ada", **fields):
    return rows.an_account(name, **GAINS | fields)


# The format


def test_every_file_has_the_documented_elements_in_the_documented_order(folder):
    team = Team.objects.create(
        name="t", kind=6, url="https://example.org/", description="d", country="Peru",
        founder=a_volunteer("founder"), created_at=NOON, **GAINS,
    )  # fmt: skip
    Team.objects.create(name="bare", created_at=NOON, **GAINS)
    full = a_volunteer("full", country="Peru", url="https://example.org/", team=team)
    rows.a_host(full, **GAINS)
    rows.a_host(a_volunteer("bare", show_hosts=False), **GAINS)
    rows.an_app("primes")
    gone = a_volunteer("gone")
    rows.a_host(gone, host_cpid="f" * 32, **GAINS)
    consents.change(gone, share_statistics=False, source="web", now=NOON)
    written = export(folder, now=NOON)
    assert (written.users, written.teams, written.hosts) == (3, 2, 2)
    assert (written.deleted_users, written.deleted_hosts) == (1, 1)
    names = {path.name for path in folder.iterdir()}
    assert names == set(DOCUMENTS) == set(storage.STATISTICS_FILES)
    assert [each for name in names for each in faults(name, (folder / name).read_bytes())] == []
    tables = ET.fromstring((folder / "tables.xml").read_bytes())
    assert [child.tag for child in tables.find("applications") or ()] == ["application"]
    assert tables.findtext("applications/application/name") == "primes"
    assert tables.findtext("nusers_deleted_total") == "1"


def test_validation_finds_missing_misplaced_and_unknown_elements():
    prolog = '<?xml version="1.0" encoding="utf-8"?>\n'
    right = "<users_deleted><user><id>1</id><cpid>c</cpid></user></users_deleted>"
    for wrong in (
        "<users_deleted><user><cpid>c</cpid><id>1</id></user></users_deleted>",
        "<users_deleted><user><id>1</id></user></users_deleted>",
        "<users_deleted><user><id>1</id><cpid>c</cpid><x/></user></users_deleted>",
        "<users_deleted><host><id>1</id><cpid>c</cpid></host></users_deleted>",
        "<users></users>",
    ):
        assert faults("user_deleted.gz", gzip.compress((prolog + wrong).encode())) != []
    assert faults("user_deleted.gz", gzip.compress(right.encode())) == [
        "user_deleted.gz has no prolog"
    ]
    assert faults("user_deleted.gz", gzip.compress((prolog + right).encode())) == []


def test_deletions_are_exported_for_sixty_days(folder):
    gone = a_volunteer("gone")
    host = rows.a_host(gone, host_cpid="f" * 32, **GAINS)
    consents.change(gone, share_statistics=False, source="web", now=NOON)
    export(folder, now=NOON)
    users = gzip.decompress((folder / "user_deleted.gz").read_bytes()).decode()
    cpid = hashlib.md5(b"gone@example.org").hexdigest()
    assert f"<user>\n <id>{gone.pk}</id>\n <cpid>{cpid}</cpid>\n</user>" in users
    hosts = gzip.decompress((folder / "host_deleted.gz").read_bytes()).decode()
    assert f"<id>{host.pk}</id>\n <host_cpid>{'f' * 32}</host_cpid>" in hosts
    housekeeper.run_pass(now=NOON + timedelta(days=59), limit=10)
    assert StatisticsDeletion.objects.count() == 2
    housekeeper.run_pass(now=NOON + timedelta(days=61), limit=10)
    assert StatisticsDeletion.objects.count() == 0


# The format, field by field


def test_an_account_has_the_fields_of_boincs_user(folder):
    team = Team.objects.create(name="t", created_at=NOON)
    ada = a_volunteer(country="Finland", url="https://example.org/~ada?a=1&b=2", team=team)
    rows.update(ada, cross_project_id="c" * 32)
    [user] = exported(folder, "user")
    cpid = hashlib.md5(b"c" * 32 + b"ada@example.org").hexdigest()
    assert user == CREDIT | {
        "id": str(ada.pk),
        "name": "ada",
        "create_time": str(SINCE),
        "cpid": cpid,
        "country": "Finland",
        "url": "https://example.org/~ada?a=1&b=2",
        "teamid": str(team.pk),
    }
    order = ["id", "name", "create_time", "total_credit", "expavg_credit", "expavg_time", "cpid"]
    assert list(user)[:7] == order


def test_empty_fields_of_an_account_are_omitted(folder):
    a_volunteer()
    [user] = exported(folder, "user")
    assert user.keys().isdisjoint({"country", "url", "teamid", "has_profile"})


def test_a_team_has_the_fields_of_boincs_team(folder):
    ada = a_volunteer()
    team = Team.objects.create(
        name="A & B <C>",
        founder=ada,
        kind=Team.Kind.UNIVERSITY,
        created_at=NOON,
        description="We ]]> compute",
        url="https://example.org/",
        country="Peru",
        **GAINS,
    )
    [found] = exported(folder, "team")
    assert found == CREDIT | {
        "id": str(team.pk),
        "type": "6",
        "name": "A & B <C>",
        "userid": str(ada.pk),
        "founder_name": "ada",
        "create_time": str(SINCE),
        "url": "https://example.org/",
        "description": "We ]]> compute",
        "country": "Peru",
    }


def test_a_host_has_the_fields_of_boincs_host(folder):
    host = rows.a_host(
        a_volunteer(show_hosts=True),
        p_vendor="GenuineIntel",
        p_model="A <b> chip",
        os_name="Linux",
        os_version="6.1",
        timezone=7200,
        p_ncpus=8,
        p_fpops=4.5e9,
        d_free=2.0,
        turnaround_seconds=3600,
        host_cpid="f" * 32,
        capabilities={"gpus": [{"type": "NVIDIA", "count": 1}], "docker": "27"},
        rpc_at=NOON + timedelta(hours=1),
        **GAINS,
    )
    [found] = exported(folder, "host")
    assert found == CREDIT | {
        "id": str(host.pk),
        "userid": str(host.account_id),
        "p_vendor": "GenuineIntel",
        "p_model": "A <b> chip",
        "os_name": "Linux",
        "os_version": "6.1",
        "misc": '{"gpus": [{"type": "NVIDIA", "count": 1}]}',
        "create_time": str(SINCE),
        "rpc_time": str(SINCE + 3600),
        "timezone": "7200",
        "ncpus": "8",
        "p_fpops": "4500000000.000000",
        "p_iops": "1000000000.000000",
        "p_membw": "1000000000.000000",
        "m_nbytes": "0.000000",
        "m_cache": "0.000000",
        "m_swap": "0.000000",
        "d_total": "0.000000",
        "d_free": "2.000000",
        "n_bwup": "0.000000",
        "n_bwdown": "0.000000",
        "avg_turnaround": "3600.000000",
        "credit_per_cpu_sec": "0.000000",
        "host_cpid": "f" * 32,
    }


def test_the_summary_has_the_fields_of_boincs_tables(folder):
    rows.an_app("mill")
    rows.an_app("loom")
    rows.a_host(a_volunteer(), **GAINS)
    a_volunteer("grace", share_statistics=False)
    Team.objects.create(name="t", created_at=NOON, **GAINS)
    export(folder, now=NOON)
    text = (folder / "tables.xml").read_text()
    assert text.startswith('<?xml version="1.0" encoding="utf-8"?>\n<tables>\n')
    root = ET.fromstring(text)
    assert {
        field.tag: field.text for field in root if len(field) == 0 and field.tag != "badges"
    } == {
        "update_time": str(SINCE),
        "nusers_total": "1",
        "nteams_total": "1",
        "nhosts_total": "1",
        "total_credit": "25.000000",
    }
    assert [one.findtext("name") for one in root.iter("application")] == ["mill", "loom"]
    assert root.find("badges") is not None


def test_published_badges_and_their_holders_are_exported(folder):
    fields = {"created_at": NOON, "for_teams": True, "title": "A & B"}
    shown = Badge.objects.create(name="shown", is_published=True, **fields)
    draft = Badge.objects.create(name="draft", **fields)
    ada = a_volunteer("ada", **GAINS)
    shy = a_volunteer("shy", share_statistics=False, **GAINS)
    closed = a_volunteer("closed", is_active=False, **GAINS)
    idle = a_volunteer("idle", total_credit=0)
    team = Team.objects.create(name="t", created_at=NOON, **GAINS)
    idle_team = Team.objects.create(name="idle", created_at=NOON)
    for badge in (shown, draft):
        for account in (ada, shy, closed, idle):
            AccountBadge.objects.create(badge=badge, account=account, created_at=NOON)
        for holder in (team, idle_team):
            TeamBadge.objects.create(badge=badge, team=holder, created_at=NOON)
    award = {"badge_id": str(shown.pk), "create_time": str(SINCE)}
    assert exported(folder, "badge_user") == [{"user_id": str(ada.pk)} | award]
    assert exported(folder, "badge_team") == [{"team_id": str(team.pk)} | award]
    [badge] = ET.parse(folder / "tables.xml").getroot().findall("badges/badge")
    assert {field.tag: field.text for field in badge} == {
        "id": str(shown.pk),
        "name": "shown",
        "title": "A & B",
        "image_url": f"http://127.0.0.1:8000/badges/{shown.pk}.svg",
    }


def test_characters_not_allowed_in_xml_are_removed_from_names(folder):
    a_volunteer("bell\x07", email="bell@example.org")
    [user] = exported(folder, "user")
    assert user["name"] == "bell"


# Which rows are exported


def test_accounts_teams_and_hosts_without_credit_are_omitted(folder):
    rows.a_host()
    Team.objects.create(name="t", created_at=NOON)
    assert [exported(folder, name) for name in ("user", "team", "host")] == [[], [], []]


def test_accounts_that_do_not_share_statistics_are_omitted_also_as_team_founders(folder):
    shy = a_volunteer(share_statistics=False)
    rows.a_host(shy, **GAINS)
    Team.objects.create(name="t", founder=shy, created_at=NOON, **GAINS)
    assert exported(folder, "user") == []
    assert exported(folder, "host") == []
    [team] = exported(folder, "team")
    assert (team["userid"], team["founder_name"]) == ("0", "")


def test_closed_accounts_are_not_exported(folder):
    rows.a_host(a_volunteer(is_active=False), **GAINS)
    assert exported(folder, "user") == exported(folder, "host") == []


def test_hosts_have_no_owner_if_the_account_hides_them(folder):
    rows.a_host(a_volunteer(show_hosts=False), **GAINS)
    [host] = exported(folder, "host")
    assert "userid" not in host
    assert host["total_credit"] == "12.500000"


def test_only_the_hidden_one_of_two_shown_hosts_has_no_owner(folder):
    ada = a_volunteer(show_hosts=True)
    hidden, shown = rows.a_host(ada, hidden=True, **GAINS), rows.a_host(ada, **GAINS)
    owners = {host["id"]: host.get("userid") for host in exported(folder, "host")}
    assert owners == {str(hidden.pk): None, str(shown.pk): str(ada.pk)}


# The folder


def test_rows_are_exported_in_ascending_id_across_chunks(folder, monkeypatch):
    monkeypatch.setattr(queries, "CHUNK", 2)
    for number in range(5):
        a_volunteer(f"v{number}")
    assert next(queries.accounts())["name"] == "v0"
    users = [int(user["id"]) for user in exported(folder, "user")]
    assert users == sorted(users)
    assert len(users) == 5


def test_a_failed_export_keeps_the_previous_files(folder, monkeypatch):
    a_volunteer()
    export(folder, now=NOON)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert before.keys() == set(storage.STATISTICS_FILES)
    a_volunteer("grace")

    def fail(*_args):
        raise RuntimeError("the disk is gone")

    monkeypatch.setattr(statistics, "tables", fail)
    with pytest.raises(RuntimeError):
        export(folder, now=NOON)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_exports_of_the_same_rows_at_the_same_time_are_identical(folder, tmp_path):
    a_volunteer()
    export(folder, now=NOON)
    export(tmp_path / "again", now=NOON)
    for path in folder.iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes()


def test_a_target_path_that_is_not_a_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadFolder, match="Hint: name a folder that this user may write to"):
        export(tmp_path / "file", now=NOON)
    with pytest.raises(CommandError, match="cannot be written to"):
        call_command("export_stats", str(tmp_path / "file"))


def test_export_stats_prints_the_number_of_exported_rows(folder):
    rows.a_host(a_volunteer(), **GAINS)
    out = StringIO()
    call_command("export_stats", str(folder), stdout=out)
    assert out.getvalue() == f"Wrote 1 account, 0 teams and 1 host to {folder}.\n"
    out = StringIO()
    call_command("export_stats", str(folder), "--json", stdout=out)
    answer = json.loads(out.getvalue())
    assert (answer["users"], answer["teams"], answer["hosts"]) == (1, 0, 1)
