"""A fuzzing process: reads its plan as JSON from standard input."""

from __future__ import annotations

import json
import socket
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.fuzz.mutators import mutated
from tests.fuzz.raw import RawRequest
from tests.fuzz.seeds import DECODERS, VIEWS, Seeds
from tests.fuzz.world import World

#: Seconds after which a request is a fault.
SLOW = 20.0
#: Maximum number of bytes to read from a reply.
_MOST_READ = 1 << 20
_SERVER_ERROR = 500
_DELIBERATE = 503


@dataclass(slots=True)
class Plan:
    """The task of one process: requests `first` to `last` of a seed."""

    world: str
    folder: str
    seed: int
    first: int
    last: int
    shares: dict[str, float]
    port: int = 0
    """The port of the server; 0: in this process."""


@dataclass(slots=True)
class Outcome:
    counts: Counter[str] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def request_of(seeds: Seeds, plan: Plan, number: int) -> tuple[str, RawRequest]:
    """Return the kind and the request of a number, reproducibly for a seed."""
    chance = Random(f"{plan.seed} {number}")
    kinds = list(plan.shares)
    [kind] = chance.choices(kinds, [plan.shares[one] for one in kinds])
    good = seeds.draw(kind, chance)
    return kind, mutated(good, chance, seeds.pools[kind])


def run(plan: Plan) -> Outcome:
    """Send the requests of a plan; write requests that cause a fault to the folder."""
    seeds, outcome = Seeds(World.read(Path(plan.world))), Outcome()
    ask = _over_http(plan.port) if plan.port else _in_process
    for number in range(plan.first, plan.last):
        kind, request = request_of(seeds, plan, number)
        began = time.perf_counter()
        said, fault = ask(kind, request)
        took = time.perf_counter() - began
        outcome.counts[f"{kind}|{said}"] += 1
        outcome.seconds[kind] += took
        if took > SLOW:
            fault = f"{fault}\nIt took {took:.1f} seconds."
        if fault:
            outcome.faults.append(
                keep(Path(plan.folder), f"{plan.seed}-{number}", kind, request, fault)
            )
            if len(outcome.faults) >= 50:
                break
    return outcome


def keep(folder: Path, name: str, kind: str, request: RawRequest, fault: str) -> str:
    """Write a request and its fault to files; return a text with the replay command."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{kind.replace(' ', '_')}.req"
    path.write_bytes(request.to_bytes())
    path.with_suffix(".txt").write_text(fault, errors="backslashreplace")
    last = fault.strip().splitlines()[-1] if fault.strip() else ""
    return f"{kind}: {last[:200]}\n    replay: python -m tests.fuzz replay {path}"


def _in_process(kind: str, request: RawRequest) -> tuple[str, str]:
    if kind in DECODERS:
        return decoded(kind, request.body)
    from tests.fuzz.raw import answer

    reply = answer(request)
    return _judged(reply.status, reply.fault)


def _judged(status: int, fault: str) -> tuple[str, str]:
    if not fault and (status >= _SERVER_ERROR and status != _DELIBERATE):
        fault = f"It was answered with {status}."
    return str(status), fault


def decoded(kind: str, body: bytes) -> tuple[str, str]:
    """Decode a body; return "read", or "refused" for a declared error, and the fault."""
    from scheduler.boinc.wire import project_prefs, uploads
    from scheduler.boinc.wire.requests import decode_request
    from scheduler.boinc.wire.uploads import BadUpload
    from scheduler.boinc.wire.xml import BadXml
    from scheduler.boinc_submission.wire import requests
    from scheduler.boinc_submission.wire.template_elements import BadTemplate
    from scheduler.boinc_submission.wire.templates import read_input_template, read_output_template

    def template(text: bytes) -> object:
        said = text.decode("utf-8", "replace")
        return (
            read_input_template(said) if b"input_template" in text else read_output_template(said)
        )

    decoders: dict[str, Callable[[bytes], object]] = {
        "request decoder": lambda text: decode_request(text, max_results=200),
        "upload decoder": lambda text: uploads.decode_request(text, ended=True),
        "submission decoder": requests.read_request,
        "template decoder": template,
        "preferences decoder": lambda text: project_prefs.decode(
            text.decode("utf-8", "replace"), "home"
        ),
    }
    try:
        decoders[kind](body)
    except (BadXml, BadUpload, BadTemplate):
        return "refused", ""
    except Exception:  # noqa: BLE001 - whatever it is, it is a fault
        return "raised", traceback.format_exc()
    return "read", ""


def _over_http(port: int) -> Callable[[str, RawRequest], tuple[str, str]]:
    def ask(_kind: str, request: RawRequest) -> tuple[str, str]:
        try:
            return _judged(status_over_http(port, request), "")
        except TimeoutError:
            return "timeout", "The server did not answer in time."
        except OSError as error:
            return "closed", "" if isinstance(error, ConnectionError) else repr(error)

    return ask


def status_over_http(port: int, request: RawRequest) -> int:
    """Send a request on a new connection; return the status, or 0 without a reply."""
    head, _, body = request.to_bytes().partition(b"\r\n\r\n")
    with socket.create_connection(("127.0.0.1", port), timeout=SLOW) as link:
        link.sendall(head + b"\r\nConnection: close\r\n\r\n" + body)
        answer, length = bytearray(), 0
        while chunk := link.recv(1 << 16):
            length += len(chunk)
            if len(answer) < 64:
                answer += chunk
            if length > _MOST_READ:
                break
    words = bytes(answer[:64]).split(b" ", 2)
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0


def main() -> None:
    plan = Plan(**json.load(sys.stdin))
    if not plan.port:
        import django

        django.setup()
    outcome = run(plan)
    print(  # noqa: T201
        json.dumps(
            {
                "counts": outcome.counts,
                "seconds": outcome.seconds,
                "faults": outcome.faults,
            }
        )
    )


if __name__ == "__main__":
    main()

__all__ = ["VIEWS", "Outcome", "Plan", "decoded", "keep", "request_of", "run"]
