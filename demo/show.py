"""The demonstration, first line to last, and the end of all that it started."""

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
  make run    keeps a server up, with work for any BOINC client that you attach to it:
              boinccmd --create_account http://127.0.0.1:8000/ you@example.org PASSWORD "Your name"
              boinccmd --project_attach http://127.0.0.1:8000/ ACCOUNT_KEY
  var/demo    holds what this demonstration left: results/mersenne, keys, logs, the database"""


def demonstrate() -> int:
    """Play it all; return the exit code: 0 if everything is as it must be."""
    console = Console(soft_wrap=True, highlight=False)
    before = signal.signal(signal.SIGTERM, _interrupt)
    stage: Stage | None = None
    try:
        stage = stages.set_up()
        return _play(stage, console)
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


def _play(stage: Stage, console: Console) -> int:
    began = time.monotonic()
    stage.serve()
    django.setup()
    from daemons import registry
    from demo.play import Play

    console.print(
        f"server on {stage.url} · {len(registry.DAEMONS)} daemons · {len(VOLUNTEERS)} volunteers"
    )
    play = Play(stage, console)
    play.submit()
    stage.attach()
    for volunteer in VOLUNTEERS:
        stage.run(volunteer)
    play.watch()
    if not play.conclude():
        console.print(f"\nNot everything is as it must be. The logs are in {VAR}.")
        return FAILED
    console.print(f"\nAll of it is true, after {time.monotonic() - began:.0f} s.{WHAT_NEXT}")
    return OK


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
