"""A real object store that speaks S3: S3Proxy over a folder."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyarrow import fs

from headwater.spark import connectors
from tests.services.processes import free_port, java, running

LOCK = Path(__file__).with_name("s3.lock.json")
MEMORY = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
ACCESS_KEY, SECRET_KEY = "headwater", "hidden-key"


@dataclass(frozen=True)
class ObjectStore:
    """The store, and what tests do with it."""

    address: str

    @property
    def settings(self) -> str:
        """For the project file's `storage: {s3: …}`."""
        return json.dumps(
            {
                "endpoint": self.address,
                "access_key": ACCESS_KEY,
                "secret_key": SECRET_KEY,
                "region": "us-east-1",
                "path_style": True,
            }
        )

    def bucket(self, name: str) -> fs.SubTreeFileSystem:
        """A bucket of its own, as a file system."""
        store = fs.S3FileSystem(
            access_key=ACCESS_KEY,
            secret_key=SECRET_KEY,
            region="us-east-1",
            scheme="http",
            endpoint_override=self.address.removeprefix("http://"),
            allow_bucket_creation=True,
        )
        store.create_dir(name)
        return fs.SubTreeFileSystem(name, store)


@contextmanager
def object_store(folder: Path) -> Iterator[ObjectStore]:
    """A store whose buckets are folders under `folder`; it ends with the block."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    (folder / "buckets").mkdir(parents=True)
    settings = {
        "s3proxy.endpoint": address,
        "s3proxy.authorization": "aws-v2-or-v4",
        "s3proxy.identity": ACCESS_KEY,
        "s3proxy.credential": SECRET_KEY,
        "jclouds.provider": "filesystem-nio2",
        "jclouds.filesystem.basedir": str(folder / "buckets"),
    }
    properties = folder / "s3proxy.properties"
    properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), encoding="utf-8")
    (jar,) = connectors.ensure(["s3proxy"], lock=connectors.load_lock(LOCK))
    command = [java(), *MEMORY, "-jar", str(jar), "--properties", str(properties)]
    with running(command, folder / "s3proxy.log", lambda: _answers(address)):
        yield ObjectStore(address)


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=2):
            return True
    except urllib.error.HTTPError:
        return True  # who asks without keys is refused
    except (urllib.error.URLError, OSError):
        return False
