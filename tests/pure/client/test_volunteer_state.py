"""The client's state machine: events, and the commands it returns."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from volunteer import events
from volunteer.config import Rules
from volunteer.display import _headline, fraction_done
from volunteer.events import Command, Event, Output
from volunteer.plan import work_wanted
from volunteer.records import HeldResult, Phase, Presence, Progress, Project, State, TrickleDown
from volunteer.state import advance
from volunteer.talk import usage_message, usage_values
from volunteer.wire.messages import (
    Account,
    AppVersion,
    FileInfo,
    FileRef,
    Message,
    Reply,
    Result,
    TrickleMessage,
    Workunit,
)
from volunteer.wire.replies import decode_reply

if TYPE_CHECKING:
    from collections.abc import Callable

URL = "http://project.example/"
NOON = 1_800_000_000.0
RULES = Rules(slots=2, buffer_seconds=100.0, poll_seconds=5.0)
UPLOAD = ("http://project.example/file_upload_handler",)


def a_reply(*names: str, **changes: object) -> Reply:
    """Return a reply with one result for each name."""
    files = [FileInfo("app_1", urls=("http://d/app_1",), executable=True, signature="aa\n.")]
    for name in names:
        files.append(FileInfo(f"{name}_in", urls=(f"http://d/{name}_in",)))
        files.append(FileInfo(f"{name}_out", upload_urls=UPLOAD, max_nbytes=100))
    reply = Reply(
        account=Account(project_name="Example", userid=1),
        files=tuple(files),
        app_versions=(
            AppVersion("app", 1, "p", flops=1e9, file_refs=(FileRef("app_1", main_program=True),)),
        ),
        workunits=tuple(
            Workunit(
                f"wu_{name}",
                "app",
                rsc_fpops_est=100e9,
                rsc_fpops_bound=500e9,
                rsc_disk_bound=1000,
                file_refs=(FileRef(f"{name}_in", "in"),),
            )
            for name in names
        ),
        results=tuple(
            Result(
                name, f"wu_{name}", "p", 1, report_deadline=NOON + 9e6,
                file_refs=(FileRef(f"{name}_out", "out"),),
            )
            for name in names
        ),
    )  # fmt: skip
    return replace(reply, **changes)  # type: ignore[arg-type]


class Client:
    """A client state; its methods process events and return the resulting commands."""

    def __init__(self, rules: Rules = RULES, **project: object) -> None:
        self.rules = rules
        self.now = NOON
        fields = {"hostid": 7, "scheduler_urls": ("http://s/",), "update_wanted": False} | project
        self.state = State("cpid").with_project(Project(URL, "key", **fields))  # type: ignore[arg-type]

    def happens(self, kind: Callable[..., Event], **details: object) -> list[Command]:
        event = kind(self.now, 1.0, project=URL, **details)
        self.state, commands = advance(self.state, event, self.rules)
        return commands

    def tick(self, seconds: float = 0.0) -> list[Command]:
        self.now += seconds
        tick = events.Tick(self.now, 1.0)
        self.state, commands = advance(self.state, tick, self.rules)
        return [command for command in commands if not isinstance(command, events.Print)]

    def kinds(self, seconds: float = 0.0) -> list[str]:
        return [type(command).__name__ for command in self.tick(seconds)]

    def gets(self, *names: str, **changes: object) -> list[Command]:
        return self.happens(events.ReplyReceived, reply=a_reply(*names, **changes))

    @property
    def project(self) -> Project:
        return self.state.projects[URL]

    def result(self, name: str = "r") -> HeldResult:
        return self.project.results[name]

    def with_running(self, *names: str) -> Client:
        """Process a reply and the downloads, until these results run; return the client."""
        self.gets(*names)
        self.tick()
        for name in ("app_1", *(f"{name}_in" for name in names)):
            self.happens(events.DownloadFinished, name=name)
        self.tick()
        for name in names:
            self.happens(events.ProcessStarted, result=name, pid=5, pid_started=6)
        return self

    def exits(self, name: str = "r", **details: object) -> list[Command]:
        outputs = (Output(f"{name}_out", 10, "md5"),)
        return self.happens(events.ProcessExited, result=name, **{"outputs": outputs} | details)


def test_master_page_is_read_before_the_first_request_if_no_scheduler_is_known() -> None:
    client = Client(scheduler_urls=(), update_wanted=True, hostid=0)
    assert client.tick() == [events.ReadMasterPage(URL)]
    assert client.tick() == []
    client.happens(events.MasterPageRead, scheduler_urls=("http://s/",))
    assert client.tick() == [events.Ask(URL, ("http://s/",), 0, 200.0, 2.0, 0.0)]


@pytest.mark.parametrize(
    ("names", "ncpus", "delay"),
    [
        ((), 1.0, 0.0),
        (("a",), 1.0, 0.0),
        (("a", "b"), 1.0, 100.0),
        (("a", "b", "c"), 1.0, 100.0),
        (("a",), 2.0, 100.0),
        (("a", "b"), 2.0, 200.0),
        (("a",), 8.0, 100.0),
    ],
)
def test_work_request_has_the_estimated_delay_until_a_slot_is_free(
    names: tuple[str, ...], ncpus: float, delay: float
) -> None:
    """Two slots; each result takes 100 seconds."""
    client = Client(rules=replace(RULES, buffer_seconds=1e6))
    version = replace(a_reply().app_versions[0], avg_ncpus=ncpus)
    if names:
        client.gets(*names, app_versions=(version,))
    client.happens(events.UpdateWanted)
    (ask,) = [command for command in client.tick() if isinstance(command, events.Ask)]
    assert ask.work_seconds > 0
    assert ask.estimated_delay == delay


def test_request_for_no_work_has_an_estimated_delay_of_zero() -> None:
    client = Client(rules=replace(RULES, buffer_seconds=1.0)).with_running("a", "b")
    client.happens(events.UpdateWanted)
    (ask,) = [command for command in client.tick() if isinstance(command, events.Ask)]
    assert (ask.work_seconds, ask.estimated_delay) == (0.0, 0.0)


def test_result_is_downloaded_run_uploaded_reported_and_then_removed() -> None:
    client = Client()
    assert client.kinds() == ["Ask"]
    client.gets("r")
    assert client.tick() == [
        events.Fetch(URL, "app_1", signed=True),
        events.Fetch(URL, "r_in", signed=False),
    ]
    client.happens(events.DownloadFinished, name="r_in")
    assert client.kinds() == []
    client.happens(events.DownloadFinished, name="app_1")
    assert client.tick() == [events.Run(URL, "r", 0, fresh=True)]
    assert client.tick() == []
    client.happens(events.ProcessStarted, result="r", pid=5, pid_started=6)
    client.now += 10
    client.exits()
    assert client.result().elapsed == 10
    assert client.tick() == [events.Upload(URL, "r_out", resume=False)]
    client.happens(events.UploadFinished, name="r_out")
    assert client.project.work_retry_at == 0
    assert [type(command) for command in client.tick()] == [events.Ask]
    said = client.happens(events.ReplyReceived, reply=Reply(acks=("r",)))
    assert events.Print("r reported") in said
    assert events.ClearSlot(0) in said
    assert {command.name for command in said if isinstance(command, events.Discard)} == {
        "r_in",
        "r_out",
    }
    assert client.project.results == {}
    assert set(client.project.files) == {"app_1"}


def test_no_more_results_run_than_there_are_slots() -> None:
    client = Client().with_running("a", "b", "c")
    client.state = client.state.done_with(f"run {URL} c")
    phases = [client.result(name).phase for name in ("a", "b")]
    assert phases == [Phase.RUNNING, Phase.RUNNING]
    fresh = Client()
    fresh.gets("a", "b", "c")
    fresh.tick()
    for name in ("app_1", "a_in", "b_in", "c_in"):
        fresh.happens(events.DownloadFinished, name=name)
    assert fresh.kinds() == ["Run", "Run"]


def ready(rules: Rules, **changes: dict[str, float]) -> Client:
    """Return a client with results that are ready to run, whose workunits have these changes."""
    client = Client(rules)
    reply = a_reply(*changes)
    workunits = tuple(
        replace(workunit, **changes[workunit.name.removeprefix("wu_")])
        for workunit in reply.workunits
    )
    client.happens(events.ReplyReceived, reply=replace(reply, workunits=workunits))
    client.tick()
    for name in ("app_1", *(f"{name}_in" for name in changes)):
        client.happens(events.DownloadFinished, name=name)
    return client


def started(commands: list[Command]) -> list[str]:
    return [command.result for command in commands if isinstance(command, events.Run)]


def test_result_uses_the_processors_that_its_workunit_requests() -> None:
    two = {"avg_ncpus": 2.0}
    client = ready(replace(RULES, slots=4), a={}, b=two, c=two)
    assert started(client.tick()) == ["a", "b"]
    alone = ready(RULES, a={"avg_ncpus": 8.0}, b={})
    assert started(alone.tick()) == ["a"]


def test_queued_work_is_counted_with_the_requested_processors() -> None:
    rules = replace(RULES, slots=4, buffer_seconds=0.0)
    assert work_wanted(ready(rules, a={}).state, ready(rules, a={}).project, rules, NOON)[1] == 3
    wide = ready(rules, a={"avg_ncpus": 4.0})
    assert work_wanted(wide.state, wide.project, rules, NOON) == (0.0, 0.0)


def test_results_run_at_the_same_time_only_within_the_memory() -> None:
    rules = replace(RULES, slots=4, memory_bytes=8e9)
    small, large = {"rsc_memory_bound": 1e9}, {"rsc_memory_bound": 7.5e9}
    client = ready(rules, a=small, b=large, c=small)
    # The third waits too, or small results could delay the large one for ever.
    assert started(client.tick()) == ["a"]
    client.happens(events.ProcessStarted, result="a", pid=5, pid_started=6)
    client.exits("a")
    assert started(client.tick()) == ["b"]
    assert started(ready(rules, a=small, b=small, c=small).tick()) == ["a", "b", "c"]
    assert started(ready(replace(rules, memory_bytes=0.0), a=large, b=large).tick()) == ["a", "b"]


def listed(rules: Rules, *places: int) -> Client:
    """Return a client whose ready results are the members of one list, and a single result `z`."""
    names = [f"r{place}" for place in places]
    client = ready(rules, **{name: {} for name in names}, z={})
    for name, place in zip(names, places, strict=True):
        held = client.project.results[name]
        offer = replace(held.offer, bundle=7, bundle_place=place)
        client.state = client.state.with_project(
            client.project.with_result(replace(held, offer=offer))
        )
    return client


def test_results_of_a_task_list_run_one_after_the_other_in_order() -> None:
    client = listed(replace(RULES, slots=4), 10, 2, 1)
    assert started(client.tick()) == ["r1", "z"]
    client.happens(events.ProcessStarted, result="r1", pid=5, pid_started=6)
    assert started(client.tick()) == []
    client.exits("r1")
    assert started(client.tick()) == ["r2"]


def test_a_task_list_counts_as_one_processor_when_work_is_requested() -> None:
    client = listed(replace(RULES, slots=4, buffer_seconds=0.0), 1, 2, 3)
    _, idle = work_wanted(client.state, client.project, client.rules, NOON)
    assert idle == 2


def test_result_that_needs_more_than_the_memory_runs_alone() -> None:
    rules = replace(RULES, slots=4, memory_bytes=1e9)
    assert started(ready(rules, a={"rsc_memory_bound": 4e9}, b={}).tick()) == ["a"]


def test_results_of_a_suspended_project_do_not_stop_a_computer_with_little_memory() -> None:
    large = {"rsc_memory_bound": 4e9}
    rules = replace(RULES, slots=4, memory_bytes=1e9)
    client = ready(rules, a=large)
    client.tick()
    client.happens(events.ProcessStarted, result="a", pid=5, pid_started=6)
    client.state = client.state.with_project(replace(client.project, is_suspended=True))
    client.tick()
    assert client.result("a").is_suspended
    other = replace(ready(rules, b=large, c=large).project, url="http://other/")
    client.state = client.state.with_project(other)
    # One of the other project runs; the memory of the suspended result is counted for the next.
    assert started(client.tick()) == ["b"]
    assert started(client.tick()) == []


@pytest.mark.parametrize(
    ("progress", "expected"),
    [
        (Progress(), "usage None 7.500000 None"),
        (Progress(fraction_done=0.25), "progress 0.250000 7.500000 None"),
        (Progress(fraction_done=0.25, cpu_time=6.0), "progress 0.250000 6.000000 None"),
        (Progress(fraction_done=0.25, gpu_usage=0.5), "progress 0.250000 7.500000 0.500000"),
        (Progress(gpu_usage=0.0), "usage None 7.500000 0.000000"),
    ],
)
def test_usage_message_has_what_the_program_reported_or_the_client_measured(
    progress: Progress, expected: str
) -> None:
    held_result = HeldResult(Result("r", "wu"), cpu_time=5.0, elapsed=10.0, running_since=NOON)
    text = usage_message(
        usage_values(
            progress, held_result=held_result, now=NOON + 30, cpu_time=2.5, memory_bytes=4096
        )
    )
    values = dict(re.findall(r"<(\w+)>([^<]*)<", text))
    found = f"{values['variety']} {values.get('fraction_done')} {values['cpu_time']}"
    found += f" {values.get('gpu_usage')}"
    assert found == expected
    assert (values["elapsed_time"], values["memory_bytes"]) == ("40.000000", "4096")


def test_memory_is_reported_only_after_it_is_measured() -> None:
    held_result = HeldResult(Result("r", "wu"), cpu_time=5.0, elapsed=10.0, running_since=NOON)
    values = usage_values(
        Progress(), held_result=held_result, now=NOON + 1, cpu_time=0.0, memory_bytes=0
    )
    assert values == {"cpu_time": 5.0, "elapsed_time": 11.0}


@pytest.mark.parametrize(
    ("exit_details", "client_state", "exit_status", "words"),
    [
        ({"code": 3}, 3, 3, "process exited with code 3 (0x3, -253)"),
        ({"signal": 11}, 3, 11, "process got signal 11"),
        ({"outputs": (Output("r_out"),)}, 3, 0, "-161 (not found)"),
        ({"outputs": (Output("r_out", 101, "x"),)}, 3, 0, "-131 (file size too big)"),
        ({}, 5, 0, ""),
    ],
)
def test_program_exit_determines_client_state_exit_status_and_message(
    exit_details: dict[str, object], client_state: int, exit_status: int, words: str
) -> None:
    client = Client().with_running("r")
    client.exits("r", **exit_details)
    verdict = client.result().verdict
    assert verdict is not None
    assert (verdict.client_state, verdict.exit_status) == (client_state, exit_status)
    assert words in verdict.message


@pytest.mark.parametrize("number", [1, 2, 3, 9, 15])
def test_program_ended_by_a_termination_signal_restarts_in_its_slot(number: int) -> None:
    client = Client().with_running("r")
    client.exits(signal=number)
    assert client.result().restarts == 1
    assert client.tick()[0] == events.Run(URL, "r", 0, fresh=False)


def test_program_restarts_after_the_delay_of_its_temporary_exit() -> None:
    client = Client().with_running("r")
    client.exits(temporary_exit=60.0)
    assert client.kinds(59) == ["Ask"]
    assert "Run" in client.kinds(1)


def test_a_program_that_never_finishes_fails_after_a_hundred_restarts() -> None:
    client = Client().with_running("r")
    worn = replace(client.result(), restarts=100)
    client.state = client.state.with_project(client.project.with_result(worn))
    client.exits(signal=9)
    verdict = client.result().verdict
    assert verdict is not None
    assert verdict.exit_status == -226


def test_program_over_its_time_limit_is_killed_and_reported_with_status_197() -> None:
    client = Client().with_running("r")
    assert "Kill" not in client.kinds(499)
    assert "Kill" in client.kinds(2)
    assert "Kill" not in client.kinds(1)
    client.exits(signal=15)
    verdict = client.result().verdict
    assert verdict is not None
    assert (verdict.client_state, verdict.exit_status) == (6, 197)
    assert verdict.message == "exceeded elapsed time limit 500.00 (500.00G/1.00G)"
    assert client.result().phase == Phase.REPORTABLE


def test_program_over_its_disk_limit_is_killed() -> None:
    client = Client().with_running("r")
    assert client.happens(events.SlotMeasured, result="r", nbytes=1000) == []
    (kill, _) = client.happens(events.SlotMeasured, result="r", nbytes=1001)
    assert kill == events.Kill(URL, "r")
    assert client.result().peak_disk == 1001


def test_abort_kills_a_running_result_but_keeps_a_finished_one() -> None:
    client = Client().with_running("a", "b")
    client.exits("b")
    said = client.happens(events.ReplyReceived, reply=Reply(aborts=("a", "b", "unknown")))
    assert events.Kill(URL, "a") in said
    assert client.result("b").phase == Phase.UPLOADING


def test_abort_if_not_started_aborts_only_results_that_have_not_started() -> None:
    client = Client().with_running("a")
    client.gets("b")
    reply = Reply(aborts_if_not_started=("a", "b"))
    client.happens(events.ReplyReceived, reply=reply)
    assert client.result("a").verdict is None
    verdict = client.result("b").verdict
    assert verdict is not None
    assert verdict.exit_status == 202


def test_delay_after_failed_requests_doubles_up_to_four_hours() -> None:
    client = Client()
    waits = []
    for _ in range(10):
        client.tick()
        client.happens(events.RequestFailed, reason="no route")
        waits.append(client.project.rpc_retry_at - client.now)
        client.now = client.project.rpc_retry_at
    assert waits[:4] == [60, 120, 240, 480]
    assert waits[9] == 14400
    assert client.kinds() == ["ReadMasterPage"]


def test_work_requests_back_off_after_replies_without_work() -> None:
    client = Client()
    client.tick()
    client.happens(events.ReplyReceived, reply=Reply(messages=(Message("No tasks sent"),)))
    assert client.kinds(599) == []
    assert client.kinds(2) == ["Ask"]
    client.happens(events.ReplyReceived, reply=Reply())
    assert client.kinds(601) == []
    client.happens(events.UpdateWanted)
    assert client.kinds() == ["Ask"]


def test_client_waits_for_the_request_delay_of_the_reply() -> None:
    client = Client().with_running("r")
    client.happens(events.ReplyReceived, reply=Reply(request_delay=60))
    client.exits(code=1, outputs=())
    assert client.kinds(59) == []
    assert client.kinds(2) == ["Ask"]


def test_single_run_sends_a_request_after_next_rpc_delay() -> None:
    client = Client(rules=replace(RULES, once=True))
    client.happens(events.ReplyReceived, reply=Reply(next_rpc_delay=100))
    assert client.kinds(99) == []
    assert client.kinds(2) == ["Ask"]


def test_reply_of_a_project_that_is_down_changes_only_the_delay() -> None:
    client = Client()
    client.happens(events.ReplyReceived, reply=Reply(is_down=True, hostid=9, request_delay=3600))
    assert client.project.hostid == 7
    assert client.kinds(3599) == []


def test_new_host_id_resets_the_rpc_sequence_number_and_the_host_cpid() -> None:
    client = Client(rpc_seqno=5)
    (ask,) = client.tick()
    assert isinstance(ask, events.Ask)
    assert ask.seqno == 5
    client.happens(events.ReplyReceived, reply=Reply(hostid=9))
    assert (client.project.hostid, client.project.rpc_seqno) == (9, 0)
    assert client.state.host_cpid != "cpid"


def test_changed_project_url_is_printed_once() -> None:
    client = Client()
    moved = Reply(master_url="https://new.example/")
    prints = [
        command.text
        for _ in range(2)
        for command in client.happens(events.ReplyReceived, reply=moved)
        if isinstance(command, events.Print)
    ]
    assert len(prints) == 1
    assert "reports that its address is https://new.example/" in prints[0]


def test_permanent_download_error_fails_the_result() -> None:
    client = Client()
    client.gets("r")
    client.tick()
    client.happens(
        events.DownloadFailed,
        name="r_in",
        code="-224 (permanent HTTP error)",
        reason="permanent HTTP error",
        permanent=True,
    )
    assert client.kinds(6) == ["Ask"]
    verdict = client.result().verdict
    assert verdict is not None
    assert (verdict.client_state, verdict.exit_status) == (1, -186)
    assert verdict.message.startswith("WU download error: couldn't get input files:\n<file_xfer")


def test_temporary_download_error_is_retried_later() -> None:
    client = Client()
    client.gets("r")
    client.tick()
    client.happens(
        events.DownloadFailed, name="r_in", code="-184", reason="HTTP 500", permanent=False
    )
    assert "Fetch" not in client.kinds(239)
    assert "Fetch" in client.kinds(2)


def test_failed_upload_is_resumed_and_refused_upload_fails_the_result() -> None:
    client = Client().with_running("r")
    client.exits()
    client.tick()
    client.happens(events.UploadFailed, name="r_out", reason="HTTP 500", permanent=False)
    assert events.Upload(URL, "r_out", resume=True) in client.tick(300)
    client.happens(events.UploadFailed, name="r_out", reason="no", permanent=True)
    client.tick()
    verdict = client.result().verdict
    assert verdict is not None
    assert (verdict.client_state, verdict.exit_status) == (7, -187)


def test_lost_input_file_is_downloaded_again() -> None:
    client = Client()
    client.gets("r")
    client.tick()
    for name in ("app_1", "r_in"):
        client.happens(events.DownloadFinished, name=name)
    client.tick()
    client.happens(events.FileLost, name="r_in")
    client.happens(events.ProcessInterrupted, result="r")
    assert events.Fetch(URL, "r_in", signed=False) in client.tick()


def test_repeated_file_info_changes_the_urls_but_not_md5_and_size() -> None:
    client = Client()
    client.gets("r")
    changed = FileInfo("r_in", urls=("http://e/",), md5="other", nbytes=9)
    client.happens(events.ReplyReceived, reply=Reply(files=(changed,)))
    info = client.project.files["r_in"].info
    assert (info.urls, info.md5, info.nbytes) == (("http://e/",), "", 0)


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "50%", "a\\b", "a//b"])
def test_file_name_outside_the_project_folder_is_refused_and_reported(name: str) -> None:
    client = Client()
    reply = a_reply("r")
    workunit = replace(reply.workunits[0], file_refs=(FileRef(name, "in"),))
    said = client.gets("r", workunits=(workunit,), files=(*reply.files, FileInfo(name)))
    assert name not in client.project.files
    assert client.result().phase == Phase.REPORTABLE
    assert any(isinstance(one, events.Print) and "refused" in one.text for one in said)


def test_open_name_outside_the_slot_folder_is_refused_and_reported() -> None:
    client = Client()
    reply = a_reply("r")
    result = replace(reply.results[0], file_refs=(FileRef("r_out", "../../evil"),))
    client.gets("r", results=(result,))
    verdict = client.result().verdict
    assert verdict is not None
    assert (client.result().phase, verdict.exit_status) == (Phase.REPORTABLE, -185)


def test_a_result_without_its_app_version_is_discarded() -> None:
    client = Client()
    client.gets("r", results=(replace(a_reply("r").results[0], version_num=9),))
    assert client.project.results == {}


def test_older_app_version_and_its_file_are_discarded_after_a_newer_one() -> None:
    client = Client()
    client.gets()
    newer = AppVersion("app", 2, "p", file_refs=(FileRef("app_2", main_program=True),))
    client.gets(files=(FileInfo("app_2"),), app_versions=(newer,))
    said = client.happens(events.ReplyReceived, reply=Reply())
    assert events.Discard(URL, "app_1") in said
    assert list(client.project.app_versions) == [newer.key]


def test_sticky_file_is_kept_until_the_project_deletes_it() -> None:
    client = Client()
    client.happens(events.ReplyReceived, reply=Reply(files=(FileInfo("data", sticky=True),)))
    client.happens(events.ReplyReceived, reply=Reply())
    assert "data" in client.project.files
    said = client.happens(events.ReplyReceived, reply=Reply(deleted_files=("data",)))
    assert events.Discard(URL, "data") in said


def test_file_sent_by_the_project_without_a_result_is_downloaded_once() -> None:
    client = Client()
    put = FileInfo("data", urls=("http://d/data",), sticky=True)
    client.happens(events.ReplyReceived, reply=Reply(files=(put,)))
    assert events.Fetch(URL, "data", signed=False) in client.tick()
    assert not any(isinstance(command, events.Fetch) for command in client.tick())
    client.happens(events.DownloadFinished, name="data")
    assert client.project.files["data"].presence == Presence.PRESENT
    assert not any(isinstance(command, events.Fetch) for command in client.tick())


def test_result_of_an_app_version_without_a_program_is_discarded() -> None:
    client = Client()
    reply = replace(
        a_reply("r"),
        files=(FileInfo("data", upload_urls=UPLOAD, max_nbytes=100, sticky=True),),
        app_versions=(AppVersion("app", 1, "p"),),
        workunits=(Workunit("wu_r", "app"),),
        results=(Result("r", "wu_r", "p", 1, file_refs=(FileRef("data"),)),),
    )
    said = client.happens(events.ReplyReceived, reply=reply)
    assert events.Print("r discarded: its app has no program") in said
    assert client.project.results == {}


def test_first_code_sign_key_is_trusted_and_a_new_key_only_if_signed_by_it(
    golden: Callable[[str], bytes],
) -> None:
    client = Client()
    first = decode_reply(golden("first_work.resp")).code_sign_key
    client.happens(events.ReplyReceived, reply=Reply(code_sign_key=first))
    assert client.project.code_sign_key == first
    raw = decode_reply(golden("key_rotate_raw.resp"))
    said = client.happens(events.ReplyReceived, reply=raw)
    assert client.project.code_sign_key == first
    assert any(isinstance(one, events.Print) and "not signed" in one.text for one in said)
    rotated = decode_reply(golden("key_rotate.resp"))
    client.happens(events.ReplyReceived, reply=rotated)
    assert client.project.code_sign_key == rotated.code_sign_key != first


def test_single_run_requests_work_only_once() -> None:
    client = Client(rules=replace(RULES, once=True))
    client.happens(events.RunBegan)
    (ask,) = client.tick()
    assert isinstance(ask, events.Ask)
    assert ask.work_seconds > 0
    client.happens(events.ReplyReceived, reply=Reply())
    assert client.kinds(1e6) == []


def test_finished_result_is_reported_in_seconds_or_delayed_without_report_immediately() -> None:
    quick = Client().with_running("a", "b")
    quick.exits("a", code=1, outputs=())
    assert quick.kinds(6) == ["Ask"]
    patient = Client(rules=replace(RULES, report_immediately=False)).with_running("a", "b")
    patient.exits("a", code=1, outputs=())
    assert patient.kinds(6) == []
    assert "Ask" in patient.kinds(3600)


def test_report_is_not_delayed_further_by_results_that_finish_soon_after() -> None:
    client = Client().with_running("a", "b", "c", "d")
    client.now += 10.0
    client.exits("a")
    client.tick()
    client.happens(events.UploadFinished, name="a_out")
    assert "Ask" not in client.kinds()
    client.now += 2.0
    client.exits("b")
    # The upload of b has just begun: the report of a waits for it until the usual limit.
    assert "Ask" not in client.kinds(0.5)
    assert "Ask" in client.kinds(1.0)


def test_events_of_a_detached_project_are_ignored() -> None:
    client = Client().with_running("r")
    said = client.happens(events.Detached)
    assert [type(one).__name__ for one in said] == ["Kill", "ClearSlot", "Forget", "Print"]
    assert client.exits() == []
    assert client.happens(events.RequestFailed, reason="late") == []


def test_result_not_started_by_its_deadline_is_aborted() -> None:
    client = Client()
    late = replace(a_reply("r").results[0], report_deadline=NOON - 1)
    client.gets("r", results=(late,))
    client.tick()
    verdict = client.result().verdict
    assert verdict is not None
    assert (verdict.client_state, verdict.exit_status) == (6, 200)


def test_output_size_and_md5_are_recorded_when_the_program_exits() -> None:
    client = Client().with_running("r")
    client.exits()
    held = client.project.files["r_out"]
    assert (held.presence, held.nbytes, held.md5) == (Presence.PRESENT, 10, "md5")


def headline(client: Client, slots: int = 2) -> str:
    return _headline(client.state, client.project, client.now, slots)


def test_status_of_idle_client_shows_the_reason_for_waiting() -> None:
    client = Client()
    client.tick()
    assert "contacting the project" in headline(client)
    client.gets(request_delay=6.0)
    assert "0 of 2 slots" not in headline(client)
    assert "idle" in headline(client)
    assert "next work request in 600 s: the project had no work" in headline(client)
    client.happens(events.SuspendWanted)
    assert "volunteer resume" in headline(client)


def test_status_shows_the_retry_delay_after_a_failed_request() -> None:
    client = Client()
    client.tick()
    client.happens(events.RequestFailed, reason="no route")
    assert "next work request in 60 s: the project did not answer" in headline(client)


def test_status_of_busy_client_shows_used_slots_and_progress() -> None:
    client = Client(slots_rules := replace(RULES, slots=1)).with_running("r")
    assert f"1 of {slots_rules.slots} slots busy" in headline(client, 1)
    client.happens(events.ProgressReported, result="r", fraction_done=0.25, cpu_time=3.0)
    held = client.result()
    assert fraction_done(client.state, client.project, held, client.now) == 0.25
    client.happens(events.ProgressReported, result="r", fraction_done=0.0)
    assert fraction_done(client.state, client.project, held, client.now) == 0.25
    client.exits()
    assert client.state.progress == {}


def test_status_shows_the_number_of_results_with_running_downloads() -> None:
    client = Client()
    client.gets("r")
    assert "downloading the files of 1 result" in headline(client)


def test_next_rpc_delay_ends_the_work_request_back_off_early() -> None:
    client = Client()
    client.tick()
    client.gets(next_rpc_delay=30.0)
    assert client.kinds(20) == []
    [asked] = client.tick(11)
    assert isinstance(asked, events.Ask)
    assert asked.work_seconds > 0


def test_attach_replaces_the_account_key_only_if_requested() -> None:
    client = Client()
    client.happens(events.Attached, key="other")
    assert client.project.key == "key"
    client.happens(events.Attached, key="other", replaces=True)
    assert client.project.key == "other"


def test_suspended_project_pauses_its_program_and_starts_no_result_until_resumed() -> None:
    client = Client().with_running("r")
    client.gets("s")
    client.tick(10)
    client.happens(events.SuspendWanted)
    assert events.Suspend(URL, "r") in client.tick(1)
    for name in ("s_in",):
        client.happens(events.DownloadFinished, name=name)
    assert "Run" not in client.kinds(100)
    assert client.result().elapsed_at(client.now) == client.result().elapsed
    client.happens(events.ResumeWanted)
    commands = client.tick()
    assert events.Resume(URL, "r") in commands
    assert "Run" in [type(command).__name__ for command in commands]


def test_trickles_up_are_kept_and_sent_again_until_acknowledged() -> None:
    client = Client().with_running("r")
    client.tick(100)
    client.gets()
    for text in ("one", "two"):
        client.happens(events.TrickleWritten, result="r", text=text)
    times = [trickle.time for trickle in client.project.trickles_up]
    assert times[1] == times[0] + 1, "projects keep one per second"
    assert "Ask" in client.kinds(10)
    client.happens(events.TrickleWritten, result="r", text="three")
    client.gets(message_ack=True)
    assert [trickle.text for trickle in client.project.trickles_up] == ["three"]
    assert "Ask" in client.kinds(10)
    client.happens(events.RequestFailed, reason="no route")
    assert "Ask" in client.kinds(100)


def test_trickle_down_is_kept_until_its_program_runs() -> None:
    client = Client()
    message = TrickleMessage("r", 7, "text")
    client.gets("r", trickles=(message, TrickleMessage("gone", 7, "text")))
    assert client.result().trickles_down == (TrickleDown(7, "text"),)
    client = Client().with_running("r")
    commands = client.gets(trickles=(message,))
    assert events.Deliver(URL, "r", 0, TrickleDown(7, "text")) in commands
    assert client.result().trickles_down == ()


def test_excess_trickles_are_dropped_and_an_invalid_trickle_prints_a_message() -> None:
    client = Client().with_running("r")
    for _ in range(3):
        client.happens(events.TrickleWritten, result="r", text="x" * (1 << 20))
    assert len(client.project.trickles_up) == 2
    [said] = client.happens(events.TrickleWritten, result="r", text="x", fault="too long")
    assert isinstance(said, events.Print)
    assert "too long" in said.text


def test_output_uploaded_early_is_not_uploaded_again() -> None:
    client = Client().with_running("r")
    client.happens(events.UploadRequested, result="r", outputs=(Output("r_out", 10, "md5"),))
    assert events.Upload(URL, "r_out", resume=False) in client.tick()
    commands = client.happens(events.UploadFinished, name="r_out")
    assert events.NotifyUpload(URL, "r", 0, "out", 0) in commands
    client.exits()
    assert "Upload" not in client.kinds()
    assert client.result().phase == Phase.REPORTABLE


def test_early_upload_of_a_large_or_missing_output_is_refused_with_a_message() -> None:
    client = Client().with_running("r")
    for output in (Output("r_out"), Output("r_out", 101, "md5")):
        [said] = client.happens(events.UploadRequested, result="r", outputs=(output,))
        assert isinstance(said, events.Print)
    assert client.project.files["r_out"].presence == Presence.ABSENT


def test_program_that_exits_without_finishing_is_restarted() -> None:
    client = Client().with_running("r")
    client.exits(is_unfinished=True)
    assert client.result().phase == Phase.READY
