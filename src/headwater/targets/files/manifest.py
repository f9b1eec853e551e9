"""`_manifest.json`: which files a copy has. It is written last, so it is the commit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from typing import Any

from headwater.core.errors import Code, IntegrityError
from headwater.core.storage import Files
from headwater.targets.base import Checksum

MANIFEST = "_manifest.json"


@dataclass(frozen=True)
class ManifestFile:
    """One file, by its path in the folder."""

    path: str
    bytes: int


@dataclass(frozen=True)
class CopyManifest:
    """What a copy says of itself."""

    format: str
    files: tuple[ManifestFile, ...]
    source: Mapping[str, Any]
    """What it is a copy of, which versions of it, and by which run or step."""
    columns: Sequence[Mapping[str, str]] = ()
    rows: int | None = None
    checksum: str | None = None
    """Of all rows, in any order; None: it was not measured."""
    written_at: str = field(default_factory=lambda: datetime.now(timezone.utc).isoformat())

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    def followed_by(self, later: CopyManifest) -> CopyManifest:
        """The copy after more files were appended."""
        rows = None if self.rows is None or later.rows is None else self.rows + later.rows
        sums = (self.checksum, later.checksum)
        known = [int(one, 16) for one in sums if one is not None]
        checksum = f"{sum(known) % 2**64:016x}" if len(known) == len(sums) else None
        files = (*self.files, *later.files)
        return CopyManifest(later.format, files, later.source, later.columns, rows, checksum, later.written_at)

    def checksum_of_rows(self) -> Checksum | None:
        return None if self.rows is None or self.checksum is None else Checksum(self.rows, self.checksum)

    def write(self, files: Files) -> None:
        files.write_atomic(MANIFEST, json.dumps({**asdict(self), "bytes": self.bytes}, indent=1) + "\n")

    @staticmethod
    def read(files: Files) -> CopyManifest | None:
        """The manifest of a folder; None if it has none."""
        text = files.find(MANIFEST)
        if text is None:
            return None
        try:
            found = json.loads(text)
            found.pop("bytes")
            listed = tuple(ManifestFile(**one) for one in found.pop("files"))
            return CopyManifest(files=listed, **found)
        except (ValueError, KeyError, TypeError) as error:
            path = files.join(MANIFEST)
            message = f"{path} can't be read: {error}"
            raise IntegrityError(Code.EXPORT_CHANGED, message, hint="export to another folder") from error
