"""Hostile science code is confined in each form of confinement."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from datetime import timedelta
from pathlib import Path
from time import monotonic, sleep

import pytest
from django.db import connection

from daemons.science import confinement, landlock, worker
from daemons.science.interfaces import TransientScienceError
from scheduler.apps.rules.plugins import Plugin

pytestmark = pytest.mark.lengthy

HERE = "tests.security.science_probe"
LONG = timedelta(seconds=30)
FORMS = [
    pytest.param("bubblewrap", marks=pytest.mark.needs("bwrap")),
    "landlock",
    pytest.param("service", marks=pytest.mark.needs("bwrap")),
    "none",
]
CONFINED = FORMS[:-1]
ROOT = Path(__file__).resolve().parent.parent.parent


def call(function, *args, **options):
    return worker.call(f"{HERE}:{function}", *args, **{"time_limit": LONG, **options})


@pytest.fixture(scope="module")
def service():
    """The science service over its socket, as another user if that user can run our Python."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        path = f"{folder}/socket"
        process = subprocess.Popen(
            [sys.executable, "-m", "daemons.science.service", path, "--mode", "666"],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
            **another_user(),
        )
        deadline = monotonic() + 30
        while not Path(path).exists() and monotonic() < deadline:
            sleep(0.02)
        yield path
        worker.stop()
        process.terminate()
        process.wait(10)


def another_user():
    if os.geteuid():
        return {}
    ids = {"user": confinement.SCIENCE_UID, "group": confinement.SCIENCE_UID}
    user = {**ids, "extra_groups": [os.getegid()]}  # FILE_UMASK lets the group read
    words = [sys.executable, "-c", "import daemons.science.service"]
    try:
        subprocess.run(
            words, check=True, capture_output=True, env={"PYTHONPATH": str(ROOT)}, cwd="/", **user
        )
    except (OSError, subprocess.CalledProcessError):
        return {}
    return user


@pytest.fixture
def form(request, settings):
    """Confine workers in this form; the service's user can enter VAR_DIR, as in production."""
    if request.param == "service":
        settings.SCIENCE_SOCKET = request.getfixturevalue("service")
        settings.VAR_DIR = request.getfixturevalue("public_folder") / "var"
    else:
        settings.SCIENCE_CONFINEMENT = request.param
    if request.param == "landlock" and not landlock.version():
        pytest.skip("this kernel has no Landlock")
    (settings.VAR_DIR / "upload/00").mkdir(parents=True)
    (settings.VAR_DIR / "science").mkdir()
    yield request.param
    worker.stop()


@pytest.fixture
def an_input(form, settings):
    path = settings.VAR_DIR / "upload/00/result"
    path.write_text("answer")
    return path


# Hidden files and environments


@pytest.mark.parametrize("form", FORMS, indirect=True)
def test_worker_environment_contains_no_secrets(form, monkeypatch):
    for name in ("SECRET_KEY", "DATABASE_URL", "AWS_SECRET_ACCESS_KEY", "CHANCE_KEY", "ANYTHING"):
        monkeypatch.setenv(name, "hidden-treasure")
    assert "hidden-treasure" not in str(call("environment"))


@pytest.mark.parametrize("form", FORMS, indirect=True)
def test_worker_can_create_temporary_files(form):
    assert call("temporary_file") == "kept"


@pytest.mark.parametrize("form", CONFINED, indirect=True)
def test_worker_cannot_read_the_environment_of_the_daemon(form, settings):
    """The daemon has secrets in its environment; its worker must not read them."""
    program = (
        "import json, os, django; django.setup()\n"
        "from datetime import timedelta; from daemons.science import worker\n"
        "limit = timedelta(seconds=30)\n"
        f"print(json.dumps([worker.call('{HERE}:' + words[0], *words[1:], time_limit=limit,"
        " max_answer=1 << 24) for words in (['ancestors'], ['every_environment'],"
        " ['read', f'/proc/{os.getpid()}/environ'])]))"
    )
    environment = {
        **os.environ,
        "VAR_DIR": str(settings.VAR_DIR),
        "DATABASE_URL": "postgresql://someone:hidden-treasure@localhost/none",
        "SECRET_KEY": "hidden-treasure",
        "SCIENCE_CONFINEMENT": settings.SCIENCE_CONFINEMENT,
        "SCIENCE_SOCKET": settings.SCIENCE_SOCKET,
        "DJANGO_SETTINGS_MODULE": "project.settings",
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "client"))),
    }
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "hidden-treasure" not in done.stdout
    assert json.loads(done.stdout)


@pytest.mark.parametrize("form", CONFINED, indirect=True)
def test_worker_cannot_read_keys(form, settings):
    files = [path for path in settings.KEYS_DIR.iterdir() if path.is_file() and path.read_bytes()]
    assert files
    for path in files:
        assert call("read", str(path)) in {"FileNotFoundError", "PermissionError"}


@pytest.mark.parametrize("form", ["landlock", CONFINED[0]], indirect=True)
def test_worker_cannot_read_keys_of_a_project_below_a_system_folder(
    form, settings, an_input, monkeypatch
):
    """A project that is installed below /usr, for example in /usr/local."""
    above = settings.VAR_DIR.parent
    (above / "library").write_text("found")
    secret = settings.VAR_DIR / "secret"
    secret.write_text("hidden-treasure")
    monkeypatch.setattr(confinement, "_SYSTEM", (*confinement._SYSTEM, str(above)))
    worker.stop()
    assert call("read", str(secret)) in {"FileNotFoundError", "PermissionError"}
    assert call("read", str(above / "library")) == "found"
    assert call("read", str(an_input)) == "answer"


def test_only_required_folders_of_a_project_below_a_system_folder_are_visible(
    tmp_path, monkeypatch
):
    base = tmp_path / "local/project"
    for name in ("daemons", "deploy", ".venv"):
        (base / name).mkdir(parents=True)
    (base / ".env").touch()
    (tmp_path / "lib").mkdir()
    monkeypatch.setattr(confinement, "_SYSTEM", (str(tmp_path),))
    monkeypatch.setattr(confinement, "BASE", base)
    monkeypatch.setattr(confinement, "_python_paths", lambda: (f"{base}/.venv", str(tmp_path)))
    shown = set(confinement._shown(confinement.Profile()))
    assert shown == {f"{tmp_path}/lib", f"{base}/daemons", f"{base}/.venv"}


@pytest.mark.django_db
@pytest.mark.parametrize("form", CONFINED, indirect=True)
def test_worker_cannot_connect_to_the_database_socket(form):
    connection.ensure_connection()
    info = connection.connection.info
    path = f"{info.host}/.s.PGSQL.{info.port}"
    with socket.socket(socket.AF_UNIX) as ours:
        ours.connect(path)
    assert call("connect", path) in {"FileNotFoundError", "PermissionError"}


@pytest.mark.parametrize("form", CONFINED, indirect=True)
def test_worker_has_no_network_access(form):
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert call("connect_tcp", server.getsockname()[1]) != "connected"


# Read-only files


@pytest.mark.parametrize("form", FORMS, indirect=True)
def test_worker_can_read_inputs(form, an_input):
    assert call("read", str(an_input)) == "answer"


@pytest.mark.parametrize("form", CONFINED, indirect=True)
def test_worker_cannot_write_inputs(form, an_input):
    assert call("write", str(an_input)) in {"PermissionError", "OSError"}
    assert an_input.read_text() == "answer"


@pytest.mark.parametrize("form", CONFINED, indirect=True)
def test_worker_cannot_create_files_in_project_folders(form, settings, an_input):
    for path in (settings.VAR_DIR / "evil", an_input.with_name("evil"), ROOT / "evil.py"):
        call("create", str(path))
        assert not path.exists()


@pytest.mark.parametrize("form", ["landlock", CONFINED[0]], indirect=True)
def test_plugin_can_write_to_a_folder_in_the_allow_list(form, tmp_path):
    plugin = Plugin(kind="assimilator", name="store", target="python:a.b", writes=(str(tmp_path),))
    profile = worker.profile_of(plugin)
    assert call("create", str(tmp_path / "kept"), profile=profile) == "written"
    assert (tmp_path / "kept").read_text() == "x"


# Limits


@pytest.mark.parametrize("form", FORMS, indirect=True)
def test_worker_has_resource_limits(form, settings):
    limits = call("limits")
    assert limits["CORE"] == 0
    assert limits["AS"] == settings.SCIENCE_MEMORY_MB << 20
    assert limits["FSIZE"] == settings.SCIENCE_FILE_MB << 20
    assert limits["CPU"] == settings.SCIENCE_CPU_SECONDS
    assert limits["NPROC"] >= settings.SCIENCE_PROCESSES


@pytest.mark.parametrize("form", FORMS, indirect=True)
def test_endless_forking_is_limited_and_ends_with_the_worker(form, settings):
    settings.SCIENCE_PROCESSES = 20
    settings.SCIENCE_CPU_SECONDS = mark = 1_000_000 + os.getpid()
    if form == "bubblewrap":
        # Root's worker becomes another user if that user can read the inputs; Linux does not limit root.
        for folder in (settings.VAR_DIR, *settings.VAR_DIR.rglob("*")):
            folder.chmod(0o755)
    count = call("fork_without_end", 60)
    if form == "bubblewrap" or os.geteuid():
        assert count < 30
    assert forked(mark)
    worker.stop()
    deadline = monotonic() + 10
    while forked(mark) and monotonic() < deadline:
        sleep(0.05)
    assert not forked(mark)


def forked(mark):
    """Return the processes of this test's worker, whose command line contains `mark`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes()
                is_ours = b"worker_main" in words and str(mark).encode() in words
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if is_ours and fields[0] not in "ZX":
                found.append(int(entry.name))
    return found


# Answers


FRAMES = {
    "pickle": b"\x80\x04\x95\x1a\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94",
    "nan": b'{"status": "value", "value": NaN}',
    "infinity": b'{"status": "value", "value": 1e999}',
    "deep": b'{"status": "value", "value": ' + b"[" * 60 + b"]" * 60 + b"}",
    "very deep": b"[" * 200_000,
    "nul": b'{"status": "value", "value": "a\\u0000b"}',
    "surrogate": b'{"status": "value", "value": "\\ud800"}',
    "no utf-8": b'{"status": "value", "value": "\xff"}',
    "no status": b'{"value": 1}',
    "more names": b'{"status": "value", "value": 1, "more": 1}',
    "list": b"[]",
    "status of another type": b'{"status": ["value"], "value": 1}',
    "no sentence": b'{"status": "raised", "sentence": 5, "traceback": ""}',
}


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("form", ["none", CONFINED[2]], indirect=True)
def test_invalid_response_is_refused_and_the_worker_replaced(form, frame):
    before = call("process")
    data = FRAMES[frame]
    text = (len(data).to_bytes(8, "big") + data).decode("latin-1")
    with pytest.raises(worker.ScienceFailed):
        call("send", text)
    assert call("process") != before


@pytest.mark.parametrize("form", ["none", *CONFINED], indirect=True)
def test_response_over_the_size_limit_is_refused(form):
    size = (1 << 62).to_bytes(8, "big").decode("latin-1")
    with pytest.raises(worker.ScienceRaised, match="more than 1048576"):
        call("send", size + "x" * 1000)


@pytest.mark.parametrize("form", ["none"], indirect=True)
def test_second_response_is_not_used_for_the_next_call(form):
    frame = b'{"status": "value", "value": "forged"}'
    text = (len(frame).to_bytes(8, "big") + frame).decode("latin-1")
    assert call("send", text * 2) == "forged"
    assert call("environment") != "forged"


# Without confinement


@pytest.fixture
def public(settings):
    import dataclasses

    url = "https://science.example.org/"
    settings.PROJECT = dataclasses.replace(settings.PROJECT, master_url=url)


@pytest.mark.parametrize("form", ["none"], indirect=True)
def test_public_project_refuses_to_run_unconfined_plugins(form, public):
    plugin = Plugin(kind="validator", name="orbits", target="python:orbits.Orbits")
    with pytest.raises(TransientScienceError, match="not confined"):
        call("environment", profile=worker.profile_of(plugin))
    assert call("environment")  # built-in science still runs


@pytest.mark.parametrize("form", CONFINED, indirect=True)
def test_a_public_project_runs_confined_plugins(form, public):
    plugin = Plugin(kind="validator", name="orbits", target="python:orbits.Orbits")
    assert call("environment", profile=worker.profile_of(plugin))


def test_warning_is_shown_if_no_confinement_works(settings, monkeypatch):
    monkeypatch.setattr(confinement, "_troubles", {"bubblewrap": "no bwrap", "landlock": "no ABI"})
    assert "Hint: apt install bubblewrap" in worker.warning()
    settings.SCIENCE_SOCKET = "/run/science"
    assert worker.warning() == ""


def test_unreachable_science_service_raises_a_transient_error(settings, tmp_path):
    settings.SCIENCE_SOCKET = str(tmp_path / "socket")
    with pytest.raises(TransientScienceError, match="does not answer at"):
        call("environment")


def test_the_number_of_workers_is_limited(settings):
    settings.SCIENCE_CONFINEMENT = "none"
    for number in range(worker.MAX_WORKERS + 2):
        plugin = Plugin(kind="validator", name=str(number), target="python:a.B")
        call("environment", profile=worker.profile_of(plugin))
    assert len(worker._own) == worker.MAX_WORKERS
    worker.stop()
    assert not worker._own
    assert threading.active_count() < 20


# Rights of root


@pytest.mark.parametrize("form", FORMS, indirect=True)
@pytest.mark.parametrize("inputs", ["public", "private"])
def test_worker_started_by_root_has_no_capabilities(form, inputs, settings):
    """A worker of root stays root if only root can read the inputs, but has no privileges."""
    if inputs == "private":
        (settings.VAR_DIR / "upload").chmod(0o700)
    assert call("capabilities", profile=worker.profile_of(None)) == ["False", "False"]


@pytest.mark.needs("bwrap")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root's workers become another user")
@pytest.mark.parametrize("form", ["bubblewrap"], indirect=True)
def test_worker_started_by_root_runs_as_another_user_and_reads_closed_inputs(
    form, settings, an_input
):
    for path in (settings.VAR_DIR, *settings.VAR_DIR.rglob("*")):
        path.chmod(0o750 if path.is_dir() else 0o640)  # as FILE_UMASK has them
    profile = worker.profile_of(None)
    assert call("user", profile=profile) == confinement.SCIENCE_UID
    assert call("read", str(an_input), profile=profile) == "answer"
    assert call("write", str(an_input), profile=profile) != "written"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's workers become another user")
@pytest.mark.parametrize("form", ["landlock", "none"], indirect=True)
@pytest.mark.parametrize("mode", [0o700, 0o710, 0o711])
def test_worker_started_by_root_can_read_inputs_below_a_private_folder(
    form, mode, settings, an_input, public_folder
):
    """The worker stays root only if another user cannot enter a folder above the inputs."""
    settings.VAR_DIR.rename(public_folder / "var")
    settings.VAR_DIR = public_folder / "var"
    public_folder.chmod(mode)
    profile = worker.profile_of(None)
    other = confinement.user_for(form, confinement.Profile())
    assert call("user", profile=profile) == ((other or 0) if mode != 0o700 else 0)
    assert call("read", str(settings.VAR_DIR / "upload/00/result"), profile=profile) == "answer"
