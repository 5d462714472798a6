"""Commands, URLs and names in the files of deploy/ exist."""

from __future__ import annotations

import configparser
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from django.core.management import get_commands

from daemons.registry import BY_NAME
from docs import _generate
from project import env
from tests.house.tracked import ROOT, read, tracked
from tests.story import front as fronts

COMPOSE = "deploy/docker-compose.yml"
UNITS = [
    name for name in tracked() if re.fullmatch(r"deploy/systemd/.*\.(service|socket|target)", name)
]
ENVIRONMENTS = [name for name in tracked() if re.fullmatch(r"deploy/.*\.env", name)]
#: Variables read by the image of PostgreSQL and by the unit of Celery's workers.
OF_THE_STORE = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}
OF_OTHERS = OF_THE_STORE | {"POSTGRES_PASSWORD", "QUEUES", "CONCURRENCY"}


def variables():
    return {variable.name for variable in _generate.variables()}


def services():
    """Return the services that run the project's image, by name."""
    found = yaml.safe_load(read(COMPOSE))["services"]
    return {name: one for name, one in found.items() if one["image"] == "manyhands"}


def env_of(name):
    lines = [line for line in read(name).splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def option(words, name):
    return words[words.index(name) + 1]


def unit(name):
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str
    parser.read_string(read(name))
    return parser


@pytest.mark.parametrize(
    "path",
    ["deploy/Dockerfile", "deploy/systemd/manyhands-web.service", "docs/operating.md"],
)
def test_web_workers_are_restarted_and_killed_if_they_do_not_stop(path):
    words = re.sub(r'[",\\]', " ", read(path))
    [command] = re.findall(
        r"granian\s+--interface\s+wsgi.*?project\.wsgi:application", words, re.DOTALL
    )
    assert "--respawn-failed-workers" in command
    assert re.search(r"--workers-kill-timeout\s+\d+\s", command)


# Docker


def test_every_compose_service_runs_an_existing_command():
    for name, service in services().items():
        words = service.get("command", ["python", "-m", "granian"])
        if words[:2] == ["python", "manage.py"]:
            assert words[2] in get_commands(), name
        elif words[0] == "celery":
            assert words[:5] == ["celery", "--quiet", "-A", "project", words[4]]
            assert words[4] in {"worker", "beat"}, name
        else:
            assert "project.wsgi:application" in read("deploy/Dockerfile")


def test_compose_workers_consume_every_queue_exactly_once():
    commands = [service["command"] for service in services().values() if "command" in service]
    queues = [
        q for words in commands if "worker" in words for q in option(words, "--queues").split(",")
    ]
    assert sorted(queues) == sorted(BY_NAME)


def test_compose_variables_are_known_to_the_settings_and_listed_in_example_env():
    for service in services().values():
        assert set(service["environment"]) <= variables() | OF_THE_STORE
    asked = set(re.findall(r"\$\{(\w+)", read(COMPOSE)))
    assert asked == env_of("deploy/example.env").keys()


def test_storage_variables_are_documented_and_set_for_every_compose_service_but_science(
    monkeypatch,
):
    asked = OF_THE_STORE | {"STORAGE_URL"}
    for name, service in services().items():
        if name == "science":  # the service gets no secrets
            assert service["environment"].keys().isdisjoint(asked)
            continue
        assert service["environment"].keys() >= asked
    for name in asked:
        assert env_of("deploy/example.env")[name] == "", "the disk, unless somebody says more"
        assert name in read("docs/files.md")
    [example] = re.findall(r"^# STORAGE_URL=(\S+)$", read("deploy/example.env"), re.MULTILINE)
    monkeypatch.setenv("STORAGE_URL", "")
    assert env.store_url("STORAGE_URL") is None
    monkeypatch.setenv("STORAGE_URL", example)
    assert env.store_url("STORAGE_URL").bucket == "my-bucket"


def test_worker_healthcheck_reads_the_alive_file_of_a_daemon_of_its_queues():
    for service in services().values():
        words = service.get("command", [])
        if "worker" in words:
            [daemon] = re.findall(r"run/(\w+)\.alive", service["healthcheck"]["test"][1])
            assert daemon in option(words, "--queues").split(",")


def test_files_named_in_the_compose_file_and_the_dockerfile_exist():
    composition = yaml.safe_load(read(COMPOSE))
    build = composition["services"]["web"]["build"]
    assert (ROOT / "deploy" / build["context"] / build["dockerfile"]).is_file()
    for service in composition["services"].values():
        for volume in service.get("volumes", []):
            source = volume["source"] if isinstance(volume, dict) else volume.split(":")[0]
            known = source in composition["volumes"] or (ROOT / "deploy" / source).exists()
            assert known, volume
    copied = re.findall(r"^COPY (.+) \S+$", read("deploy/Dockerfile"), re.MULTILINE)
    for name in (word for line in copied for word in line.split()):
        assert (ROOT / name).exists(), name
        assert f"!{name}" in read(".dockerignore").splitlines()
    assert "USER manyhands" in read("deploy/Dockerfile")


def test_nginx_of_the_compose_file_has_every_upstream_and_starts_without_a_pool():
    composition = yaml.safe_load(read(COMPOSE))
    upstreams = composition["configs"]["upstream"]["content"]
    passed = set(re.findall(r"proxy_pass http://(\w+)", read("deploy/nginx/manyhands.conf")))
    for text in (upstreams, read("deploy/nginx/upstream.conf")):
        assert set(re.findall(r"^upstream (\w+) \{", text, re.MULTILINE)) == passed
    servers = dict(re.findall(r"upstream (\w+) \{\s+server (\S+);", upstreams))
    pool = composition["services"]["pool"]
    assert pool["profiles"] == ["pool"]
    address = pool["networks"]["front"]["ipv4_address"]
    # nginx resolves names once, when it starts; the pool may not exist then.
    assert servers["manyhands_pool"] == f"{address}:{option(pool['command'], '--port')}"
    always = {
        name for name, service in composition["services"].items() if "profiles" not in service
    }
    assert servers["manyhands_web"].partition(":")[0] in always


# systemd


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_environment_file_sets_only_known_variables(name):
    assert env_of(name).keys() <= variables() | OF_OTHERS


@pytest.mark.parametrize("name", [name for name in UNITS if name.endswith(".service")])
def test_systemd_service_runs_a_known_program_and_is_sandboxed(name):
    service = unit(name)["Service"]
    words = shlex.split(service["ExecStart"])
    assert words[0] == "/opt/manyhands/.venv/bin/python"
    assert service["NoNewPrivileges"] == "yes"
    assert service["ProtectSystem"] == "strict"
    assert service["CapabilityBoundingSet"] == service["AmbientCapabilities"] == ""
    if "science" in name:
        assert words[1:] == ["-m", "daemons.science.service"]
        assert service["User"] == "manyhands-science"
        assert "EnvironmentFile" not in service
        return
    assert words[1] == "manage.py" or words[2] in {"granian", "celery"}
    assert service["User"] == "manyhands"
    assert service["SystemCallFilter"] == "@system-service"
    assert service["StateDirectory"] == Path(env_of("deploy/systemd/manyhands.env")["VAR_DIR"]).name
    if "daemon@" in name:
        assert words[1:] == ["manage.py", "%i"], "an instance is a daemon"


def test_systemd_workers_consume_every_queue_exactly_once():
    groups = [name for name in ENVIRONMENTS if "/celery-" in name]
    queues = [queue for name in groups for queue in env_of(name)["QUEUES"].split(",")]
    assert sorted(queues) == sorted(BY_NAME)


@pytest.mark.needs("systemd-analyze")
def test_systemd_analyze_verify_reports_no_error(tmp_path):
    for name in UNITS:
        text = read(name).replace("/opt/manyhands/.venv/bin/python", sys.executable)
        (tmp_path / Path(name).name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *sorted(tmp_path.iterdir())],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    # systemd-analyze also reports problems of other units on this machine.
    assert [line for line in done.stderr.splitlines() if "manyhands" in line] == []


# nginx


def test_nginx_accepts_the_shipped_configuration(tmp_path):
    fronts.set_up(tmp_path / "nginx", 8000, tmp_path / "var").check()


def test_nginx_body_limit_is_larger_than_max_request_bytes():
    limits = re.findall(
        r"location (\S+) \{\s+client_max_body_size (\d+)m?;", read("deploy/nginx/manyhands.conf")
    )
    from django.conf import settings

    assert int(dict(limits)["/cgi/"]) << 20 > settings.PROJECT.max_request_bytes


def test_web_server_runs_with_http_1():
    for name in ("deploy/Dockerfile", "deploy/systemd/manyhands-web.service"):
        words = re.sub(r'[",\\]', " ", read(name)).split()
        assert option(words, "--http") == "1", name


# The pages


PAGES_OF_DEPLOYMENT = (
    "docs/operating.md",
    "docs/monitoring.md",
    "docs/plug-ins.md",
    "docs/scaling.md",
)


def test_operator_pages_name_every_file_of_deploy_and_no_missing_file():
    named = set(re.findall(r"deploy/[\w./@-]+\w", "".join(map(read, PAGES_OF_DEPLOYMENT))))
    there = {name for name in tracked() if name.startswith("deploy/")}
    assert {name for name in named if "." in Path(name).name} - {"deploy/.env"} <= there
    for name in there:
        folder = str(Path(name).parent)
        assert name in named or folder in named, name
