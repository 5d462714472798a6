"""Metrics need a token, except for local programs if a setting permits that."""

from __future__ import annotations

import subprocess
import sys

import pytest

from project import env
from project.env import BadSetting
from project.monitoring import endpoints
from project.monitoring.endpoints import may_scrape
from project.proxies import apply_forwarded_headers, networks, note_direct_peer
from tests.house.tracked import ROOT

TOKEN = "0123456789abcdef0123456789abcdef"
LOOPBACK_PROXY = networks(["127.0.0.1"])


@pytest.fixture
def local(settings):
    """Programs on this machine need no token."""
    settings.METRICS_WITHOUT_TOKEN = True


def received(peer, *, trusted=(), **headers):
    """Return the environment of a request after `project.wsgi` has processed its headers."""
    environ = {"REMOTE_ADDR": peer, "HTTP_HOST": "127.0.0.1:8000"}
    environ |= {f"HTTP_{name.upper()}": value for name, value in headers.items()}
    note_direct_peer(environ)
    apply_forwarded_headers(environ, trusted)
    return environ


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.8.8.8", "::1"])
@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost:8000", "localhost", "[::1]:8000"])
def test_a_direct_connection_of_this_machine_may_scrape_if_the_setting_permits(peer, host, local):
    assert may_scrape(received(peer, host=host))


def test_a_bare_proxy_on_this_machine_does_not_show_metrics_to_its_clients():
    """A proxy that sets no header, not even `Host`, looks like a program on this machine."""
    environ = received("127.0.0.1", host="127.0.0.1:8000")
    assert not may_scrape(environ)


def test_the_setting_is_off_unless_the_operator_sets_it(monkeypatch):
    code = "from project import settings; print(settings.METRICS_WITHOUT_TOKEN)"
    monkeypatch.delenv("METRICS_WITHOUT_TOKEN", raising=False)
    for value, expected in ((None, "False"), ("true", "True")):
        if value:
            monkeypatch.setenv("METRICS_WITHOUT_TOKEN", value)
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == expected


@pytest.mark.usefixtures("local")
@pytest.mark.parametrize("peer", ["192.0.2.1", "10.0.0.7", "::ffff:192.0.2.1", "2001:db8::1", ""])
def test_another_machine_may_not_scrape(peer):
    assert not may_scrape(received(peer))


@pytest.mark.usefixtures("local")
@pytest.mark.parametrize("trusted", [(), LOOPBACK_PROXY])
@pytest.mark.parametrize(
    "headers",
    [
        {"x_forwarded_for": "192.0.2.1"},
        {"x_forwarded_for": "127.0.0.1"},
        {"x_forwarded_for": "127.0.0.1, 127.0.0.1"},
        {"x_forwarded_for": ""},
        {"x_forwarded_proto": "https"},
        {"x_forwarded_host": "127.0.0.1"},
        {"x_real_ip": "127.0.0.1"},
        {"forwarded": "for=127.0.0.1"},
        {"via": "1.1 proxy"},
        # A proxy that adds no header of its own, but passes its client's host on.
        {"host": "science.example.org"},
        {"host": "127.0.0.1.example.org"},
    ],
)
def test_a_proxy_on_this_machine_does_not_make_its_clients_local(headers, trusted):
    assert not may_scrape(received("127.0.0.1", trusted=trusted, **headers))


@pytest.mark.usefixtures("local")
def test_a_header_cannot_set_the_peer():
    assert not may_scrape(received("192.0.2.1", manyhands_direct_peer="127.0.0.1"))
    assert not may_scrape({"REMOTE_ADDR": "127.0.0.1", "HTTP_HOST": "127.0.0.1"})


def test_the_token_opens_the_metrics_for_every_machine(settings):
    settings.METRICS_TOKEN = TOKEN
    for peer in ("192.0.2.1", "127.0.0.1"):
        environ = received(peer, x_forwarded_for="6.6.6.6", authorization=f"Bearer {TOKEN}")
        assert may_scrape(environ)


@pytest.mark.parametrize(
    "given",
    ["", "Bearer", "Bearer ", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", TOKEN,
     "Bearer \xe9\xff", "Bearer None"],
)  # fmt: skip
def test_a_wrong_token_is_refused(given, settings):
    settings.METRICS_TOKEN = TOKEN
    assert not may_scrape(received("192.0.2.1", authorization=given))


def test_without_a_token_in_the_settings_no_token_is_accepted(settings):
    settings.METRICS_TOKEN = ""
    for given in ("Bearer ", "Bearer", "Bearer  ", "bearer x"):
        assert not may_scrape(received("192.0.2.1", authorization=given))


@pytest.mark.usefixtures("local")
def test_a_wrong_token_is_refused_on_this_machine_too(settings):
    settings.METRICS_TOKEN = TOKEN
    assert not may_scrape(received("127.0.0.1", authorization="Bearer wrong"))


def test_tokens_are_compared_in_constant_time(settings, monkeypatch):
    settings.METRICS_TOKEN = TOKEN
    compared = []

    def compare(*texts):
        compared.append(texts)
        return compare_digest(*texts)

    compare_digest = endpoints.hmac.compare_digest
    monkeypatch.setattr(endpoints.hmac, "compare_digest", compare)
    for sent in ("guess", TOKEN[:-1], TOKEN):
        environ = received("192.0.2.1", authorization=f"Bearer {sent}")
        assert may_scrape(environ) is (sent == TOKEN)
    # Each decision is that of the function which takes the same time for all texts of one length.
    assert compared == [
        (sent, TOKEN.encode()) for sent in (b"guess", TOKEN[:-1].encode(), TOKEN.encode())
    ]


@pytest.mark.parametrize(
    "value", ["short", "with space 0123456789abcdef", "ümlaut-0123456789abcdef"]
)
def test_a_weak_token_is_refused_without_showing_it(value, monkeypatch):
    monkeypatch.setenv("METRICS_TOKEN", value)
    with pytest.raises(BadSetting, match="at least 20 ASCII") as refused:
        env.secret("METRICS_TOKEN", min_length=20)
    assert value not in str(refused.value)


def test_the_server_refuses_forwarded_and_foreign_requests_with_a_hint():
    """The test uses a separate process, because importing the application starts threads."""
    code = """
import io
from project import wsgi
def get(peer, **headers):
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "//metrics", "REMOTE_ADDR": peer,
               "HTTP_HOST": "127.0.0.1", "wsgi.input": io.BytesIO(), **headers}
    statuses = []
    body = b"".join(wsgi.application(environ, lambda status, _: statuses.append(status)))
    return statuses[0][:3], b"Hint:" in body, b"manyhands_" in body
print(get("192.0.2.1"))
print(get("127.0.0.1", HTTP_X_FORWARDED_FOR="192.0.2.1"))
print(get("127.0.0.1"))
wsgi.settings.METRICS_WITHOUT_TOKEN = True
print(get("192.0.2.1"))
print(get("127.0.0.1", HTTP_X_FORWARDED_FOR="192.0.2.1"))
print(get("127.0.0.1"))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    refused = "('403', True, False)"
    shown = "('200', False, True)"
    assert done.stdout.splitlines() == [refused] * 5 + [shown]
