"""The launcher script, started as by a client, in every installed POSIX shell."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import tarfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from daemons.management.processes import wait_until
from scheduler.dispatch.rules.launching import command_line
from scheduler.results.rules.runner_reports import RunnerReport, read_report
from scheduler.storage.app_files.launcher import ARCHIVE_NAME, launcher

SHELLS = {"dash": ["dash"], "bash": ["bash", "--posix"], "busybox": ["busybox", "sh"]}
IMAGE = "docker.io/library/alpine@sha256:" + "0a" * 32
INIT_DATA = """<app_init_data>
<wu_name>range 7</wu_name>
<result_name>range_7_0</result_name>
<ncpus>2.000000</ncpus>
<rsc_memory_bound>500000000.000000</rsc_memory_bound>
</app_init_data>
"""


class Slot:
    """A client's slot as the launcher finds it: link files name the project's files."""

    def __init__(self, folder: Path, shell: str = "dash") -> None:
        self.shell = shell
        self.project = folder / "projects" / "here"
        self.path = folder / "slots" / "0"
        self.project.mkdir(parents=True)
        self.path.mkdir(parents=True)
        (self.path / "init_data.xml").write_text(INIT_DATA)
        self.inputs: list[str] = []
        self.outputs: list[str] = []
        self.environment: dict[str, str] = {}

    def link(self, open_name: str, physical: str) -> None:
        path = self.path / open_name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"<soft_link>../../projects/here/{physical}</soft_link>\n")

    def input(self, open_name: str, content: bytes) -> None:
        self.inputs.append(open_name)
        (self.project / f"i{len(self.inputs)}").write_bytes(content)
        self.link(open_name, f"i{len(self.inputs)}")

    def output(self, open_name: str) -> None:
        self.outputs.append(open_name)
        self.link(open_name, f"o{len(self.outputs)}")

    def sent(self, number: int = 1) -> bytes | None:
        path = self.project / f"o{number}"
        return path.read_bytes() if path.exists() else None

    def archive(self, files: Mapping[str, str]) -> None:
        with tarfile.open(self.project / "archive", "w:gz") as archive:
            for name, text in files.items():
                info = tarfile.TarInfo(name)
                info.size = len(text.encode())
                archive.addfile(info, io.BytesIO(text.encode()))
        self.link(ARCHIVE_NAME, "archive")

    def words(
        self,
        kind: str,
        said: str,
        rule: str,
        optional: Sequence[str],
        own: Sequence[str],
        inline: int | None = None,
    ) -> list[str]:
        program = self.project / "launcher"
        program.write_bytes(launcher(kind=kind, image=IMAGE if kind == "container" else ""))
        line = command_line(
            said,
            kind=kind,
            success_rule=rule,
            inputs=self.inputs,
            outputs=self.outputs,
            optional=optional,
            inline_bytes=inline,
        )
        return [*SHELLS[self.shell], str(program), *line.split(), *own]

    def start(
        self,
        kind: str = "command",
        said: str = "",
        *,
        rule: str = "exit_code",
        optional: Sequence[str] = (),
        own: Sequence[str] = (),
        inline: int | None = None,
        **how: Any,
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.words(kind, said, rule, optional, own, inline),
            cwd=self.path,
            env=os.environ | self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            **how,
        )

    def run(self, kind: str = "command", said: str = "", **more: Any) -> tuple[int, str]:
        process = self.start(kind, said, **more)
        _out, err = process.communicate(timeout=30)
        return process.returncode, err.decode()

    @property
    def finished(self) -> bool:
        return (self.path / "boinc_finish_called").exists()


@pytest.fixture(
    params=[pytest.param(name, marks=pytest.mark.needs(words[0])) for name, words in SHELLS.items()]
)
def slot(request: pytest.FixtureRequest, tmp_path: Path) -> Slot:
    return Slot(tmp_path / "a client's", request.param)


RUN_SH = """#!/bin/sh
for word in "$@"; do echo "<$word>"; done
cat "$1" 2>/dev/null
echo "$MANYHANDS_WORKUNIT|$MANYHANDS_RESULT|$MANYHANDS_NCPUS"
pwd | sed 's,.*/slots,slots,'
"""


def test_script_gets_its_input_paths_and_its_stdout_becomes_the_output(slot: Slot) -> None:
    slot.archive({"run.sh": RUN_SH, "lib/table": "17\n"})
    slot.input("in", b"one\n")
    slot.input("-a table*", b"two\n")
    slot.output("out")
    assert slot.run("script") == (0, "")
    assert slot.finished
    assert slot.sent() == (
        b"<../in>\n<../-a table*>\none\nrange 7|range_7_0|2.000000\nslots/0/program\n"
    )
    assert (slot.path / "program" / "lib" / "table").read_text() == "17\n"


def test_command_line_replaces_the_input_paths_and_is_not_expanded(slot: Slot) -> None:
    slot.archive({"run.sh": '#!/bin/sh\nprintf "<%s>" "$@"\n'})
    slot.input("in", b"one\n")
    slot.output("out")
    line = """-n 3 'two words' "it's" '' $(id) `id` * \\\\ <a&b> %s äö"""
    assert slot.run("script", line, own=["--nthreads", "4"]) == (0, "")
    assert slot.sent() == (
        "<-n><3><two words><it's><><$(id)><`id`><*><\\><<a&b>><%s><äö><--nthreads><4>".encode()
    )


def test_command_is_run_by_the_shell_in_the_slot(slot: Slot) -> None:
    slot.input("data/in put", b"b\na\n")
    slot.output("out")
    slot.output("more/log")
    line = (
        """sort "$MANYHANDS_INPUT" | tr 'a-z' "A-Z" && echo 'it is' > more/log; """
        """printf '%s\\n' "$MANYHANDS_OUTPUTS" | sed 's,.*/slots,slots,'"""
    )
    assert slot.run("command", line) == (0, "")
    assert slot.sent(1) == b"A\nB\nslots/0/out\nslots/0/more/log\n"
    assert slot.sent(2) == b"it is\n"


def test_output_file_written_by_the_program_takes_precedence_over_stdout(slot: Slot) -> None:
    slot.archive(
        {"run.sh": '#!/bin/sh\necho noise\necho mine >out\necho yours >"$MANYHANDS_OUTPUT.2"\n'}
    )
    slot.output("out")
    slot.output("out.2")
    assert slot.run("script") == (0, "")
    assert (slot.sent(1), slot.sent(2)) == (b"mine\n", b"yours\n")


def test_file_names_that_look_like_options_work(slot: Slot) -> None:
    slot.input("-r", b"one\n")
    slot.output("-f")
    slot.output("--help")
    assert slot.run("command", "cat ./-r | tee ./--help") == (0, "")
    assert (slot.sent(1), slot.sent(2)) == (b"one\n", b"one\n")


def test_copied_output_stays_in_the_slot_for_the_client(slot: Slot) -> None:
    slot.outputs.append("out")
    assert slot.run("command", "echo 1") == (0, "")
    assert (slot.path / "out").read_bytes() == b"1\n"


def test_writing_to_an_input_does_not_change_the_project_file(slot: Slot) -> None:
    slot.input("in", b"one\n")
    (slot.project / "i1").chmod(0o444)
    slot.output("out")
    assert slot.run("command", "echo two >>in; cat in") == (0, "")
    assert slot.sent() == b"one\ntwo\n"
    assert (slot.project / "i1").read_bytes() == b"one\n"


@pytest.mark.parametrize("text", ["/etc/passwd", "../../../etc/passwd", "../../projects/other/x"])
def test_input_content_that_looks_like_a_link_is_not_followed(slot: Slot, text: str) -> None:
    other = slot.project.parent / "other"
    other.mkdir()
    (other / "x").write_text("another project's")
    content = f"<soft_link>{text}</soft_link>\n"
    slot.inputs.append("in")
    (slot.path / "in").write_text(content)
    slot.output("out")
    assert slot.run("command", "cat in") == (0, "")
    assert slot.sent() == content.encode()


@pytest.mark.parametrize(
    ("rule", "said", "code", "words"),
    [
        ("exit_code", "echo 1", 0, ""),
        ("exit_code", "echo careful >&2", 0, "careful\n"),
        ("exit_code", "exit 3", 3, "exited with 3"),
        ("empty_stderr", "exit 3", 0, ""),
        ("empty_stderr", "printf careful >&2", 1, "careful\nmanyhands: The program wrote to its"),
        ("empty_stderr", "echo careful >&2; exit 4", 4, "exited with 4"),
        ("both", "echo 1", 0, ""),
        ("both", "exit 3", 3, "exited with 3"),
        ("both", "echo careful >&2", 1, "counts as failure"),
        ("validator", "echo careful >&2; exit 9", 0, "careful"),
    ],
)
def test_exit_code_follows_the_success_rule_of_the_app(
    tmp_path: Path, rule: str, said: str, code: int, words: str
) -> None:
    slot = Slot(tmp_path)
    slot.output("out")
    found, err = slot.run("command", said, rule=rule)
    assert found == code, err
    assert words in err
    assert slot.finished is (code == 0)
    assert slot.sent() is not None, "what there is goes to the server even so"


@pytest.mark.parametrize("rule", ["exit_code", "validator"])
def test_missing_output_is_an_error_with_a_hint(slot: Slot, rule: str) -> None:
    slot.output("out")
    slot.output("table")
    slot.output("log")
    code, err = slot.run("command", "echo 1", rule=rule, optional=["log"])
    assert code == 1
    assert "manyhands: The program has not written table. Hint: it is looked for" in err
    assert not slot.finished
    assert slot.sent(3) is None


def test_missing_input_or_command_is_an_error(slot: Slot) -> None:
    slot.input("in", b"")
    (slot.path / "in").unlink()
    assert slot.run("command", "true") == (1, "manyhands: The input in is missing.\n")
    (slot.path / "in").mkdir()
    assert slot.run("command", "")[1].startswith("manyhands: The workunit has no command. Hint:")


def test_archive_that_cannot_be_unpacked_is_an_error_with_a_hint(slot: Slot) -> None:
    slot.archive({"run.sh": ""})
    (slot.project / "archive").write_bytes(b"no archive")
    code, err = slot.run("script")
    assert code == 1
    assert "manyhands: The program cannot be unpacked. Hint:" in err


def test_program_can_request_a_later_restart(slot: Slot) -> None:
    slot.archive(
        {
            "run.sh": "#!/bin/sh\necho step >>steps\n"
            "[ $(wc -l <steps) = 2 ] || { echo 60 >boinc_temporary_exit; exit 0; }\ncat steps\n"
        }
    )
    slot.output("out")
    assert slot.run("script") == (0, "manyhands: The program wants to be started again later.\n")
    assert not slot.finished
    assert (slot.path / "boinc_temporary_exit").read_text() == "60\n"
    assert slot.run("script") == (0, "")
    assert slot.finished
    assert not (slot.path / "boinc_temporary_exit").exists()
    assert slot.sent() == b"step\nstep\n"


def alive(mark: str) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def wait_for(path: Path) -> None:
    assert wait_until(path.exists, within=20, look_again=0.01), f"{path} does not come"


TREE = """#!/bin/sh
echo begun >>here
[ "$(wc -l <here)" -eq 1 ] || exit 0
echo before >&2
(sh -c 'sleep 300; :' & wait) &
touch ready
wait
"""


def test_sigterm_ends_the_process_tree_and_the_client_sees_the_signal(slot: Slot) -> None:
    slot.archive({"run.sh": TREE})
    slot.output("out")
    mark = f"TREE_{os.getpid()}_{time.monotonic_ns()}"
    slot.environment = {"MARK": mark}
    with slot.start("script", start_new_session=True) as process:
        wait_for(slot.path / "program" / "ready")
        assert wait_until(lambda: len(alive(mark)) >= 4, within=20, look_again=0.01)
        process.terminate()
        assert process.wait(timeout=15) == -signal.SIGTERM
    assert alive(mark) == []
    assert not slot.finished


def test_restart_after_a_kill_ends_leftover_processes_and_keeps_files(slot: Slot) -> None:
    slot.archive({"run.sh": TREE})
    slot.output("out")
    mark = f"TREE_{os.getpid()}_{time.monotonic_ns()}"
    slot.environment = {"MARK": mark}
    with slot.start("script", rule="both") as process:
        wait_for(slot.path / "program" / "ready")
        assert wait_until(lambda: len(alive(mark)) >= 4, within=20, look_again=0.01)
        process.kill()
    assert len(alive(mark)) >= 3
    code, err = slot.run("script", rule="both")
    assert (code, err.splitlines()[0]) == (0, "manyhands: before: before")
    assert all(line.startswith("manyhands: before: ") for line in err.splitlines()), err
    assert (slot.path / "program" / "here").read_text() == "begun\nbegun\n"
    assert alive(mark) == []


def test_launcher_killed_after_its_program_ended_does_not_run_it_again(slot: Slot) -> None:
    slot.output("out")
    assert slot.run("command", "echo run >>runs; echo 1") == (0, "")
    (slot.path / "boinc_finish_called").unlink()
    assert slot.run("command", "echo run >>runs; echo 1") == (0, "")
    assert slot.finished
    assert slot.sent() == b"1\n"
    assert (slot.path / "runs").read_text() == "run\n"


FAKE_PODMAN = """#!/bin/sh
[ "$1" = run ] || exit 0
printf '%s\\n' "$@" >"$RECORD"
while [ "$1" != "$IMAGE" ]; do
  [ "$1" != --env ] || case $2 in MANYHANDS_INPUT) given=$MANYHANDS_INPUT ;; esac
  shift
done
shift
echo "given $given"
exec "$@"
"""


def test_container_runs_without_network_and_sees_only_the_slot(slot: Slot, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "podman").write_text(FAKE_PODMAN)
    (programs / "podman").chmod(0o755)
    record = tmp_path / "record"
    slot.environment = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "RECORD": str(record),
        "IMAGE": IMAGE,
    }
    slot.input("in", b"one\n")
    slot.output("out")
    assert slot.run("container", "cat in") == (0, "")
    assert slot.sent() == b"given /work/in\none\n"
    said = record.read_text().splitlines()
    assert said[-3:] == [IMAGE, "cat", "in"]
    together = " ".join(said)
    assert "--network none --read-only" in together
    assert f"--volume {slot.path}:/work --tmpfs /work/_launcher --workdir /work" in together
    assert "--name manyhands-range_7_0" in together
    assert "--cap-drop ALL --security-opt no-new-privileges" in together
    if Path("/sys/fs/cgroup/cgroup.controllers").exists():
        assert "--cpus 2" in together
        assert "--memory 500000000" in together


def test_container_without_an_engine_is_an_error(slot: Slot, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "bash", "dash", "busybox", "sed", "cat", "mkdir", "rm", "dd", "tr", "head"):
        if where := shutil.which(name):
            (programs / name).symlink_to(where)
    slot.environment = {"PATH": str(programs)}
    slot.output("out")
    code, err = slot.run("container", "cat in")
    assert code == 1
    assert f"neither podman nor docker to run the container {IMAGE}. Hint: install podman." in err


# Runners


def reported(err: str) -> RunnerReport:
    return read_report(f"<stderr_txt>\n{err}\n</stderr_txt>")


def test_report_of_a_runner_is_sent_in_a_line_that_xml_can_hold(slot: Slot) -> None:
    text = (
        'cat <<"end"\n{"status": 7,\n "stdout": "a < b & \\"c\\"\\n]]>", "stderr": "careful"}\nend'
    )
    code, err = slot.run("command", f"{text}\necho raw >&2", rule="runner")
    assert code == 0, err
    assert slot.finished
    line = err.splitlines()[-1]
    assert line.startswith('manyhands-runner: {"status": 7,')
    assert not set("<>&") & set(line)
    report = reported(err)
    assert (report.status, report.stdout) == (7, 'a < b & "c"\n]]>')
    assert "raw\ncareful" in report.stderr


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ('{"status": 1}', 1),
        ('{"status": 2, "stderr": "bad"}', 2),
        ('{"status": 0}', 2),
        ('{"status": -3}', 2),
        ('{"status": "1"}', 2),
        ('{"status": true}', 2),
        ('{"status": 1', 2),
        ("{}", 2),
    ],
)
def test_status_that_is_not_positive_counts_as_failure(slot: Slot, said: str, status: int) -> None:
    code, err = slot.run("command", f"echo '{said}'; exit 3", rule="runner")
    assert code == 0, "the server decides"
    assert reported(err).status == status


@pytest.mark.parametrize(
    ("said", "code"), [("exit 3", 3), ("true", 2), ("echo done", 2), ("kill -9 $$", 137)]
)
def test_runner_without_a_report_fails_with_a_hint(slot: Slot, said: str, code: int) -> None:
    found, err = slot.run("command", said, rule="runner")
    assert found == code
    assert "reported no status. Hint: it must write" in err
    assert not slot.finished


@pytest.mark.parametrize(("inline", "status"), [(10, 7), (0, 7)])
def test_longer_report_is_sent_as_the_first_output(slot: Slot, inline: int, status: int) -> None:
    slot.output("out")
    text = '{"stdout": "x: \\"status\\": 9, y", "status" : 7, "stderr": ""}'
    code, err = slot.run("command", f"cat <<'end'\n{text}\nend", rule="runner", inline=inline)
    assert code == 0, err
    report = reported(err)
    assert (report.status, report.stdout) == (status, None)
    assert slot.sent() == text.encode() + b"\n"


def test_longer_report_without_an_output_fails_with_a_hint(slot: Slot) -> None:
    code, err = slot.run("command", "echo '{\"status\": 1}'", rule="runner", inline=3)
    assert code == 1
    assert "The report has 14 bytes, and the limit is 3. Hint: declare an output" in err


def test_report_survives_a_second_start_after_the_output_was_moved(slot: Slot) -> None:
    slot.output("out")
    assert slot.run("command", "echo '{\"status\": 5}'", rule="runner")[0] == 0
    code, err = slot.run("command", "echo '{\"status\": 5}'", rule="runner")
    assert code == 0
    assert reported(err).status == 5
