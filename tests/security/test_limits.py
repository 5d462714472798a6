"""Limits on output sizes, on the outputs of a host, and on free disk space."""

from __future__ import annotations

import os
import socket
import stat
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from project import disk_reserve
from project.management.commands.serve import plain_http_warning
from scheduler.boinc import conversation
from scheduler.files import fetching
from scheduler.files.fetching import Rules, SourceFailed
from scheduler.files.rules.sources import BadSource
from scheduler.models import Host, Result, Workunit
from scheduler.work.submission.facts import NewOutput, NewWorkunit
from scheduler.work.submission.submission_checks import SubmissionRefused
from scheduler.work.submission.submit import submit
from tests import work
from tests.conftest import NOON
from tests.database.passes import a_pass
from tests.faces.submitters import OUTPUT, World, a_job
from tests.faces.submitters import refused as refused_by_rpc
from tests.rows import an_account, an_app, update
from tests.scripted_client import a_client

LIMIT = 1_000_000


@pytest.fixture
def configure(settings):
    def configure(**options):
        settings.PROJECT = replace(settings.PROJECT, **options)

    return configure


@pytest.fixture
def limited(configure):
    configure(max_output_bytes=LIMIT)


# New hosts of an account


@pytest.mark.django_db
class TestNewHosts:
    def test_new_hosts_above_the_daily_limit_are_refused_for_six_hours(self, configure):
        configure(hosts_per_account=2)
        client = a_client()
        replies = [replace(client, name=name).ask() for name in ("first", "second", "third")]
        assert [reply.hostid is None for reply in replies] == [False, False, True]
        assert replies[2].request_delay == 6 * 3600
        (message,) = replies[2].messages
        assert message.text == (
            "This account has attached too many new computers in 24 hours. Try again later."
        )
        assert Host.objects.count() == 2

    def test_known_hosts_are_served_when_the_daily_host_limit_is_reached(self, configure):
        configure(hosts_per_account=1)
        client = a_client()
        client.ask()
        assert client.ask().hostid is None
        assert replace(client, hostid=0).ask().hostid == client.hostid
        assert client.ask().messages == ()

    def test_hosts_of_other_accounts_or_older_than_a_day_do_not_count(self, configure):
        configure(hosts_per_account=1)
        a_client(name="theirs").ask()
        client = a_client("ben@example.org")
        client.ask()
        update(Host.objects.get(pk=client.hostid), created_at=timezone.now() - timedelta(hours=25))
        assert replace(client, name="new", hostid=0).ask().hostid is not None

    def test_new_hosts_in_one_batch_of_rpcs_count_together(self, configure, settings):
        configure(hosts_per_account=2)
        client = a_client()
        calls = [
            conversation.Call(replace(client, name=f"{number}").request(), "127.0.0.1")
            for number in range(4)
        ]
        replies = conversation.answer_all(calls, config=settings.PROJECT, now=timezone.now())
        assert [reply.hostid is None for reply in replies] == [False, False, True, True]

    def test_zero_disables_the_limit(self, configure):
        configure(hosts_per_account=0)
        client = a_client()
        assert client.ask().hostid
        assert replace(client, name="second", hostid=0).ask().hostid


# Outputs that are too large to upload


def too_large(nbytes=LIMIT + 1):
    return NewWorkunit(outputs=(NewOutput(open_name="out", max_nbytes=nbytes),))


@pytest.mark.django_db
@pytest.mark.usefixtures("limited")
class TestLargeOutputs:
    def test_submission_with_outputs_over_the_size_limit_is_refused(self):
        an_app("sieve")
        with pytest.raises(SubmissionRefused, match="uploads of at most 1000000 bytes"):
            submit(app="sieve", workunits=[too_large()], now=NOON)
        submit(app="sieve", workunits=[too_large(LIMIT)], now=NOON)

    def test_api_refuses_outputs_over_the_size_limit(self, client):
        from scheduler.people import api_tokens

        an_app("sieve")
        ada = an_account("ada", is_superuser=True)
        token = api_tokens.create(account=ada, name="t", scopes=["submit"], now=NOON)[1]
        outputs = [{"open_name": "out", "max_nbytes": LIMIT + 1}]
        body = {"app": "sieve", "defaults": {"outputs": outputs}, "workunits": [{"name": "a"}]}
        answer = client.post(
            "/api/v1/workunits",
            body,
            content_type="application/json",
            headers={"Authorization": f"Bearer {token}"},
        )
        assert answer.status_code == 422
        assert "uploads of at most 1000000 bytes" in answer.json()["errors"][0]["detail"]

    def test_boinc_template_with_outputs_over_the_size_limit_is_refused(self):
        world = World()
        template = OUTPUT.replace("1000000", str(LIMIT + 1))
        update(world.app, output_template=template)
        assert "uploads of at most 1000000 bytes" in refused_by_rpc(a_job())

    def test_submit_work_command_refuses_outputs_over_the_size_limit(self, tmp_path):
        an_app("sieve")
        file = tmp_path / "in"
        file.write_text("1")
        with pytest.raises(CommandError, match="uploads of at most 1000000 bytes"):
            call_command("submit_work", "sieve", str(file), "--outputs", f"out:{LIMIT + 1}")

    def test_work_generator_cannot_create_workunits_over_the_output_size_limit(self, configure):
        from daemons import work_generator

        configure(max_output_bytes=1)
        an_app(generator="python:tests.generator_science.numbers", cushion=2)
        a_pass(work_generator)
        assert not Workunit.objects.exists()

    def test_file_requested_from_a_host_has_the_output_size_limit(self, settings):
        from scheduler.boinc import file_moves

        asked = file_moves._upload("sticky", settings.PROJECT)
        assert asked.max_nbytes == LIMIT


# Limit on the outputs of a host's results in progress


@pytest.mark.django_db
class TestPromisedOutputs:
    def test_no_results_are_sent_above_the_limit_on_output_bytes(self, configure):
        configure(max_promised_bytes=3 * LIMIT)
        work.workunits(work.an_app(), 8, output_bytes=LIMIT)
        client = a_client()
        assert len(client.ask_for_work(seconds=1e6)) == 3
        reply = client.ask(cpu_req_secs=1e6, cpu_req_instances=4)
        assert not reply.results
        said = " ".join(message.text for message in reply.messages)
        assert "limit on the output files of its tasks in progress" in said

    def test_one_result_is_sent_even_above_the_limit_on_output_bytes(self, configure):
        configure(max_promised_bytes=LIMIT)
        work.workunits(work.an_app(), 3, output_bytes=5 * LIMIT)
        assert len(a_client().ask_for_work(seconds=1e6)) == 1

    def test_each_host_has_its_own_limit_on_output_bytes(self, configure):
        configure(max_promised_bytes=LIMIT)
        work.workunits(work.an_app(), 3, output_bytes=LIMIT)
        assert len(a_client(name="one").ask_for_work(seconds=1e6)) == 1
        assert len(a_client(name="two", email="b@example.org").ask_for_work(seconds=1e6)) == 1

    def test_finished_results_do_not_count_toward_the_limit_on_output_bytes(self, configure):
        configure(max_promised_bytes=2 * LIMIT)
        work.workunits(work.an_app(), 4, output_bytes=LIMIT)
        client = a_client()
        names = client.ask_for_work(seconds=1e6)
        assert len(names) == 2
        Result.objects.filter(name=names[0]).update(server_state=5, outcome=3)
        client.held = names[1:]
        assert len(client.ask_for_work(seconds=1e6)) == 1

    def test_zero_disables_the_limit(self, configure):
        configure(max_promised_bytes=0)
        work.workunits(work.an_app(), 4, output_bytes=1 << 60)
        assert len(a_client().ask_for_work(seconds=1e6)) == 4

    def test_submission_stores_the_sum_of_output_sizes(self):
        an_app("sieve")
        outputs = (NewOutput(open_name="a", max_nbytes=5), NewOutput(open_name="b", max_nbytes=7))
        submit(app="sieve", workunits=[NewWorkunit(outputs=outputs)], now=NOON)
        assert Workunit.objects.get().output_bytes == 12


# The disk


def test_disk_reserve_includes_the_wal_of_the_embedded_database(tmp_path):
    reserve = disk_reserve.default(tmp_path, {"EMBEDDED": str(tmp_path)})
    assert reserve > disk_reserve.EMBEDDED_WAL_BYTES


def test_wal_reserve_matches_max_wal_size_of_the_embedded_database():
    text = Path("project/embedded_postgres.py").read_text(encoding="utf-8")
    assert f"max_wal_size = '{disk_reserve.EMBEDDED_WAL_BYTES >> 30}GB'" in text


@pytest.mark.parametrize(
    ("host", "is_here"),
    [("/run/postgresql", True), ("", True), ("127.0.0.1", True), ("db.example.org", False)],
)
def test_disk_reserve_is_larger_only_for_a_database_on_this_machine(
    tmp_path, monkeypatch, host, is_here
):
    monkeypatch.setattr(disk_reserve, "SYSTEM_DATA", tmp_path)
    reserve = disk_reserve.default(tmp_path / "var", {"HOST": host})
    assert (reserve > disk_reserve.RESERVE_BYTES) is is_here


# rsync


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        yield server


def url_of(listener):
    return f"rsync://127.0.0.1:{listener.getsockname()[1]}/m/p.tar"


def was_called(listener):
    try:
        listener.accept()[0].close()
    except TimeoutError:
        return False
    return True


def test_rsync_url_is_refused_unless_the_settings_allow_it(listener, tmp_path):
    with pytest.raises(BadSource, match="RSYNC_SOURCES"):
        fetching.fetch(url_of(listener), tmp_path, Rules(any_private=True))
    assert not was_called(listener)


@pytest.mark.needs("rsync")
def test_rsync_url_in_the_network_of_the_server_is_refused(listener, tmp_path):
    with pytest.raises(BadSource, match="own network"):
        fetching.fetch(url_of(listener), tmp_path, Rules(any_rsync=True))
    assert not was_called(listener)


@pytest.mark.parametrize("version", ["3.2.7  protocol version 31", "nonsense"])
def test_rsync_version_with_known_vulnerabilities_is_not_run(
    listener, tmp_path, monkeypatch, version
):
    program = tmp_path / "bin" / "rsync"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho 'rsync  version {version}'\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    with pytest.raises(SourceFailed, match="known vulnerabilities"):
        fetching.fetch(url_of(listener), tmp_path, Rules(any_private=True, any_rsync=True))
    assert not was_called(listener)


# serve


@pytest.mark.parametrize(
    ("address", "url", "warns"),
    [
        ("127.0.0.1", "http://127.0.0.1:8000/", False),
        ("::1", "http://[::1]:8000/", False),
        ("0.0.0.0", "http://science.example.org/", True),
        ("192.0.2.7", "http://192.0.2.7:8000/", True),
        ("0.0.0.0", "https://science.example.org/", False),
    ],
)
def test_serve_warns_of_plain_http_on_an_address_other_than_localhost(address, url, warns):
    warning = plain_http_warning(address, url)
    assert bool(warning) is warns
    assert not warns or "Hint: " in warning
