"""Files keep their role and content, and the files of one slot do not clash."""

from __future__ import annotations

from dataclasses import replace

import pytest

from volunteer import events
from volunteer.config import Rules
from volunteer.records import Phase, Project, State
from volunteer.state import advance
from volunteer.wire.messages import AppVersion, FileInfo, FileRef, Reply, Result, Workunit
from volunteer.wire.replies import decode_reply
from volunteer.wire.web import find_scheduler_urls

URL = "http://project.example/"
NOON = 1_800_000_000.0
UPLOAD = ("http://project.example/file_upload_handler",)


def download(name, **changes):
    return FileInfo(name, urls=(f"http://d/{name}",), **changes)


def upload(name):
    return FileInfo(name, upload_urls=UPLOAD, max_nbytes=100)


def a_reply(
    *, program="app_1", program_as="", data="in_1", data_as="in", output="out_1", output_as="out",
    result="r", files=None,
):  # fmt: skip
    """Return a reply with one result, whose three files have these physical and slot names."""
    return Reply(
        files=files
        or (download(program, executable=True, signature="aa\n."), download(data), upload(output)),
        app_versions=(
            AppVersion("app", 1, "p", flops=1e9, file_refs=(FileRef(program, program_as, True),)),
        ),
        workunits=(Workunit(f"wu_{result}", "app", file_refs=(FileRef(data, data_as),)),),
        results=(
            Result(
                result, f"wu_{result}", "p", 1, report_deadline=NOON + 9e6,
                file_refs=(FileRef(output, output_as),),
            ),
        ),
    )  # fmt: skip


class Client:
    def __init__(self):
        self.state = State("cpid").with_project(
            Project(URL, "key", hostid=7, scheduler_urls=("http://s/",), update_wanted=False)
        )

    def gets(self, reply):
        event = events.ReplyReceived(NOON, 1.0, project=URL, reply=reply)
        self.state, commands = advance(self.state, event, Rules())
        return commands

    @property
    def project(self):
        return self.state.projects[URL]

    def refused(self, name="r"):
        """Return whether the result is reported as one that could not be started."""
        held = self.project.results[name]
        if held.verdict is None:
            return ""
        assert (held.phase, held.verdict.exit_status) == (Phase.REPORTABLE, -185)
        assert "couldn't start app" in held.verdict.message
        return held.verdict.message


def test_usual_result_is_accepted():
    client = Client()
    client.gets(a_reply())
    assert not client.refused()


@pytest.mark.parametrize("field", ["program", "data", "output"])
@pytest.mark.parametrize(
    "name",
    [
        "app_1.part", "APP_1.Part", "x.unzipped", "init_data.xml", "Init_Data.XML", "stderr.txt",
        "stdout.txt", "boinc_finish_called", "BOINC_lockfile", ".hidden", "a/.hidden", "a\x01b",
        "a\x7fb", "a\u202eb", "nul", "AUX.txt", "com1", "../up", "/etc/x", "a\\b", "dot.", "x" * 256,
    ],
)  # fmt: skip
def test_reserved_or_dangerous_physical_name_is_refused(field, name):
    client = Client()
    client.gets(a_reply(**{field: name}))
    assert client.refused()
    assert name not in client.project.files


@pytest.mark.parametrize("field", ["program_as", "data_as", "output_as"])
@pytest.mark.parametrize(
    "name",
    ["x.part", "init_data.xml", "boinc_finish_called", "Stderr.txt", ".ssh/x", "prn", "../x", "/x"],
)
def test_reserved_or_dangerous_slot_name_is_refused(field, name):
    client = Client()
    client.gets(a_reply(**{field: name}))
    assert client.refused()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("out", "out"),
        ("out", "OUT"),
        ("stra\u00dfe", "STRASSE"),
        ("\u00e9", "e\u0301"),
        ("a", "a/b"),
    ],
)
@pytest.mark.parametrize(
    "fields", [("program_as", "data_as"), ("program_as", "output_as"), ("data_as", "output_as")]
)
def test_conflicting_slot_names_are_refused(fields, one, other):
    client = Client()
    client.gets(a_reply(**dict(zip(fields, (one, other), strict=True))))
    assert client.refused()


def test_slot_name_that_conflicts_with_the_physical_name_of_the_program_is_refused():
    client = Client()
    client.gets(a_reply(data_as="APP_1"))
    assert client.refused()


@pytest.mark.parametrize("output", ["app_1", "App_1", "in_1", "IN_1"])
def test_output_with_the_name_of_another_file_is_refused(output):
    client = Client()
    client.gets(a_reply(output=output))
    assert client.refused()


@pytest.mark.parametrize("output", ["app_1", "APP_1", "in_1"])
def test_output_of_a_later_reply_with_a_known_file_name_is_refused(output):
    client = Client()
    client.gets(a_reply())
    client.gets(a_reply(result="later", data="in_2", output=output))
    assert client.refused("later")
    assert not client.refused("r")


def test_output_that_belongs_to_another_result_is_refused():
    client = Client()
    client.gets(a_reply())
    client.gets(a_reply(result="later", data="in_2"))
    assert client.refused("later")


@pytest.mark.parametrize("program", ["in_1", "out_1"])
def test_known_input_or_output_is_refused_as_a_program(program):
    client = Client()
    client.gets(a_reply())
    later = a_reply(result="later", data="in_2", output="out_2", program=program)
    later = replace(
        later,
        app_versions=(replace(later.app_versions[0], version_num=2),),
        results=(replace(later.results[0], version_num=2),),
    )
    client.gets(later)
    assert client.refused("later")
    assert not client.refused("r")


@pytest.mark.parametrize("change", [{"md5": "b" * 32}, {"nbytes": 6}])
def test_known_file_name_with_different_content_is_refused(change):
    client = Client()
    known = {"md5": "a" * 32, "nbytes": 5}
    program = download("app_1", executable=True, signature="aa\n.")
    client.gets(a_reply(files=(program, download("in_1", **known), upload("out_1"))))
    changed = download("in_1", **known | change)
    client.gets(a_reply(result="later", output="out_2", files=(program, changed, upload("out_2"))))
    assert client.refused("later")
    assert not client.refused("r")


def test_client_delays_work_requests_after_a_refused_result():
    client = Client()
    client.gets(a_reply(output="app_1"))
    assert client.project.work_retry_at > NOON


def test_refused_result_is_deleted_when_it_is_acknowledged():
    client = Client()
    client.gets(a_reply(output_as="boinc_x"))
    client.gets(Reply(acks=("r",)))
    assert client.project.results == {}


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "ftp://a/x", "FILE://x/y", "javascript:1", "http://me:pw@a/x", "x"],
)
def test_invalid_urls_in_reply_and_master_page_are_ignored(url):
    reply = decode_reply(
        f"<scheduler_reply><file_info><name>a</name><url>{url}</url><gzipped_url>{url}"
        f"</gzipped_url><upload_url>{url}</upload_url></file_info></scheduler_reply>".encode()
    )
    [info] = reply.files
    assert (info.urls, info.gzipped_urls, info.upload_urls) == ((), (), ())
    page = f'<scheduler>{url}</scheduler>\n<link rel="boinc_scheduler" href="{url}">'
    assert find_scheduler_urls(page.encode()) == ()


@pytest.mark.parametrize("other", ["http://project.example/science/", "https://a.example/b/"])
def test_second_project_with_the_same_folder_is_not_attached(other):
    twin = {
        "http://project.example/science/": "https://project.example/science/",
        "https://a.example/b/": "http://A.example_b/",
    }[other]
    state = State("cpid")
    for url in (other, twin):
        state, commands = advance(state, events.Attached(NOON, project=url, key="k"), Rules())
    assert list(state.projects) == [other]
    assert "not attached" in commands[0].text
