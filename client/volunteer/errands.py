"""What worker threads do on the network, each errand ending in an event."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from volunteer import events, files, uploads
from volunteer.attach import NoProjectError, read_master_page
from volunteer.transport import Body, Transport, UnreachableError
from volunteer.wire.replies import decode_reply
from volunteer.wire.xml import BadXmlError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from volunteer.events import Command, Event
    from volunteer.wire.messages import HostFacts


@dataclass(frozen=True, slots=True)
class Errands:
    """The network and a clock: all that an errand may touch besides its own file."""

    transport: Transport
    now: Callable[[], float]

    def read_master_page(self, project: str) -> Event:
        """Look for the scheduler addresses."""
        try:
            found = read_master_page(self.transport, project)
        except NoProjectError as error:
            reason = str(error).partition("\n")[0]
            return events.MasterPageRead(self.now(), chance(), project=project, reason=reason)
        return events.MasterPageRead(self.now(), project=project, scheduler_urls=found)

    def ask(self, command: events.Ask, body: bytes, host: HostFacts) -> Event:
        """Ask the first scheduler that gives a proper reply."""
        reason = ""
        for url in command.urls:
            try:
                answer = self.transport.post(url, Body(body), has_credentials=True)
                if not answer.is_good:
                    reason = f"{url}: HTTP {answer.status}"
                    continue
                reply = decode_reply(answer.content, host.platform, host.fpops)
            except (UnreachableError, BadXmlError) as error:
                reason = f"{url}: {error}"
                continue
            return events.ReplyReceived(self.now(), chance(), project=command.project, reply=reply)
        return events.RequestFailed(self.now(), chance(), project=command.project, reason=reason)

    def replicate(self, command: events.Replicate, bodies: Sequence[bytes]) -> Event:
        """Send copies of trickles; the answers do not matter."""
        reason = ""
        for body in bodies:
            try:
                answer = self.transport.post(command.url, Body(body), has_credentials=True)
                reason = reason or ("" if answer.is_good else f"HTTP {answer.status}")
            except UnreachableError as error:
                reason = reason or str(error)
        return events.TricklesReplicated(
            self.now(), project=command.project, url=command.url, reason=reason
        )

    def fetch(self, project: str, wanted: files.Wanted) -> Event:
        """Download a file."""
        name = wanted.info.name
        try:
            sha256 = files.fetch(self.transport, wanted)
        except files.DownloadError as error:
            return events.DownloadFailed(
                self.now(),
                chance(),
                project=project,
                name=name,
                code=error.code,
                reason=error.reason,
                permanent=error.permanent,
            )
        return events.DownloadFinished(self.now(), project=project, name=name, signed_sha256=sha256)

    def upload(self, project: str, output: uploads.Finished) -> Event:
        """Upload an output."""
        name = output.info.name
        try:
            uploads.send(self.transport, output)
        except uploads.UploadError as error:
            return events.UploadFailed(
                self.now(),
                chance(),
                project=project,
                name=name,
                reason=error.reason,
                permanent=error.permanent,
            )
        return events.UploadFinished(self.now(), project=project, name=name)


def chance() -> float:
    """Draw the number that spreads waiting clients over time."""
    return random.random()  # noqa: S311 - it guards nothing


def failure(command: Command, reason: str, now: float) -> Event:
    """Turn an unexpected error of a worker into the failure of its command."""
    drawn = chance()
    match command:
        case events.Fetch(project, name):
            return events.DownloadFailed(
                now, drawn, project=project, name=name, code="", reason=reason, permanent=False
            )
        case events.Upload(project, name):
            return events.UploadFailed(
                now, drawn, project=project, name=name, reason=reason, permanent=False
            )
        case events.ReadMasterPage(project):
            return events.MasterPageRead(now, drawn, project=project, reason=reason)
        case events.Replicate(project, url):
            return events.TricklesReplicated(now, drawn, project=project, url=url, reason=reason)
        case events.Ask(project):
            return events.RequestFailed(now, drawn, project=project, reason=reason)
    raise TypeError(command)
