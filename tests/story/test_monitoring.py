"""A killed daemon raises its alert, and turns its light red, within a minute."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
import urllib.request

import pytest
import yaml

from project.ports import free_port
from tests.machine import needs
from tests.story.project import ROOT

pytestmark = [pytest.mark.story, pytest.mark.lengthy, pytest.mark.early]

RULES = ROOT / "deploy" / "prometheus"
#: A killed daemon must raise its alert within this time.
WITHIN_SECONDS = 60.0


TOKEN = "a-token-of-the-story"


def fetch(url):
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {TOKEN}"})
    with urllib.request.urlopen(request, timeout=10) as reply:
        return reply.read().decode()


def start(project, name, *words, output):
    with (project.folder / output).open("ab") as log:
        return project.children.start(name, words, environment=project.environment, output=log)


def start_daemon(project, name):
    return start(
        project,
        name,
        sys.executable,
        ROOT / "manage.py",
        name,
        "--pause",
        "1",
        output="daemons.log",
    )


def start_prometheus(project):
    """Start Prometheus with the shipped rules and configuration; return its URL."""
    port, folder = free_port(), project.folder / "prometheus"
    folder.mkdir()
    configuration = yaml.safe_load((RULES / "prometheus.yml").read_text())
    [job] = configuration["scrape_configs"]
    job["static_configs"] = [{"targets": [f"127.0.0.1:{project.port}"]}]
    (folder / "manyhands-token").write_text(TOKEN)
    (folder / "alerts.yml").write_text((RULES / "alerts.yml").read_text())
    (folder / "prometheus.yml").write_text(yaml.safe_dump(configuration))
    start(
        project,
        "prometheus",
        needs("prometheus"),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
        output="prometheus.log",
    )
    return f"http://127.0.0.1:{port}/"


def silent_daemons(prometheus):
    """Return the daemons for which the alert fires."""
    found = json.loads(fetch(f"{prometheus}api/v1/alerts"))["data"]["alerts"]
    return {
        alert["labels"]["daemon"]
        for alert in found
        if alert["labels"]["alertname"] == "ManyhandsDaemonSilent" and alert["state"] == "firing"
    }


def query(prometheus, expression):
    url = f"{prometheus}api/v1/query?query={urllib.request.quote(expression)}"
    return json.loads(fetch(url))["data"]["result"]


def heartbeats(prometheus):
    """Return the daemons whose heartbeats have been scraped; none while Prometheus starts."""
    try:
        found = query(prometheus, "manyhands_daemon_heartbeat_timestamp_seconds > 0")
    except OSError:
        return set()
    return {sample["metric"]["daemon"] for sample in found}


@pytest.mark.needs("prometheus")
def test_a_killed_daemon_turns_its_light_red_and_raises_its_alert(make_project, capsys):
    project = make_project(METRICS_TOKEN=TOKEN)
    project.serve_web()
    validator = start_daemon(project, "validator")
    start_daemon(project, "transitioner")
    prometheus = start_prometheus(project)
    project.wait(
        lambda: heartbeats(prometheus) == {"validator", "transitioner"},
        within=90,
        what="Prometheus has scraped the heartbeats of both daemons",
    )
    # Longer than the limit and an evaluation: daemons that live and are idle raise no alert.
    time.sleep(60)
    assert silent_daemons(prometheus) == set()
    status = json.loads(fetch(f"{project.url}status.json"))
    assert status["tones"]["life.validator"] == "good"

    validator.send_signal(signal.SIGKILL)
    killed_at = time.monotonic()
    validator.wait()
    project.wait(
        lambda: silent_daemons(prometheus) == {"validator"},
        within=WITHIN_SECONDS,
        what="the alert of the validator fires",
    )
    took = time.monotonic() - killed_at
    assert took <= WITHIN_SECONDS
    project.wait(
        lambda: re.search(
            r'<th scope="row">validator<.*?data-tone="bad">silent for', fetch(project.url)
        ),
        within=WITHIN_SECONDS - took,
        what="the light of the validator is red",
    )
    status = json.loads(fetch(f"{project.url}status.json"))
    assert status["tones"]["life.transitioner"] == "good"
    with capsys.disabled():
        sys.stdout.write(f"  the alert of a killed daemon fires after {took:.0f} s\n")

    start_daemon(project, "validator")
    project.wait(
        lambda: silent_daemons(prometheus) == set(),
        within=60,
        what="the alert of the validator ends",
    )


def test_counters_survive_the_death_of_a_worker(make_project):
    project = make_project(METRICS_TOKEN=TOKEN)
    project.start("--workers", "2")

    def count():
        lines = fetch(f"{project.url}metrics").splitlines()
        name = 'manyhands_scheduler_rpcs_total{outcome="unreadable"} '
        [value] = [line.removeprefix(name) for line in lines if line.startswith(name)]
        return float(value)

    def send(number):
        for _ in range(number):
            urllib.request.urlopen(
                f"{project.url}cgi/scheduler", data=b"no XML", timeout=30
            ).close()

    send(20)
    assert count() == 20
    pids = worker_pids(project)
    assert len(pids) == 2
    os.kill(min(pids), signal.SIGKILL)
    project.wait(
        lambda: len(worker_pids(project)) == 2 and min(pids) not in worker_pids(project),
        within=60,
        what="a new worker is started, and the gauges of the old one are gone",
    )
    send(10)
    assert count() == 30


def worker_pids(project):
    """Return the processes whose gauges are shown; none if the connection was to a killed one."""
    try:
        lines = fetch(f"{project.url}metrics").splitlines()
    except OSError:
        return set()
    name = 'manyhands_web_open_files{pid="'
    return {
        int(line.removeprefix(name).partition('"')[0]) for line in lines if line.startswith(name)
    }
