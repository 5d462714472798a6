"""Alert rules and the dashboard use existing metrics and the code's thresholds."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest
import yaml

from project.monitoring.database_metrics import FAMILIES, Reading, Readings
from scheduler.health.alerts import NEARLY_FULL_NBYTES
from scheduler.health.rules import alert_texts
from scheduler.metrics import REGISTRY
from tests.conftest import NOON
from tests.house.tracked import ROOT, read
from tests.machine import needs

RULES = "deploy/prometheus/alerts.yml"
RULE_TESTS = "deploy/prometheus/alerts_test.yml"
DASHBOARD = "deploy/grafana/manyhands.json"
PAGE = "docs/monitoring.md"
METRIC = re.compile(r"\bmanyhands_[a-z0-9_]+")


def rules():
    return {
        rule["alert"]: rule
        for group in yaml.safe_load(read(RULES))["groups"]
        for rule in group["rules"]
    }


def panels():
    return json.loads(read(DASHBOARD))["panels"]


def expressions():
    """Return the expressions of the rules and the dashboard, each with the place where it is."""
    found = [(name, rule["expr"]) for name, rule in rules().items()]
    found += [
        (panel["title"], target["expr"])
        for panel in panels()
        for target in panel.get("targets", ())
    ]
    return found


def exported():
    """Return the names under which samples are exported."""
    names = set()
    for metric in REGISTRY.collect():
        suffixes = {
            "counter": ("_total",),
            "histogram": ("_bucket", "_sum", "_count"),
        }.get(metric.type, ("",))
        names |= {metric.name + suffix for suffix in suffixes}
    return names | {
        family.name + ("_total" if family.kind == "counter" else "") for family in FAMILIES
    }


def seconds(limit):
    return f"{limit.total_seconds():g}"


def test_rules_and_dashboard_use_existing_metrics():
    unknown = [
        (place, name)
        for place, expression in expressions()
        for name in METRIC.findall(expression)
        if name not in exported()
    ]
    assert unknown == []
    assert len(expressions()) > 40


def test_dashboard_shows_every_metric_of_the_database():
    shown = {
        name
        for panel in panels()
        for t in panel.get("targets", ())
        for name in METRIC.findall(t["expr"])
    }
    hidden = exported() - shown - {name for name in exported() if name.endswith(("_sum", "_count"))}
    # Used by the rules, or without a change that a graph could show.
    assert hidden == {
        "manyhands_accounts",
        "manyhands_figures_age_seconds",
        "manyhands_hosts",
        "manyhands_maintenance",
        "manyhands_open_outages",
        "manyhands_waiting_queues",
        "manyhands_web_heartbeat_timestamp_seconds",
        "manyhands_web_open_files",
    }


@pytest.mark.parametrize(
    ("rule", "part"),
    [
        ("ManyhandsDaemonSilent", f"> {seconds(alert_texts.SILENT_AFTER)}"),
        ("ManyhandsDaemonBehind", f"> {seconds(alert_texts.LATE_AFTER)}"),
        ("ManyhandsWebSilent", f"> {seconds(alert_texts.WEB_SILENT_AFTER)}"),
        ("ManyhandsDiskNearlyFull", f"< {NEARLY_FULL_NBYTES // 10**9}e9"),
    ],
)
def test_rules_have_the_thresholds_of_the_alerts(rule, part):
    assert part in " ".join(rules()[rule]["expr"].split())


def test_the_dashboard_counts_silent_daemons_with_the_threshold_of_the_alert():
    [panel] = [panel for panel in panels() if panel["title"] == "Silent daemons"]
    limit = seconds(alert_texts.SILENT_AFTER)
    assert f"> {limit}" in panel["targets"][0]["expr"]
    assert f"{limit} seconds" in panel["description"]


def test_every_kind_of_alert_has_a_rule():
    covered = {rule["labels"].get("kind") for rule in rules().values()} - {None}
    for rule in rules().values():
        for kinds in re.findall(r'manyhands_alerts\{\s*kind=~"([^"]+)"', rule["expr"]):
            covered |= set(kinds.split("|"))
    assert covered == set(alert_texts.KINDS)


def test_hints_of_rules_are_those_of_the_alerts():
    code = re.sub(r'"\s+f?"', "", read("scheduler/health/rules/alert_texts.py"))
    for name in (
        "ManyhandsDaemonSilent",
        "ManyhandsDaemonBehind",
        "ManyhandsScienceParked",
        "ManyhandsRefusedByAll",
        "ManyhandsDiskFull",
    ):
        assert rules()[name]["annotations"]["hint"] in code, name


def test_every_rule_has_a_severity_a_summary_a_hint_and_a_test():
    tests = read(RULE_TESTS)
    for name, rule in rules().items():
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert rule["annotations"].keys() == {"summary", "hint"}
        assert name in tests, name


def test_rules_pass_their_tests():
    done = subprocess.run(
        [needs("promtool"), "test", "rules", "alerts_test.yml"],
        cwd=ROOT / "deploy" / "prometheus",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_accepts_the_rules_and_the_example_configuration(tmp_path):
    folder = shutil.copytree(ROOT / "deploy" / "prometheus", tmp_path / "prometheus")
    (folder / "manyhands-token").write_text("a token")
    done = subprocess.run(
        [needs("promtool"), "check", "config", "prometheus.yml"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules())} rules found" in done.stdout


def test_prometheus_accepts_the_expressions_of_the_dashboard(tmp_path):
    found = [
        {"record": f"panel:{number}", "expr": expression.replace("$__rate_interval", "1m")}
        for number, (_, expression) in enumerate(expressions())
    ]
    path = tmp_path / "rules.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": found}]}))
    done = subprocess.run(
        [needs("promtool"), "check", "rules", path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_panels_have_unique_ids_and_do_not_overlap():
    ids = [panel["id"] for panel in panels()]
    assert len(ids) == len(set(ids))
    cells = [
        (x, y)
        for panel in panels()
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) == 23


def test_every_query_of_the_dashboard_selects_the_chosen_job_and_web_server():
    dashboard = json.loads(read(DASHBOARD))
    variables = {variable["name"] for variable in dashboard["templating"]["list"]}
    assert variables == {"datasource", "job", "instance"}
    for panel in panels():
        for target in panel.get("targets", ()):
            selectors = re.findall(r"manyhands_\w+(\{[^}]*\})?", target["expr"])
            assert all('job="$job", instance=~"$instance"' in one for one in selectors), panel[
                "title"
            ]


def test_exported_metrics_follow_the_conventions_of_prometheus():
    reading = Reading(
        now=NOON,
        database_is_up=True,
        figures=None,
        daemon_seen_at={"validator": NOON},
        stops={"daemons": False},
        disk_free_nbytes=1,
        disk_reserve_nbytes=1,
    )
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry()
    registry.register(Readings(reading))
    text = generate_latest(REGISTRY) + generate_latest(registry)
    done = subprocess.run(
        [needs("promtool"), "check", "metrics"], input=text, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for family in FAMILIES:
        assert family.help.endswith("."), family.name


def test_the_page_lists_every_metric():
    listed = set(re.findall(r"^\| `(manyhands_[a-z_]+)`", read(PAGE), re.MULTILINE))
    histograms = {name.removesuffix("_bucket") for name in exported() if name.endswith("_bucket")}
    whole = {name for name in exported() if not name.endswith(("_bucket", "_sum", "_count"))}
    assert listed == histograms | whole


def test_the_page_lists_every_rule():
    listed = set(re.findall(r"^\| `(Manyhands\w+)`", read(PAGE), re.MULTILINE))
    assert listed == set(rules())
