"""The console blocks of the docs work in a shell with a real project."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from project.ports import free_port
from tests.story.console_pages import PAGES, SETTINGS, SIGNING, Page
from tests.story.consoles import ROOT, Block, Shell, blocks, typed_blocks
from tests.story.project import Project
from tests.story.volunteers import PASSWORD, OurClient

pytestmark = pytest.mark.lengthy


@pytest.fixture(scope="module")
def serving(tmp_path_factory):
    """Start one project for all pages, with an assimilator that always fails."""
    folder = tmp_path_factory.mktemp("consoles") / "project"
    project = Project(folder, **SETTINGS, PLUGINS=str(folder / "plugins.toml"))
    (folder / "plugins.toml").write_text('[assimilator.take]\ntarget = "script:take"\n')
    take = folder / "var" / "science" / "take"
    take.parent.mkdir(parents=True)
    take.write_text("#!/bin/sh\necho \"KeyError: 'energy'\" >&2; exit 1\n")
    take.chmod(0o755)
    try:
        project.start()
        # Clients of a project without app versions would back off for ten minutes.
        words = ["--create-app", "--kind", "script"]
        project.manage("publish_app", "first", "1.00", "-", take, *words)
        # `submit_work --quorum 2` prints a warning if all computers that have contacted the project
        # belong to one account.  With these two computers it depends on no other page.
        for name in ("resident-1", "resident-2"):
            client = OurClient(project, name)
            client.attach()
            client.command("run", "--until-idle")
        yield project
    finally:
        project.close()


@pytest.fixture
def checkout(tmp_path):
    """Create a folder like a checkout after `make setup`, and a virtual environment."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    for path in ROOT.iterdir():
        if path.name not in {".git", ".venv", "client", "var"}:
            (folder / path.name).symlink_to(path)
    # A copy, because pip writes build files into the source folder.
    shutil.copytree(ROOT / "client", folder / "client")
    (folder / ".venv").symlink_to(sys.prefix)
    (folder / "sign.py").symlink_to(ROOT / "signer" / "sign.py")
    _make_venv(tmp_path / "mine")
    return folder


def _make_venv(folder: Path) -> None:
    """Create a virtual environment in which `pip install ./client` works without a network."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    [packages] = folder.glob("lib/python*/site-packages")
    (packages / "beside.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = folder / "bin" / "pip"
    words = "install --quiet --no-index --no-deps --no-build-isolation"
    pip.write_text(f'#!/bin/sh\nshift\nexec "{folder}/bin/python" -m pip {words} "$@"\n')
    pip.chmod(0o755)
    for program in ("volunteer", "scientist"):
        path = folder / "bin" / program
        path.write_text(f'#!/bin/sh\nexec "{folder}/bin/python" -m {program} "$@"\n')
        path.chmod(0o755)
    (packages / "client.pth").write_text(f"{ROOT / 'client'}\n")


def environment(project: Project, folder: Path) -> dict[str, str]:
    """Return the environment variables of the shell of a page."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "PIP_", "XDG_", "MANYHANDS_", "VOLUNTEER_"))
    }
    return {
        **kept,
        **project.environment,
        "HOME": str(folder.parent),
        "PATH": f"{folder.parent / 'mine' / 'bin'}:{kept['PATH']}",
        "MANYHANDS_PASSWORD": PASSWORD,
        "VOLUNTEER_PASSWORD": PASSWORD,
        "BLOCKS": str(folder.parent / "blocks"),
        "URL": project.url,
    }


def write_blocks(page: str, folder: Path) -> None:
    """Write each block of a page to a file: the second JSON block to `json-2`."""
    folder.mkdir(exist_ok=True)
    numbers: dict[str, int] = {}
    for block in blocks(page):
        numbers[block.kind] = numbers.get(block.kind, 0) + 1
        (folder / f"{block.kind}-{numbers[block.kind]}").write_text(block.body)


def open_shell(page: str, facts: Page, project: Project, folder: Path) -> Shell:
    """Return a shell in the checkout, with the replacements for the page."""
    name = short_name(page)
    write_blocks(page, folder.parent / "blocks")
    if not (folder / "var").exists():
        (folder / "var").symlink_to(project.folder / "var")
    replaced = {
        "http://127.0.0.1:8000": project.url.rstrip("/"),
        "http://project.example/": project.url,
        "(Example)": f"({project.environment['PROJECT_NAME']})",
        "@example.org": f"@{name.replace('_', '-')}.example.org",
        "8000": str(free_port()),
        **{app: f"{app}_{name}" for app in facts.own},
        **facts.replaced,
    }
    shell = Shell(folder, environment(project, folder), replaced)
    shell.must('manage() { .venv/bin/python manage.py "$@"; }; set -o pipefail')
    return shell


def short_name(page: str) -> str:
    """Return the suffix of the page's app names and e-mail domains."""
    return re.sub(r"\W", "_", page.removesuffix(".md").removeprefix("docs/")).lower()


def prepare(shell: Shell, facts: Page) -> None:
    for line in filter(None, map(str.strip, facts.before.splitlines())):
        shell.must(line)


def type_blocks(shell: Shell, shown: list[Block]) -> None:
    for command in [command for block in shown for command in block.commands()]:
        shell.type(command)


def is_of_the_signer(block: Block) -> bool:
    """Return whether a block is for the machine that signs."""
    return "sign.py" in block.body


@pytest.mark.needs("bash", "curl")
@pytest.mark.parametrize("page", PAGES)
def test_console_blocks_of_a_page_produce_the_shown_output(
    page, serving, checkout, stage, our_client, stock_client
):
    facts = PAGES[page]
    shell = open_shell(page, facts, serving, checkout)
    stage.callback(shell.close)
    if facts.stock:
        client = stock_client(serving, short_name(page))
        shell.must(
            f"boinccmd() {{ command boinccmd --host localhost:{client.port}"
            f' --passwd "$(cat {client.folder}/gui_rpc_auth.cfg)" "$@"; }}'
        )
    for number in range(facts.volunteers):
        our_client(serving, f"{short_name(page)}-{number}").start()
    prepare(shell, facts)
    type_blocks(shell, [block for block in typed_blocks(page) if not is_of_the_signer(block)])
    unfinished = serving.sql("SELECT id FROM workunit WHERE finished_at IS NULL")
    if unfinished:
        serving.manage("cancel_work", "--id", *(row["id"] for row in unfinished))


@pytest.mark.needs("bash")
def test_console_blocks_about_offline_signing_produce_the_shown_output(
    make_project, checkout, stage
):
    project = make_project(ONLINE_SIGNING="false")
    project.manage("migrate", "--verbosity", "0")
    for page, facts in SIGNING.items():
        shell = open_shell(page, facts, project, checkout)
        stage.callback(shell.close)
        prepare(shell, facts)
        everything = page == "docs/signing.md"
        type_blocks(shell, [b for b in typed_blocks(page) if everything or is_of_the_signer(b)])
