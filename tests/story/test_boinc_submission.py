"""A client of BOINC's submission interface, from first request to outputs."""

from __future__ import annotations

import hashlib
import io
import json
import urllib.parse
import urllib.request
import uuid
import zipfile
from xml.etree import ElementTree as ET

import pytest

from tests.story.project import APP, Project
from tests.story.volunteers import PASSWORD

pytestmark = pytest.mark.story

EMAIL = "ada@example.org"
INPUT = """<input_template>
    <file_info>
        <number>0</number>
    </file_info>
    <workunit>
        <file_ref>
            <file_number>0</file_number>
            <open_name>in</open_name>
        </file_ref>
        <rsc_fpops_est>1e9</rsc_fpops_est>
        <delay_bound>600</delay_bound>
    </workunit>
</input_template>
"""
OUTPUT = """<output_template>
    <file_info>
        <name><OUTFILE_0/></name>
        <generated_locally/>
        <upload_when_present/>
        <max_nbytes>100000</max_nbytes>
        <url><UPLOAD_URL/></url>
    </file_info>
    <result>
        <file_ref>
            <file_name><OUTFILE_0/></file_name>
            <open_name>out</open_name>
        </file_ref>
        <report_immediately/>
    </result>
</output_template>
"""


class Submitter:
    """A client of the submission interface like BOINC's Python library: sends forms, reads XML."""

    def __init__(self, url: str, key: str) -> None:
        self.url, self.key = url, key

    def ask(
        self, command: str, inside: str = "", *, to: str = "submit_rpc_handler.php"
    ) -> ET.Element:
        form = urllib.parse.urlencode({"request": self._request(command, inside)}).encode()
        with urllib.request.urlopen(f"{self.url}{to}", form, timeout=30) as reply:
            return self._read(reply.read())

    def upload(self, batch_id: int, contents: dict[str, bytes]) -> None:
        """Query which files are absent and upload them, as `upload_files` of the library does."""
        names = "".join(f"<phys_name>{name}</phys_name>\n" for name in contents)
        batch = f"<batch_id>{batch_id}</batch_id>\n<delete_time>0</delete_time>\n"
        said = self.ask("query_files", batch + names, to="job_file.php")
        places = [int(place.text or "") for place in said.iterfind("absent_files/file")]
        absent = [name for place, name in enumerate(contents) if place in places]
        names = "".join(f"<phys_name>{name}</phys_name>\n" for name in absent)
        boundary = uuid.uuid4().hex
        body = io.BytesIO()
        body.write(
            f'--{boundary}\r\nContent-Disposition: form-data; name="request"\r\n\r\n'.encode()
        )
        body.write(self._request("upload_files", batch + names).encode() + b"\r\n")
        for number, name in enumerate(absent):
            body.write(
                f"--{boundary}\r\nContent-Disposition: form-data; "
                f'name="file_{number}"; filename="{name}"\r\n'
                "Content-Type: application/octet-stream\r\n\r\n".encode()
            )
            body.write(contents[name] + b"\r\n")
        body.write(f"--{boundary}--\r\n".encode())
        request = urllib.request.Request(
            f"{self.url}job_file.php",
            body.getvalue(),
            {"Content-Type": f"multipart/form-data; boundary={boundary}"},
        )
        with urllib.request.urlopen(request, timeout=30) as reply:
            assert self._read(reply.read()).find("success") is not None

    def output(self, query: str) -> bytes:
        with urllib.request.urlopen(f"{self.url}get_output.php?{query}", timeout=30) as reply:
            return bytes(reply.read())

    def hashed(self, text: str) -> str:
        return hashlib.md5((self.key + text).encode()).hexdigest()

    def _request(self, command: str, inside: str) -> str:
        key = f"<authenticator>{self.key}</authenticator>\n"
        return f"<{command}>\n{key}{inside}</{command}>\n"

    def _read(self, reply: bytes) -> ET.Element:
        said = ET.fromstring(reply)
        assert said.find("error") is None, reply.decode()
        return said


def a_submitter(project: Project) -> Submitter:
    digest = hashlib.md5((PASSWORD + EMAIL).encode()).hexdigest()
    asked = urllib.parse.urlencode({"email_addr": EMAIL, "passwd_hash": digest, "user_name": "Ada"})
    with urllib.request.urlopen(f"{project.url}create_account.php?{asked}", timeout=30) as reply:
        assert ET.fromstring(reply.read()).findtext("authenticator") is not None
    allowed = project.manage("submitter", "allow", EMAIL, "--app", APP, "--json")
    return Submitter(project.url, json.loads(allowed)["submission_key"])


def test_boinc_submission_client_submits_a_batch_and_downloads_its_outputs(our_project, our_client):
    project = our_project
    templates = project.folder / "var" / "templates"
    templates.mkdir()
    (templates / f"{APP}_in").write_text(INPUT)
    (templates / f"{APP}_out").write_text(OUTPUT)
    ada = a_submitter(project)

    # Query the app's templates, and create a batch
    said = ada.ask("get_templates", f"<app_name>{APP}</app_name>\n")
    assert [one.text for one in said.iter("open_name")] == ["in", "out"]
    batch = ada.ask(
        "create_batch",
        f"<app_name>{APP}</app_name>\n<batch_name>exponents</batch_name>\n"
        "<expire_time>0</expire_time>\n",
    )
    batch_id = int(batch.findtext("batch_id") or "")

    # Upload the files before the workunits
    contents = {f"jf_{hashlib.md5(text).hexdigest()}": text for text in (b"11\n13\n", b"17\n23\n")}
    ada.upload(batch_id, contents)
    ada.upload(batch_id, contents)

    # Submit workunits, one of them with its own templates
    jobs = "".join(
        f"<job>\n<name>exponents_{n}</name>\n<input_file>\n<mode>local_staged</mode>\n"
        f"<source>{name}</source>\n</input_file>\n</job>\n"
        for n, name in enumerate(contents)
    )
    own = OUTPUT.replace("100000", "5000")
    jobs += (
        f"<job>\n<name>exponents_2</name>\n{INPUT}\n{own}\n<input_file>\n<mode>inline</mode>\n"
        "<source>31\n</source>\n</input_file>\n</job>\n"
    )
    ada.ask(
        "submit_batch",
        f"<batch>\n<app_name>{APP}</app_name>\n<batch_id>{batch_id}</batch_id>\n"
        f"<app_version_num>0</app_version_num>\n{jobs}</batch>\n",
    )

    # A volunteer computes; query the batch until it is complete
    our_client(project, "volunteer").start()
    query = (
        f"<batch_id>{batch_id}</batch_id>\n<get_cpu_time>1</get_cpu_time>\n"
        "<get_job_details>1</get_job_details>\n"
    )
    project.wait(
        lambda: ada.ask("query_batch", query).findtext("state") == "2",
        within=40,
        what="the batch is complete",
    )
    said = ada.ask("query_batch", query)
    assert said.findtext("fraction_done") == "1"
    assert [job.findtext("status") for job in said.iterfind("job")] == ["done"] * 3

    # Fetch the outputs, one by one and together
    answers = {
        "exponents_0": b"11 composite 00000000000006c8\n13 prime 0000000000000000\n",
        "exponents_2": b"31 prime 0000000000000000\n",
    }
    for name, answer in answers.items():
        result = f"{name}_0"
        assert (
            ada.output(
                f"cmd=result_file&result_name={result}&file_num=0&auth_str={ada.hashed(result)}"
            )
            == answer
        )
    together = ada.output(
        f"cmd=batch_files&batch_id={batch_id}&auth_str={ada.hashed(str(batch_id))}"
    )
    with zipfile.ZipFile(io.BytesIO(together)) as zipped:
        assert len(zipped.namelist()) == 3
        assert set(answers.values()) <= {zipped.read(name) for name in zipped.namelist()}

    # Retire the batch: its files are deleted
    ada.ask("retire_batch", f"<batch_id>{batch_id}</batch_id>\n")
    assert ada.ask("query_batches", "<get_cpu_time>0</get_cpu_time>\n").find("batch") is None
    kept = "SELECT count(*) FROM workunit WHERE outputs_kept"
    project.wait(lambda: project.count(kept) == 0, within=20, what="nothing is kept")
    project.fsck()
