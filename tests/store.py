"""A local S3 server for tests, in a thread or in a separate process."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from contextlib import contextmanager
from itertools import count
from urllib.request import urlopen

from moto.server import ThreadedMotoServer

from project import ports
from scheduler.config import StoreConfig
from scheduler.storage import remote

KEYS = {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "tests"}
_numbers = count(1)


@contextmanager
def a_server(port=0):
    """Run an S3 server in a thread; yield its URL."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()


@contextmanager
def a_server_process():
    """Run an S3 server in a separate process, for story tests; yield its URL."""
    port = ports.free_port()
    address = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(300):
            try:
                with urlopen(f"{address}/moto-api/", timeout=1):
                    break
            except OSError:
                time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait(10)


def a_bucket(endpoint, **options):
    """Create a bucket on the server and return its StoreConfig."""
    config = StoreConfig(
        bucket=f"bucket{next(_numbers)}", prefix="ours", endpoint=endpoint, **options
    )
    client(config).create_bucket(Bucket=config.bucket)
    return config


def client(config):
    """Return the boto3 client of a store."""
    return remote.Store(config)._client


def keys_in(config):
    said = client(config).list_objects_v2(Bucket=config.bucket)
    return [one["Key"] for one in said.get("Contents", ())]
