"""The README's ten lines for scientists work unchanged, with four volunteers."""

from __future__ import annotations

import re
import shlex

import pytest

from daemons.management.processes import wait_until
from tests.story.project import ROOT, Project
from tests.story.volunteers import PASSWORD, PREFERENCES

pytestmark = [pytest.mark.story, pytest.mark.stock_client]

HEADING = "### Submit your own work"
WORKUNITS = 1000
SUBMITTED = "SELECT count(*) FROM workunit"
UNSENT = "SELECT count(*) FROM result WHERE server_state = 2"
SENT = "SELECT count(*) FROM result WHERE server_state > 2"
VALID = (
    "SELECT account.name, count(*) AS valid FROM result"
    " JOIN account ON account.id = result.account_id WHERE validate_state = 1 GROUP BY account.name"
)


def the_ten_lines() -> list[str]:
    """Return the commands in the README's part for scientists."""
    text = (ROOT / "README.md").read_text()
    block = re.search(r"```console\n(.*?)```", text[text.index(HEADING) :], re.DOTALL)
    assert block is not None
    return [line[2:] for line in block[1].splitlines() if line.startswith("$ ")]


def typed(lines: list[str], project: Project, folder) -> str:
    """Return a script that runs the lines in an empty folder, with this project's address."""
    text = "\n".join(lines)
    assert "http://127.0.0.1:8000/" in text
    assert "./client" in text
    assert f"$(seq {WORKUNITS})" in text
    text = text.replace("http://127.0.0.1:8000/", project.url)
    text = text.replace("./client", shlex.quote(str(ROOT / "client")))
    return f"set -e; unset PYTHONPATH XDG_CONFIG_HOME; cd {shlex.quote(str(folder))}\n{text}\n"


def test_readme_commands_for_scientists_return_correct_outputs(
    make_project, our_client, stock_client, tmp_path
):
    project = make_project()
    project.start(pause=None)
    project.environment["DJANGO_SUPERUSER_PASSWORD"] = PASSWORD
    project.manage("createsuperuser", "--noinput", "--email", "admin@localhost")
    lines = the_ten_lines()
    assert len(lines) <= 10
    folder = tmp_path / "empty"
    folder.mkdir()
    said = tmp_path / "said"

    with said.open("wb") as output:
        scientist = project.children.start(
            "scientist",
            ["bash", "-c", typed(lines, project, folder)],
            environment={"HOME": str(folder), "MANYHANDS_PASSWORD": PASSWORD},
            output=output,
        )

    def is_so_far() -> bool:
        assert scientist.poll() in (None, 0), said.read_text() + project.log()
        return project.count(SUBMITTED) == WORKUNITS

    assert wait_until(is_so_far, within=180, look_again=0.5), said.read_text()
    project.wait(lambda: project.count(UNSENT) >= WORKUNITS, within=60, what="results to send")
    dave = stock_client(project, "dave")
    # The usual buffer of three minutes would take most of the work.
    (dave.folder / "global_prefs_override.xml").write_text(
        PREFERENCES.replace("<work_buf_min_days>0.002", "<work_buf_min_days>0.0002")
    )
    dave.command("--read_global_prefs_override")
    dave.attach()
    # This client requests work rarely, so it must get its share before the others.
    project.wait(lambda: project.count(SENT), within=120, what="work for the stock client")
    for name in ("alice", "bob", "carol"):
        our_client(project, name).start(slots=2, buffer=60)
    assert wait_until(lambda: scientist.poll() is not None, within=900, look_again=0.5), (
        said.read_text()[-3000:] + project.log()
    )
    assert scientist.poll() == 0, said.read_text()[-3000:] + project.log()

    wanted = sorted(path.read_text().upper() for path in (folder / "lines").iterdir())
    answers = sorted(path.read_text() for path in (folder / "answers").glob("*/out"))
    assert answers == wanted
    assert len(answers) == WORKUNITS
    valid = {row["name"]: row["valid"] for row in project.sql(VALID)}
    assert valid.keys() == {"alice", "bob", "carol", "dave"}, valid
    assert sum(valid.values()) >= WORKUNITS
    assert "0 violations" in project.fsck()
