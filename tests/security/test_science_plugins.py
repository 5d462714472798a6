"""Programs run on the server only from the allow-list in the settings."""

from __future__ import annotations

import json
import re
import socket
import threading
import tomllib
from contextlib import suppress
from datetime import timedelta
from time import monotonic, sleep

import pytest
from django.core.management import call_command
from django.forms import modelform_factory

from daemons import assimilator, validator
from daemons.science import webhook, worker
from daemons.science.generators import read_answer
from daemons.science.interfaces import TransientScienceError
from project import env
from project.celery import app
from scheduler.admin.apps.pages import AppForm
from scheduler.apps import apps
from scheduler.apps.rules import plugins
from scheduler.files import fetching
from scheduler.files.fetching import SourceFailed
from scheduler.health import alerts
from scheduler.models import App, ScienceFailure
from scheduler.people import submitters
from scheduler.work.submission.rules.work_from_dicts import BadDescription, new_workunit
from tests import rows
from tests.conftest import NOON
from tests.database.daemons.test_assimilator import finished
from tests.database.passes import a_pass
from tests.faces.apis import a_program
from tests.rows import an_account, an_app

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True, scope="module")
def no_worker_is_left():
    yield
    worker.stop()


@pytest.fixture
def evil(tmp_path):
    """A program that creates a file when it runs."""
    program = tmp_path / "evil.sh"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    program.chmod(0o755)
    return program


def a_manager(*apps):
    ada = an_account("ada")
    submitters.allow(ada, apps=list(apps), may_manage=True, now=NOON)
    return a_program(ada, "read", "submit", "manage")


def compared(app):
    workunit = rows.a_workunit(app, need_validate=True, transition_at=None)
    for _ in range(2):
        rows.a_result(workunit, "success", output=b"1", uploaded=True)
    a_pass(validator)


def test_program_named_in_validator_options_is_refused(evil):
    app = an_app("primes", validator="script:judge")
    options = {"init": False, "compare_program": str(evil)}
    answer = a_manager(app).send("patch", "/apps/primes", {"validator_options": options})
    assert answer.status_code == 422
    assert App.objects.get().validator_options == {}


def test_program_in_the_validator_options_of_an_existing_app_is_not_run(evil):
    options = {"init": False, "compare_program": str(evil)}
    compared(an_app("primes", validator="script:judge", validator_options=options))
    assert not evil.with_name("ran").exists()


def test_existing_app_with_a_program_not_in_the_allow_list_does_not_run_it(evil):
    compared(an_app("primes", validator=f"script:{evil}"))
    finished(an_app("sums", assimilator=f"script:{evil}"))
    a_pass(assimilator)
    assert not evil.with_name("ran").exists()


def test_command_line_arguments_in_assimilator_options_are_not_run(evil):
    app = an_app(
        "sums", assimilator="script:/bin/sh", assimilator_options={"arguments": ["-c", str(evil)]}
    )
    finished(app)
    a_pass(assimilator)
    assert not evil.with_name("ran").exists()


# The allow-list


ALLOWED = {
    "validator": {
        "orbits": {"target": "python:orbits.Orbits", "app_options": ["metres"]},
        "judge": {"target": "script:judge", "options": {"init": False}, "app_options": ["invalid"]},
    },
    "assimilator": {"rows": {"target": "table", "options": {"table": "science.rows"}}},
    "generator": {"ranges": {"target": "python:ranges.generate", "options": {"first": 1}}},
    "trickle_handler": {"checkpoint": {"target": "python:my.science.on_checkpoint"}},
}


@pytest.fixture
def allow_list(settings):
    settings.PLUGINS = plugins.read(ALLOWED)


@pytest.mark.usefixtures("allow_list")
@pytest.mark.parametrize(
    "wish",
    [
        {"validator": "orbits", "validator_options": {"metres": 5}},
        {"validator": "judge", "validator_options": {"invalid": 2}},
        {"validator": "judge", "validator_options": {"init": False}},
        {"validator": "numeric", "validator_options": {"relative": 0.1}},
        {"assimilator": "rows"},
        {"assimilator": "webhook"},
    ],
)
def test_manager_can_set_names_that_are_in_the_allow_list(wish):
    options = {"url": "https://lab.example.org/", "secret": "0123456789abcdef"}
    app = an_app(
        "primes", assimilator_options=options if wish.get("assimilator") == "webhook" else {}
    )
    answer = a_manager(app).send("patch", "/apps/primes", wish)
    assert answer.status_code == 200, answer.json()


WRONG = [
    ({"validator": "orbit"}, "did you mean 'orbits'?"),
    ({"validator": "orbits", "validator_options": {"feet": 5}}, "apps can set: metres"),
    ({"validator": "judge", "validator_options": {"compare_program": "/bin/sh"}}, "cannot set"),
    ({"validator": "judge", "validator_options": {"compare": ["{files}", "x"]}}, "cannot set"),
    ({"validator": "judge", "validator_options": {"init": ["-c", "{files}"]}}, "cannot set"),
    ({"validator": "script:judge"}, "There is no validator"),
    ({"validator": "/bin/sh"}, "There is no validator"),
    ({"validator": "../judge"}, "There is no validator"),
    ({"assimilator": "table"}, "There is no assimilator"),
    ({"assimilator": "python:os.system"}, "There is no assimilator"),
    ({"assimilator": "rows", "assimilator_options": {"table": "account"}}, "cannot set"),
    ({"generator": "python:os.system"}, "There is no generator"),
    ({"generator": "ranges", "generator_options": {"first": 2}}, "cannot set"),
    ({"trickle_handlers": {"news": "python:os.system"}}, "There is no trickle handler"),
    ({"trickle_handlers": {"news": ["x"]}}, "not a JSON object"),
]


@pytest.mark.usefixtures("allow_list")
@pytest.mark.parametrize(("facts", "said"), WRONG)
def test_names_not_in_the_allow_list_are_refused_by_operations_and_the_admin_form(facts, said):
    with pytest.raises(apps.BadApp, match=re.escape(said)):
        apps.create(name="primes", now=NOON, **facts)
    app = an_app("primes")
    with pytest.raises(apps.BadApp, match=re.escape(said)):
        apps.change(app, **facts, now=NOON)
    form_of_staff = modelform_factory(App, form=AppForm, fields=list(facts))
    data = {
        name: fact if isinstance(fact, str) else json.dumps(fact) for name, fact in facts.items()
    }
    assert said in str(form_of_staff(data=data).errors.as_data())


@pytest.mark.usefixtures("allow_list")
def test_existing_apps_with_names_not_in_the_allow_list_are_reported(capsys):
    an_app("primes", generator="python:os.system", trickle_handlers={"news": "python:os.system"})
    an_app("sums", validator="script:judge", validator_options={"init": False})
    assert len(alerts.facts(now=NOON).unknown_science) == 3
    with pytest.raises(SystemExit):
        call_command("check_science")
    said = capsys.readouterr().out
    assert "primes: generator: There is no generator 'python:os.system'" in said
    assert "sums: validator: There is no validator 'script:judge'" in said


def test_suggested_allow_list_contains_all_names_of_existing_apps(settings, capsys):
    facts = {
        "validator": "script:judge",
        "validator_options": {"compare": ["{files}", "{other_files}"]},
    }
    an_app("sums", assimilator="table", assimilator_options={"table": "science.sums"}, **facts)
    an_app("other", trickle_handlers={"news": "python:my.science.news"}, generator="copy:x")
    call_command("check_science", "--suggest")
    settings.PLUGINS = plugins.read(tomllib.loads(capsys.readouterr().out))
    assert alerts.facts(now=NOON).unknown_science == ()


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"target": "script:../judge"}, "has the target"),
        ({"target": "script:"}, "has the target"),
        ({"target": "python:os"}, "has the target"),
        ({"target": "python:os.system; x"}, "has the target"),
        ({"target": "table"}, "has the target"),
        ({"target": "sh"}, "has the target"),
        (
            {"target": "script:a", "app_options": ["compare_program"]},
            "which selects the code",
        ),
        ({"target": "script:a", "app_options": "all"}, "is not a list of texts"),
        ({"target": "script:a", "transactional": True}, "cannot be transactional"),
        ({"target": "script:a", "writes": ["/"]}, "absolute paths"),
        ({"target": "script:a", "reads": ["x/../.."]}, "absolute paths"),
        ({"target": "script:a", "network": "yes"}, "true or false"),
        ({"target": "script:a", "optoins": {}}, "did you mean 'options'?"),
        ({}, "has the target None"),
    ],
)
def test_an_invalid_allow_list_is_refused(entry, said):
    with pytest.raises(plugins.BadPlugins, match=re.escape(said)):
        plugins.read({"validator": {"orbits": entry}})


def test_allow_list_is_read_from_the_file_in_the_plugins_variable(tmp_path, monkeypatch):
    path = tmp_path / "plugins.toml"
    path.write_text('[validator.orbits]\ntarget = "python:orbits.Orbits"\n')
    monkeypatch.setenv("PLUGINS", str(path))
    assert env.plugins("PLUGINS").find("validator", "orbits").path == "orbits.Orbits"
    for text in (
        "[validator",
        '[validators.x]\ntarget = "script:x"',
        '[validator.numeric]\ntarget = "script:x"',
    ):
        path.write_text(text)
        with pytest.raises(env.BadSetting):
            env.plugins("PLUGINS")
    monkeypatch.setenv("PLUGINS", str(tmp_path / "none.toml"))
    with pytest.raises(env.BadSetting, match="No such file"):
        env.plugins("PLUGINS")


# Return values of science code


def test_generator_response_with_a_server_file_path_is_refused(settings, tmp_path):
    """The daemon would publish the file to volunteers."""
    secret = settings.KEYS_DIR / "secret"
    answer = {"workunits": [{"input_files": [{"open_name": "in", "path": str(secret)}]}]}
    made = read_answer({**answer, "state": {}, "ask_again": None}, 1)
    with pytest.raises(BadDescription, match="path"):
        new_workunit(made.workunits[0], from_outside=made.from_outside)


def test_transactional_attribute_of_a_function_is_refused(settings, targets_allowed):
    finished(an_app("sums", assimilator="python:tests.security.science_probe.transactional"))
    a_pass(assimilator)
    assert "has the attribute `transactional`" in ScienceFailure.objects.get().error


def test_celery_accepts_and_sends_only_json():
    assert app.conf.accept_content == ["json"]
    assert app.conf.task_serializer == "json"


# Webhooks


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://[::1]/",
        "http://169.254.169.254/latest/meta-data/",
        "http://10.0.0.1/",
        "https://[::ffff:192.168.0.1]/",
        "rsync://example.org/a/b",
        "file:///etc/passwd",
        "https://user:password@example.org/",
    ],
)
def test_webhook_url_that_is_private_or_not_http_or_with_credentials_is_refused(url):
    options = {"url": url, "secret": "0123456789abcdef"}
    with pytest.raises(apps.BadApp, match="WEBHOOK_HOSTS"):
        apps.create(name="sums", assimilator="webhook", assimilator_options=options, now=NOON)


@pytest.fixture
def receiver():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "public.example.org"])
def test_webhook_of_an_existing_app_cannot_connect_to_a_private_address(
    host, receiver, monkeypatch
):
    """All addresses of the name are checked, and the client connects to one of them."""
    look_up = socket.getaddrinfo

    def looked_up(name, *words, **options):
        return look_up("127.0.0.1" if "example" in name else name, *words, **options)

    monkeypatch.setattr(socket, "getaddrinfo", looked_up)
    url = f"http://{host}:{receiver.getsockname()[1]}/"
    options = {"url": url, "secret": "0123456789abcdef"}
    finished(an_app("sums", assimilator="webhook", assimilator_options=options))
    a_pass(assimilator)
    assert "WEBHOOK_HOSTS" in ScienceFailure.objects.get().error
    receiver.setblocking(False)
    with pytest.raises(BlockingIOError):
        receiver.accept()


def test_webhook_looks_up_the_host_once_and_connects_to_the_checked_address(monkeypatch):
    """A name whose address changes (DNS rebinding) is looked up once."""
    asked, connected = [], []

    def looked_up(name, port, **_):
        asked.append(name)
        address = "93.184.216.34" if len(asked) == 1 else "127.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    def connect(address, **_):
        connected.append(address[0])
        raise OSError("unreachable")

    monkeypatch.setattr(socket, "getaddrinfo", looked_up)
    monkeypatch.setattr(socket, "create_connection", connect)
    hook = webhook.make(
        {"url": "http://rebinding.example.org/", "secret": "0123456789abcdef"}, timedelta(seconds=5)
    )
    with pytest.raises(TransientScienceError):
        hook._post(b"{}", {})
    assert (len(asked), connected) == (1, ["93.184.216.34"])


def test_slow_response_to_a_posted_request_is_cut_off(receiver, settings):
    def drip():
        connection, _ = receiver.accept()
        with connection, suppress(OSError):
            connection.sendall(b"HTTP/1.1 200 OK\r\n")
            for _ in range(100):
                connection.sendall(b"X: y\r\n")
                sleep(0.1)

    thread = threading.Thread(target=drip)
    thread.start()
    began = monotonic()
    with pytest.raises(SourceFailed, match="no answer within 1 s"):
        fetching.post(
            f"http://127.0.0.1:{receiver.getsockname()[1]}/",
            b"{}",
            {},
            private_hosts=frozenset({"127.0.0.1"}),
            timeout=5,
            seconds=1,
        )
    assert monotonic() - began < 5
    thread.join()
