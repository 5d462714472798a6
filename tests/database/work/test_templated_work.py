"""Workunits submitted from the command line with BOINC's templates."""

from __future__ import annotations

import io
from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from scheduler import storage
from scheduler.models import App, File, Workunit
from tests.rows import an_app

pytestmark = pytest.mark.django_db

INPUT = """<input_template>
<file_info><sticky/></file_info>
<file_info/>
<workunit>
<file_ref><open_name>a</open_name></file_ref>
<file_ref><open_name>b</open_name><copy_file/></file_ref>
<command_line>--from template</command_line>
<min_quorum>2</min_quorum>
</workunit>
</input_template>
"""
OUTPUT = (
    "<file_info><name><OUTFILE_0/></name><upload_when_present/><max_nbytes>77</max_nbytes>"
    "<url><UPLOAD_URL/></url><gzip_when_done/></file_info>"
    "<result><file_ref><file_name><OUTFILE_0/></file_name><open_name>o</open_name></file_ref></result>"
)


def run(*words: object) -> str:
    out = io.StringIO()
    call_command("submit_work", *map(str, words), stdout=out, stderr=io.StringIO())
    return out.getvalue().strip()


@pytest.fixture
def app() -> App:
    return an_app("upper")


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    found = [tmp_path / f"{n}.txt" for n in range(4)]
    for n, path in enumerate(found):
        path.write_text(str(n))
    return found


@pytest.fixture
def written(tmp_path: Path) -> list[object]:
    (tmp_path / "in.xml").write_text(INPUT)
    (tmp_path / "out.xml").write_text(OUTPUT)
    return ["--input-template", tmp_path / "in.xml", "--output-template", tmp_path / "out.xml"]


def test_each_workunit_gets_as_many_input_files_as_the_template_requires(
    app, paths, written
) -> None:
    run("upper", *paths, *written, "--deadline", "2h", "--fpops", "1e10", "--priority", 5, "--hold")
    one, two = Workunit.objects.order_by("id")
    contents = []
    for reference in two.input_files.order_by("position"):
        file, _ = storage.open_download(reference.file.name)
        with file:
            contents.append(
                (reference.open_name, reference.sticky, reference.copy_file, file.read())
            )
    assert contents == [("a", True, False, b"2"), ("b", False, True, b"3")]
    assert (one.command_line, one.min_quorum, one.target_nresults) == ("--from template", 2, 2)
    assert (one.delay_bound, one.rsc_fpops_est) == (timedelta(hours=2), 1e10)
    assert (one.priority, one.max_total_results) == (5, 2)
    assert one.outputs == [{"open_name": "o", "max_nbytes": 77, "gzip_when_done": True}]


def test_the_input_template_of_the_app_is_used_by_default(app, paths, written) -> None:
    App.objects.update(input_template=INPUT, workunit_defaults={"rsc_disk_bound": 5e8})
    run("upper", *paths[:2], *written[2:])
    workunit = Workunit.objects.get()
    assert (workunit.min_quorum, workunit.rsc_disk_bound) == (2, 5e8)


def test_a_template_is_found_by_name_and_remote_files_are_stored_with_their_url(app, paths) -> None:
    folder = settings.VAR_DIR / "templates"
    folder.mkdir(parents=True)
    (folder / "far").write_text(
        "<file_info><url>https://a.example/</url>"
        f"<md5_cksum>{'a' * 32}</md5_cksum><nbytes>9</nbytes></file_info>"
        "<workunit><file_ref><open_name>a</open_name></file_ref></workunit>"
    )
    run("upper", paths[0], "--input-template", "far")
    assert File.objects.get().urls == "https://a.example/0.txt"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["0.txt", "--input-template", "in.xml"], r"needs 2 input files .*, 1 are given\. Hint"),
        (["--input-template", "in.xml"], r"needs 2 input files .*, 0 are given\. Hint"),
        (["--input-template", "no/in.xml"], r"There is no file .*no/in.xml\. Hint: check the path"),
        (["--input-template", "nothing"], r"There is no template 'nothing'\. Hint: put it"),
        (["--input-template", "..x"], r"begins with a dot or contains"),
        (
            ["--output-template", "out.xml"],
            r"App upper has no input template\. Hint: name one with",
        ),
        (
            ["--input-template", "out.xml"],
            r"<workunit>: An input template has no <workunit>\. Hint",
        ),
        (
            ["0.txt", "1.txt", "--input-template", "in.xml", "--command-line=-x"],
            r"The submission has the command line '-x', and the template has '--from template'\. Hint",
        ),
        (["0.txt", "--input-template", "none.xml"], r"needs no input files, 1 are given\. Hint"),
    ],
)
def test_invalid_templates_and_template_arguments_are_refused(
    app, paths, written, tmp_path, words, why
) -> None:
    (tmp_path / "none.xml").write_text("<workunit/>")
    given = [str(tmp_path / w) if w.endswith((".xml", ".txt")) else w for w in words]
    with pytest.raises(CommandError, match=why):
        run("upper", *given)
    assert not Workunit.objects.exists()
