"""A real schema registry: Apicurio, in memory, asked through its Confluent-compatible API."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwater.spark import connectors
from tests.services.processes import free_port, java, running

LOCK = Path(__file__).with_name("schema_registry.lock.json")
MEMORY = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@dataclass(frozen=True)
class Registry:
    """The registry, and what tests do with it."""

    address: str

    def register(self, subject: str, schema: str, kind: str = "AVRO", references: Sequence[dict[str, Any]] = ()) -> int:
        body = json.dumps({"schema": schema, "schemaType": kind, "references": list(references)}).encode()
        kinds = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
        request = urllib.request.Request(f"{self.address}/subjects/{subject}/versions", body, kinds)
        with urllib.request.urlopen(request, timeout=30) as answer:
            found: int = json.load(answer)["id"]
            return found


@contextmanager
def schema_registry(folder: Path) -> Iterator[Registry]:
    """A registry that forgets everything when the block ends."""
    port = free_port()
    home = _unpacked(folder / "registry")
    settings = {"quarkus.http.host": "127.0.0.1", "quarkus.http.port": port, "quarkus.banner.enabled": "false"}
    switches = [f"-D{key}={value}" for key, value in settings.items()]
    command = [java(), *MEMORY, *switches, "-jar", str(next(home.glob("*-runner.jar")))]
    address = f"http://127.0.0.1:{port}/apis/ccompat/v7"
    with running(command, folder / "registry.log", lambda: _answers(f"{address}/subjects")):
        yield Registry(address)


def _unpacked(home: Path) -> Path:
    (archive,) = connectors.ensure(["schema-registry"], lock=connectors.load_lock(LOCK))
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(home)
    return home


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=2):
            return True
    except (urllib.error.URLError, OSError):
        return False
