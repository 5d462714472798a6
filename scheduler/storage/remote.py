"""Accesses an S3-compatible store of downloads through django-storages.

The key of a file is its path on the disk after a prefix: ``<prefix>/download/<fan>/<name>``.  Each
upload is verified by the store's own checksum; the MD5 and SHA-256 of each file are in its
metadata.  All threads of a process share one boto3 client.  boto3 is imported only if a store is
configured.
"""

from __future__ import annotations

import base64
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, TypeVar

from django.conf import settings

from scheduler.config import StoreConfig
from scheduler.storage.digests import Digest, hash_file
from scheduler.storage.names import BadFileName, check_name, fan_out

#: The maximum number of concurrent requests for one caller.
_MAX_CONCURRENT: Final = 8
#: The maximum number of keys in one request for deletion; the limit is S3's.
MAX_DELETED_PER_REQUEST: Final = 1000
#: Larger files are sent in parts; S3 accepts at most 5 GiB in one request.
MULTIPART_MIN_BYTES: Final = 1 << 30
_CONNECT_SECONDS, _READ_SECONDS = 5, 60
_MAX_ATTEMPTS: Final = 3
_MISSING: Final = {"404", "NoSuchKey", "NotFound"}
_MD5: Final = re.compile(r'"?[0-9a-f]{32}"?')

T = TypeVar("T")


class StoreError(OSError):
    """A request to the store failed. Hint: see the message."""


class StoreAway(StoreError):
    """The store does not answer, or returns a server error. Hint: nothing was lost; retry later."""


class StoreDamaged(StoreError):
    """The stored content differs from the sent content. Hint: check the disks of the store."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A file in the store: its size in bytes, upload time (Unix), and digest or None."""

    nbytes: int
    changed_at: float
    digest: Digest | None


@dataclass(frozen=True, slots=True)
class StoreEntry:
    """A file in a listing of the store: `changed_at` is its upload time (Unix)."""

    name: str
    key: str
    nbytes: int
    changed_at: float


class Store:
    """An S3 bucket; thread-safe.

    Methods that send requests raise `StoreError`, or `StoreAway` if the store does not answer or
    returns a server error.
    """

    def __init__(self, config: StoreConfig) -> None:
        """Create the boto3 clients; send no request."""
        self.config = config
        self._s3 = _storage(config, config.endpoint)
        public = _storage(config, config.public) if config.public else self._s3
        with _translated(config):
            # The first access to `bucket` creates the client, which all threads share.
            self._client: Any = self._s3.bucket.meta.client
            self._signing: Any = public.bucket.meta.client

    def __str__(self) -> str:
        return _named(self.config)

    def key(self, name: str) -> str:
        """Return the key of a file in the bucket; raises `BadFileName`."""
        check_name(name)
        return f"{self._top}{fan_out(name)}/{name}"

    @property
    def _top(self) -> str:
        return f"{self.config.prefix}/download/".lstrip("/")

    def put_all(self, contents: Mapping[str, tuple[Digest, Callable[[], BinaryIO]]]) -> None:
        """Upload files, all or none.

        `contents` maps each name to a digest and a function that opens the content.
        """
        try:
            self.each(lambda item: self.put(item[0], *item[1]), contents.items())
        except BaseException:
            self.delete(contents)
            raise

    def put(self, name: str, digest: Digest, open_it: Callable[[], BinaryIO]) -> None:
        """Upload one file and verify it; raises `StoreDamaged`."""
        where = {"Bucket": self.config.bucket, "Key": self.key(name)}
        options = {
            "Metadata": {"sha256": digest.sha256, "md5": digest.md5},
            "CacheControl": "public, max-age=31536000, immutable",
            "ContentType": "application/octet-stream",
        }
        with _translated(self.config), open_it() as file:
            if digest.nbytes >= MULTIPART_MIN_BYTES:
                parts = {**options, "ChecksumAlgorithm": "SHA256"}
                self._client.upload_fileobj(file, *where.values(), ExtraArgs=parts)
                is_right = self.read_digest(name) == digest
            else:
                checksum = base64.b64encode(bytes.fromhex(digest.sha256)).decode()
                response = self._client.put_object(
                    **where, **options, Body=file, ChecksumSHA256=checksum
                )
                is_right = self._is_right(response, name, digest, checksum)
        if not is_right:
            self.delete([name])
            msg = f"{self} did not store {name} as it was sent. Hint: check the store's disks."
            raise StoreDamaged(msg)

    def _is_right(
        self, response: Mapping[str, Any], name: str, digest: Digest, checksum: str
    ) -> bool:
        """Return whether the hashes in the store's response match the upload.

        If the response has no hash, the file is read back and hashed.
        """
        matches = []
        if "ChecksumSHA256" in response:
            matches.append(response["ChecksumSHA256"] == checksum)
        # With a KMS key, the ETag looks like an MD5 but is not the MD5 of the content.
        if _MD5.fullmatch(response.get("ETag", "")) and "ServerSideEncryption" not in response:
            matches.append(response["ETag"].strip('"') == digest.md5)
        return all(matches) if matches else self.read_digest(name) == digest

    def delete(self, names: Iterable[str]) -> dict[str, str]:
        """Delete files, a thousand per request; return the error messages by name."""
        keys = {self.key(name): name for name in names}
        failures: dict[str, str] = {}
        for some in _in_lists(list(keys), MAX_DELETED_PER_REQUEST):
            objects = {"Objects": [{"Key": key} for key in some], "Quiet": True}
            try:
                with _translated(self.config):
                    response = self._client.delete_objects(
                        Bucket=self.config.bucket, Delete=objects
                    )
            except StoreError as error:
                failures |= dict.fromkeys((keys[key] for key in some), str(error))
            else:
                for failure in response.get("Errors", ()):
                    name = keys[failure["Key"]]
                    failures[name] = f"{failure.get('Code')}: {failure.get('Message')}"
        return failures

    def look_up(self, name: str) -> Stored:
        """Return the size, upload time and digest of a file; raises FileNotFoundError."""
        with _translated(self.config):
            return _stored(self._client.head_object(Bucket=self.config.bucket, Key=self.key(name)))

    def sizes(self, names: Sequence[str]) -> dict[str, int]:
        """Return the sizes in bytes of files by name; missing files are omitted."""

        def size(name: str) -> tuple[str, int]:
            try:
                return name, self.look_up(name).nbytes
            except FileNotFoundError:
                return name, -1

        return {name: nbytes for name, nbytes in self.each(size, names) if nbytes >= 0}

    def open(self, name: str, byte_range: str | None = None) -> tuple[Any, Stored, str | None]:
        """Open a file or a range of it; return the stream, its `Stored` and the Content-Range.

        `byte_range` has the syntax of HTTP's Range header; without it, the Content-Range is None.
        Raises FileNotFoundError, and ValueError for a range outside of the file.
        """
        where = {"Bucket": self.config.bucket, "Key": self.key(name)}
        if byte_range:
            where["Range"] = byte_range
        with _translated(self.config):
            response = self._client.get_object(**where)
        return response["Body"], _stored(response), response.get("ContentRange")

    def read_digest(self, name: str) -> Digest:
        """Read a file and return its digest; raises FileNotFoundError."""
        stream, _, _ = self.open(name)
        with _translated(self.config), stream:
            return hash_file(stream).digest()

    def url(self, name: str, method: str = "GET") -> str:
        """Return a signed URL for a client's download; send no request.

        The URL expires after `config.expires`.
        """
        with _translated(self.config):
            return str(
                self._signing.generate_presigned_url(
                    "head_object" if method == "HEAD" else "get_object",
                    Params={"Bucket": self.config.bucket, "Key": self.key(name)},
                    ExpiresIn=int(self.config.expires.total_seconds()),
                )
            )

    def check(self) -> None:
        """Read the first page of the listing, to check the address, the bucket and the keys."""
        next(self.walk(), None)

    def walk(self) -> Iterator[list[StoreEntry]]:
        """Yield lists of the files of this project, each of at most a thousand files."""
        pages = self._client.get_paginator("list_objects_v2")
        page_iterator = iter(pages.paginate(Bucket=self.config.bucket, Prefix=self._top))
        while True:
            with _translated(self.config):
                page = next(page_iterator, None)
            if page is None:
                return
            yield [
                StoreEntry(name, entry["Key"], entry["Size"], entry["LastModified"].timestamp())
                for entry in page.get("Contents", ())
                if self._is_own_key(entry["Key"], name := entry["Key"].rpartition("/")[2])
            ]

    def _is_own_key(self, key: str, name: str) -> bool:
        """Return whether this project would store `name` under `key`."""
        try:
            return key == self.key(name)
        except BadFileName:
            return False

    def each(self, act: Callable[[Any], T], subjects: Iterable[Any]) -> list[T]:
        """Call a function with each subject, concurrently; return the values in order."""
        waiting = list(subjects)
        if len(waiting) <= 1:
            return [act(subject) for subject in waiting]
        with ThreadPoolExecutor(min(_MAX_CONCURRENT, len(waiting))) as pool:
            return list(pool.map(act, waiting))


_stores: dict[StoreConfig, Store] = {}
_making = threading.Lock()


def store() -> Store | None:
    """Return the store of downloads, or None if downloads are on the disk."""
    config: StoreConfig | None = settings.STORAGE
    if config is None:
        return None
    with _making:
        if config not in _stores:
            _stores[config] = Store(config)
        return _stores[config]


def _storage(config: StoreConfig, endpoint: str | None) -> Any:  # noqa: ANN401  no type hints
    from botocore.config import Config  # noqa: PLC0415  the import takes a tenth of a second
    from storages.backends.s3 import S3Storage  # noqa: PLC0415

    return S3Storage(
        bucket_name=config.bucket,
        endpoint_url=endpoint,
        region_name=config.region,
        client_config=Config(
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=_READ_SECONDS,
            retries={"total_max_attempts": _MAX_ATTEMPTS, "mode": "standard"},
            max_pool_connections=4 * _MAX_CONCURRENT,
            signature_version="s3v4",
            s3={"addressing_style": "path" if endpoint else "auto"},
            # Stores other than Amazon S3 lack the newer checksums; `put` sends SHA-256 explicitly.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        ),
    )


@contextmanager
def _translated(config: StoreConfig) -> Iterator[None]:
    """Translate boto3's errors to `StoreError` and its subclasses, with a hint.

    A missing file is translated to FileNotFoundError, and an invalid range to ValueError.
    """
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
        raise StoreAway(f"{msg} Hint: nothing was lost; retry when the store answers.") from None
    except exceptions.BotoCoreError as error:
        msg = f"{_named(config)} cannot be used ({' '.join(str(error).split())})."
        raise StoreError(f"{msg} Hint: check STORAGE_URL.") from None


def _refusal(config: StoreConfig, response: Mapping[str, Any]) -> Exception:
    code = str(response.get("Error", {}).get("Code", ""))
    status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    if code in _MISSING:
        return FileNotFoundError(f"{_named(config)} has no such file.")
    if code == "InvalidRange":
        return ValueError("The file has no such range.")
    reason = response.get("Error", {}).get("Message", "")
    fault = f"{_named(config)} answered {code}: {reason}".strip()
    if status >= 500:  # noqa: PLR2004  HTTP's own errors
        return StoreAway(f"{fault.rstrip('.')}. Hint: retry later.")
    hint = "create the bucket" if code == "NoSuchBucket" else "check the keys and their rights"
    return StoreError(f"{fault.rstrip('.')}. Hint: {hint}.")


def _named(config: StoreConfig) -> str:
    where = f" at {config.endpoint.rstrip('/')}" if config.endpoint else ""
    return f"The store s3://{config.bucket}/{config.prefix}".rstrip("/") + where


def _stored(response: Mapping[str, Any]) -> Stored:
    metadata, nbytes = response.get("Metadata", {}), int(response["ContentLength"])
    content_range = response.get("ContentRange")
    if content_range:
        nbytes = int(content_range.rpartition("/")[2])
    digest = (
        Digest(nbytes, metadata["md5"], metadata["sha256"])
        if {"md5", "sha256"} <= metadata.keys()
        else None
    )
    return Stored(nbytes, response["LastModified"].timestamp(), digest)


def _in_lists(names: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(names), size):
        yield names[start : start + size]
