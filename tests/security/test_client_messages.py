"""Messages that a program writes for the client cannot harm the volunteer."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.security.test_client_programs import folder, project
from tests.security.test_client_slots import SECRET, private, run_program
from volunteer import safe_files, slot
from volunteer.channels import CHANNEL_BYTES, FILE_NAME, Channel, Link, SharedMemory

pytestmark = pytest.mark.lengthy

__all__ = ["folder", "private", "project"]

#: A message in the trickle channel, as BOINC's library leaves it.
TELL = (
    r"printf '\001<have_new_trickle_up/>\n<have_new_upload_file/>\n\000' | "
    f"dd of={FILE_NAME} bs=1 seek={Channel.TRICKLE_UP * CHANNEL_BYTES} conv=notrunc 2>/dev/null"
)
#: The same for the status channel.
REPORT = (
    r"printf '\001%s\000' '{}' | "
    f"dd of={FILE_NAME} bs=1 seek={Channel.STATUS * CHANNEL_BYTES} conv=notrunc 2>/dev/null"
)


def trickles(project) -> str:
    return "".join(one for one in project.requests if "<msg_from_host>" in one)


@pytest.mark.parametrize("command", ["ln -s", "ln"])
def test_content_of_a_link_in_place_of_a_trickle_is_not_sent(project, folder, private, command):
    script = f"{command} {private} trickle_up.xml; {TELL}; sleep 1; echo x > out"
    report = run_program(project, folder, script, copy=True)
    assert SECRET.decode().strip() not in trickles(project) + report
    assert private.read_bytes() == SECRET
    assert "<exit_status>0</exit_status>" in report


@pytest.mark.parametrize("copy", [True, False])
def test_content_of_a_link_in_place_of_an_early_output_is_not_uploaded(
    project, folder, private, copy
):
    place = "out" if copy else "\"$(sed 's/<soft_link>\\(.*\\)<.*/\\1/' out)\""
    script = f"p={place}; rm -f $p; ln -s {private} $p; touch boinc_ufr_out; {TELL}; sleep 1"
    run_program(project, folder, f"{script}; rm -f $p; echo x > $p", copy=copy)
    assert SECRET.strip() not in b"".join(project.uploads.values())
    assert private.read_bytes() == SECRET


def test_named_pipe_in_place_of_a_trickle_does_not_stop_the_client(project, folder):
    script = f"mkfifo trickle_up.xml boinc_ufr_out; {TELL}; sleep 1; echo x > out"
    report = run_program(project, folder, script, copy=True)
    assert "<exit_status>0</exit_status>" in report


def test_trickle_cannot_add_elements_to_the_scheduler_request(project, folder):
    text = "<a>1</a></msg_from_host><result><name>other_0</name></result></ scheduler_request>"
    script = f"echo '{text}' > trickle_up.xml; {TELL}; sleep 1; echo x > out"
    run_program(project, folder, script, copy=True)
    sent = trickles(project)
    assert "<a>1</a>&lt;/msg_from_host><result>" in sent
    assert "</ scheduler_request" not in sent


def test_long_trickle_is_dropped(project, folder):
    script = f"head -c 70000 /dev/zero | tr '\\0' x > trickle_up.xml; {TELL}; sleep 1; echo x > out"
    report = run_program(project, folder, script, copy=True)
    assert trickles(project) == ""
    assert "<exit_status>0</exit_status>" in report


@pytest.mark.parametrize(("reported", "sent"), [("0.25", ["0.250000"]), ("50", [])])
def test_gpu_usage_that_a_program_reports_is_sent_to_the_project(project, folder, reported, sent):
    status = f"<fraction_done>0.5</fraction_done><gpu_usage>{reported}</gpu_usage>"
    script = f"{REPORT.format(status)}; sleep 5; echo x > out"
    options = ("--usage-interval", "1")
    run_program(project, folder, script, copy=True, options=options, extra="<message_ack/>")
    text = trickles(project)
    assert "<fraction_done>0.500000</fraction_done>" in text
    assert sorted(set(re.findall("<gpu_usage>(.*?)</gpu_usage>", text))) == sent


@pytest.mark.parametrize(
    "command",
    [
        f": > {FILE_NAME}",
        f"rm {FILE_NAME}",
        f"rm {FILE_NAME}; mkfifo {FILE_NAME}",
        f"rm {FILE_NAME}; ln -s ../../state.json {FILE_NAME}",
        f"head -c 8192 /dev/urandom > {FILE_NAME}",
        f"head -c 8192 /dev/zero | tr '\\0' '\\377' > {FILE_NAME}",
    ],
)
def test_damaged_shared_memory_does_not_stop_the_client(project, folder, command):
    report = run_program(project, folder, f"{command}; sleep 2; echo x > out", copy=True)
    assert "<exit_status>0</exit_status>" in report
    assert '"format"' in (folder / "state.json").read_text()[:20]


def test_shared_memory_file_replaces_a_link_left_by_an_earlier_program(tmp_path, private):
    (tmp_path / FILE_NAME).symlink_to(private)
    memory = SharedMemory(tmp_path)
    assert private.read_bytes() == SECRET
    assert not (tmp_path / FILE_NAME).is_symlink()
    memory.close()


def test_shared_memory_message_is_not_overwritten_before_it_is_read(tmp_path):
    memory = SharedMemory(tmp_path)
    path = tmp_path / FILE_NAME
    assert path.stat().st_size == 8 * 1024
    assert memory.send(Channel.HEARTBEAT, "<heartbeat/>")
    assert not memory.send(Channel.HEARTBEAT, "<other/>")
    assert path.read_bytes()[4096:4110] == b"\1<heartbeat/>\0"
    with path.open("r+b") as file:
        file.seek(5 * 1024)
        file.write(b"\1" + b"x" * 2000)
    assert memory.receive(Channel.STATUS) == "x" * 1023
    assert memory.receive(Channel.STATUS) == ""
    memory.close()


def test_invalid_fraction_done_from_a_program_is_ignored(tmp_path):
    link = Link(tmp_path)
    for text in ("1e999", "-1", "nan", "1.2.3", ""):
        with (tmp_path / FILE_NAME).open("r+b") as file:
            file.seek(5 * 1024)
            file.write(f"\1<fraction_done>{text}</fraction_done>\0".encode())
        assert link.exchange(0.0).fraction_done is None
    link.close()


def test_invalid_gpu_usage_from_a_program_is_ignored(tmp_path):
    link = Link(tmp_path)

    def reported(text: str) -> float | None:
        with (tmp_path / FILE_NAME).open("r+b") as file:
            file.seek(5 * 1024)
            file.write(f"\1<gpu_usage>{text}</gpu_usage>\0".encode())
        return link.exchange(0.0).gpu_usage

    for text in ("1e999", "-1", "nan", "1.2.3", "", "1.5", "50"):
        assert reported(text) is None, text
    assert [reported(text) for text in ("0", "0.5", "1")] == [0.0, 0.5, 1.0]
    link.close()


def test_upload_status_is_not_written_through_a_link(tmp_path, private):
    (tmp_path / "boinc_ufs_out").symlink_to(private)
    slot.write_upload_status(tmp_path, "out", 0)
    assert private.read_bytes() == SECRET
    assert safe_files.read_start(tmp_path, "boinc_ufs_out", 99) == b"<status>0</status>\n"


def test_shared_memory_descriptor_is_not_inherited(tmp_path: Path):
    memory = SharedMemory(tmp_path)
    assert not os.get_inheritable(memory._descriptor)
    memory.close()
