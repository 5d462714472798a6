"""`python -m demo.pictures`: takes the pictures in docs/screenshots."""

from __future__ import annotations

import argparse
import signal
import sys

from rich.console import Console
from rich.progress import Progress

from demo.pictures import album, camera, stage


def main() -> int:
    """Simulate the project, take the pictures, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m demo.pictures",
        description="Take the pictures of the main pages, in docs/screenshots.",
        epilog="The exit status is 1 if a picture cannot be taken, or is too large.",
    )
    parser.add_argument(
        "--only", metavar="NAME", nargs="+", help="take only the pictures with these names"
    )
    names = parser.parse_args().only or [picture.name for picture in album.PICTURES]
    if unknown := set(names) - {picture.name for picture in album.PICTURES}:
        parser.error(f"There is no picture {min(unknown)}. Hint: demo/pictures/album.py lists them")
    chosen = [picture for picture in album.PICTURES if picture.name in names]
    # SIGTERM then raises KeyboardInterrupt, so that the database is stopped.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = Console(soft_wrap=True, highlight=False)
    try:
        camera.find_chromium()
    except stage.PicturesError as error:
        console.print(f"FAILED {error}")
        return 1
    pictures_stage = stage.set_up()
    try:
        return _take_all(pictures_stage, chosen, console)
    except stage.PicturesError as error:
        console.print(f"FAILED {error}")
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        pictures_stage.close()


def _take_all(pictures_stage: stage.Stage, chosen: list[album.Picture], console: Console) -> int:
    import django
    from django.core.management import call_command
    from django.db import connections
    from django.utils import timezone

    django.setup()
    call_command("migrate", verbosity=0, interactive=False)
    from demo.pictures import content
    from demo.pictures.people import PEOPLE
    from scheduler import signing

    signing.ensure_keys()
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("simulating two weeks", total=100)
        scene = content.simulate(timezone.now(), lambda percent: progress.advance(bar, percent))
    console.print(f"{scene.workunits:,} workunits, {scene.results:,} results")
    connections.close_all()
    pictures_stage.serve()
    scene.contact_server(timezone.now())
    connections.close_all()
    log_ins = {
        album.VOLUNTEER: (PEOPLE[0].email, content.PASSWORD),
        album.OPERATOR: (content.OPERATOR_EMAIL, content.PASSWORD),
    }
    faults = []
    with camera.opened(pictures_stage.port) as browser:
        for picture in chosen:
            camera.take(browser, picture, ids=scene.ids, log_in=log_ins.get(picture.viewer))
            console.print(f"{picture.file.name}  {picture.file.stat().st_size:,} bytes")
            faults += album.faults(picture)
    for fault in faults:
        console.print(f"FAILED {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
