"""Scheduler RPCs are answered during dozens of concurrent log-ins."""

from __future__ import annotations

import threading
import time
import urllib.parse
import urllib.request

import pytest

from daemons.management.processes import Children
from scheduler.people import accounts
from tests.conftest import NOON
from tests.security.test_throttle import a_web_server

EMAIL, PASSWORD = "ada@example.org", "a first password"
LOG_INS, SECONDS = 64, 8.0
DIGEST = accounts.password_digest(email=EMAIL, password=PASSWORD)


@pytest.mark.lengthy
@pytest.mark.django_db(transaction=True)
def test_scheduler_rpcs_are_answered_during_64_concurrent_log_ins(settings) -> None:
    # The stored hash is scrypt's: the server checks it as it does in production.
    settings.PASSWORD_HASHERS = ["project.hashers.ScryptPasswordHasher"]
    key = accounts.create_account(
        email=EMAIL, passwd_hash=DIGEST, name="Ada", by_staff=True, now=NOON
    ).key
    children = Children()
    try:
        url = a_web_server(children, "web", threads=64, LOGIN_THROTTLE="false")
        query = urllib.parse.urlencode({"email_addr": EMAIL, "passwd_hash": DIGEST})
        log_in = f"{url}lookup_account.php?{query}"
        end = time.monotonic() + SECONDS
        told: list[str] = []

        def flood() -> None:
            while time.monotonic() < end:
                told.append(_read(log_in))

        threads = [threading.Thread(target=flood) for _ in range(LOG_INS)]
        for thread in threads:
            thread.start()
        time.sleep(1)
        replies, seconds = [], []
        body = (
            f"<scheduler_request><authenticator>{key}</authenticator><hostid>0</hostid>"
            "<core_client_major_version>8</core_client_major_version>"
            "<host_info><domain_name>pc</domain_name></host_info></scheduler_request>"
        )
        while time.monotonic() < end:
            began = time.monotonic()
            replies.append(_read(f"{url}cgi/scheduler", body.encode()))
            seconds.append(time.monotonic() - began)
        for thread in threads:
            thread.join(60)
    finally:
        children.stop_all()
    down = [reply for reply in replies if "project_is_down" in reply or "database" in reply]
    logged_in = sum("<authenticator>" in one for one in told)
    busy = sum("-183" in one for one in told)
    measured = (
        f"{len(replies)} RPCs, {len(down)} down, longest {max(seconds, default=0):.2f} s; "
        f"{len(told)} log-ins: {logged_in} in, {busy} refused at once"
    )
    assert replies, measured
    assert not down, f"{measured}: {down[0]}"
    assert max(seconds) < 5, measured
    assert logged_in, f"{measured}: {told[:1]}"
    assert logged_in + busy == len(told), measured


def _read(url: str, body: bytes | None = None) -> str:
    try:
        with urllib.request.urlopen(url, body, timeout=60) as reply:
            return str(reply.read().decode())
    except OSError as error:
        return f"project_is_down? {error}"
