"""The client as a process with a fake project, from attaching to the last report."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.pure.client.fake_project import ACCOUNT_KEY, EMAIL, PASSWORD, FakeProject, Work, sign
from volunteer import cli

pytestmark = pytest.mark.lengthy

CLIENT = Path(__file__).resolve().parents[3] / "client"
FAST = ("--backoff-scale", "0.002", "--poll", "0")


def volunteer(
    folder: Path, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(CLIENT), *arguments, "--dir", str(folder)],
        capture_output=True,
        text=True,
        timeout=40,
        env={**os.environ, **environment},
        check=False,
    )


def begin(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(CLIENT), *arguments, "--dir", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_until(check: object, seconds: float = 20.0) -> None:
    assert callable(check)
    until = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.02)


@pytest.fixture
def folder(tmp_path: Path, project: FakeProject) -> Path:
    assert cli.main(["attach", project.url, "--key", ACCOUNT_KEY, "--dir", str(tmp_path)]) == 0
    return tmp_path


def field(report: str, name: str) -> str:
    match = re.search(f"<{name}>(.*?)</{name}>", report, re.DOTALL)
    assert match, f"{name} is not in {report}"
    return match.group(1)


def test_client_attaches_with_email_and_password_and_computes_a_result(
    tmp_path: Path, project: FakeProject
) -> None:
    project.offers = [Work("wu", "upper")]
    url = project.url.rstrip("/")
    attached = volunteer(tmp_path, "attach", url, "--email", EMAIL.upper(), "--password", PASSWORD)
    assert attached.returncode == 0, attached.stderr
    assert attached.stdout == f"attached to {project.url}\n"

    ran = volunteer(tmp_path, "run", "--once", *FAST)

    assert ran.returncode == 0, ran.stderr
    assert project.uploads == {"wu_0_r0": b"SOME TEXT\n"}
    report = project.reported["wu_0"]
    assert (field(report, "state"), field(report, "exit_status")) == ("5", "0")
    assert "mode upper" in report
    assert field(report, "md5_cksum") == hashlib.md5(b"SOME TEXT\n").hexdigest()
    told = [line.partition(" ")[2] for line in ran.stdout.splitlines()]
    assert told[0] == "got 1 result"
    assert "wu_0 running" in told
    assert told[-2:] == ["wu_0 uploaded", "wu_0 reported"]
    assert re.match(r"\d\d:\d\d:\d\d got", ran.stdout)
    assert not list((tmp_path / "slots").glob("*"))


def test_rpc_sequence_number_restarts_at_zero_with_a_new_host_id(
    folder: Path, project: FakeProject
) -> None:
    project.offers = [Work("wu", "upper")]
    volunteer(folder, "run", "--once", *FAST)
    volunteer(folder, "run", "--once", *FAST)
    numbers = [(field(r, "hostid"), field(r, "rpc_seqno")) for r in project.requests]
    assert numbers == [("0", "0"), ("42", "0"), ("42", "1")]


def test_request_lists_other_results_app_versions_and_code_sign_key(
    folder: Path, project: FakeProject
) -> None:
    project.offers = [Work("wu", "upper"), Work("slow", "sleep 600")]
    running = begin(folder, "run", "--slots", "2", *FAST)
    try:
        wait_until(lambda: "wu_0" in project.reported)
    finally:
        running.send_signal(signal.SIGTERM)
        out, _ = running.communicate(timeout=20)
    request = next(r for r in project.requests if "<result>" in r)
    assert field(request, "other_results").split() == [
        "<other_result>",
        "<name>slow_0</name>",
        "<app_version>0</app_version>",
        "</other_result>",
    ]
    assert field(field(request, "app_versions"), "app_name") == "worker"
    assert field(request, "code_sign_key").strip().startswith("1024")
    assert running.returncode == 0
    assert "stopping; unfinished results resume in the next run" in out


PREFERENCES = """
<global_preferences>
<mod_time>1700000000</mod_time>
<run_on_batteries>1</run_on_batteries>
<work_buf_min_days>0.25</work_buf_min_days>
<disk_interval>120</disk_interval>
</global_preferences>
<email_hash>0123456789abcdef0123456789abcdef</email_hash>
"""


def test_computing_preferences_are_sent_in_requests_and_written_for_programs(
    folder: Path, project: FakeProject
) -> None:
    project.extra = PREFERENCES
    volunteer(folder, "run", "--once", *FAST)
    project.extra = ""
    project.offers = [Work("wu", "facts")]
    ran = volunteer(folder, "run", "--once", "--slots", "1", *FAST)
    assert ran.returncode == 0, ran.stderr
    request = project.requests[1]
    assert float(field(request, "work_req_seconds")) == pytest.approx(21600, abs=1)
    working = field(request, "working_global_preferences")
    assert field(working, "mod_time") == "1700000000.000000"
    assert field(working, "work_buf_min_days") == "0.250000"
    assert "<max_ncpus_pct>100.000000<" in working
    master = request.partition("</working_global_preferences>")[2]
    assert field(master, "global_preferences").strip().startswith("<mod_time>1700000000<")
    assert field(master, "global_prefs_source_email_hash") == "0123456789abcdef" * 2
    facts = project.uploads["wu_0_r0"].decode()
    assert field(field(facts, "global_preferences"), "disk_interval") == "120.000000"
    assert field(facts, "checkpoint_period") == "120.000000"
    reply = json.loads(volunteer(folder, "status", "--json").stdout)
    assert (reply["preferences_from"], reply["preferences_changed_at"]) == (project.url, 1.7e9)


def test_command_line_options_override_computing_preferences(
    folder: Path, project: FakeProject
) -> None:
    project.extra = PREFERENCES
    volunteer(folder, "run", "--once", *FAST)
    for options in (("--buffer", "60"), ("--ignore-preferences",)):
        volunteer(folder, "run", "--once", "--slots", "1", *options, *FAST)
    seconds = [float(field(request, "work_req_seconds")) for request in project.requests]
    assert seconds[1:] == [60.0, 8640.0]


def test_trickles_are_copied_to_the_trickle_up_urls_of_the_reply(
    folder: Path, project: FakeProject
) -> None:
    copies: list[str] = []

    def answer(_path: str, body: bytes) -> tuple[int, bytes]:
        copies.append(body.decode())
        return 200, b"<scheduler_reply>\n</scheduler_reply>\n"

    with FakeProject(fail=answer) as other:
        project.extra = (
            f"<trickle_up_urls>\n<url>{other.url}copies</url>\n"
            "<url>ftp://elsewhere.example/</url>\n</trickle_up_urls>\n<message_ack/>\n"
        )
        project.offers = [Work("wu", "trickle")]
        ran = volunteer(folder, "run", "--once", *FAST)
    assert ran.returncode == 0, ran.stderr
    [message] = [
        field(request, "msg_from_host") for request in project.requests if "msg_from" in request
    ]
    [copy] = copies
    assert field(copy, "msg_from_host") == message
    assert "<variety>news</variety>" in message
    assert field(copy, "authenticator") == ACCOUNT_KEY
    assert field(copy, "hostid") == "42"
    assert "<core_client_major_version>" in copy
    assert "ftp://elsewhere.example/: it is not an http or https address" in ran.stdout


ENDS = [
    (Work("plain", "lab"), "5", "0", "mode lab"),
    (Work("linked", "upper", copy=False), "5", "0", "mode upper"),
    (Work("fails", "fail"), "3", "3", "process exited with code 3 (0x3, -253)"),
    (Work("crashes", "crash"), "3", "11", "process got signal 11"),
    (Work("empty", "nothing"), "3", "0", "-161 (not found)"),
    (Work("optional", "nothing", ref_extra="<optional/>"), "5", "0", "mode nothing"),
    (Work("too_large", "large"), "3", "0", "-131 (file size too big)"),
    (Work("large", "large", max_nbytes=300_000), "5", "0", "mode large"),
    (Work("stopped", "once"), "5", "0", "mode once"),
    (Work("paused", "later"), "5", "0", "mode later"),
    (Work("late", "upper", deadline=1.0), "6", "200", "not started by deadline"),
]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Run a client on results that end in every way; return their reports."""
    folder = tmp_path_factory.mktemp("ends")
    with FakeProject() as project:
        project.offers = [work for work, *_ in ENDS]
        volunteer(folder, "attach", project.url, "--key", ACCOUNT_KEY)
        ran = volunteer(folder, "run", "--once", "--slots", "4", *FAST)
        assert ran.returncode == 0, ran.stderr
        return project.reported


@pytest.mark.parametrize(
    ("work", "state", "exit_status", "words"), ENDS, ids=[work.name for work, *_ in ENDS]
)
def test_each_kind_of_program_end_is_reported_with_its_state_and_exit_status(
    reports: dict[str, str], work: Work, state: str, exit_status: str, words: str
) -> None:
    report = reports[f"{work.name}_0"]
    assert (field(report, "state"), field(report, "exit_status")) == (state, exit_status)
    assert words in report


def test_command_line_is_split_with_shell_quoting(folder: Path, project: FakeProject) -> None:
    project.offers = [Work("wu", "args 'one two' three")]
    volunteer(folder, "run", "--once", *FAST)
    assert project.uploads["wu_0_r0"] == b"args|one two|three|"


def test_a_program_with_a_wrong_signature_never_runs(folder: Path, project: FakeProject) -> None:
    project.signature = sign(b"another program")
    project.offers = [Work("wu", "upper")]
    ran = volunteer(folder, "run", "--once", *FAST)
    report = project.reported["wu_0"]
    assert (field(report, "state"), field(report, "exit_status")) == ("1", "-186")
    assert "-120 (RSA key check failed for file)" in report
    assert "running" not in ran.stdout
    assert not project.uploads


def test_input_with_a_wrong_checksum_fails_the_result(folder: Path, project: FakeProject) -> None:
    project.offers = [Work("wu", "upper")]
    project.fail = lambda path, _: (200, b"more text\n") if path.endswith("wu_in") else None
    volunteer(folder, "run", "--once", *FAST)
    report = project.reported["wu_0"]
    assert field(report, "exit_status") == "-186"
    assert "-119 (md5 checksum failed for file)" in report


def test_end_tags_in_stderr_are_escaped_in_the_report(folder: Path, project: FakeProject) -> None:
    project.offers = [Work("wu", "fail")]
    volunteer(folder, "run", "--once", *FAST)
    assert project.reported["wu_0"].count("]]>") == 1
    assert project.reported["wu_0"].count("</stderr_out>") == 1


def test_killed_client_restarts_its_result_and_leaves_no_orphan_process(
    folder: Path, project: FakeProject
) -> None:
    project.offers = [Work("wu", "sleep 3")]
    running = begin(folder, "run", "--once", *FAST)
    wait_until(lambda: '"pid":' in (folder / "state.json").read_text())
    status = json.loads(volunteer(folder, "status", "--json").stdout)
    (result,) = status["projects"][0]["results"]
    running.kill()
    running.communicate()
    assert status["running"] is True
    assert Path(f"/proc/{result['pid']}").exists(), "the orphan should still be there"

    again = volunteer(folder, "run", "--once", *FAST)

    assert again.returncode == 0, again.stderr
    assert "wu_0 running again" in again.stdout
    assert not Path(f"/proc/{result['pid']}/cwd").exists()
    assert field(project.reported["wu_0"], "state") == "5"
    assert project.uploads["wu_0_r0"] == b"slept\n"


def test_unacknowledged_result_is_reported_again(folder: Path, project: FakeProject) -> None:
    project.offers = [Work("wu", "upper")]
    project.keeps_acks = True
    running = begin(folder, "run", *FAST)
    try:
        wait_until(
            lambda: sum("<name>wu_0</name>" in r and "<result>" in r for r in project.requests) > 1
        )
    finally:
        running.kill()
        running.communicate()
    project.keeps_acks = False
    ran = volunteer(folder, "run", "--once", *FAST)
    assert ran.returncode == 0
    assert "wu_0 reported" in ran.stdout
    assert len(project.uploads) == 1


def test_interrupted_upload_resumes_at_the_stored_offset(
    folder: Path, project: FakeProject
) -> None:
    project.offers = [Work("wu", "large", max_nbytes=300_000)]
    broken: list[bytes] = []

    def break_once(path: str, body: bytes) -> tuple[int, bytes] | None:
        if path.endswith("file_upload_handler") and b"<data>" in body and not broken:
            broken.append(body)
            project.uploads["wu_0_r0"] = body.partition(b"<data>\n")[2][:1000]
            return 500, b""
        return None

    project.fail = break_once
    ran = volunteer(folder, "run", "--once", *FAST)
    assert ran.returncode == 0, ran.stderr
    assert broken
    assert b"<offset>1000</offset>" in project.upload_requests[-1]
    assert project.uploads["wu_0_r0"] == bytes(300_000)


def test_permanently_refused_upload_is_reported_as_an_upload_error(
    folder: Path, project: FakeProject
) -> None:
    project.offers = [Work("wu", "upper")]
    refusal = b"<data_server_reply><status>-1</status><message>no</message></data_server_reply>"
    project.fail = lambda path, _: (200, refusal) if "upload" in path else None
    volunteer(folder, "run", "--once", *FAST)
    report = project.reported["wu_0"]
    assert (field(report, "state"), field(report, "exit_status")) == ("7", "-187")


def test_result_aborted_by_the_project_is_stopped_and_reported(
    folder: Path, project: FakeProject
) -> None:
    project.offers = [Work("wu", "sleep 600")]
    running = begin(folder, "run", *FAST)
    try:
        wait_until(lambda: '"pid":' in (folder / "state.json").read_text())
        project.extra = "<result_abort><name>wu_0</name></result_abort>"
        asked = volunteer(folder, "update")
        wait_until(lambda: "wu_0" in project.reported)
    finally:
        running.terminate()
        running.communicate()
    report = project.reported["wu_0"]
    assert (field(report, "state"), field(report, "exit_status")) == ("6", "202")
    assert "aborted by project - no longer usable" in report
    assert asked.stdout.endswith(": the running client contacts it now\n")
    later = volunteer(folder, "update").stdout
    assert later.endswith(": the next run contacts it\n")


def test_volunteer_falsify_changes_one_byte_of_one_output(
    folder: Path, project: FakeProject
) -> None:
    project.offers = [
        Work("a", "lab", content=b"count 17\n"),
        Work("b", "lab", content=b"count 17\n"),
    ]
    ran = volunteer(folder, "run", "--once", "--slots", "1", *FAST, VOLUNTEER_FALSIFY="1")
    assert ran.returncode == 0, ran.stderr
    assert sorted(project.uploads.values()) == [b"COUNT 17\n", b"COUNT 18\n"]


def test_second_run_in_the_same_folder_is_refused(folder: Path, project: FakeProject) -> None:
    running = begin(folder, "run", *FAST)
    try:
        wait_until(lambda: project.requests)
        second = volunteer(folder, "run", "--once")
    finally:
        running.terminate()
        running.communicate()
    assert second.returncode == 5
    assert "already" in second.stderr
    assert "Hint:" in second.stderr


def test_detach_stops_the_program_and_deletes_the_project_data(
    folder: Path, project: FakeProject
) -> None:
    project.offers = [Work("wu", "sleep 600")]
    running = begin(folder, "run", *FAST)
    try:
        wait_until(lambda: '"pid":' in (folder / "state.json").read_text())
        assert volunteer(folder, "detach", project.url).returncode == 0
        wait_until(lambda: ACCOUNT_KEY not in (folder / "state.json").read_text())
        wait_until(lambda: not list((folder / "projects").glob("*")))
    finally:
        running.terminate()
        out, _ = running.communicate()
    assert f"detached from {project.url}" in out
    assert json.loads(volunteer(folder, "status", "--json").stdout)["projects"] == []


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("run", "--once"), 6, "Not attached"),
        (("detach", "http://nowhere.example/"), 6, "attached projects: none"),
        (("attach", "http://127.0.0.1:9/", "--key", "k"), 3, "check the address"),
        (("attach", "http://127.0.0.1:9/"), 2, "use --email"),
        (("run", "--slots", "0"), 2, "less than 1"),
        (("dance",), 2, "invalid choice"),
    ],
)
def test_usage_error_prints_a_message_and_returns_its_exit_code(
    tmp_path: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    done = volunteer(tmp_path, *arguments)
    assert done.returncode == code
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_wrong_password_is_refused(tmp_path: Path, project: FakeProject) -> None:
    done = volunteer(tmp_path, "attach", project.url, "--email", EMAIL, "--password", "wrong")
    assert done.returncode == 4
    assert "bad password (-206)" in done.stderr


def test_single_run_exits_with_an_error_if_the_scheduler_does_not_answer(
    folder: Path, project: FakeProject
) -> None:
    project.fail = lambda path, _: (500, b"") if path.endswith("cgi") else None
    done = volunteer(folder, "run", "--once", *FAST)
    assert done.returncode == 3
    assert "does not answer" in done.stderr


OTHER_KEY = "f" * 32


def test_second_attach_with_another_account_is_refused(
    tmp_path: Path, project: FakeProject
) -> None:
    """Otherwise the running client would continue with the other account."""
    assert volunteer(tmp_path, "attach", project.url, "--key", OTHER_KEY).returncode == 0
    other = ("attach", project.url, "--email", EMAIL, "--password", PASSWORD)
    for words in (other, (*other, "--create", "--name", "Ada")):
        done = volunteer(tmp_path, *words)
        assert done.returncode == 2
        assert f"is attached to {project.url} with another account" in done.stderr
        assert "--dir DIR" in done.stderr
    assert OTHER_KEY in (tmp_path / "state.json").read_text()
    again = volunteer(tmp_path, "attach", project.url, "--key", OTHER_KEY)
    assert again.returncode == 0, again.stderr
    done = volunteer(tmp_path, *other, "--replace")
    assert done.returncode == 0, done.stderr
    assert OTHER_KEY not in (tmp_path / "state.json").read_text()
    assert ACCOUNT_KEY in (tmp_path / "state.json").read_text()


def test_no_account_is_created_for_a_refused_attach(tmp_path: Path, project: FakeProject) -> None:
    volunteer(tmp_path, "attach", project.url, "--key", OTHER_KEY)
    paths: list[str] = []
    project.fail = lambda path, _: paths.append(path)
    words = ("--email", EMAIL, "--password", PASSWORD, "--create", "--name", "Ada")
    assert volunteer(tmp_path, "attach", project.url, *words).returncode == 2
    assert not [path for path in paths if "create_account" in path]


def test_client_prints_time_and_reason_of_the_next_work_request(
    folder: Path, project: FakeProject
) -> None:
    running = begin(folder, "run", "--poll", "1")
    try:
        wait_until(lambda: project.requests)
        wait_until(lambda: "waits_for" in volunteer(folder, "status", "--json").stdout)
        wait_until(lambda: '"work_failures"' in (folder / "state.json").read_text())
        status = volunteer(folder, "status").stdout
    finally:
        running.terminate()
        out, _ = running.communicate()
    assert re.search(r"Fake & Co: no work was sent; next request in [3-6]\d\d s\n", out), out
    assert re.search(r"next work request in [2-6]\d\d s: the project had no work\n", status), status


def test_client_requests_work_after_each_next_rpc_delay(folder: Path, project: FakeProject) -> None:
    project.extra = "<next_rpc_delay>2</next_rpc_delay>"
    running = begin(folder, "run", "--poll", "0.5")

    def wanting() -> list[str]:
        return [one for one in project.requests if "<work_req_seconds>0.0" not in one]

    try:
        wait_until(lambda: len(wanting()) >= 3, seconds=30)
    finally:
        running.terminate()
        running.communicate()
