"""The interop targets of a lake's relations: where each is, and what is known of it in the lake's own folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timezone

from headwater.core.errors import Unsupported
from headwater.core.model import Kind, Version
from headwater.core.record import Record
from headwater.core.storage import Files
from headwater.flows.ledger import flow_name
from headwater.formats.base import Format
from headwater.formats.interop.seam import InteropTarget
from headwater.warehouse import Warehouse

FOLDER = "_headwater/interop/targets"


@dataclass(frozen=True)
class TargetRecord(Record):
    """What the lake knows of a target; written before each commit to it, and after."""

    relation: str
    format: str
    location: str
    """The target's name in a catalog, or its folder."""
    root: str
    """The folder of the files that it names."""
    held: tuple[Version, ...]
    """The relation's versions whose files it names, or may name after a commit that was cut off."""
    source_version: Version | None = None
    """The one that it was read back at last."""
    target_version: Version | None = None
    rows: int | None = None
    """How many it has."""
    checksum: str | None = None
    """Of the rows that were read back last: of the whole table, or of the new files."""
    synced_at: datetime | None = None

    def to_json(self) -> str:
        """As it is kept alongside the target."""
        at = None if self.synced_at is None else self.synced_at.isoformat()
        return json.dumps({**asdict(self), "synced_at": at})

    @staticmethod
    def from_json(text: str) -> TargetRecord:
        """What `to_json` wrote."""
        found = json.loads(text)
        at = found.pop("synced_at")
        synced_at = None if at is None else datetime.fromisoformat(at)
        return TargetRecord(**{**found, "held": tuple(found["held"])}, synced_at=synced_at)


def now() -> datetime:
    return datetime.now(timezone.utc)


def put(files: Files, record: TargetRecord) -> None:
    files.write_atomic(_file(record.relation, record.format), record.to_json())


def forget(files: Files, relation: str, format: str) -> None:
    files.delete(_file(relation, format))


def record_of(files: Files, relation: str, format: str) -> TargetRecord | None:
    found = files.find(_file(relation, format))
    return None if found is None else TargetRecord.from_json(found.decode())


def records(files: Files) -> Iterator[TargetRecord]:
    """Those of all relations, also of such as are no longer in the project."""
    for name in files.names(FOLDER):
        if name.endswith(".json"):
            found = files.find(f"{FOLDER}/{name}")
            if found is not None:
                yield TargetRecord.from_json(found.decode())


def _file(relation: str, format: str) -> str:
    return f"{FOLDER}/{relation}.{format}.json"


def open_target(warehouse: Warehouse, kind: Kind, name: str, to: Format, root: str) -> InteropTarget:
    """The target of a relation in a format that can be one."""
    if to.interop is None or to.interop_address is None:
        raise Unsupported(f"{to.title} can't take over the files of another format: {to.not_interop}")
    address = to.interop_address(warehouse.context, kind.plural, name, root)
    return to.interop(address, warehouse.context)


def label_of(kind: Kind, name: str) -> str:
    return flow_name(name, kind)
