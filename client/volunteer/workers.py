"""Prepares named workers: folders, settings files and names of output files."""

from __future__ import annotations

import configparser
import re
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from volunteer.journal import Journal, load_state
from volunteer.records import Project, State

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_UNSAFE = re.compile(r"[^A-Za-z0-9_.+=-]")
_ROUND = re.compile(r"_(\d{1,9})\Z")
#: The variables of a template for the name of an output file.
VARIABLES = ("worker", "taskId", "round", "program")
#: The settings of the section [worker], with the options of `volunteer run` that they set.
SETTINGS = {
    "task_output_filename": "stdout_name",
    "task_error_filename": "stderr_name",
    "sleep_after_success": "sleep_after_success",
    "sleep_after_failure": "sleep_after_failure",
    "sleep_after_no_process_claimed": "sleep_after_no_process_claimed",
    "pool_token_file": "pool_token_file",
    "claim": "claim",
    "slots": "slots",
}


class BadWorkerError(Exception):
    """The name or the settings of a worker are not valid. The message contains a hint."""


def checked_name(text: str) -> str:
    """Return the name of a worker, or raise BadWorkerError."""
    if not _NAME.fullmatch(text):
        raise BadWorkerError(
            f"{text!r:.80} is not the name of a worker.\n"
            "Hint: use at most 100 letters, digits, - . and _."
        )
    return text


def prepare_folder(base: Path, name: str) -> Path:
    """Return the folder of a named worker, which is created below the folder of the computer.

    A new worker is attached to the projects to which the base folder is attached.
    """
    folder = base / "workers" / checked_name(name)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    state = load_state(folder)
    missing = {
        url: Project(
            url,
            project.key,
            project.account,
            project.scheduler_urls,
            code_sign_key=project.code_sign_key,
        )
        for url, project in load_state(base).projects.items()
        if url not in state.projects
    }
    if missing:
        projects = {**state.projects, **missing}
        Journal(folder).save(State(state.host_cpid, projects))
    return folder


def read_settings(path: Path) -> dict[str, str]:
    """Return the settings in the section [worker] of a file, by the names of the options.

    Raises BadWorkerError for a file that cannot be read and for an unknown setting.
    """
    parser = configparser.ConfigParser(interpolation=None)
    try:
        with path.expanduser().open(encoding="utf-8") as file:
            parser.read_file(file)
    except (OSError, UnicodeDecodeError, configparser.Error) as error:
        text = " ".join(str(error).split())
        raise BadWorkerError(
            f"{path} cannot be read: {text}\nHint: write a section [worker] with lines name=value."
        ) from error
    section: Mapping[str, str] = parser["worker"] if parser.has_section("worker") else {}
    if unknown := [name for name in section if name not in SETTINGS]:
        raise BadWorkerError(
            f"{path}: there is no setting {unknown[0]!r:.80}.\n"
            f"Hint: the settings are {', '.join(SETTINGS)}."
        )
    return {SETTINGS[name]: value for name, value in section.items()}


def checked_template(text: str) -> str:
    """Return a template for the name of an output file, or raise BadWorkerError."""
    try:
        names = Template(text).get_identifiers() if Template(text).is_valid() else [text]
    except ValueError:
        names = [text]
    if not text or any(name not in VARIABLES for name in names):
        variables = ", ".join(f"${name}" for name in VARIABLES)
        raise BadWorkerError(
            f"{text!r:.80} is not a name of output files.\nHint: the variables are {variables}."
        )
    return text


def file_name(template: str, *, worker: str, task: str, result: str, program: str) -> str:
    """Return the name of an output file.

    The round is the number at the end of the result's name. Characters of the project's names that
    are not usual in file names are replaced, so that a name cannot lead to another folder.

    >>> file_name("$worker-$taskId-$round.out", worker="A", task="a/b", result="a/b_3", program="")
    'A-a_b-3.out'
    """
    round_match = _ROUND.search(result)
    return Template(template).safe_substitute(
        worker=_safe(worker),
        taskId=_safe(task),
        round=round_match[1] if round_match else "0",
        program=_safe(program),
    )


def _safe(text: str) -> str:
    return _UNSAFE.sub("_", text).lstrip(".")[:200] or "_"
