"""Serves the project: web server and all daemons in the foreground, until Ctrl-C."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from time import monotonic
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, connections
from django.utils import timezone

from daemons.management.commands._daemon import add_sleep_intervals
from daemons.management.processes import LOOK_EVERY, Child, Children, wait_until
from daemons.science import worker
from project import folders, keys
from project.embedded_postgres import EmbeddedPostgres
from project.management.commands.runpool import server_command
from project.monitoring import shared_folder
from project.ports import answers
from project.upkeep import addresses
from scheduler import signing
from scheduler.health import installation
from scheduler.management.base import shell_actor
from scheduler.models import Account
from scheduler.people import accounts, audit
from scheduler.pool import host_tokens

if TYPE_CHECKING:
    import subprocess

ADMIN = "admin@localhost"
#: The file in KEYS_DIR with the first password, written if the output is not a terminal.
FIRST_PASSWORD_FILE = "first_admin_password"  # noqa: S105 - the name of a file
#: More than `max_waiting_rpcs`: that many threads wait for the leader of their batch, and the other
#: threads refuse further RPCs.
THREADS_PER_WORKER = 192
#: Connections of one web process to the database; a batch of RPCs needs one.
CONNECTIONS_PER_WORKER = 8
#: HTTP/1 only: granian waits without limit for an idle client while it detects the HTTP version.
HTTP = ["--http", "1", "--http1-header-read-timeout", "30000"]
READY_WITHIN = 60.0
#: The interval at which the database is asked whether a pool exists, until there is one.
LOOK_FOR_POOL_SECONDS = 5.0
#: With `--sample-work`, a client without work retries after this time, not after BOINC's back-off
#: of five to ten minutes.
TRIAL_CONTACT_SECONDS = 30
#: glibc returns the freed memory of large requests and batches to the system, and threads share
#: heaps.  Other C libraries ignore these variables.
HEAP = {"MALLOC_MMAP_THRESHOLD_": "1000000", "MALLOC_ARENA_MAX": "2"}
EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - only recognized

BANNER = """\

{name} serves at {url}
  admin    {url}admin/   {admin}
  files    {var}
  stop     Ctrl-C

Attach the BOINC client of this computer:
  boinccmd --create_account {url} you@example.org PASSWORD "Your name"
  boinccmd --project_attach {url} ACCOUNT_KEY
or the small client that comes with the project:
  {python} client attach {url} --create --email you@example.org --name You
  {python} client run

"""


class Command(BaseCommand):
    """Implements ``manage.py serve [--port 8000] [--sample-work]``."""

    help = "Serve the project until Ctrl-C: web server and all daemons, in the foreground."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        add = parser.add_argument
        add("--address", default="127.0.0.1", help="address to listen on (127.0.0.1)")
        add("--port", type=int, default=8000, help="port to listen on (8000)")
        workers = max(2, os.cpu_count() or 1)
        add("--workers", type=int, default=workers, help="number of web server processes")
        add("--pause", type=float, help="maximum pause of each daemon between passes, in seconds")
        add_sleep_intervals(parser)
        add("--sample-work", action="store_true", help="publish the app mersenne and its workunits")
        add("--quiet", action="store_true", help="do not print a banner or create a first account")

    def handle(self, **options: Any) -> None:
        """Serve until a signal arrives, then stop all started processes."""
        url = master_url(options["address"], options["port"])
        installation.refuse_incomplete_restore()
        with claimed(settings.VAR_DIR, url):
            check_free(options["address"], options["port"])
            check_keys()
            empty_metrics_folder()
            self._serve(url, options)

    def _serve(self, url: str, options: dict[str, Any]) -> None:
        environment = environment_for(url, is_trial=options["sample_work"], variables=os.environ)
        url = addresses.current(addresses.recorded(settings.VAR_DIR), url)
        environment["MASTER_URL"] = url
        stop = threading.Event()
        before = {number: signal.signal(number, lambda *_: stop.set()) for number in _SIGNALS}
        children = Children()
        try:
            # Earlier versions left files and the database open to other users of the machine.
            correct_modes()
            convert_database()
            call_command("migrate", verbosity=0, interactive=False)
            installation.claim_folder()
            password = None if options["quiet"] else first_password()
            connections.close_all()
            if options["sample_work"]:
                self._sample_work(children, environment, stop)
            start(children, options, environment)
            is_up = self._is_up(children, options, stop)
            # A process that ends before the first answer would end again, so it is not restarted.
            ended = None if is_up else children.ended()
            if is_up:
                self._welcome(url, password, quiet=options["quiet"])
            if ended is None:
                look_after(children, options, environment, stop)
        finally:
            children.stop_all()
            stop_database()
            for number, action in before.items():
                signal.signal(number, action)
        if ended is not None:
            name, code = ended
            msg = f"The {name} ended at once, exit code {code}; everything is stopped."
            raise CommandError(
                f"{msg}\nHint: the last lines of its output above contain the reason."
            )
        if not options["quiet"]:
            self.stdout.write("stopped")

    def _welcome(self, url: str, password: str | None, *, quiet: bool) -> None:
        if warning := worker.warning():
            _say(warning)
        if quiet:
            _say(f"the server answers at {url}")
            return
        self.stdout.write(welcome(url, self._shown(password)))
        self.stdout.flush()

    def _shown(self, password: str | None) -> str | None:
        """Return the banner's text about the first password, or None if there is no password.

        The text contains the password only if the output is a terminal.  Other output may be
        logged, so the password is written to a private file instead.
        """
        if password is None or self.stdout.isatty():
            return password and f"password {password} (shown only now)"
        path = settings.KEYS_DIR / FIRST_PASSWORD_FILE
        keys.write_private(path, password)
        return f"password in {path}: log in, change it, delete the file"

    def _sample_work(
        self, children: Children, environment: dict[str, str], stop: threading.Event
    ) -> None:
        # A separate program, because `demo` imports `project`, not the other way round.
        program = children.start(
            "sample", [sys.executable, "-m", "demo", "--sample-work"], environment=environment
        )
        wait_until(lambda: stop.is_set() or program.poll() is not None, within=READY_WITHIN)
        if code := children.stop("sample"):
            msg = f"The sample work could not be submitted (exit code {code})."
            raise CommandError(f"{msg}\nHint: serve without --sample-work.")

    def _is_up(self, children: Children, options: dict[str, Any], stop: threading.Event) -> bool:
        address = "127.0.0.1" if options["address"] in EVERYWHERE else options["address"]
        url = f"http://{address}:{options['port']}/get_project_config.php"
        has_answered = False

        def is_settled() -> bool:
            nonlocal has_answered
            has_answered = answers(url, within=2.0)
            return has_answered or stop.is_set() or children.ended() is not None

        wait_until(is_settled, within=READY_WITHIN)
        return has_answered


def environment_for(url: str, *, is_trial: bool, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables to set for the project's processes.

    With `is_trial`, clients without work retry soon, unless NEXT_CONTACT is in `variables`, which
    is the environment of this process.
    """
    environment = {"MASTER_URL": url}
    if not (variables.get("MASTER_URL", "").strip() or variables.get("POOL_WAIT_URL")):
        # Without a proxy in front, hosts of the pool wait at the port of the long poll.
        parts = urlsplit(url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        environment["POOL_WAIT_URL"] = f"http://{host}:{(parts.port or 80) + 1}/api/v1/pool/wait"
    if is_trial and not variables.get("NEXT_CONTACT"):
        environment["NEXT_CONTACT"] = str(TRIAL_CONTACT_SECONDS)
    return environment


def start(children: Children, options: dict[str, Any], environment: dict[str, str]) -> None:
    """Start the web server and the daemons; print a warning if network traffic has no TLS."""
    if warning := plain_http_warning(options["address"], environment["MASTER_URL"]):
        _say(warning)
    start_server(children, options, environment)
    start_daemons(children, options, environment)


def start_server(
    children: Children,
    options: dict[str, Any],
    environment: dict[str, str],
    output: IO[bytes] | None = None,
) -> subprocess.Popen[bytes]:
    """Start the web server and return its process.

    Its output is written to `output`, or to the output of this process if `output` is None.
    """
    words = ["--interface", "wsgi"]
    words += ["--host", str(options["address"]), "--port", str(options["port"])]
    words += ["--workers", str(options["workers"])]
    words += ["--blocking-threads", str(THREADS_PER_WORKER)]
    words += HTTP
    words += ["--respawn-failed-workers", "--workers-kill-timeout", "5", "--log-level", "error"]
    return children.start(
        "server",
        [sys.executable, "-m", "granian", *words, "--no-ws", "project.wsgi:application"],
        environment={"DATABASE_POOL": str(CONNECTIONS_PER_WORKER), **HEAP, **environment},
        output=output,
    )


def start_daemons(
    children: Children,
    options: dict[str, Any],
    environment: dict[str, str],
    output: IO[bytes] | None = None,
) -> subprocess.Popen[bytes]:
    """Start all daemons and return their parent process.

    Their output is written to `output`, or to the output of this process if `output` is None.
    """
    pause = [] if options["pause"] is None else ["--pause", str(options["pause"])]
    daemons = [sys.executable, str(settings.BASE_DIR / "manage.py"), "daemons", *pause]
    for name, interval in options["sleep_interval"]:
        daemons += ["--sleep-interval", f"{name}={interval}" if name else str(interval)]
    return children.start("daemons", daemons, environment={**HEAP, **environment}, output=output)


def start_pool(
    children: Children,
    options: dict[str, Any],
    environment: dict[str, str],
    output: IO[bytes] | None = None,
) -> subprocess.Popen[bytes]:
    """Start the long poll of the trusted pool, on the port after the web server's.

    Its output is written to `output`, or to the output of this process if `output` is None.
    """
    command = server_command(options["address"], options["port"] + 1)
    return children.start("pool", command, environment={**HEAP, **environment}, output=output)


def pool_exists() -> bool:
    """Return whether a host is enrolled in the trusted pool; False if the database is away."""
    try:
        return host_tokens.pool_exists(now=timezone.now())
    except DatabaseError:
        return False
    finally:
        connections.close_all()


def look_after(
    children: Children, options: dict[str, Any], environment: dict[str, str], stop: threading.Event
) -> None:
    """Restart the web server and the daemons when they end, until `stop` is set.

    The long poll is started when the first host is enrolled in the trusted pool.

    The web server Granian ends if a worker dies twice within some seconds, because it assumes a
    restart loop.
    """
    starts = {"server": start_server, "daemons": start_daemons}
    watched = [
        Child(name, partial(start_one, children, options, environment), children.started[name])
        for name, start_one in starts.items()
    ]
    look_for_pool_at = monotonic()
    has_pool = False
    while not stop.wait(LOOK_EVERY):
        for child in watched:
            children.restart(child, _say)
        if not has_pool and monotonic() >= look_for_pool_at:
            look_for_pool_at = monotonic() + LOOK_FOR_POOL_SECONDS
            if has_pool := pool_exists():
                start_one = partial(start_pool, children, options, environment)
                watched.append(Child("pool", start_one, start_one()))


def _say(text: str) -> None:
    sys.stderr.write(f"serve: {text}\n")
    sys.stderr.flush()


@contextmanager
def claimed(folder: Path, url: str) -> Iterator[None]:
    """Lock VAR_DIR, so that only one `serve` on this machine uses it.

    Raises CommandError if another process has the lock.  Machines that share the folder have
    separate locks.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"serve.{socket.gethostname()}.lock"
    with path.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            msg = f"{folder} is served already, by process {lock.read().strip() or 'unknown'}."
            hint = "stop that process; another project needs another VAR_DIR"
            raise CommandError(f"{msg}\nHint: {hint}.") from None
        lock.truncate(0)
        lock.write(f"{os.getpid()} at {url}")
        lock.flush()
        yield


def check_free(address: str, port: int) -> None:
    """Raise CommandError if the web server cannot listen on the port, or the port is in use.

    The web server would share a port that is in use with the other server.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            reason = {errno.EADDRINUSE: "is in use", errno.EACCES: "needs more rights"}.get(
                error.errno or 0, f"cannot be used ({error.strerror})"
            )
            msg = f"Port {port} of {address} {reason}."
            hint = "choose another with --port; with make: `make run PORT=8001`"
            raise CommandError(f"{msg}\nHint: {hint}.") from None


def check_keys() -> None:
    """Raise CommandError if the public code signing key is missing.

    Prints a warning if the private key of a public project is on this machine.
    """
    try:
        signing.code_sign_key_text()
    except signing.KeyMissing as error:
        msg = (
            f"{settings.PROJECT.name} has no code signing key, and does not create one "
            "(ONLINE_SIGNING is off, as is usual for an https MASTER_URL)."
        )
        hint = (
            "create a key on another machine by `python3 signer/sign.py new-key FOLDER`, and "
            "install its public half by "
            "`manage.py rotate_key code-sign --public-key code_sign_public` (docs/signing.md); "
            "or set ONLINE_SIGNING=true."
        )
        raise CommandError(f"{msg}\nHint: {hint}") from error
    is_public = settings.PROJECT.master_url.startswith("https:")
    if is_public and signing.private_code_sign_key_is_here():
        _say(
            f"a private code signing key is in {settings.KEYS_DIR}: an intruder could sign "
            "programs that all volunteers run. Hint: move it to another machine (docs/signing.md)"
        )


def empty_metrics_folder() -> None:
    """Empty the folder of PROMETHEUS_MULTIPROC_DIR; raise CommandError if it cannot be used.

    Otherwise the counts of ended web servers would be added to those of this one.
    """
    folder = os.environ.get(shared_folder.VARIABLE)
    if not folder:
        return
    try:
        shared_folder.empty(Path(folder))
    except OSError as error:
        msg = f"{shared_folder.VARIABLE}={folder} cannot be used ({error.strerror})."
        hint = "set it to a folder that this user can write to, or do not set it"
        raise CommandError(f"{msg}\nHint: {hint}.") from error


def master_url(address: str, port: int) -> str:
    """Return the URL to which volunteers attach.

    This is MASTER_URL, or the address of this server if MASTER_URL is not set.  Raises CommandError
    if `address` stands for all addresses of this computer.
    """
    if os.environ.get("MASTER_URL", "").strip():
        return settings.PROJECT.master_url
    if address in EVERYWHERE:
        msg = f"Volunteers cannot attach to {address}."
        raise CommandError(f"{msg}\nHint: set MASTER_URL=http://this.computer:{port}/.")
    host = f"[{address}]" if ":" in address else address
    return f"http://{host}:{port}/"


def plain_http_warning(address: str, url: str) -> str | None:
    """Return a warning if network traffic of the server has no TLS, else None."""
    with suppress(ValueError):
        if ip_address(address).is_loopback:
            return None
    if address == "localhost" or url.startswith("https:"):
        return None
    return (
        f"the server listens on {address} without TLS: passwords and account keys cross the "
        "network in plain text.\nHint: listen on 127.0.0.1 behind nginx (deploy/nginx), with an "
        "https MASTER_URL, unless all computers of the network are trusted."
    )


def first_password() -> str | None:
    """Create the first staff account and return its password.

    Returns None if a staff account exists.
    """
    if Account.objects.filter(is_staff=True).exists():
        return None
    password = secrets.token_urlsafe(9)
    with audit.acting(name=shell_actor()):
        accounts.create_staff(email=ADMIN, password=password, name="Admin")
    return password


def correct_modes() -> None:
    """Correct the modes of files in VAR_DIR; print the names of the changed files.

    Earlier versions created files that other users could read.
    """
    umask = settings.FILE_UMASK
    changed = folders.correct_modes(settings.VAR_DIR, settings.KEYS_DIR, umask=umask)
    if changed:
        names = ", ".join(os.path.relpath(path, settings.VAR_DIR.parent) for path in changed[:9])
        more = f" and {len(changed) - 9} more" if len(changed) > 9 else ""  # noqa: PLR2004
        _say(f"other users can no longer open {names}{more} (FILE_UMASK={umask:04o})")


def convert_database() -> None:
    """Convert the embedded PostgreSQL of an earlier version, which trusts every user."""
    if not settings.DATABASES["default"].get("EMBEDDED"):
        return
    if EmbeddedPostgres(settings.VAR_DIR).convert():
        _say("the embedded PostgreSQL now runs as a separate user and requires a password")


def welcome(url: str, password: str | None) -> str:
    """Return the banner.

    `password` is the banner's text about the first password, or None if no password is shown.
    """
    python = os.path.relpath(sys.executable)
    return BANNER.format(
        name=settings.PROJECT.name,
        url=url,
        admin=f"{ADMIN}, {password}" if password else "with the account of the first start",
        var=settings.VAR_DIR,
        python=python if len(python) < len(sys.executable) else sys.executable,
    )


def stop_database() -> None:
    """Close all connections, and stop the embedded PostgreSQL if the project uses it."""
    connections.close_all()
    if settings.DATABASES["default"].get("EMBEDDED"):
        EmbeddedPostgres(settings.VAR_DIR).stop()


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
