"""The `host` command: show, deny, allow, limit, merge."""

from __future__ import annotations

import io
import json

import pytest
from django.core.management import CommandError, call_command

from scheduler.models import Host, HostAppVersion
from tests.rows import a_host, a_result, a_workunit, an_account, an_app, an_app_version

pytestmark = pytest.mark.django_db


def run(*words) -> str:
    out = io.StringIO()
    call_command("host", *(str(word) for word in words), stdout=out)
    return out.getvalue().strip()


@pytest.fixture
def host() -> Host:
    decision = {"at": "2026-01-01T12:00:00", "refused": {"memory": 3}, "said": ["No"]}
    return a_host(an_account("ada"), domain_name="box", last_decisions=[decision])


def test_a_host_is_denied_with_a_reason_and_allowed_again(host):
    a_result(a_workunit(), "sent", host=host)
    output = run("deny", host.pk, "--reason", "wrong answers")
    assert output == (
        f"box #{host.pk} is denied: wrong answers. The 1 result that it holds will time out."
    )
    host.refresh_from_db()
    assert (host.denied, host.deny_reason) == (True, "wrong answers")
    assert "denied: wrong answers" in run("list", "--denied")
    assert run("allow", host.pk) == f"box #{host.pk} is allowed again."
    host.refresh_from_db()
    assert (host.denied, host.deny_reason) == (False, "")
    assert run("allow", host.pk) == f"box #{host.pk} was not denied."


def test_a_limit_of_results_in_progress_is_set_and_removed(host):
    assert run("limit", host.pk, 3) == f"box #{host.pk} may hold 3 results."
    assert Host.objects.get().max_in_progress == 3
    assert run("limit", host.pk, 0) == f"box #{host.pk} may hold 0 results."
    assert Host.objects.get().max_in_progress == 0
    assert run("limit", host.pk, "none") == f"box #{host.pk} has the usual limit."
    assert Host.objects.get().max_in_progress is None
    with pytest.raises(CommandError, match="-1 is not a valid limit"):
        call_command("host", "limit", "--", str(host.pk), "-1")


def test_show_prints_host_app_versions_and_the_last_decisions(host):
    version = an_app_version(an_app("sieve"), version_num=100)
    HostAppVersion.objects.create(
        host=host, app_version=version, n_valid=7, results_today=2, max_results_per_day=9
    )
    output = run("show", host.pk)
    assert "sieve 1.00 x86_64-pc-linux-gnu: 7 valid, 0 in a row; 2 sent today, of 9" in output
    assert "2026-01-01 12:00:00: 0 sent; refused 3 for memory; messages: No" in output
    facts = json.loads(run("show", host.pk, "--json"))
    assert (facts["app_versions"][0]["n_valid"], len(facts["last_decisions"])) == (7, 1)


def test_merge_combines_two_host_rows_of_one_computer(host):
    old = a_host(host.account)
    assert "its client gets the new id" in run("merge", host.pk, old.pk)
    old.refresh_from_db()
    assert old.merged_into_id == host.pk
    assert [line["id"] for line in json.loads(run("list", "--json"))["hosts"]] == [host.pk]


def test_a_dry_run_changes_nothing(host):
    assert run("deny", host.pk, "--reason", "x", "--dry-run").endswith("Nothing was done.")
    assert not Host.objects.get().denied


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("show", "999999"), "There is no host 999999"),
        (("deny", "999999"), "The reason is missing"),
        (("allow",), "No host is named"),
        (("limit", "1"), "takes two numbers"),
        (("limit", "1", "few"), "'few' is not a number. Hint"),
        (("merge", "1", "none"), "'none' is not a number. Hint"),
        (("limit", "1", "9" * 30), "is not a number. Hint"),
        (("merge", "999999", "1"), "There is no host 999999"),
    ],
)
def test_invalid_host_commands_are_refused(words, said):
    with pytest.raises(CommandError, match=said):
        run(*words)
