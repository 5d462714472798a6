"""Proofs of account ownership: their text, their key and their verification."""

from __future__ import annotations

import hashlib
import re
import shutil
import stat
import subprocess
from base64 import b64decode
from html import unescape

import pytest
from django.conf import settings
from django.test import Client

from scheduler import signing
from scheduler.boinc.statistics_export import accounts as exported_accounts
from scheduler.management import statistics
from scheduler.models import Account, AuditEntry
from scheduler.people.personal_data import ownership
from scheduler.people.rules.ownership_statements import MAX_TEXT, BadText
from tests.conftest import NOON
from tests.rows import an_account, update

pytestmark = pytest.mark.django_db

PATH = "/account/ownership/"


@pytest.fixture
def ada() -> Account:
    return an_account("ada", total_credit=1)


@pytest.fixture
def browser(ada: Account) -> Client:
    client = Client()
    client.force_login(ada)
    return client


def sign(browser: Client, text: str) -> tuple[str, str]:
    """Sign a text on the page; return the statement and the signature that it shows."""
    page = browser.post(PATH, {"text": text}).content.decode()
    [lines] = re.findall(r'<pre class="proof" tabindex="0">(.*?)</pre>', page, re.DOTALL)
    [signature] = re.findall(r'<code class="secret">([^<]*)</code>', page)
    assert not re.search(r"<style|style=|<script", page)
    return unescape(lines), unescape(signature)


def verdict(statement: str, signature: str) -> str:
    sent = {"statement": statement, "signature": signature}
    page = Client().post("/ownership/", sent).content.decode()
    found = re.search(r">(Valid|Not valid):", page)
    return found[1] if found else ""


def test_statement_names_project_account_cross_project_id_and_text(browser, ada):
    update(ada, cross_project_id="c" * 32)
    statement, _ = sign(browser, "site.example <b> 42")
    lines = statement.splitlines()
    assert lines[0].startswith("Proof of account ownership, version 1, by http://")
    assert settings.PROJECT.master_url in lines[0]
    assert lines[1] == f"Account: {ada.pk}"
    [row] = exported_accounts()
    cpid = lines[2].removeprefix("Cross-project id: ")
    assert f"<cpid>{cpid}</cpid>" in statistics.user(row)
    assert lines[4:] == ["Text: site.example <b> 42"]
    assert ada.email not in statement


def test_page_verifies_a_proof_and_refuses_a_changed_one(browser):
    statement, signature = sign(browser, "42")
    assert verdict(statement, signature) == "Valid"
    assert verdict(statement.replace("\n", "\r\n").strip(), signature) == "Valid"
    assert verdict(statement.replace("Text: 42", "Text: 43"), signature) == "Not valid"
    assert verdict(statement + "Text: 43\n", signature) == "Not valid"
    other = ("A" if signature[0] != "A" else "B") + signature[1:]
    assert verdict(statement, other) == "Not valid"


@pytest.mark.parametrize("signature", ["x", "====", "A" * 88, "ä", "A" * 199])
def test_text_that_is_no_signature_is_not_valid(browser, signature):
    statement, _ = sign(browser, "42")
    assert verdict(statement, signature) == "Not valid"


@pytest.mark.parametrize(
    "text", ["", "x" * (MAX_TEXT + 1), "a\nAccount: 1", "a\u2028b", "a\u202eb"]
)
def test_text_that_is_not_one_printable_line_is_refused(browser, ada, text):
    page = browser.post(PATH, {"text": text}).content.decode()
    assert '<code class="secret">' not in page
    with pytest.raises(BadText, match="printable characters"):
        ownership.prove(ada, text, now=NOON)
    assert not AuditEntry.objects.filter(event="key_used").exists()


def test_longest_text_is_signed(browser):
    statement, signature = sign(browser, "ä" * MAX_TEXT)
    assert verdict(statement, signature) == "Valid"


def test_ownership_key_signs_only_statements_of_this_project():
    other = signing.ownership_first_line().replace("http://", "http://other.")
    for text in ("", "x", "https://example.org/app\n", f" {signing.ownership_first_line()}\n"):
        with pytest.raises(ValueError, match="no statement"):
            signing.sign_ownership(text)
    with pytest.raises(ValueError, match="no statement"):
        signing.sign_ownership(f"{other}\n")
    with pytest.raises(ValueError, match="no statement"):
        signing.sign_ownership(f"{signing.ownership_first_line()}x\n")


def test_signature_is_not_valid_for_a_file_and_the_code_signing_key_signs_no_statement(ada):
    proof = ownership.prove(ada, "42", now=NOON)
    content = proof.statement.encode()
    md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
    as_file_signature = signing.hex_block(b64decode(proof.signature))
    assert not signing.verify(md5, as_file_signature, signing.code_sign_key_text())
    file_signature = signing.read_hex_block(signing.sign(content))
    assert not signing.is_signed_ownership(proof.statement, file_signature)


def test_private_key_is_readable_only_by_the_project_and_never_replaced(settings, tmp_path):
    settings.KEYS_DIR = tmp_path / "keys"
    signing.ensure_keys()
    private = settings.KEYS_DIR / "ownership_private"
    public = (settings.KEYS_DIR / "ownership_public").read_text()
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    signing.ensure_keys()
    assert (settings.KEYS_DIR / "ownership_public").read_text() == public
    assert signing.key_faults() == []
    private.unlink()
    signing.ensure_keys()
    assert not private.exists()
    assert "ownership_private" in signing.key_faults()[0]


def test_page_without_the_private_key_shows_an_error(settings, tmp_path, browser):
    settings.KEYS_DIR = tmp_path / "keys"
    signing.ensure_keys()
    (settings.KEYS_DIR / "ownership_private").unlink()
    page = browser.post(PATH, {"text": "42"}).content.decode()
    assert "The project has no key for it." in page
    assert str(tmp_path) not in page


def test_private_key_of_another_pair_is_a_fault(settings, tmp_path):
    settings.KEYS_DIR = tmp_path / "keys"
    signing.ensure_keys()
    old = (settings.KEYS_DIR / "ownership_public").read_text()
    for half in ("ownership_private", "ownership_public"):
        (settings.KEYS_DIR / half).unlink()
    signing.ensure_keys()
    (settings.KEYS_DIR / "ownership_public").write_text(old)
    assert "does not belong to the public one" in signing.key_faults()[0]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_openssl_verifies_a_proof_as_the_documentation_describes(browser, tmp_path):
    statement, signature = sign(browser, "challenge ä 42")
    (tmp_path / "key.pem").write_bytes(Client().get("/ownership/key.pem").content)
    (tmp_path / "signature.bin").write_bytes(b64decode(signature))
    command = "openssl pkeyutl -verify -pubin -inkey key.pem -rawin -in statement.txt -sigfile"
    for lines, status in ((statement, 0), (statement.replace("42", "43"), 1)):
        (tmp_path / "statement.txt").write_text(lines, encoding="utf-8")
        ended = subprocess.run(
            [*command.split(), "signature.bin"], cwd=tmp_path, capture_output=True, check=False
        )
        assert ended.returncode == status


def test_only_a_log_in_with_the_token_of_the_form_signs(browser, ada):
    assert Client().post(PATH, {"text": "42"}).status_code == 302
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(ada)
    assert strict.post(PATH, {"text": "42"}).status_code == 403
    assert strict.post("/ownership/", {"statement": "x", "signature": "x"}).status_code == 403


def test_audit_log_has_the_first_proof_of_a_day(browser, ada):
    sign(browser, "42")
    sign(browser, "43")
    entry = AuditEntry.objects.get(event="key_used")
    assert (entry.account_id, entry.subject) == (ada.pk, "ownership key")


def test_public_pages_need_no_statement(django_assert_num_queries):
    with django_assert_num_queries(0):
        assert Client().get("/ownership/").status_code == 200
        answer = Client().get("/ownership/key.pem")
    assert answer["Content-Type"] == "application/x-pem-file"
    assert "PRIVATE" not in answer.content.decode()


def test_too_long_statements_are_refused(browser):
    _, signature = sign(browser, "42")
    assert verdict("x" * 2001, signature) == ""
