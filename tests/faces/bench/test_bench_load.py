"""The benchmark's load generator reports wrong replies."""

from __future__ import annotations

import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from bench import crowd
from bench.crowd import Load
from bench.figures import BenchError
from bench.stage import Stage
from bench.volunteer import Volunteer

pytestmark = [pytest.mark.needs("cc"), pytest.mark.lengthy]

REPORTED = re.compile(r"<result>\s*<name>(\w+)</name>")


class Server:
    """A fake server that sends one result in each reply, and acknowledges every upload."""

    def __init__(self):
        self.given = 0
        self.uploads = {}
        self.requests = []

    def answer(self, path, body):
        return self.schedule(body) if path == "/cgi/scheduler" else self.take(body)

    def schedule(self, body):
        self.requests.append(body)
        text = body.decode()
        acks = "".join(map(self.ack, REPORTED.findall(text)))
        wanted = float(re.search(r"<cpu_req_secs>([\d.]+)", text)[1])
        return f"<scheduler_reply>{acks}{self.work() if wanted else ''}</scheduler_reply>"

    def ack(self, name):
        return f"<result_ack>\n    <name>{name}</name>\n</result_ack>\n"

    def work(self):
        name = f"wu{self.given}_0"
        self.given += 1
        return self.result(name)

    def result(self, name):
        return f"""\
<file_info>
    <name>{name}_r1_0</name>
    <max_nbytes>65536</max_nbytes>
    <xml_signature>
grant of {name}
.
</xml_signature>
</file_info>
<result>
    <name>{name}</name>
    <wu_name>{name[:-2]}</wu_name>
    <file_ref><file_name>{name}_r1_0</file_name></file_ref>
</result>
"""

    def take(self, body):
        head, _, data = body.partition(b"<data>\n")
        name = re.search(rb"<name>(\w+)_r1_0</name>", head)[1].decode()
        assert f"grant of {name}\n.\n" in head.decode()
        self.uploads[name] = data
        return "<data_server_reply>\n    <status>0</status>\n</data_server_reply>\n"


class GivesTwice(Server):
    def work(self):
        return self.result("wu_0")


class AcknowledgesNothing(Server):
    def ack(self, _name):
        return ""


class AcknowledgesOthers(Server):
    def ack(self, name):
        return super().ack(name) + super().ack("wu999_0")


class RefusesUploads(Server):
    def take(self, _body):
        return "<data_server_reply>\n    <status>1</status>\n</data_server_reply>\n"


class SaysNothing(Server):
    def work(self):
        return ""


class MakesAnotherHost(Server):
    def work(self):
        return f"<hostid>8</hostid>{super().work()}"


class HasNoWork(Server):
    def work(self):
        return "<message>No tasks sent</message><message>Project has no tasks available</message>"


class ComesAgain(Server):
    """A fake server that sends work from the third request on."""

    asked = 0

    def work(self):
        self.asked += 1
        return super().work() if self.asked > 2 else "<message>too recent, ask again</message>"


@pytest.fixture
def play(tmp_path_factory, monkeypatch):
    """Return a function that runs one host against a fake server: (server, score)."""
    folder = tmp_path_factory.getbasetemp() / "bench"
    folder.mkdir(exist_ok=True)
    monkeypatch.setattr(crowd, "FOLDER", folder)
    crowd.build(folder)
    monkeypatch.setattr(crowd, "build", lambda: folder / "load")

    def run(server, **wishes):
        class Answer(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                data = server.answer(self.path, body).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as http:
            http.daemon_threads = True
            threading.Thread(target=http.serve_forever, daemon=True).start()
            try:
                hosts = [Volunteer("0123456789abcdef0123456789abcdef", 7)]
                usual = {"hosts": hosts, "results": 1, "total": 3, "uploads": True, "most": 10.0}
                return crowd.run_load(Load(**usual | wishes), Stage(http.server_port))
            finally:
                http.shutdown()

    return run


def test_host_fetches_uploads_and_reports_until_all_results_are_acknowledged(play):
    server = Server()
    played = play(server)
    assert played.sum["acknowledged_ever"] == played.sum["uploads_ever"] == 3
    assert server.uploads == {f"wu{place}_0": crowd.output_of(f"wu{place}") for place in range(3)}
    assert [len(request) > 6000 for request in server.requests] == [True] * 4
    numbers = [re.search(rb"<rpc_seqno>(\d+)", request)[1] for request in server.requests]
    assert numbers == [b"1", b"2", b"3", b"4"]


def test_load_works_with_new_connections_and_separate_report_requests(play):
    played = play(Server(), fresh=True, apart=True)
    assert played.sum["acknowledged_ever"] == 3
    assert played.sum["latency_ms"]["reported"]["count"] == 3


@pytest.mark.parametrize(
    ("server", "complaint"),
    [
        (GivesTwice(), "wu_0 was sent twice"),
        (AcknowledgesNothing(), "1 results were reported, 0 acknowledged"),
        (AcknowledgesOthers(), "wu999_0 was acknowledged and not reported"),
        (RefusesUploads(), "An upload was answered with"),
        (SaysNothing(), "No work was sent, without a reason"),
        (MakesAnotherHost(), "Host 7 was replaced by host 8"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Server) else "",
)
def test_wrong_reply_of_the_server_fails_the_bench(play, server, complaint):
    with pytest.raises(BenchError, match=complaint):
        play(server)


def test_load_ends_when_the_server_has_no_work(play):
    assert play(HasNoWork(), total=0, seconds=5.0).sum["ran_out"]


def test_host_retries_after_a_busy_reply(play):
    played = play(ComesAgain())
    assert (played.sum["come_again"], played.sum["acknowledged_ever"]) == (2, 3)


def test_unreachable_server_fails_the_bench(play):
    hosts = [Volunteer("0123456789abcdef0123456789abcdef", 7)]
    with pytest.raises(BenchError, match=r"connection broke|could not be sent"):
        crowd.run_load(Load(hosts=hosts, results=1, total=1), Stage(1))


def test_missing_compiler_fails_the_bench_with_an_installation_hint(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BenchError, match="Hint: apt install gcc"):
        crowd.build(tmp_path)
