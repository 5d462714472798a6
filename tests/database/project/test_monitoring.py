"""/healthz, /readyz and /metrics, called as WSGI functions."""

from __future__ import annotations

import json
import threading

import psycopg
import pytest
from django.db import DatabaseError, connection
from django.db.migrations.recorder import MigrationRecorder
from prometheus_client.parser import text_string_to_metric_families
from psycopg_pool import ConnectionPool

from daemons.registry import BY_NAME
from project.monitoring import checks, database_metrics, endpoints, sampler
from project.monitoring.checks import (
    NO_ANSWER,
    NO_CONNECTION,
    NOT_MIGRATED,
    OUTAGE,
    POOL_EXHAUSTED,
    REFUSED,
)
from project.monitoring.refresher import Refresher
from project.routing import route
from scheduler.health import figures, maintenance
from scheduler.metrics import REGISTRY
from scheduler.models import CheckRun
from tests.conftest import NOON
from tests.rows import a_result, a_workunit, an_app


class Fixed:
    """A refresher that always returns the same value."""

    def __init__(self, value):
        self.value = value

    def get(self):
        return self.value


@pytest.fixture(autouse=True)
def no_threads(monkeypatch, settings):
    """The database is up, and there are no figures; a test may replace both."""
    settings.METRICS_WITHOUT_TOKEN = True
    monkeypatch.setattr(checks, "_checks", Fixed(()))
    monkeypatch.setattr(endpoints, "_figures", Fixed(None))


def get(path, *, method="GET", **environ):
    """Return the status, the headers and the body of the answer to a request from 127.0.0.1."""
    answers = []
    request = {"PATH_INFO": path, "REQUEST_METHOD": method, "manyhands.direct_peer": "127.0.0.1"}
    body = route(
        request | environ,
        lambda status, headers: answers.append((status, dict(headers))),
        django_app=lambda *_: pytest.fail("Django is called"),
    )
    [(status, headers)] = answers
    return int(status[:3]), headers, b"".join(body).decode()


def values_of(text):
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


# Probes


def test_healthz_needs_no_database():
    # The test has no database marker: a query would fail.
    status, headers, body = get("/healthz")
    assert (status, body) == (200, "ok\n")
    assert headers["Cache-Control"] == "no-store"


def test_readyz_reports_that_the_process_can_serve():
    status, headers, body = get("/readyz")
    assert (status, json.loads(body)) == (200, {"ready": True, "failing": []})
    assert headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(("read", "failure"), [((REFUSED,), REFUSED), (None, NO_ANSWER)])
def test_readyz_lists_the_failed_checks(read, failure, monkeypatch):
    monkeypatch.setattr(checks, "_checks", Fixed(read))
    status, _, body = get("/readyz")
    assert status == 503
    assert json.loads(body) == {
        "ready": False,
        "failing": [{"check": failure.check, "reason": failure.reason}],
    }


def test_readyz_reports_an_outage_in_which_rpcs_are_refused(monkeypatch):
    monkeypatch.setattr(checks.database_watchdog, "is_unreachable", True)
    status, _, body = get("/readyz")
    assert (status, json.loads(body)["failing"][0]["check"]) == (503, OUTAGE.check)


def test_maintenance_does_not_take_the_server_out_of_service():
    maintenance.begin(now=NOON)
    assert get("/readyz")[0] == 200


def test_a_database_that_does_not_answer_delays_readyz_by_the_time_limit_only(monkeypatch):
    gate = threading.Event()
    slow = Refresher(lambda: gate.wait(20) and (), keep_seconds=1.0, timeout_seconds=0.05)
    monkeypatch.setattr(checks, "_checks", slow)
    assert get("/readyz")[0] == 503
    gate.set()


@pytest.mark.django_db
def test_a_migrated_database_passes_the_checks():
    assert checks.read_failures() == ()


@pytest.mark.django_db
def test_a_missing_migration_is_a_failed_check():
    newest = MigrationRecorder.Migration.objects.filter(app="scheduler").order_by("-id").first()
    newest.delete()
    assert checks.read_failures() == (NOT_MIGRATED,)
    assert checks.database_is_up(), "the database answers"


def test_an_error_of_the_database_is_reported_without_its_text(monkeypatch):
    def fail(_self):
        raise DatabaseError('password authentication failed for user "manyhands" at 10.0.0.7')

    monkeypatch.setattr(MigrationRecorder, "applied_migrations", fail)
    assert checks.read_failures() == (REFUSED,)
    assert "10.0.0.7" not in str(REFUSED)


@pytest.fixture
def pool(monkeypatch):
    """Return a pool with one connection, which the checks use."""
    parameters = connection.get_connection_params()
    with ConnectionPool(kwargs=parameters, min_size=1, max_size=1) as pool:
        monkeypatch.setattr(checks, "_pool", lambda: pool)
        monkeypatch.setattr(checks, "POOL_TIMEOUT_SECONDS", 0.2)
        yield pool


@pytest.mark.django_db
def test_an_exhausted_pool_is_not_reported_as_a_database_that_is_down(pool, monkeypatch):
    with pool.connection():
        assert checks.read_failures() == (POOL_EXHAUSTED,)
    assert not checks._pool_is_exhausted()
    monkeypatch.setattr(checks, "_checks", Fixed((POOL_EXHAUSTED,)))
    assert get("/readyz")[0] == 503
    assert values_of(get("/metrics")[2])["manyhands_database_up",] == 1


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("message", "failure"),
    [
        ("connection refused", REFUSED),
        ("FATAL:  sorry, too many clients already", NO_CONNECTION),
        ('FATAL:  too many connections for role "manyhands_web"', NO_CONNECTION),
    ],
)
def test_a_database_that_is_down_is_not_reported_as_an_exhausted_pool(
    message, failure, pool, monkeypatch
):
    def fail():
        raise psycopg.OperationalError(message)

    monkeypatch.setattr(checks, "probe_database", fail)
    with pool.connection():
        assert checks.read_failures() == (failure,)
    monkeypatch.setattr(checks, "_checks", Fixed((failure,)))
    assert values_of(get("/metrics")[2])["manyhands_database_up",] == 0


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_probes_answer_get_and_head_only(path):
    assert get(path, method="POST")[0] == 405
    status, headers, body = get(path, method="HEAD")
    assert (status, body) == (200, "")
    assert int(headers["Content-Length"]) > 0


@pytest.mark.parametrize("path", ["/healthz/", "/metrics/x", "/metricsx"])
def test_other_paths_go_to_django(path):
    seen = []
    request = {"PATH_INFO": path, "REQUEST_METHOD": "GET"}
    route(request, lambda *_: None, django_app=lambda environ, _: seen.append(environ) or [])
    assert len(seen) == 1


# Metrics


@pytest.mark.django_db
def test_metrics_contain_every_family_and_the_figures_of_the_database(monkeypatch):
    app = an_app("primes")
    a_result(a_workunit(app))
    CheckRun.objects.create(kind="fsck", started_at=NOON, ended_at=NOON, unresolved=3)
    monkeypatch.setattr(endpoints, "_figures", Fixed(figures.read(now=NOON)))
    status, headers, body = get("/metrics")
    assert status == 200
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
    names = {family.name for family in text_string_to_metric_families(body)}
    defined = {family.name for family in database_metrics.FAMILIES}
    # Without a web process there is no time of its heartbeat.
    assert defined - names == {"manyhands_web_heartbeat_timestamp_seconds"}
    values = values_of(body)
    assert values["manyhands_results", "unsent"] == 1
    assert values["manyhands_workunits", "primes", "in_progress"] == 1
    assert values["manyhands_database_up",] == 1
    assert values["manyhands_alerts", "daemon_silent"] == 1
    assert values["manyhands_alerts", "invariants_violated"] == 1
    assert values["manyhands_check_violations", "fsck"] == 3
    assert values["manyhands_check_timestamp_seconds", "fsck"] == NOON.timestamp()


def test_metrics_without_a_database_report_that_it_is_down(monkeypatch, settings):
    monkeypatch.setattr(checks, "_checks", Fixed((REFUSED,)))
    (settings.VAR_DIR / "run").mkdir(parents=True)
    (settings.VAR_DIR / "run" / "validator.alive").touch()
    status, _, body = get("/metrics")
    values = values_of(body)
    assert (status, values["manyhands_database_up",]) == (200, 0)
    name = "manyhands_daemon_heartbeat_timestamp_seconds"
    assert values[name, "validator"] > 0, "heartbeats are files"
    assert {key[1] for key in values if key[0] == name} == BY_NAME.keys()
    assert values[name, "purger"] == 0
    assert values["manyhands_disk_free_bytes",] > 0
    assert not [key for key in values if key[0] == "manyhands_results"]


def test_missing_figures_alone_do_not_mean_that_the_database_is_down():
    # A first count of large tables takes longer than a scrape waits.
    assert values_of(get("/metrics")[2])["manyhands_database_up",] == 1


def test_a_failed_read_of_the_figures_is_no_error(monkeypatch):
    def fail(*, now):
        raise DatabaseError(f"away at {now}")

    monkeypatch.setattr(figures, "read", fail)
    assert endpoints._read_figures() is None


def test_metrics_show_what_maintenance_stops():
    name = "manyhands_maintenance"
    maintenance.begin(scheduler=False, now=NOON)
    values = values_of(get("/metrics")[2])
    stops = {key[1]: value for key, value in values.items() if key[0] == name}
    assert stops == {"daemons": 1, "scheduler": 0, "uploads": 0}


def test_the_sampler_stores_memory_and_cpu_time_of_the_process():
    before = REGISTRY.get_sample_value("manyhands_web_cpu_seconds_total")
    sampler.Sampler().sample()
    assert REGISTRY.get_sample_value("manyhands_web_cpu_seconds_total") > before
    assert REGISTRY.get_sample_value("manyhands_web_resident_memory_bytes") > 10_000_000
    assert REGISTRY.get_sample_value("manyhands_web_open_files") > 3


def test_the_sampler_stores_the_state_of_the_database_pool(monkeypatch):
    class Pool:
        def get_stats(self):
            # psycopg omits counts that are still zero.
            return {"pool_size": 5, "pool_available": 2, "pool_max": 8}

    fake = type("Connection", (), {"pool": Pool()})()
    monkeypatch.setattr(sampler, "connections", {"default": fake})
    sampler.Sampler().sample()
    name = "manyhands_database_pool"
    assert REGISTRY.get_sample_value(f"{name}_connections") == 5
    assert REGISTRY.get_sample_value(f"{name}_idle_connections") == 2
    assert REGISTRY.get_sample_value(f"{name}_max_connections") == 8
    assert REGISTRY.get_sample_value(f"{name}_waiting_requests") == 0


@pytest.mark.django_db
def test_a_read_of_the_checks_takes_two_statements(django_assert_max_num_queries):
    checks.read_failures()
    with django_assert_max_num_queries(2):
        checks.read_failures()
    assert connection.vendor == "postgresql"
