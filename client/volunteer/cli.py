"""Defines the command line of the volunteer client.

Errors are printed to standard error, most of them with a hint.
"""

from __future__ import annotations

import argparse
import contextlib
import getpass
import json
import os
import signal
import stat
import sys
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from volunteer import __version__, mailbox, workers
from volunteer.agent import Agent, Tools, apply_user_requests
from volunteer.attach import Credentials, NoProjectError, RefusedError, look_up_project
from volunteer.config import DAY, Rules
from volunteer.display import for_terminal
from volunteer.guardian import Guardian
from volunteer.host import platforms, read_host, total_memory
from volunteer.journal import DamagedJournalError, load_state
from volunteer.mailbox import FolderInUseError, UserRequest
from volunteer.sandbox import Confinement, NoSandboxError, Sandbox
from volunteer.session import Failure, Mode, run
from volunteer.slot import Home
from volunteer.status import as_json, as_lines
from volunteer.transport import HttpTransport
from volunteer.wire.web import canonical_url

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

OK, FAILED, WRONG_USAGE, UNREACHABLE, REFUSED, IN_USE, NOT_ATTACHED = 0, 1, 2, 3, 4, 5, 6
_NO_PROJECT = "Not attached to any project.\nHint: run `volunteer attach URL --email E`."
_PS_WARNING = "other users of this computer can see it in ps"
_FAILURE_CODES = {Failure.UNREACHABLE: UNREACHABLE, Failure.REFUSED: REFUSED}
_EPILOG = """\
exit codes: 0 done, 1 local error, 2 wrong usage, 3 no answer from the project,
4 refused by the project, 5 the folder is in use, 6 not attached
"""


class UsageError(Exception):
    """An option or environment variable is missing or not valid. The message contains a hint."""


class NotAttachedError(Exception):
    """The client is not attached to the requested project, or to any project."""


_EXIT_CODES: dict[type[Exception], int] = {
    DamagedJournalError: FAILED,
    OSError: FAILED,
    UsageError: WRONG_USAGE,
    workers.BadWorkerError: WRONG_USAGE,
    NoSandboxError: WRONG_USAGE,
    NoProjectError: UNREACHABLE,
    RefusedError: REFUSED,
    FolderInUseError: IN_USE,
    NotAttachedError: NOT_ATTACHED,
}


class _Parser(argparse.ArgumentParser):
    """An argument parser that reports an error in one line with a hint, without the usage."""

    def error(self, message: str) -> NoReturn:
        """Write the error to standard error in one line, and exit with code 2."""
        self.exit(
            WRONG_USAGE, f"{self.prog}: {message}. Hint: `{self.prog} --help` shows the usage.\n"
        )


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands and options."""
    common = _Parser(add_help=False)
    folder_help = "folder of this client (default $VOLUNTEER_DIR or ~/.volunteer)"
    # A default here would overwrite the value of an option that precedes the command.
    common.add_argument(
        "--dir", type=Path, metavar="DIR", default=argparse.SUPPRESS, help=folder_help
    )
    top = _Parser(
        prog="volunteer",
        description="Compute for science projects that use BOINC's protocol.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--dir", type=Path, metavar="DIR", help=folder_help)
    top.add_argument("--version", action="version", version=f"volunteer {__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    add = partial(commands.add_parser, parents=[common])
    _describe_attach(add("attach", help="join a project"))
    _describe_run(add("run", help="download work, compute it and report it"))
    status = add("status", help="show projects and results")
    status.add_argument("--json", action="store_true", help="print JSON")
    status.set_defaults(command=show_status)
    detach = add("detach", help="leave a project and delete its files")
    detach.add_argument("url", metavar="URL")
    detach.set_defaults(command=detach_project)
    project_help = "address of the project (default: all attached projects)"
    for verb, effect, scope, command in (
        ("update", "contact projects now", project_help, request_update),
        ("suspend", "suspend programs", project_help, suspend_or_resume),
        ("resume", "resume suspended programs", project_help, suspend_or_resume),
    ):
        command_parser = add(verb, help=effect)
        command_parser.add_argument("url", metavar="URL", nargs="?", help=scope)
        command_parser.set_defaults(command=command, verb=verb)
    return top


def _describe_attach(command: argparse.ArgumentParser) -> None:
    command.add_argument("url", metavar="URL", help="address of the project")
    command.add_argument("--email", metavar="E", help="e-mail address of your account")
    passwords = command.add_mutually_exclusive_group()
    passwords.add_argument(
        "--password-file",
        metavar="FILE",
        help="file whose first line is the password; - is standard input "
        "(default: $VOLUNTEER_PASSWORD, or a prompt)",
    )
    passwords.add_argument("--password", metavar="P", help=f"the password; {_PS_WARNING}")
    keys = command.add_mutually_exclusive_group()
    keys.add_argument(
        "--key-file",
        metavar="FILE",
        help="file whose first line is the account key, used instead of e-mail address "
        "and password; - is standard input (default: $VOLUNTEER_KEY)",
    )
    keys.add_argument("--key", metavar="K", help=f"the account key; {_PS_WARNING}")
    command.add_argument(
        "--replace",
        action="store_true",
        help="replace the account of an attached project",
    )
    command.add_argument("--create", action="store_true", help="create a new account")
    command.add_argument("--name", metavar="N", help="your name, for a new account")
    command.add_argument(
        "--invitation", metavar="CODE", help="invitation code, if the project requires one"
    )
    command.set_defaults(command=attach_project)


def _describe_run(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    ends = command.add_mutually_exclusive_group()
    ends.add_argument(
        "--once", action="store_true", help="request work once, finish and report it, then exit"
    )
    ends.add_argument("--until-idle", action="store_true", help="exit when there is no more work")
    add(
        "--slots", type=_positive_int, metavar="N", help="number of processors to use (default all)"
    )
    add(
        "--buffer",
        type=_seconds,
        metavar="S",
        help="seconds of work to keep, per slot (default 8640)",
    )
    add(
        "--poll",
        "--sleep-interval",
        type=_seconds,
        metavar="S",
        help="minimum seconds between contacts (default 5)",
    )
    add(
        "--usage-interval",
        type=_seconds,
        default=0.0,
        metavar="S",
        help="send the progress and usage of running programs every S seconds (default 0, never)",
    )
    add(
        "--backoff-scale",
        type=_seconds,
        metavar="F",
        help="factor of waits after failures and empty replies (default 1.0)",
    )
    add(
        "--report-immediately",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="report results within seconds, not within an hour (default)",
    )
    queues_help = "accept work of these queues alone, such as lab,nightly (default all work)"
    add("--active-queues", type=_names, default=(), metavar="NAMES", help=queues_help)
    queues_help = "accept no work of these queues; without effect beside --active-queues"
    add("--ignore-queues", type=_names, default=(), metavar="NAMES", help=queues_help)
    add(
        "--ignore-preferences",
        action="store_true",
        help="ignore the computing preferences that projects send",
    )
    add(
        "--confine",
        choices=[*Confinement],
        default=os.environ.get("VOLUNTEER_CONFINE", Confinement.AUTO),
        help="auto confines programs if bubblewrap works, off confines no programs, require "
        "starts only confined programs (default $VOLUNTEER_CONFINE or auto)",
    )
    add(
        "--readable",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="additional folder that confined programs may read (can be repeated)",
    )
    _describe_worker(command)
    command.set_defaults(command=run_client)


def _describe_worker(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    text = "run as a worker with this name, in the folder workers/N of this client"
    add("--name", metavar="N", help=text)
    add(
        "--config",
        type=Path,
        metavar="FILE",
        help="file with a section [worker] that sets options which are not given",
    )
    add(
        "--pool-token-file",
        type=Path,
        metavar="FILE",
        help="file with the token of this host in the project's trusted pool "
        "(default: pool_token in the folder, if it exists)",
    )
    text = "in a pool, claim one result at a time (default: the scheduler's replies assign results)"
    add("--claim", action="store_true", help=text)
    for when, default in (("success", 0.1), ("failure", 0.5), ("no-process-claimed", 2.0)):
        text = f"in a pool, seconds until the next request for work (default {default})"
        add(f"--sleep-after-{when}", type=_seconds, metavar="S", help=text)
    for stream in ("stdout", "stderr"):
        text = f"file for each program's {stream}, as results/$worker-$taskId-$round.out"
        add(f"--{stream}-name", metavar="NAME", help=text)


def _positive_int(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is less than 1")
    return value


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise argparse.ArgumentTypeError(f"{text!r} has no name of a queue; write lab,nightly")
    return names


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a finite number of at least 0")
    return value


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = parser().parse_args(arguments)
    command: Callable[[argparse.Namespace, Home], int] = options.command
    try:
        return command(options, _home(options))
    except tuple(_EXIT_CODES) as error:
        print(f"volunteer: {error}", file=sys.stderr)
        return next(code for kind, code in _EXIT_CODES.items() if isinstance(error, kind))
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _home(options: argparse.Namespace) -> Home:
    chosen = options.dir or os.environ.get("VOLUNTEER_DIR") or _default_folder()
    path = Path(chosen).expanduser().resolve()
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    _keep_private(path)
    return Home(path)


def _keep_private(folder: Path) -> None:
    """Remove other users' access to the client's folder, which contains account keys.

    The mode of a non-empty folder without `state.json` is not changed.
    """
    is_ours = (folder / "state.json").exists() or not any(folder.iterdir())
    mode = stat.S_IMODE(folder.stat().st_mode)
    if is_ours and mode & 0o077:
        with contextlib.suppress(PermissionError):
            folder.chmod(mode & ~0o077)


def _default_folder() -> Path:
    return Path.home() / ".volunteer"


def _post_request(home: Home, request: UserRequest) -> bool:
    """Queue a request, and return whether a running client will apply it.

    If no client runs in the folder, the request is applied before this function returns.
    """
    mailbox.post(home.path, request)
    try:
        with mailbox.locked(home.path):
            apply_user_requests(home)
    except FolderInUseError:
        return True
    return False


def attach_project(options: argparse.Namespace, home: Home) -> int:
    """Run `volunteer attach` and return its exit code."""
    credentials = _credentials(options)
    if credentials.new_name or credentials.key:
        # This check precedes the log-in, so that the project does not create an unused account.
        _refuse_other_account(options, home, canonical_url(options.url), credentials.key)
    with contextlib.closing(HttpTransport(platforms()[0])) as transport:
        login = look_up_project(transport, options.url, credentials)
    _refuse_other_account(options, home, login.url, login.key)
    request = UserRequest(
        "attach", login.url, login.key, login.name, login.scheduler_urls, replaces=options.replace
    )
    _post_request(home, request)
    print(f"attached to {login.url}" + (f" ({login.name})" if login.name else ""), flush=True)
    return OK


def _refuse_other_account(options: argparse.Namespace, home: Home, url: str, key: str) -> None:
    """Raise UsageError if the client is attached to the project with another account.

    With `--replace`, no error is raised.
    """
    project = load_state(home.path).projects.get(url)
    if project is None or project.key == key or options.replace:
        return
    user = project.account.user_name
    raise UsageError(
        f"This client is attached to {url} with another account{f' ({user})' if user else ''}.\n"
        "Hint: run a second client in its own folder with --dir DIR, or replace the account with "
        "--replace."
    )


def _credentials(options: argparse.Namespace) -> Credentials:
    key = options.key or (_first_line(options.key_file) if options.key_file else "")
    if not key and not options.email:
        key = os.environ.get("VOLUNTEER_KEY", "").strip()
    if key:
        return Credentials(key=key)
    if not options.email:
        raise UsageError("The account is missing.\nHint: use --email E or --key-file FILE.")
    if options.create and not options.name:
        raise UsageError("A new account needs a name.\nHint: add --name NAME.")
    password = options.password
    if options.password_file:
        password = _first_line(options.password_file)
    password = password or os.environ.get("VOLUNTEER_PASSWORD")
    if not password and sys.stdin.isatty():
        password = getpass.getpass("Password: ")
    if not password:
        raise UsageError(
            "The password is missing.\n"
            "Hint: use --password-file FILE (- for standard input) or set VOLUNTEER_PASSWORD."
        )
    if not options.create:
        return Credentials(email=options.email, password=password)
    invitation = options.invitation or ""
    return Credentials(
        email=options.email, password=password, new_name=options.name, invitation=invitation
    )


def _first_line(name: str) -> str:
    """Return the first line of a file, or of standard input if its name is -.

    Raises UsageError if the file cannot be read or the line is empty.
    """
    try:
        if name == "-":
            line = sys.stdin.readline()
        else:
            with Path(name).expanduser().open(encoding="utf-8") as file:
                line = file.readline()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{name} cannot be read: {error}\n"
            "Hint: the first line must be the password or the account key, in UTF-8."
        ) from error
    line = line.rstrip("\r\n")
    if not line:
        raise UsageError(
            f"The first line of {name} is empty.\n"
            "Hint: write the password or the account key into the file."
        )
    return line


def _sandbox(options: argparse.Namespace) -> Sandbox:
    """Return the sandbox that the options select.

    In mode `auto`, prints a warning if programs cannot be confined. Raises NoSandboxError if they
    must be confined and cannot be, and UsageError if `VOLUNTEER_CONFINE` is not a mode.
    """
    if options.confine not in {*Confinement}:
        raise UsageError(
            f"VOLUNTEER_CONFINE is {options.confine!r}.\nHint: set it to auto, off or require."
        )
    readable = tuple(path.expanduser().resolve() for path in options.readable)
    sandbox = Sandbox(Confinement(options.confine), readable)
    if not sandbox.works and sandbox.confinement == Confinement.AUTO:
        print(f"volunteer: programs can read all your files: {sandbox.fault}", file=sys.stderr)
    return sandbox


def rules_from(options: argparse.Namespace, folder: Path) -> Rules:
    """Return the rules that the options set.

    A client whose folder is not the default folder is a separate host on this computer.
    """
    return Rules(
        slots=options.slots or os.cpu_count() or 1,
        memory_bytes=total_memory(),
        usage_seconds=options.usage_interval,
        has_own_slots=options.slots is not None,
        has_own_buffer=options.buffer is not None,
        ignores_preferences=options.ignore_preferences,
        active_queues=options.active_queues,
        ignored_queues=options.ignore_queues,
        buffer_seconds=0.1 * DAY if options.buffer is None else options.buffer,
        backoff_scale=1.0 if options.backoff_scale is None else options.backoff_scale,
        poll_seconds=5.0 if options.poll is None else options.poll,
        report_immediately=options.report_immediately,
        once=options.once,
        allow_multiple_clients=folder != _default_folder(),
        falsify=os.environ.get("VOLUNTEER_FALSIFY") == "1",
        **_worker_rules(options),
    )


def _worker_rules(options: argparse.Namespace) -> dict[str, Any]:
    """Return the rules that the options of workers set; others keep their defaults."""
    names = ("success", "failure", "no_process_claimed")
    sleeps = {f"sleep_after_{name}": getattr(options, f"sleep_after_{name}") for name in names}
    templates = {
        name: workers.checked_template(text)
        for name in ("stdout_name", "stderr_name")
        if (text := getattr(options, name)) is not None
    }
    return {name: value for name, value in sleeps.items() if value is not None} | templates


def apply_settings(options: argparse.Namespace) -> None:
    """Set the options that are not given from the file of `--config`."""
    if options.config is None:
        return
    readers: dict[str, Callable[[str], object]] = {
        "slots": _positive_int,
        "claim": lambda text: text.lower() in {"1", "yes", "true", "on"},
        "pool_token_file": Path,
    }
    for name, text in workers.read_settings(options.config).items():
        value = getattr(options, name)
        # Compared by identity, because 0 is a value that was given, and equal to False.
        if value is not None and value is not False:
            continue
        read = readers.get(name, _seconds if name.startswith("sleep_") else str)
        try:
            setattr(options, name, read(text))
        except (ValueError, argparse.ArgumentTypeError) as error:
            raise UsageError(
                f"{options.config}: {name} is {text!r:.60}.\nHint: {error}."
            ) from error


def _pool_rules(rules: Rules, options: argparse.Namespace, token: str) -> Rules:
    """Return the rules in a pool, if there is a token: short delays and no work in store."""
    if not token:
        return rules
    return replace(
        rules,
        pool=True,
        claims=options.claim,
        report_wait=rules.sleep_after_success,
        buffer_seconds=rules.buffer_seconds if rules.has_own_buffer else 0.0,
        has_own_buffer=True,
    )


def _pool_token(options: argparse.Namespace, home: Home) -> str:
    """Return the token of this host in the pool, or an empty string outside of a pool."""
    if options.pool_token_file is not None:
        return _first_line(str(options.pool_token_file))
    path = home.path / "pool_token"
    token = _first_line(str(path)) if path.exists() else ""
    if options.claim and not token:
        raise UsageError(
            "--claim needs a token of the pool.\n"
            "Hint: ask the operator for `manage.py pool enroll HOST`, and use --pool-token-file."
        )
    return token


def _stop_at_signals(stopping: threading.Event) -> None:
    """Set the event at SIGTERM and SIGINT; a second signal ends the client at once."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        if stopping.is_set():
            raise KeyboardInterrupt
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)


def run_client(options: argparse.Namespace, home: Home) -> int:
    """Run `volunteer run` and return its exit code."""
    apply_settings(options)
    if options.name:
        home = Home(workers.prepare_folder(home.path, options.name))
    token = _pool_token(options, home)
    mode = Mode.ONCE if options.once else Mode.UNTIL_IDLE if options.until_idle else Mode.FOREVER
    sandbox = _sandbox(options)
    stopping = threading.Event()
    with mailbox.locked(home.path, timeout_seconds=1.0):
        state = load_state(home.path)
        if not state.projects and not mailbox.waiting(home.path):
            raise NotAttachedError(_NO_PROJECT)
        _stop_at_signals(stopping)
        if token and len(state.projects) != 1:
            raise UsageError(
                "The token of a pool is for one project, but this client has "
                f"{len(state.projects)}.\nHint: use a folder of its own with --dir DIR."
            )
        rules = _pool_rules(rules_from(options, home.path), options, token)
        host = read_host(home.path, rules.slots, time.time())
        host = replace(host, domain_name=options.name or host.domain_name)
        transport = HttpTransport(host.platform)
        tools = Tools(home, host, rules, transport, for_terminal(rules), sandbox)
        agent = Agent(tools, state)
        if token:
            agent.join_pool(token)
        # Start the next turn as soon as a program ends, not after the pause.
        signal.signal(signal.SIGCHLD, lambda _number, _frame: agent.wake())
        guardian = Guardian(home.path)
        try:
            ending = run(agent, mode, stopping)
        finally:
            guardian.close()
    if ending.failure is not None:
        print(f"volunteer: {ending.message}", file=sys.stderr, flush=True)
        return _FAILURE_CODES[ending.failure]
    return OK


def show_status(options: argparse.Namespace, home: Home) -> int:
    """Run `volunteer status` and return its exit code."""
    state = load_state(home.path)
    now = time.time()
    if options.json:
        print(json.dumps(as_json(state, home.path, now), indent=2))
    else:
        print("\n".join(as_lines(state, home.path, now)))
    return OK


def detach_project(options: argparse.Namespace, home: Home) -> int:
    """Run `volunteer detach` and return its exit code."""
    url = _attached_url(home, options.url)
    _post_request(home, UserRequest("detach", url))
    print(f"detached from {url}", flush=True)
    return OK


def _selected_urls(options: argparse.Namespace, home: Home) -> list[str]:
    """Return the address in the options, or the addresses of all attached projects.

    Raises NotAttachedError if the client is not attached to that project, or to any project.
    """
    urls = (
        [_attached_url(home, options.url)] if options.url else list(load_state(home.path).projects)
    )
    if not urls:
        raise NotAttachedError(_NO_PROJECT)
    return urls


def suspend_or_resume(options: argparse.Namespace, home: Home) -> int:
    """Run `volunteer suspend` or `volunteer resume`, and return its exit code."""
    outcome = {"suspend": "suspended until `volunteer resume`", "resume": "resumed"}[options.verb]
    for url in _selected_urls(options, home):
        _post_request(home, UserRequest(options.verb, url))
        print(f"{url} {outcome}", flush=True)
    return OK


def request_update(options: argparse.Namespace, home: Home) -> int:
    """Run `volunteer update` and return its exit code."""
    for url in _selected_urls(options, home):
        is_running = _post_request(home, UserRequest("update", url))
        effect = "the running client contacts it now" if is_running else "the next run contacts it"
        print(f"{url}: {effect}", flush=True)
    return OK


def _attached_url(home: Home, url: str) -> str:
    """Return the canonical form of a project's address.

    Raises NotAttachedError if the client is not attached to the project.
    """
    address = canonical_url(url)
    attached = list(load_state(home.path).projects)
    if address not in attached:
        raise NotAttachedError(
            f"Not attached to {address}.\nHint: attached projects: {', '.join(attached) or 'none'}."
        )
    return address
