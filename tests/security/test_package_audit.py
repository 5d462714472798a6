"""The package audit fails for a vulnerability, not if the database is unreachable."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import sys
import time

import pytest

from tests.house.tracked import ROOT


@pytest.fixture
def audit(tmp_path, monkeypatch):
    loader = importlib.machinery.SourceFileLoader("audit_of_packages", str(ROOT / ".ci" / "audit"))
    module = importlib.util.module_from_spec(
        importlib.util.spec_from_loader("audit_of_packages", loader)
    )
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader.exec_module(module)
    return module


def tool(tmp_path, report, code=0, error=""):
    """Create a fake pip-audit that writes this report."""
    program = tmp_path / "pip-audit"
    text = "" if report is None else json.dumps(report)
    program.write_text(
        f"#!{sys.executable}\nimport sys\n"
        f"open(sys.argv[sys.argv.index('--output') + 1], 'w').write({text!r})\n"
        f"sys.stderr.write({error!r})\nsys.exit({code})\n"
    )
    program.chmod(0o755)
    return program


VULNERABLE = {
    "dependencies": [
        {
            "name": "wave",
            "version": "1.0",
            "vulns": [{"id": "PYSEC-2026-1", "fix_versions": ["1.1"]}],
        },
        {"name": "other", "version": "2", "vulns": []},
    ]
}


@pytest.fixture
def reached(audit, monkeypatch, tmp_path):
    def reached(report, **how):
        monkeypatch.setattr(audit, "why_unreachable", lambda: "")
        program = tool(tmp_path, report, **how)
        monkeypatch.setattr(audit, "install_tool", lambda: program)
        return audit.main()

    return reached


def test_known_vulnerability_fails_the_audit(reached, capsys):
    assert reached(VULNERABLE, code=1) == 1
    assert "wave 1.0: PYSEC-2026-1, fixed in 1.1" in capsys.readouterr().out


def test_audit_passes_without_known_vulnerabilities(reached, capsys):
    assert reached({"dependencies": VULNERABLE["dependencies"][1:]}) == 0
    assert "No known vulnerability in 1 pinned packages." in capsys.readouterr().out


def test_audit_does_not_fail_if_pip_audit_does_not_finish(reached, capsys):
    assert reached(None, code=1, error="ERROR: the service is away\n") == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "Not audited. pip-audit did not finish: ERROR: the service is away."
    assert said[1].startswith("requirements.txt of 20")
    assert "django==" in said[2]


def test_unreachable_vulnerability_database_is_detected_within_15_seconds(
    audit, monkeypatch, capsys
):
    # No server listens there.
    monkeypatch.setattr(audit, "CANARY", "http://127.0.0.1:9/")
    monkeypatch.setattr(audit.why_unreachable, "__defaults__", ("http://127.0.0.1:9/",))
    began = time.monotonic()
    assert audit.main() == 0
    assert time.monotonic() - began < 15
    said = capsys.readouterr().out
    assert said.startswith("Not audited. The database of vulnerabilities cannot be reached: ")
    assert "requirements-dev.txt of 20" in said


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"vulnerabilities": []}', "<html>"])
def test_index_response_without_vulnerabilities_counts_as_unreachable(audit, tmp_path, content):
    (tmp_path / "answer").write_text(content)
    assert audit.why_unreachable((tmp_path / "answer").as_uri())


def test_index_response_with_vulnerabilities_counts_as_reachable(audit, tmp_path):
    (tmp_path / "answer").write_text('{"vulnerabilities": [{"id": "x"}]}')
    assert audit.why_unreachable((tmp_path / "answer").as_uri()) == ""
