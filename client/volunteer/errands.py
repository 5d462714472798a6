"""Executes network requests in worker threads, and returns events."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from volunteer import events, files, uploads
from volunteer.attach import NoProjectError, read_master_page
from volunteer.pool import PoolError, PoolLink
from volunteer.transport import Body, HttpTransport, TransferError, UnreachableError
from volunteer.wire.replies import decode_reply
from volunteer.wire.xml import BadXmlError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from volunteer.events import Command, Event
    from volunteer.wire.messages import HostFacts


@dataclass(frozen=True, slots=True)
class Errands:
    """Executes network requests in worker threads, which have no access to the state.

    If a method raises an error, `failure` returns the event for that error.
    """

    transport: HttpTransport
    now: Callable[[], float]

    def read_master_page(self, project: str) -> Event:
        scheduler_urls = read_master_page(self.transport, project)
        return events.MasterPageRead(self.now(), project=project, scheduler_urls=scheduler_urls)

    def ask(self, command: events.Ask, body: bytes, host: HostFacts) -> Event:
        """Send a request to each scheduler in turn until one returns a valid reply.

        Returns RequestFailed with the last error if no scheduler returns a valid reply.
        """
        reason = ""
        for url in command.urls:
            try:
                response = self.transport.post(url, Body(body), has_credentials=True)
                if not response.is_good:
                    reason = f"{url}: HTTP {response.status}"
                    continue
                reply = decode_reply(response.content, host.platform, host.fpops)
            except (UnreachableError, BadXmlError) as error:
                reason = f"{url}: {error}"
                continue
            return events.ReplyReceived(self.now(), chance(), project=command.project, reply=reply)
        return events.RequestFailed(self.now(), chance(), project=command.project, reason=reason)

    def claim(self, link: PoolLink, command: events.ClaimWork, disk_bytes: float) -> Event:
        """Claim a result from the pool; the event has the error if the pool refused."""
        name = reason = ""
        try:
            name = link.claim(
                cpus=command.cpus, memory_bytes=command.memory_bytes, disk_bytes=disk_bytes
            )
        except (PoolError, UnreachableError) as error:
            reason = str(error)
        return events.WorkClaimed(self.now(), project=link.project, name=name, reason=reason)

    def replicate(self, command: events.Replicate, bodies: Sequence[bytes]) -> Event:
        """Send copies of trickles to an address, and ignore the content of the replies.

        The returned event contains the first error, if any.
        """
        reason = ""
        for body in bodies:
            try:
                response = self.transport.post(command.url, Body(body), has_credentials=True)
                reason = reason or ("" if response.is_good else f"HTTP {response.status}")
            except UnreachableError as error:
                reason = reason or str(error)
        return events.TricklesReplicated(
            self.now(), project=command.project, url=command.url, reason=reason
        )

    def fetch(self, project: str, download: files.FileDownload) -> Event:
        sha256 = files.fetch(self.transport, download)
        name = download.info.name
        return events.DownloadFinished(self.now(), project=project, name=name, signed_sha256=sha256)

    def upload(self, project: str, upload: uploads.FileUpload) -> Event:
        uploads.send(self.transport, upload)
        return events.UploadFinished(self.now(), project=project, name=upload.info.name)


def chance() -> float:
    """Return a random number from 0 to 1, which spreads the retries of clients over time."""
    return random.random()  # noqa: S311 - not used for security


def failure(command: Command, error: Exception, now: float) -> Event:
    """Return the failure event of a network command that raised an error."""
    reason, drawn = str(error), chance()
    if not isinstance(error, NoProjectError | TransferError):
        reason = f"{type(error).__name__}: {error}"
    permanent = isinstance(error, TransferError) and error.permanent
    match command:
        case events.Fetch(project, name):
            code = error.code if isinstance(error, files.DownloadError) else ""
            return events.DownloadFailed(
                now,
                drawn,
                project=project,
                name=name,
                code=code,
                reason=reason,
                permanent=permanent,
            )
        case events.Upload(project, name):
            return events.UploadFailed(
                now, drawn, project=project, name=name, reason=reason, permanent=permanent
            )
        case events.ReadMasterPage(project):
            # The hint is removed, because it applies only to `volunteer attach`.
            reason = reason.partition("\n")[0]
            return events.MasterPageRead(now, drawn, project=project, reason=reason)
        case events.Replicate(project, url):
            return events.TricklesReplicated(now, drawn, project=project, url=url, reason=reason)
        case events.Ask(project):
            return events.RequestFailed(now, drawn, project=project, reason=reason)
        case events.ClaimWork(project):
            return events.WorkClaimed(now, drawn, project=project, reason=reason)
    raise TypeError(command)
