"""An S3-compatible store of downloads: put, found, fetched, deleted.

By django-storages.  Keys are the paths that files have on disk:
``<prefix>/download/<fan>/<name>``.  What is put is
verified by the store's own checksum; each file carries both hashes as metadata.  One client of
boto3 serves all threads of a process, and boto3 is imported only where there is a store.
"""

from __future__ import annotations

import base64
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import Any, BinaryIO, Final, TypeVar

from django.conf import settings

from scheduler.config import StoreConfig
from scheduler.storage.digests import Digest, hash_file
from scheduler.storage.names import BadFileName, check_name, fan_out

#: How many requests are under way at once for one caller.
_AT_ONCE: Final = 8
#: As many keys one request deletes, by the protocol of S3.
MOST_DELETED: Final = 1000
#: From so many bytes on a file is sent in parts; S3 takes 5 GiB in one.
MANY_BYTES: Final = 1 << 30
_CONNECT_SECONDS, _READ_SECONDS = 5, 60
_TRIES: Final = 3
_MISSING: Final = {"404", "NoSuchKey", "NotFound"}
_MD5: Final = re.compile(r'"?[0-9a-f]{32}"?')

T = TypeVar("T")


class StoreError(OSError):
    """The store refused or failed. Hint: the message has the store's own word for it."""


class StoreAway(StoreError):
    """The store does not answer. Hint: nothing was lost; do it again when it is back."""


class StoreDamaged(StoreError):
    """What the store holds is not what was sent. Hint: send it again, and look at the store."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A file in the store: its size, when it came, its digest if it carries one."""

    nbytes: int
    changed_at: float
    digest: Digest | None


@dataclass(frozen=True, slots=True)
class Found:
    """One file of a walk through the store."""

    name: str
    key: str
    nbytes: int
    changed_at: float


class Store:
    """One bucket; safe for many threads.  All methods raise `StoreAway` and `StoreError`."""

    def __init__(self, config: StoreConfig) -> None:
        """Make the clients; nothing is sent yet."""
        self.config = config
        self._s3 = _storage(config, config.endpoint)
        public = _storage(config, config.public) if config.public else self._s3
        with _translated(config):
            # The first use makes the client; `bucket` keeps it for all threads.
            self._client: Any = self._s3.bucket.meta.client
            self._signing: Any = public.bucket.meta.client

    def __str__(self) -> str:
        """Say which one it is."""
        return _named(self.config)

    def key(self, name: str) -> str:
        """Return where a file lies in the bucket; raises `BadFileName`."""
        check_name(name)
        return f"{self._top}{fan_out(name)}/{name}"

    @property
    def _top(self) -> str:
        return f"{self.config.prefix}/download/".lstrip("/")

    def put_all(self, contents: Mapping[str, tuple[Digest, Callable[[], BinaryIO]]]) -> None:
        """Put files by name, all or none; each is given by its digest and a way to open it."""
        try:
            self._each(lambda item: self.put(item[0], *item[1]), contents.items())
        except BaseException:
            self.delete(contents)
            raise

    def put(self, name: str, digest: Digest, open_it: Callable[[], BinaryIO]) -> None:
        """Put one file, and see that the store has just that; raises `StoreDamaged`."""
        where = {"Bucket": self.config.bucket, "Key": self.key(name)}
        what = {
            "Metadata": {"sha256": digest.sha256, "md5": digest.md5},
            "CacheControl": "public, max-age=31536000, immutable",
            "ContentType": "application/octet-stream",
        }
        with _translated(self.config), open_it() as file:
            if digest.nbytes >= MANY_BYTES:
                parts = {**what, "ChecksumAlgorithm": "SHA256"}
                self._client.upload_fileobj(file, *where.values(), ExtraArgs=parts)
                is_right = self.read_digest(name) == digest
            else:
                checksum = base64.b64encode(bytes.fromhex(digest.sha256)).decode()
                said = self._client.put_object(**where, **what, Body=file, ChecksumSHA256=checksum)
                is_right = self._is_right(said, name, digest, checksum)
        if not is_right:
            self.delete([name])
            msg = f"{self} did not keep {name} as it was sent. Hint: look at the store's disks."
            raise StoreDamaged(msg)

    def _is_right(self, said: Mapping[str, Any], name: str, digest: Digest, checksum: str) -> bool:
        """By the store's own hashes of what arrived, or by reading it back if it says none."""
        told = []
        if "ChecksumSHA256" in said:
            told.append(said["ChecksumSHA256"] == checksum)
        # With a key of KMS, what looks like an MD5 is none.
        if _MD5.fullmatch(said.get("ETag", "")) and "ServerSideEncryption" not in said:
            told.append(said["ETag"].strip('"') == digest.md5)
        return all(told) if told else self.read_digest(name) == digest

    def delete(self, names: Iterable[str]) -> dict[str, str]:
        """Delete files, a thousand a request; return name -> error for those that resist."""
        keys = {self.key(name): name for name in names}
        failures: dict[str, str] = {}
        for some in _in_lists(list(keys), MOST_DELETED):
            what = {"Objects": [{"Key": key} for key in some], "Quiet": True}
            try:
                with _translated(self.config):
                    said = self._client.delete_objects(Bucket=self.config.bucket, Delete=what)
            except StoreError as error:
                failures |= dict.fromkeys((keys[key] for key in some), str(error))
            else:
                for one in said.get("Errors", ()):
                    failures[keys[one["Key"]]] = f"{one.get('Code')}: {one.get('Message')}"
        return failures

    def look_up(self, name: str) -> Stored:
        """Say what is known of a file; raises FileNotFoundError."""
        with _translated(self.config):
            return _stored(self._client.head_object(Bucket=self.config.bucket, Key=self.key(name)))

    def sizes(self, names: Sequence[str]) -> dict[str, int]:
        """Return the sizes of those that are there, in bytes."""

        def size(name: str) -> tuple[str, int]:
            try:
                return name, self.look_up(name).nbytes
            except FileNotFoundError:
                return name, -1

        return {name: nbytes for name, nbytes in self._each(size, names) if nbytes >= 0}

    def open(self, name: str, byte_range: str | None = None) -> tuple[Any, Stored, str | None]:
        """Open a file, or a range of it as HTTP says it: stream, facts, and its Content-Range.

        Raises FileNotFoundError; ValueError for a range that the file does not have.
        """
        where = {"Bucket": self.config.bucket, "Key": self.key(name)}
        if byte_range:
            where["Range"] = byte_range
        with _translated(self.config):
            said = self._client.get_object(**where)
        return said["Body"], _stored(said), said.get("ContentRange")

    def read_digest(self, name: str) -> Digest:
        """Read a file from end to end and hash it; raises FileNotFoundError."""
        stream, _, _ = self.open(name)
        with _translated(self.config), stream:
            return hash_file(stream).digest()

    def url(self, name: str, method: str = "GET") -> str:
        """Return a signed address from which anybody may fetch a file for a while; asks nobody."""
        with _translated(self.config):
            return str(
                self._signing.generate_presigned_url(
                    "head_object" if method == "HEAD" else "get_object",
                    Params={"Bucket": self.config.bucket, "Key": self.key(name)},
                    ExpiresIn=int(self.config.expires.total_seconds()),
                )
            )

    def walk(self) -> Iterator[list[Found]]:
        """Yield all files of ours, up to a thousand at a time."""
        pages = self._client.get_paginator("list_objects_v2")
        asked = iter(pages.paginate(Bucket=self.config.bucket, Prefix=self._top))
        while True:
            with _translated(self.config):
                page = next(asked, None)
            if page is None:
                return
            yield [
                Found(name, one["Key"], one["Size"], one["LastModified"].timestamp())
                for one in page.get("Contents", ())
                if self._is_ours(one["Key"], name := one["Key"].rpartition("/")[2])
            ]

    def _is_ours(self, key: str, name: str) -> bool:
        """Whether it is a name that we would give, in its place; others put it there otherwise."""
        try:
            return key == self.key(name)
        except BadFileName:
            return False

    def _each(self, act: Callable[[Any], T], subjects: Iterable[Any]) -> list[T]:
        waiting = list(subjects)
        if len(waiting) <= 1:
            return [act(one) for one in waiting]
        with ThreadPoolExecutor(min(_AT_ONCE, len(waiting))) as pool:
            return list(pool.map(act, waiting))


def in_memory(data: bytes) -> Callable[[], BinaryIO]:
    """A way to open bytes."""
    return lambda: BytesIO(data)


_stores: dict[StoreConfig, Store] = {}
_making = threading.Lock()


def store() -> Store | None:
    """Return the store of downloads, None where they live on the disk."""
    config: StoreConfig | None = settings.STORAGE
    if config is None:
        return None
    with _making:
        if config not in _stores:
            _stores[config] = Store(config)
        return _stores[config]


def _storage(config: StoreConfig, endpoint: str | None) -> Any:  # noqa: ANN401  it has no types
    from botocore.config import Config  # noqa: PLC0415  a tenth of a second
    from storages.backends.s3 import S3Storage  # noqa: PLC0415

    return S3Storage(
        bucket_name=config.bucket,
        endpoint_url=endpoint,
        region_name=config.region,
        client_config=Config(
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=_READ_SECONDS,
            retries={"total_max_attempts": _TRIES, "mode": "standard"},
            max_pool_connections=4 * _AT_ONCE,
            signature_version="s3v4",
            s3={"addressing_style": "path" if endpoint else "auto"},
            # Stores other than Amazon's do not know the newer ones; ours is sent by name.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        ),
    )


@contextmanager
def _translated(config: StoreConfig) -> Iterator[None]:
    """Turn boto3's errors into ours, with a hint."""
    from botocore import exceptions  # noqa: PLC0415

    try:
        yield
    except exceptions.ClientError as error:
        raise _refusal(config, error.response) from None
    except exceptions.NoCredentialsError:
        msg = f"There is no key for {_named(config)}. Hint: set AWS_ACCESS_KEY_ID and"
        raise StoreError(f"{msg} AWS_SECRET_ACCESS_KEY.") from None
    except (exceptions.ConnectionError, exceptions.HTTPClientError) as error:
        msg = f"{_named(config)} does not answer ({' '.join(str(error).split())})."
        raise StoreAway(f"{msg} Hint: nothing was lost; do it again when it is back.") from None
    except exceptions.BotoCoreError as error:
        msg = f"{_named(config)} cannot be used ({' '.join(str(error).split())})."
        raise StoreError(f"{msg} Hint: look at STORAGE_URL.") from None


def _refusal(config: StoreConfig, response: Mapping[str, Any]) -> Exception:
    code = str(response.get("Error", {}).get("Code", ""))
    status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    if code in _MISSING:
        return FileNotFoundError(f"{_named(config)} has no such file.")
    if code == "InvalidRange":
        return ValueError("The file has no such range.")
    said = f"{_named(config)} says {code}: {response.get('Error', {}).get('Message', '')}".strip()
    if status >= 500:  # noqa: PLR2004  HTTP's own errors
        return StoreAway(f"{said.rstrip('.')}. Hint: do it again later.")
    hint = "create the bucket" if code == "NoSuchBucket" else "look at the keys and their rights"
    return StoreError(f"{said.rstrip('.')}. Hint: {hint}.")


def _named(config: StoreConfig) -> str:
    where = f" at {config.endpoint.rstrip('/')}" if config.endpoint else ""
    return f"The store s3://{config.bucket}/{config.prefix}".rstrip("/") + where


def _stored(said: Mapping[str, Any]) -> Stored:
    carried, nbytes = said.get("Metadata", {}), int(said["ContentLength"])
    whole = said.get("ContentRange")
    if whole:
        nbytes = int(whole.rpartition("/")[2])
    digest = (
        Digest(nbytes, carried["md5"], carried["sha256"])
        if {"md5", "sha256"} <= carried.keys()
        else None
    )
    return Stored(nbytes, said["LastModified"].timestamp(), digest)


def _in_lists(names: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(names), size):
        yield names[start : start + size]
