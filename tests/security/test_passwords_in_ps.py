"""Commands accept passwords in ways that the list of processes does not show."""

from __future__ import annotations

import io
import sys

import pytest
from django.core.management import CommandError, call_command

from project.management.commands import serve
from scheduler.models import Account
from scheduler.people import accounts

pytestmark = pytest.mark.django_db
EMAIL = "ada@example.org"


@pytest.fixture(params=["create_account", "changepassword"])
def run(request, noon):
    if request.param == "changepassword":
        digest = accounts.password_digest(email=EMAIL, password="former password")
        accounts.create_account(
            email=EMAIL, passwd_hash=digest, name="Ada", by_staff=True, now=noon
        )

    def run(*words):
        call_command(request.param, EMAIL, *words, stdout=io.StringIO())

    return run


def has_password(password):
    return Account.objects.get(email=EMAIL).check_password(password)


@pytest.mark.parametrize("content", ["a long secret\n", "a long secret\r\nmore\n", "a long secret"])
def test_password_is_read_from_a_file(run, tmp_path, content):
    (tmp_path / "password").write_bytes(content.encode())
    run("--password-file", str(tmp_path / "password"))
    assert has_password("a long secret")


def test_password_is_read_from_standard_input(run, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("a long secret\n"))
    run("--password-file", "-")
    assert has_password("a long secret")


def test_password_is_read_from_the_environment(run, monkeypatch):
    monkeypatch.setenv("MANYHANDS_PASSWORD", "a long secret")
    run()
    assert has_password("a long secret")


def test_password_on_the_command_line_is_accepted_with_a_warning(run, capsys):
    run("--password", "a long secret")
    assert has_password("a long secret")
    assert "can read --password in the list of processes" in capsys.readouterr().err


@pytest.mark.parametrize("content", [None, b"", b"\nsecond line", b"\xff\xfe"])
def test_missing_or_invalid_password_file_is_refused(run, tmp_path, content):
    if content is not None:
        (tmp_path / "password").write_bytes(content)
    with pytest.raises(CommandError, match="Hint: put the password into its first line"):
        run("--password-file", str(tmp_path / "password"))


def test_missing_password_without_a_terminal_is_an_error(run, monkeypatch):
    monkeypatch.delenv("MANYHANDS_PASSWORD", raising=False)
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    with pytest.raises(CommandError, match="The password is missing"):
        run()


# The first password of a new project


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_initial_admin_password_is_shown_on_a_terminal():
    shown = serve.Command(stdout=Terminal())._shown("first secret")
    assert "password first secret (shown only now)" in serve.welcome("http://x/", shown)


def test_initial_admin_password_is_written_to_a_file_if_output_is_not_a_terminal(
    settings, tmp_path
):
    settings.KEYS_DIR = tmp_path
    shown = serve.Command(stdout=io.StringIO())._shown("first secret")
    banner = serve.welcome("http://x/", shown)
    assert "first secret" not in banner
    path = tmp_path / "first_admin_password"
    assert str(path) in banner
    assert path.read_text() == "first secret\n"
    assert path.stat().st_mode & 0o777 == 0o600


def test_banner_of_a_later_start_contains_no_password():
    shown = serve.Command(stdout=io.StringIO())._shown(None)
    assert "with the account of the first start" in serve.welcome("http://x/", shown)
