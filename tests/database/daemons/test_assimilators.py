"""Each kind of assimilator, run by the daemon."""

from __future__ import annotations

import dataclasses
import json
import os
import threading
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from django.db import connection

from daemons import assimilator
from daemons.science import assimilators, webhook, worker
from daemons.science.interfaces import BadOptions
from scheduler.models import ScienceFailure
from tests import rows
from tests.database.daemons.test_assimilator import failed, finished
from tests.database.passes import a_pass

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("targets_allowed")]
SECRET = "0123456789abcdef"


def an_app(assimilator_name, **options):
    fields = {
        name: options.pop(name)
        for name in ("science_time_limit", "max_science_failures", "name")
        if name in options
    }
    return rows.an_app(assimilator=assimilator_name, assimilator_options=options, **fields)


def state(workunit):
    workunit.refresh_from_db()
    return workunit.assimilate_state


def error():
    return ScienceFailure.objects.get().error


class TestOptions:
    @pytest.mark.parametrize(
        ("name", "given", "said"),
        [
            ("copy_files", {"folder": "x"}, "copy_files has no option 'folder'. Hint: it has no"),
            ("dataset", {"formt": "csv"}, "no option 'formt'. Hint: did you mean 'format'?"),
            ("dataset", {"format": "xml"}, "is 'xml'. Hint: it must be one of jsonl, csv."),
            ("dataset", {"format": "csv"}, "needs the option 'columns'"),
            ("dataset", {"columns": ["a"]}, "Only a CSV dataset has columns"),
            ("dataset", {"name": "../x"}, "is not a file name"),
            ("dataset", {"part_size": 0}, "a number from 1 to"),
            ("dataset", ["x"], "are not a JSON object"),
            ("python:a.function", ["x"], "are not a JSON object"),
            ("table", {}, "needs either the option 'table' or 'model'"),
            ("table", {"table": "a.b.c"}, "is not a table"),
            ("table", {"table": "account"}, "is one of the server's own tables"),
            ("table", {"table": "public.workunit"}, "is one of the server's own tables"),
            ("table", {"table": "ledger_entry_2026_01_01"}, "is one of the server's own tables"),
            ("table", {"table": "pg_catalog.pg_authid"}, "is one of the server's own tables"),
            ("table", {"model": "scheduler.Account"}, "is one of the server's own tables"),
            ("table", {"model": "no.Such"}, "There is no model 'no.Such'"),
            ("webhook", {"secret": SECRET}, "needs the option 'url'"),
            ("webhook", {"url": "https://a.example"}, "needs the option 'secret'"),
            ("webhook", {"url": "file:///etc/passwd", "secret": SECRET}, "is not allowed"),
            ("webhook", {"url": "https://a.example", "secret": "short"}, "less than 16"),
            ("script:x", {"arguments": "-v"}, "it must be a list of texts"),
            ("script:x", {"environment": {"A": 1}}, "it must be an object of texts"),
        ],
    )
    def test_unknown_options_are_refused_with_the_valid_ones(self, name, given, said):
        with pytest.raises(BadOptions) as refused:
            assimilators.find(name, given, timedelta(minutes=1))
        assert said in str(refused.value)

    def test_invalid_options_fail_only_workunits_of_their_app(self):
        bad, good = finished(an_app("dataset", nme="x")), finished(rows.an_app())
        a_pass(assimilator)
        assert (state(bad), state(good)) == (1, 2)
        assert "did you mean 'name'?" in error()


class TestCallable:
    def test_function_runs_in_another_process_with_all_workunit_data(self, tmp_path):
        app = an_app("python:tests.database.far_sinks.leave_a_note", folder=str(tmp_path))
        workunit, lost = finished(app, name="good"), failed(app, name="lost")
        assert a_pass(assimilator).done == {"assimilated": 2}
        key, name, pid, errors = json.loads((tmp_path / "good").read_text())
        assert (key, name, errors) == (f"Manyhands/{workunit.pk}", app.name, [])
        assert pid != os.getpid()
        assert json.loads((tmp_path / "lost").read_text())[3] == ["CANCELLED"]
        assert state(lost) == 2

    @pytest.mark.parametrize(
        ("trouble", "said"),
        [
            ("raise", "RuntimeError: cannot take raise"),
            ("hang", "did not answer within 4 s and was killed"),
            ("crash", "crashed its process: exit status 77"),
        ],
    )
    def test_a_function_that_raises_hangs_or_crashes_parks_only_its_workunit(
        self, trouble, said, tmp_path
    ):
        app = an_app(
            "python:tests.database.far_sinks.stumble",
            folder=str(tmp_path),
            science_time_limit=timedelta(seconds=4),
            max_science_failures=2,
        )
        bad = finished(app, name=trouble)
        good = [finished(app, name=f"good{number}") for number in range(3)]
        now = rows.hours(0)
        for _ in range(4):
            a_pass(assimilator, now=now)
            now += timedelta(hours=1)
        assert [state(workunit) for workunit in good] == [2, 2, 2]
        assert state(bad) == 1
        failure = ScienceFailure.objects.get()
        assert (failure.subject_id, failure.failures) == (bad.pk, 2)
        assert failure.parked_at is not None
        assert said in failure.error

    def test_function_can_defer_its_workunit(self):
        workunit = finished(an_app("python:tests.database.far_sinks.not_yet"))
        assert a_pass(assimilator).done == {"deferred": 1}
        workunit.refresh_from_db()
        waits = workunit.assimilate_after - rows.hours(1)
        # The hour begins after the worker has started, which takes a moment.
        assert timedelta(0) <= waits < timedelta(minutes=1)

    def test_transient_errors_of_a_function_are_counted_separately(self):
        finished(an_app("python:tests.database.far_sinks.passing_trouble"))
        assert a_pass(assimilator).done == {"put off": 1}
        failure = ScienceFailure.objects.get()
        assert (failure.failures, failure.transients) == (0, 1)


def a_script(tmp_path, text):
    path = tmp_path / "take.sh"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


class TestScript:
    def test_script_receives_workunit_data_as_arguments_and_environment_variables(self, tmp_path):
        note = tmp_path / "note"
        script = a_script(
            tmp_path,
            f'echo "$@" >{note}; echo "$MANYHANDS_APP $MANYHANDS_META $A" >>{note}; cat "$4" >>{note}',
        )
        app = an_app(f"script:{script}", arguments=["-v"], environment={"A": "b"}, name="sums")
        workunit = finished(app, name="wu_1", data=b"42", meta={"n": 1})
        a_pass(assimilator)
        first, second, third = note.read_text().splitlines()
        assert first.startswith(f"-v Manyhands/{workunit.pk} wu_1 /")
        assert (second, third) == ('sums {"n": 1} b', "42")
        assert state(workunit) == 2

    def test_script_receives_the_errors_and_no_files_of_a_failed_workunit(self, tmp_path):
        note = tmp_path / "note"
        script = a_script(tmp_path, f'echo "$# $MANYHANDS_FAILED $MANYHANDS_ERRORS" >{note}')
        assert state(failed(an_app(f"script:{script}"))) == 1
        a_pass(assimilator)
        assert note.read_text() == "2 1 CANCELLED\n"

    def test_a_script_name_is_looked_up_in_the_science_folder(self, settings):
        folder = settings.VAR_DIR / "science"
        folder.mkdir(parents=True)
        a_script(folder, "exit 0")
        workunit = finished(an_app("script:take.sh"))
        a_pass(assimilator)
        assert state(workunit) == 2

    def test_a_nonzero_exit_status_is_recorded_as_a_failure_with_standard_error(self, tmp_path):
        script = a_script(tmp_path, "echo no table >&2; exit 4")
        workunit = finished(an_app(f"script:{script}"))
        a_pass(assimilator)
        assert state(workunit) == 1
        assert "ended with exit status 4.\nno table" in error()

    def test_exit_status_3_is_recorded_as_a_transient_failure(self, tmp_path):
        finished(an_app(f"script:{a_script(tmp_path, 'echo away >&2; exit 3')}"))
        a_pass(assimilator)
        assert ScienceFailure.objects.get().transients == 1
        assert "away" in error()

    def test_exit_status_3_can_defer_the_workunit(self, tmp_path):
        workunit = finished(an_app(f"script:{a_script(tmp_path, 'echo defer 7200; exit 3')}"))
        assert a_pass(assimilator).done == {"deferred": 1}
        workunit.refresh_from_db()
        assert workunit.assimilate_after >= rows.hours(2)

    def test_a_hanging_script_is_killed_with_its_child_processes(self, tmp_path, settings):
        settings.SCIENCE_CONFINEMENT = "none"  # a PID namespace changes process ids
        note = tmp_path / "pid"
        script = a_script(tmp_path, f"sleep 600 & echo $! >{note}; wait")
        finished(an_app(f"script:{script}", science_time_limit=timedelta(seconds=4)))
        a_pass(assimilator)
        assert "did not answer within 4 s and was killed" in error()
        assert not is_running(int(note.read_text()))

    def test_a_missing_script_is_recorded_as_a_failure(self):
        finished(an_app("script:/no/such/program"))
        a_pass(assimilator)
        assert "cannot be started" in error()


def is_running(pid):
    """Return whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class _Receiver(HTTPServer):
    """An HTTP server that records requests and returns prepared responses."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Answerer)
        self.got = []
        self.answers = []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/take"


class _Answerer(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((dict(self.headers), body))
        status = self.server.answers.pop(0) if self.server.answers else 204
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/elsewhere")
        self.end_headers()
        if status >= 400:
            self.wfile.write(b"because of that")

    def log_message(self, *_):
        pass


@pytest.fixture
def receiver(settings):
    hosts = ("127.0.0.1",)
    settings.PROJECT = dataclasses.replace(settings.PROJECT, webhook_hosts=hosts)
    server = _Receiver()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


class TestWebhook:
    def test_webhook_sends_outputs_as_signed_json(self, receiver):
        app = an_app("webhook", url=receiver.url, secret=SECRET, name="sums")
        workunit = finished(app, name="wu_1", data=b'{"sum": 3}', meta={"n": 1})
        a_pass(assimilator)
        ((headers, body),) = receiver.got
        reply = json.loads(body)
        assert (reply["app"], reply["workunit"], reply["meta"]) == ("sums", "wu_1", {"n": 1})
        assert reply["outputs"] == [
            {
                "position": 0,
                "open_name": "out",
                "nbytes": 10,
                "encoding": "utf-8",
                "content": '{"sum": 3}',
            }
        ]
        assert headers["Idempotency-Key"] == reply["key"] == f"Manyhands/{workunit.pk}"
        assert headers["X-Manyhands-Signature"] == webhook.signature(body, SECRET)
        assert headers["X-Manyhands-Signature"] != webhook.signature(body, SECRET[::-1])
        assert state(workunit) == 2

    def test_binary_outputs_are_sent_in_base64_and_long_outputs_are_omitted(self, receiver):
        app = an_app("webhook", url=receiver.url, secret=SECRET, max_bytes=3)
        finished(app, data=b"\xff\xfe")
        finished(app, data=b"long")
        a_pass(assimilator)
        first, second = (json.loads(body)["outputs"][0] for _, body in receiver.got)
        assert (first["encoding"], first["content"]) == ("base64", "//4=")
        assert (second["nbytes"], "content" in second) == (4, False)

    @pytest.mark.parametrize("status", [408, 429, 500, 503])
    def test_a_retried_webhook_sends_the_same_idempotency_key_body_and_signature(
        self, status, receiver
    ):
        receiver.answers[:] = [status]
        workunit = finished(an_app("webhook", url=receiver.url, secret=SECRET))
        a_pass(assimilator)
        assert ScienceFailure.objects.get().transients == 1
        a_pass(assimilator, now=rows.hours(1))
        assert state(workunit) == 2
        (first, body), (second, again) = receiver.got
        assert first["Idempotency-Key"] == second["Idempotency-Key"]
        assert first["X-Manyhands-Signature"] == second["X-Manyhands-Signature"]
        assert body == again

    @pytest.mark.parametrize("status", [302, 400, 401, 404, 410])
    def test_a_refused_webhook_is_recorded_as_a_failure_with_the_response_status(
        self, status, receiver
    ):
        receiver.answers[:] = [status]
        finished(an_app("webhook", url=receiver.url, secret=SECRET))
        a_pass(assimilator)
        failure = ScienceFailure.objects.get()
        assert (failure.failures, failure.transients) == (1, 0)
        assert f"answered {status}" in failure.error
        assert len(receiver.got) == 1

    def test_unreachable_webhook_is_a_transient_failure(self, receiver):
        url = receiver.url.replace("/take", "")
        receiver.shutdown()
        receiver.server_close()
        finished(an_app("webhook", url=url, secret=SECRET))
        a_pass(assimilator)
        assert ScienceFailure.objects.get().transients == 1

    def test_webhook_sends_failed_workunits_unless_the_app_skips_them(self, receiver):
        failed(an_app("webhook", url=receiver.url, secret=SECRET), cancel_reason="wrong")
        failed(an_app("webhook", url=receiver.url, secret=SECRET, failed="skip"))
        assert a_pass(assimilator).done == {"assimilated": 2}
        ((_, body),) = receiver.got
        reply = json.loads(body)
        assert (reply["failed"], reply["errors"], reply["cancel_reason"]) == (
            True,
            ["CANCELLED"],
            "wrong",
        )


@pytest.fixture
def table():
    with connection.cursor() as cursor:
        cursor.execute(
            'CREATE TABLE "my sums" (k text UNIQUE, wu text, sum integer, "odd "" name" jsonb, why text)'
        )


def table_rows(columns='k, wu, sum, "odd "" name", why'):
    with connection.cursor() as cursor:
        cursor.execute(f'SELECT {columns} FROM "my sums" ORDER BY sum')
        return cursor.fetchall()


@pytest.mark.usefixtures("table")
class TestTable:
    OPTIONS = {"table": "my sums", "key_column": "k", "workunit_column": "wu"}

    def test_table_writes_record_fields_into_columns_of_the_same_name(self):
        app = an_app("table", **self.OPTIONS)
        workunit = finished(app, data=b'{"sum": 3, "odd \\" name": [1, {"a": "; DROP TABLE x"}]}')
        a_pass(assimilator)
        assert state(workunit) == 2
        ((key, name, number, odd, why),) = table_rows()
        assert (key, name, number, why) == (f"Manyhands/{workunit.pk}", workunit.name, 3, None)
        assert json.loads(odd) == [1, {"a": "; DROP TABLE x"}]

    def test_table_writes_one_row_per_list_item_with_only_the_named_columns(self):
        app = an_app("table", table="my sums", columns=["sum"])
        finished(app, data=b'[{"sum": 1, "x": 2}, {"sum": 2}]')
        a_pass(assimilator)
        assert table_rows("sum") == [(1,), (2,)]

    def test_table_row_and_settlement_are_written_in_one_transaction(self):
        app = an_app("table", **self.OPTIONS)
        good, bad = finished(app, data=b'{"sum": 1}'), finished(app, data=b'{"sum": "many"}')
        a_pass(assimilator)
        assert (state(good), state(bad)) == (2, 1)
        assert table_rows("sum") == [(1,)]
        assert "invalid input syntax" in error()

    def test_second_assimilator_inserts_no_row(self, monkeypatch):
        """The settlement finds the lease token of another process and writes no row."""
        workunit = finished(an_app("table", **self.OPTIONS), data=b'{"sum": 1}')
        find = assimilators.find

        def another_first(*args):
            rows.update(workunit, lease_token=99)
            return find(*args)

        monkeypatch.setattr(assimilators, "find", another_first)
        assert a_pass(assimilator).done == {"settled by another": 1}
        assert table_rows("sum") == []

    def test_table_records_an_unknown_column_as_a_failure(self):
        finished(an_app("table", **self.OPTIONS), data=b'{"summ": 1}')
        a_pass(assimilator)
        assert '"summ"' in error()

    def test_table_refuses_a_field_with_the_name_of_a_reserved_column(self):
        finished(an_app("table", **self.OPTIONS), data=b'{"k": "Manyhands/1"}')
        a_pass(assimilator)
        assert "which the app's options fill" in error()

    def test_table_writes_a_row_for_a_failed_workunit_only_with_an_error_column(self):
        failed(an_app("table", **self.OPTIONS))
        gone = failed(an_app("table", error_column="why", **self.OPTIONS), cancel_reason="wrong")
        assert a_pass(assimilator).done == {"assimilated": 2}
        assert table_rows("k, why") == [(f"Manyhands/{gone.pk}", "CANCELLED: wrong")]

    def test_output_that_is_not_json_is_a_failure(self):
        finished(an_app("table", **self.OPTIONS), data=b"42 sums")
        a_pass(assimilator)
        assert "is not JSON" in error()


@pytest.fixture(scope="module", autouse=True)
def no_worker_left():
    yield
    worker.stop()
