"""The statistics export has BOINC's format and omits accounts without consent."""

from __future__ import annotations

import gzip
import hashlib
import json
from datetime import timedelta
from decimal import Decimal
from io import StringIO
from xml.etree import ElementTree as ET

import pytest
from django.core.management import CommandError, call_command

from scheduler.boinc import statistics_export as queries
from scheduler.management import statistics
from scheduler.management.statistics import BadFolder, export
from scheduler.models import Team
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


def a_volunteer(name="ada", **fields):
    return rows.an_account(name, **GAINS | fields)


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
        created_at=NOON,
        description="We ]]> compute",
        url="https://example.org/",
        country="Peru",
        **GAINS,
    )
    [found] = exported(folder, "team")
    assert found == CREDIT | {
        "id": str(team.pk),
        "type": "0",
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
        a_volunteer(),
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
    assert before.keys() == {"tables.xml", "user.gz", "team.gz", "host.gz"}
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
