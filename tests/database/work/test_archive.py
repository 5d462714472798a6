"""The archive has the history of purged work; stored messages can be shown."""

from __future__ import annotations

import json
from datetime import date, timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from daemons import file_deleter, purger
from scheduler import storage
from scheduler.messages import trickles
from scheduler.messages.facts import ReceivedTrickle
from scheduler.models import CreditEntry, FileRequest, TrickleDown
from scheduler.work import purged_work
from tests import rows
from tests.conftest import NOON
from tests.database.passes import a_pass

pytestmark = pytest.mark.django_db


def purged(app=None, *, now=NOON, **fields):
    """Create an assimilated workunit, then delete its files and purge it at `now`."""
    workunit = rows.a_workunit(app, transition_at=None, **fields)
    rows.an_input(workunit, workunit.name.encode())
    canonical = rows.a_result(workunit, "valid", output=b"x", file_delete_state=2)
    rows.a_result(workunit, "error", file_delete_state=2)
    CreditEntry.objects.create(
        result_id=canonical.pk,
        rule="validated",
        account=canonical.account,
        host=canonical.host,
        app=workunit.app,
        amount=2,
        granted_at=NOON,
    )
    rows.settled(workunit, canonical, assimilate_state=2, file_delete_state=1)
    a_pass(file_deleter, now=now)
    assert a_pass(purger, now=now).done["purged"] == 1
    return workunit


def say(*words, **options):
    out, err = StringIO(), StringIO()
    call_command(*words, stdout=out, stderr=err, **options)
    return out.getvalue() + err.getvalue()


def test_an_archived_workunit_is_found_by_its_name_and_by_its_result_names():
    workunit = purged()
    purged()
    for name in (workunit.name, f"{workunit.name}_0", f"{workunit.name}_1"):
        found = purged_work.find(name)
        assert (found.name, found.day) == (workunit.name, "2026-01-01")
    assert found.verdict == f"answered by {workunit.name}_0"


def test_an_archived_workunit_is_not_found_by_part_of_its_name():
    workunit = purged(name="range_10")
    with pytest.raises(purged_work.NotArchived, match="'range_1'"):
        purged_work.find("range_1")
    assert purged_work.find("range_10").entry["workunit"]["id"] == workunit.pk


def test_a_workunit_archived_twice_is_listed_once_with_its_newest_line():
    workunit = purged()
    (path,) = storage.archive_days().values()
    (line,) = storage.read_archive(path)
    again = json.loads(line) | {"archived_at": "2026-01-02T00:00:00+00:00"}
    storage.append_archive(date(2026, 1, 1), [json.dumps(again).encode()])
    assert purged_work.find(workunit.name).entry["archived_at"] == "2026-01-02T00:00:00+00:00"
    assert len(list(purged_work.listed())) == 1
    assert [(day.workunits, day.repeated) for day in purged_work.verified()] == [(1, 1)]


def test_the_list_is_newest_first_and_can_be_filtered_by_app_and_start_day():
    app = rows.an_app()
    old, other = purged(app), purged()
    new = purged(app, now=NOON + timedelta(days=2))
    assert [one.name for one in purged_work.listed()] == [new.name, other.name, old.name]
    assert [one.name for one in purged_work.listed(app=app.name)] == [new.name, old.name]
    assert [one.name for one in purged_work.listed(since=date(2026, 1, 3))] == [new.name]


def test_show_prints_the_whole_history_of_a_workunit():
    workunit = purged()
    said = say("archive", "show", workunit.name)
    for part in (
        f"workunit {workunit.name} of app {workunit.app.name}, answered by {workunit.name}_0",
        "submitted 2025-12-30 12:00:00, finished 2026-01-01 11:00:00, archived 2026-01-01 12:00:00",
        "input in: in_",
        f"result {workunit.name}_0: OVER/SUCCESS, VALID, host ",
        f"output {workunit.name}_0_r",
        "- 2 credit to account ",
        "workunit files: READY → DONE",
    ):
        assert part.lower() in said.lower(), part
    facts = json.loads(say("archive", "show", f"{workunit.name}_1", json=True))
    assert facts["workunit"]["name"] == workunit.name
    assert facts["input_files"][0]["open_name"] == "in"


def test_show_refuses_an_unknown_or_missing_name():
    with pytest.raises(CommandError, match="`manage"):
        say("archive", "show", "nothing")
    with pytest.raises(CommandError, match="archive show NAME"):
        say("archive", "show")


def test_list_and_verify_print_the_archived_workunits():
    assert "The archive has no such workunit" in say("archive", "list")
    workunit = purged()
    assert f"2026-01-01  {workunit.name}  {workunit.app.name}  answered by" in say(
        "archive", "list"
    )
    assert json.loads(say("archive", "list", "--limit", "0", json=True))["workunits"] == []
    assert "is intact: 1 workunit in 1 day" in say("archive", "verify")


def test_verify_reports_an_unreadable_line_and_an_incomplete_end():
    purged()
    (path,) = storage.archive_days().values()
    with path.open("ab") as file:
        file.write(b"\x1f\x8b torn")
    assert "ends with an incomplete part of 7 bytes" in say("archive", "verify")
    storage.append_archive(date(2026, 1, 1), [b'{"workunit": 1'])
    with pytest.raises(CommandError, match="2026-01-01 line 2"):
        say("archive", "verify")


# Messages


@pytest.fixture
def running():
    return rows.a_result(rows.a_workunit(), "sent")


def test_trickles_are_listed_in_both_directions_and_sent(running):
    assert say("trickle", "list") == "There are no messages.\n"
    said = ReceivedTrickle(
        result_name=running.name, said_at=NOON, variety="progress", text="<a>\n1"
    )
    trickles.keep([said], host_id=running.host_id, now=NOON)
    assert "gets the message with the next reply" in say("trickle", "send", running.name, "go on")
    assert TrickleDown.objects.get().text == "go on"
    listed = say("trickle", "list", running.name)
    assert f"up    {running.name}  waits  <a> 1" in listed
    assert f"down  {running.name}  waits  go on" in listed
    assert say("trickle", "list", "other_0") == "There are no messages.\n"
    assert len(json.loads(say("trickle", "list", json=True))["trickles"]) == 2


def test_trickle_send_refuses_an_unknown_result_or_a_missing_text(running):
    with pytest.raises(CommandError, match="There is no result 'other_0'"):
        say("trickle", "send", "other_0", "go on")
    with pytest.raises(CommandError, match="trickle send RESULT TEXT"):
        say("trickle", "send", running.name)


def test_host_file_command_creates_and_lists_file_requests(tmp_path):
    host = rows.a_host()
    path = tmp_path / "map.dat"
    path.write_bytes(b"a map")
    assert say("host_file", "list") == "There are no file requests.\n"
    assert "will fetch map_" in say("host_file", "put", str(host.pk), str(path))
    assert "will send out_1" in say("host_file", "get", str(host.pk), "out_1")
    assert "will delete old_1" in say("host_file", "delete", str(host.pk), "old_1")
    assert FileRequest.objects.count() == 3
    with storage.begin_upload("out_1", 0) as upload:
        upload.write(b"!")
        upload.finish(md5=None)
    listed = say("host_file", "list", str(host.pk))
    assert "delete  old_1  waiting" in listed
    assert str(storage.upload_path("out_1")) in listed
    assert json.loads(say("host_file", "list", "0", json=True))["requests"] == []


def test_host_file_command_refuses_unknown_hosts_and_missing_files(tmp_path):
    with pytest.raises(CommandError, match="There is no host 7"):
        say("host_file", "get", "7", "out_1")
    with pytest.raises(CommandError, match="host_file put HOST FILE"):
        say("host_file", "put", "7")
    host = rows.a_host()
    with pytest.raises(CommandError, match="nowhere"):
        say("host_file", "put", str(host.pk), str(tmp_path / "nowhere"))
