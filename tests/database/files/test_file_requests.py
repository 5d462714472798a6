"""Requests of staff to put files on hosts, fetch them, and delete them there."""

from __future__ import annotations

from datetime import timedelta

import pytest

from daemons import file_deleter
from scheduler import storage
from scheduler.files import file_requests
from scheduler.models import File, FileRequest
from tests.conftest import NOON
from tests.database.passes import a_pass, statements_of
from tests.rows import a_host, a_workunit, an_input, settled

pytestmark = pytest.mark.django_db
State = FileRequest.State


@pytest.fixture
def host():
    return a_host()


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "map.dat"
    path.write_bytes(b"a map")
    return str(path)


def take(host, *present, now=NOON):
    return file_requests.take_pending(host.pk, present, now=now)


def state_of(request):
    request.refresh_from_db()
    return State(request.state)


def arrive(name):
    with storage.begin_upload(name, 0) as upload:
        upload.write(b"a map")
        upload.finish(md5=None)


def test_a_put_request_is_done_when_the_host_lists_the_file(host, path):
    request = file_requests.put_file(host.pk, path, now=NOON)
    (put,) = take(host).puts
    assert put.name == request.file_name
    assert (put.nbytes, len(put.md5)) == (5, 32)
    assert state_of(request) is State.SENT
    assert take(host).puts == ()
    assert take(host, put.name).puts == ()
    assert state_of(request) is State.DONE
    assert request.done_at == NOON


def test_request_is_repeated_after_an_hour(host, path):
    file_requests.put_file(host.pk, path, now=NOON)
    assert take(host).puts
    assert not take(host, now=NOON + timedelta(minutes=59)).puts
    assert take(host, now=NOON + timedelta(hours=1)).puts


def test_a_file_is_kept_until_its_put_request_is_done_and_then_deleted(host, path):
    request = file_requests.put_file(host.pk, path, now=NOON)
    name = request.file_name
    take(host)
    a_pass(file_deleter)
    assert storage.download_path(name).exists()
    take(host, name)
    a_pass(file_deleter)
    assert not storage.download_path(name).exists()
    assert not File.objects.exists()


def test_a_file_is_kept_while_either_a_workunit_or_a_put_request_references_it(host, path):
    request = file_requests.put_file(host.pk, path, now=NOON)
    workunit = a_workunit()
    an_input(workunit, file=request.file)
    settled(workunit, assimilate_state=2, file_delete_state=1)
    a_pass(file_deleter)
    assert File.objects.get().doomed_at is None
    other = a_workunit()
    an_input(other, file=request.file)
    take(host)
    take(host, request.file_name)
    assert File.objects.get().doomed_at is None


def test_a_get_request_is_done_when_its_upload_is_complete(host):
    request = file_requests.get_file(host.pk, "map_1", now=NOON)
    (get,) = take(host, "map_1").gets
    assert (get.name, get.result_name) == ("map_1", f"host_file_{request.pk}.get")
    assert file_requests.is_file_move(get.result_name)
    assert take(host, "map_1").gets == ()
    arrive("map_1")
    assert take(host, "map_1").gets == ()
    assert state_of(request) is State.DONE


def test_a_get_request_fails_if_the_host_does_not_list_the_file(host):
    request = file_requests.get_file(host.pk, "map_1", now=NOON)
    assert take(host, "other").gets == ()
    assert state_of(request) is State.FAILED


def test_a_delete_request_is_done_when_the_host_no_longer_lists_the_file(host):
    request = file_requests.delete_file(host.pk, "map_1", now=NOON)
    assert take(host, "map_1").deletes == ("map_1",)
    assert take(host, "map_1").deletes == ()
    assert state_of(request) is State.SENT
    assert take(host).deletes == ()
    assert state_of(request) is State.DONE


def test_a_request_is_not_sent_to_another_host(host):
    file_requests.delete_file(host.pk, "map_1", now=NOON)
    assert take(a_host(), "map_1").deletes == ()


def test_a_second_open_request_for_the_same_file_and_host_is_refused(host):
    file_requests.delete_file(host.pk, "map_1", now=NOON)
    with pytest.raises(
        file_requests.FileRequestRefused, match="has a request to delete map_1 already"
    ):
        file_requests.get_file(host.pk, "map_1", now=NOON)


@pytest.mark.parametrize("name", ["../x", "", "a/b"])
def test_an_invalid_file_name_is_refused(host, name):
    with pytest.raises(file_requests.FileRequestRefused, match="File name"):
        file_requests.get_file(host.pk, name, now=NOON)


def test_a_request_for_an_unknown_or_merged_host_is_refused(host):
    with pytest.raises(file_requests.FileRequestRefused, match="no host 999"):
        file_requests.get_file(999, "map_1", now=NOON)
    host.merged_into = a_host()
    host.save()
    with pytest.raises(file_requests.FileRequestRefused, match="is merged into"):
        file_requests.get_file(host.pk, "map_1", now=NOON)


def test_sending_any_number_of_requests_uses_two_statements(host):
    for number in range(80):
        file_requests.delete_file(host.pk, f"map_{number}", now=NOON)
    names = [f"map_{number}" for number in range(80)]
    assert statements_of(lambda: take(host, *names)) == 2
    stranger = a_host()
    assert statements_of(lambda: take(stranger, *names)) == 1


@pytest.mark.parametrize("name", ["wu_0", "host_file_1_0", "host_file_1.get_0"])
def test_result_names_of_workunits_are_not_recognized_as_file_moves(name):
    assert not file_requests.is_file_move(name)
