"""Extreme values in a scheduler request do not affect other hosts or daemons.

The fields come from the decoder's table of elements, so that a new field is tested at once.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import fields, is_dataclass
from datetime import timedelta
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone

from daemons import registry, transitioner
from scheduler import signing, storage
from scheduler.boinc.wire import messages, ranges, replies, requests, xml
from scheduler.health.invariants import invariants
from scheduler.management.statistics import export
from scheduler.models import Host, Result, Workunit
from scheduler.work.submission.submit import NewOutput, NewWorkunit, submit
from tests.faces.boinc.test_upload import call
from tests.scripted_client import LINUX, RpcClient, a_client, put_upload
from tests.security import worst
from tests.work import an_app

pytestmark = pytest.mark.lengthy

NUMBER_FIELDS = list(requests.number_fields())
NUMBER_PATHS = [one.path for one in NUMBER_FIELDS]
TEXT_PATHS = [path for path, _, row in requests._REQUEST.leaves() if row.kind.range is None]
#: Path of an element -> child element without which the decoder ignores it.
NAMED = {
    "result": "name",
    "result/file_info": "name",
    "file_info": "name",
    "msg_from_host": "result_name",
    "app_versions/app_version/coproc": "type",
    "other_results/other_result": "name",
    "in_progress_results/ip_result": "name",
}


def names_for(paths, name="unknown"):
    """Return (path, name) of the name elements that these paths require."""
    above = {one for one in NAMED for path in paths if path.startswith(f"{one}/")}
    return [(f"{one}/{NAMED[one]}", name) for one in sorted(above)]


def read(field, text):
    """Return the value that is read from a number with this text."""
    sent = {field.path: text if isinstance(text, bytes) else text.encode()}
    message = requests.decode_request(worst.request(sent, names=names_for([field.path])))
    found = list(of_class(message, field.message_class))
    assert found, field.path
    return getattr(found[0], field.field)


def of_class(message, wanted):
    """Yield every message of a class in a message."""
    if type(message) is wanted:
        yield message
    for each in fields(message):
        value = getattr(message, each.name)
        for inside in value if isinstance(value, tuple) else (value,):
            if is_dataclass(inside):
                yield from of_class(inside, wanted)


def numbers_of(message_class, seen=()):
    """Yield every number field of a message class and of nested classes."""
    for name, hint in get_type_hints(message_class).items():
        parts = {hint, *get_args(hint)}
        if parts & {int, float}:
            yield message_class, name
        for part in parts:
            if is_dataclass(part):
                yield from numbers_of(part)


def test_every_number_of_a_request_has_a_range():
    counted = {(messages.SchedulerRequest, "further_results")}  # set by the decoder, not sent
    ranged = {(one.message_class, one.field) for one in NUMBER_FIELDS}
    assert set(numbers_of(messages.SchedulerRequest)) - counted - ranged == set()
    unlimited = xml.MAX_REAL, 2**63 - 1
    assert [one.path for one in NUMBER_FIELDS if one.range.high in unlimited] == ["hostid"] + [
        one.path for one in NUMBER_FIELDS if one.range is ranges.ID and one.path != "hostid"
    ]


@pytest.mark.parametrize("field", NUMBER_FIELDS, ids=NUMBER_PATHS)
def test_decoded_number_is_within_its_range(field):
    for text in (
        *worst.NUMBERS,
        "9" * 1_000_000,
        "1" + "0" * 300 + ".5",
        b"\xed\xa0\x80",
        b"\xff1",
    ):
        found = read(field, text)
        kept = field.range
        for value in found if isinstance(found, tuple) else (found,):
            is_unknown = kept.zero_is_unknown and value == 0
            assert is_unknown or kept.low <= value <= kept.high, (text[:40], value)
            assert str(value) != "-0.0"


# Requests to the whole server


@pytest.fixture
def world(db):
    """An app with many workunits, and the client of a host that behaves correctly."""
    an_app(credit_rule="adaptive")
    submit_some(300)
    transitioner.run_pass(now=timezone.now(), limit=1000)
    good = a_client("good@example.org", "good")
    good.ask()
    return good


def submit_some(count):
    outputs = (NewOutput(open_name="out", max_nbytes=100),)
    work = [NewWorkunit(outputs=outputs) for _ in range(count)]
    submit(app="upper", workunits=work, now=timezone.now())


def send(client, values):
    """Send a request with a valid identity of the client and one of its results."""
    client.rpc_seqno += 1
    (held, *_) = [*client.held, "unknown"]
    identity = {
        "authenticator": client.key.encode(),
        "hostid": str(client.hostid).encode(),
        "rpc_seqno": str(client.rpc_seqno).encode(),
        "core_client_major_version": b"7",
        "core_client_minor_version": b"20",
        "platform_name": LINUX.encode(),
        "result/exit_status": b"0",
        "result/state": b"5",
    }
    body = worst.request(identity | values, names=names_for({*values, "result/state"}, held))
    response = RpcClient().post("/cgi/scheduler", data=body, content_type="text/xml")
    assert response.status_code == 200, values
    reply = replies.decode_reply(response.content)
    if reply.hostid:
        client.hostid, client.rpc_seqno = reply.hostid, 0
    client.held = [name for name in client.held if name not in reply.result_acks]
    client.held += [one.name for one in reply.results if one.name not in client.held]
    return reply


def check_everything_works(good, folder):
    """Check that a good host gets and reports work, and that submissions, passes and pages work."""
    now = timezone.now()
    (name, *_) = good.ask_for_work()
    assert name in good.report(name).result_acks
    submit_some(1)
    later = now + timedelta(days=8)
    for moment in (now, now, later, later, later):
        for daemon in registry.DAEMONS:
            daemon.run_pass(now=moment, limit=daemon.batch)
    export(folder, now=now)
    for page in ("/", "/status.json", "/get_project_config.php"):
        assert Client().get(page).status_code == 200
    broken = {one.name: found for one in invariants() if (found := one.find(later))}
    assert broken == {}


def attached(email):
    client = a_client(email, email.partition("@")[0])
    client.ask()
    client.ask_for_work(1)
    for name in client.held:
        put_upload(name, b"the answer")
    return client


#: Fields that must be valid, or else the rest of the request is not read.
IDENTITY = {"authenticator", "hostid", "rpc_seqno", "core_client_major_version", "platform_name"}
IDENTITY |= {"core_client_minor_version", "code_sign_key"}


def test_extreme_numbers_in_a_request_do_not_affect_other_hosts(world, tmp_path):
    for number, text in enumerate(worst.NUMBERS):
        client = attached(f"bad{number}@example.org")
        value = text.encode()
        send(client, {path: value for path in NUMBER_PATHS if path not in IDENTITY})
        send(client, {path: value for path in NUMBER_PATHS if path not in IDENTITY})
        # Also for a success, so that times and speeds are used by the validator and for credit.
        own = {path: value for path in NUMBER_PATHS if path not in IDENTITY}
        send(client, own | {"result/state": b"5", "result/exit_status": b"0"})
    check_everything_works(world, tmp_path)


@pytest.mark.parametrize("end", ["low", "high"])
def test_numbers_at_the_ends_of_their_ranges_do_not_affect_other_hosts(world, tmp_path, end):
    """Extreme allowed numbers, in all fields at once and in each field alone."""
    values = {one.path: repr(getattr(one.range, end)).encode() for one in NUMBER_FIELDS}
    values = {path: value for path, value in values.items() if path not in IDENTITY}
    for number in range(3):
        client = attached(f"all{number}@example.org")
        for _ in range(3):
            success = {"result/state": b"5", "result/exit_status": b"0"}
            send(client, values | success | {"cpu_req_secs": b"1"})
    alone = attached("alone@example.org")
    for path, value in values.items():
        send(alone, {path: value})
    check_everything_works(world, tmp_path)


@pytest.mark.parametrize("path", ["hostid", "rpc_seqno", "core_client_major_version"])
def test_extreme_numbers_in_identity_fields_do_not_affect_other_hosts(world, tmp_path, path):
    client = attached("bad@example.org")
    for text in worst.NUMBERS:
        send(client, {path: text.encode(), "core_client_release": text.encode()})
    check_everything_works(world, tmp_path)


def test_extreme_texts_in_a_request_do_not_affect_other_hosts(world, tmp_path):
    client = attached("bad@example.org")
    for text in worst.TEXTS:
        send(client, {path: text for path in TEXT_PATHS if path not in IDENTITY})
        send(client, {path: text for path in TEXT_PATHS if path != "authenticator"})
        send(client, {"authenticator": text})
    check_everything_works(world, tmp_path)


def test_stored_numbers_are_within_their_ranges(world, tmp_path):
    for text in worst.NUMBERS:
        send(
            attached(f"b{len(text)}{hash(text)}@example.org"),
            dict.fromkeys(set(NUMBER_PATHS) - IDENTITY, text.encode()),
        )
    for host in Host.objects.all():
        assert 1e6 <= host.p_fpops <= 1e14
        assert 1 <= host.p_ncpus <= 65_536
        assert 0 <= host.m_nbytes <= 1e18
    assert Result.objects.filter(cpu_time__gt=1e10).count() == 0
    assert Workunit.objects.exists()
    assert settings.PROJECT


UPLOADED = "upper_0_0_r1_0"


def upload(values):
    """Return the body of an upload of one byte, where a field has another value than it should."""
    good = {
        "name": UPLOADED,
        "xml_signature": signing.upload_grant(UPLOADED, 100).strip(),
        "max_nbytes": "100",
        "nbytes": "1",
        "md5_cksum": hashlib.md5(b"x").hexdigest(),
        "offset": "0",
    }
    all_values = {name: value.encode() for name, value in good.items()} | values
    tags = [
        b"<%s>%s</%s>\n" % (tag.encode(), text, tag.encode()) for tag, text in all_values.items()
    ]
    info, rest = b"".join(tags[:3]), b"".join(tags[3:])
    return b"<file_upload><file_info>%s</file_info>%s<data>\nx" % (info, rest)


def test_valid_upload_is_stored(own_folders):
    signing.ensure_keys()
    assert b"<status>0</status>" in send_upload(upload({}))
    assert storage.upload_path(UPLOADED).read_bytes() == b"x"


@pytest.mark.parametrize(
    "field", ["name", "xml_signature", "max_nbytes", "nbytes", "md5_cksum", "offset"]
)
def test_extreme_value_in_an_upload_field_stores_no_unexpected_bytes(own_folders, field):
    signing.ensure_keys()
    for value in (*map(str.encode, worst.NUMBERS), *worst.TEXTS):
        said = send_upload(upload({field: value}))
        final = storage.upload_path(UPLOADED)
        assert re.search(rb"<status>(-1|0|1)</status>", said), (value[:80], said)
        assert (b"<status>0</status>" in said) == final.exists(), (value[:80], said)
        for path in filter(Path.is_file, final.parent.rglob("*")):
            assert path in {final, final.with_name(f".{UPLOADED}.part")}, value[:80]
            assert path.read_bytes() in {b"", b"x"}, value[:80]
            path.unlink()


def test_size_query_with_an_extreme_name_gets_a_valid_status(own_folders):
    for value in (*map(str.encode, worst.NUMBERS), *worst.TEXTS):
        body = b"<data_server_request><get_file_size>%s</get_file_size>" % value
        assert re.search(rb"<status>(-1|0|1)</status>", send_upload(body)), value[:80]


def send_upload(body):
    answer = call(body)
    assert answer.status == "200 OK"
    return answer.body
