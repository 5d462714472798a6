"""Runs the demonstration, and stops all processes that it started."""

from __future__ import annotations

import signal
import subprocess
import time
from types import FrameType
from typing import NoReturn

import django
from rich.console import Console
from rich.text import Text

from demo import stage as stages
from demo.stage import VAR, VOLUNTEERS, Stage, StageError

OK, FAILED, INTERRUPTED = 0, 1, 130

WHAT_NEXT = """\

What next?
  make run    runs a server with sample work for any BOINC client that you attach to it:
              boinccmd --create_account http://127.0.0.1:8000/ you@example.org PASSWORD "Your name"
              boinccmd --project_attach http://127.0.0.1:8000/ ACCOUNT_KEY
  var/demo    has the files of this demonstration: results/mersenne, keys, logs, the database"""


def demonstrate() -> int:
    """Run the demonstration; return 0 if all checks passed, 1 otherwise, 130 if interrupted."""
    console = Console(soft_wrap=True, highlight=False)
    before = signal.signal(signal.SIGTERM, _interrupt)
    stage: Stage | None = None
    try:
        stage = stages.set_up()
        return _run(stage, console)
    except StageError as error:
        console.print(Text(f"demo: {error}", style="bold red"))
        return FAILED
    except subprocess.TimeoutExpired as error:
        console.print(Text(f"demo: {error}\nHint: the logs are in {VAR}.", style="bold red"))
        return FAILED
    except KeyboardInterrupt:
        console.print("demo: interrupted, stopping everything")
        return INTERRUPTED
    finally:
        if stage is not None:
            stage.close()
        signal.signal(signal.SIGTERM, before)


def _run(stage: Stage, console: Console) -> int:
    began = time.monotonic()
    stage.serve()
    django.setup()
    from daemons import registry
    from demo.play import Demonstration

    console.print(
        f"server on {stage.url} · {len(registry.DAEMONS)} daemons · {len(VOLUNTEERS)} volunteers"
    )
    demonstration = Demonstration(stage, console)
    demonstration.submit()
    stage.attach()
    for volunteer in VOLUNTEERS:
        stage.run(volunteer)
    demonstration.watch()
    if not demonstration.conclude():
        console.print(f"\nSome checks failed. The logs are in {VAR}.")
        return FAILED
    console.print(f"\nAll checks passed after {time.monotonic() - began:.0f} s.{WHAT_NEXT}")
    return OK


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
