"""Workunits submitted from the command line with BOINC's templates."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from scheduler import storage
from scheduler.management import templated_work
from scheduler.models import App, File, Workunit
from scheduler.work.submission.submit import NewOutput, NewWorkunit
from tests.rows import a_host, an_app

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


def test_options_on_resources_and_start_apply_with_and_without_templates(
    app, paths, written
) -> None:
    App.objects.update(workunit_defaults={"outputs": ["o"], "requested_gpus": 3, "max_fails": 2})
    options = ("--cpus", 4, "--start-offset", 60)
    run("upper", *paths[:2], *written, *options)
    run("upper", paths[0], *options, "--gpus", 1)
    templated, plain = Workunit.objects.order_by("id")
    assert (templated.requested_cpus, templated.requested_gpus) == (4, 3)
    assert templated.max_error_results == 2
    assert (plain.requested_cpus, plain.requested_gpus) == (4, 1)
    for workunit in (templated, plain):
        assert workunit.start_after - workunit.created_at <= timedelta(minutes=1)


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


#: For each field: the app's default, the words of the option, and the value that they set.
OPTIONS = {
    "min_quorum": (3, ["--quorum", 4], 4),
    "target_nresults": (5, ["--target", 6], 6),
    "max_error_results": (5, ["--max-errors", 7], 7),
    "rsc_fpops_est": (1e9, ["--fpops", "2e9"], 2e9),
    "rsc_memory_bound": (1e7, ["--memory", "2e7"], 2e7),
    "rsc_disk_bound": (1e7, ["--disk", "2e7"], 2e7),
    "rsc_bandwidth_bound": (1e3, ["--bandwidth", "2e3"], 2e3),
    "delay_bound": (3600, ["--deadline", "2h"], timedelta(hours=2)),
    "max_timeouts": (3, ["--max-timeouts", 0], 0),
    "priority": (8, ["--priority", 0], 0),
    "size_class": (2, ["--size-class", 0], 0),
    "app_version_num": (100, ["--app-version", 200], 200),
    "keywords": ("3,17", ["--keywords", "4"], "4"),
    "broadcast": (False, ["--broadcast"], True),
    "held": (False, ["--hold"], True),
    "target_host": (11, ["--for-host", 12], 12),
    "start_after": (
        "2030-01-01",
        ["--start-after", "2031-01-01"],
        datetime(2031, 1, 1, tzinfo=UTC),
    ),
    "start_before": (
        "2030-01-01",
        ["--start-before", "2031-01-01"],
        datetime(2031, 1, 1, tzinfo=UTC),
    ),
    "end_before": ("2030-01-01", ["--end-before", "2031-01-01"], datetime(2031, 1, 1, tzinfo=UTC)),
    "requested_cpus": (2, ["--cpus", 3], 3),
    "requested_gpus": (2, ["--gpus", 3], 3),
    "start_offset_seconds": (60, ["--start-offset", 5], 5),
    "queue": ("night", ["--queue", "day"], "day"),
    "meta": ({"a": 1}, ["--meta", '{"b": 2}'], {"b": 2}),
    "outputs": (["x"], ["--outputs", "y"], (NewOutput(open_name="y"),)),
}
#: Other forms of the defaults above, and flags that only a default can set.
SHOWN = {
    "delay_bound": timedelta(hours=1),
    "outputs": (NewOutput(open_name="x"),),
    **dict.fromkeys(
        ("start_after", "start_before", "end_before"), datetime(2030, 1, 1, tzinfo=UTC)
    ),
}
FLAGS = {"broadcast": True, "held": True, "target_account": 21, "target_team": 22}


@pytest.fixture
def built(monkeypatch):
    """Return a function that runs the command and returns the workunits that it would submit."""
    built = []
    make = templated_work.workunits

    def record(*args, **kwargs):
        built.extend(make(*args, **kwargs))
        raise CommandError("recorded")

    monkeypatch.setattr(templated_work, "workunits", record)

    def workunit(tmp_path, text, *words) -> NewWorkunit:
        (tmp_path / "in.xml").write_text(text)
        with pytest.raises(CommandError, match="recorded"):
            run("upper", *words, "--input-template", tmp_path / "in.xml")
        return built.pop()

    return workunit


@pytest.mark.parametrize("field", OPTIONS)
def test_an_option_overrides_the_default_of_the_app_only_if_it_is_given(
    app, built, tmp_path, field
) -> None:
    default, words, value = OPTIONS[field]
    App.objects.update(workunit_defaults={field: default})
    expected = SHOWN.get(field, default)
    assert getattr(built(tmp_path, "<workunit/>"), field) == expected != value
    assert getattr(built(tmp_path, "<workunit/>", *words), field) == value


@pytest.mark.parametrize("field", FLAGS)
def test_a_default_that_no_option_unsets_is_kept(app, built, tmp_path, field) -> None:
    App.objects.update(workunit_defaults={field: FLAGS[field]})
    assert getattr(built(tmp_path, "<workunit/>"), field) == FLAGS[field]


def test_every_field_of_a_workunit_with_an_option_is_in_the_table() -> None:
    from scheduler.management.commands.submit_work import _FIELDS

    assert set(_FIELDS.values()) <= OPTIONS.keys()


def test_option_overrides_the_default_of_the_app_and_the_template_overrides_both(
    app, built, tmp_path
) -> None:
    App.objects.update(workunit_defaults={"min_quorum": 2, "delay_bound": 60})
    text = "<workunit><min_quorum>3</min_quorum><delay_bound>120</delay_bound></workunit>"
    workunit = built(tmp_path, text)
    assert (workunit.min_quorum, workunit.delay_bound) == (3, timedelta(seconds=120))
    workunit = built(tmp_path, text, "--quorum", 4, "--deadline", "1h", "--priority", 5)
    assert (workunit.min_quorum, workunit.delay_bound) == (3, timedelta(seconds=120))
    assert workunit.priority == 5


def test_retries_by_default_are_added_to_the_results_of_the_template(app, built, tmp_path) -> None:
    App.objects.update(workunit_defaults={"max_retry_count": 3})
    text = "<workunit><min_quorum>2</min_quorum><target_nresults>4</target_nresults>{}</workunit>"
    workunit = built(tmp_path, text.format(""))
    assert (workunit.max_error_results, workunit.max_total_results) == (3, 7)
    limited = text.format("<max_total_results>5</max_total_results>")
    assert built(tmp_path, limited).max_total_results == 5


def test_option_for_a_target_replaces_the_target_that_is_the_default(app, built, tmp_path) -> None:
    account = a_host().account
    App.objects.update(workunit_defaults={"target_host": 11})
    workunit = built(tmp_path, "<workunit/>", "--for-account", account.email)
    assert (workunit.target_host, workunit.target_account) == (None, account.pk)
