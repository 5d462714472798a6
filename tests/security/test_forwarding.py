"""Forwarding headers are accepted from trusted proxies only."""

from __future__ import annotations

import subprocess
import sys

import pytest
import yaml

from project.proxies import apply_forwarded_headers, networks
from tests.house.tracked import ROOT

PROXY = networks(["10.0.0.7"])


def request(peer, **headers):
    named = {f"HTTP_X_FORWARDED_{name.upper()}": value for name, value in headers.items()}
    return {"REMOTE_ADDR": peer, "REQUEST_METHOD": "GET", **named}


@pytest.mark.parametrize(("peer", "trusted"), [("6.6.6.6", PROXY), ("10.0.0.7", ())])
def test_forwarding_headers_of_an_untrusted_client_are_removed(peer, trusted):
    environ = request(peer, proto="https", **{"for": "192.0.2.1"})
    apply_forwarded_headers(environ, trusted)
    assert environ == {"REMOTE_ADDR": peer, "REQUEST_METHOD": "GET"}


def test_forwarding_headers_of_a_trusted_proxy_are_accepted():
    environ = request("10.0.0.7", proto="https", **{"for": "192.0.2.1"})
    apply_forwarded_headers(environ, PROXY)
    assert environ["REMOTE_ADDR"] == "192.0.2.1"
    assert environ["HTTP_X_FORWARDED_PROTO"] == "https"


def test_wsgi_application_removes_the_forwarding_header_of_untrusted_clients():
    """The test uses a separate process, because importing the application starts threads."""
    code = """
import io
from project import wsgi
from django.test import RequestFactory
environ = RequestFactory().get("/get_project_config.php").environ
environ |= {"HTTP_X_FORWARDED_PROTO": "https", "REMOTE_ADDR": "6.6.6.6"}
seen = {}
wsgi.django_app = lambda environ, start: seen.update(environ) or []
wsgi.application(environ, lambda *_: None)
print("HTTP_X_FORWARDED_PROTO" in seen)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False"]


def test_docker_compose_trusts_only_the_address_of_the_proxy():
    composition = yaml.safe_load((ROOT / "deploy/docker-compose.yml").read_text())
    trusted = composition["services"]["web"]["environment"]["TRUSTED_PROXIES"]
    address = composition["services"]["nginx"]["networks"]["front"]["ipv4_address"]
    assert trusted == address
