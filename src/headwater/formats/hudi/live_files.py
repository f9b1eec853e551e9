"""The files of a state of a Hudi table, as either side lists them, told as data files. Plain values, no Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from headwater.core.model import DataFile
from headwater.core.storage import Files
from headwater.formats.footers import row_counts
from headwater.formats.hudi.commits import CommitRecord
from headwater.formats.hudi.names import NO_VALUE


@dataclass(frozen=True)
class HudiFile:
    """A file of a state of the table."""

    partition: str
    group: str
    path: str
    bytes: int
    is_log: bool = False

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]

    @property
    def relative(self) -> str:
        """The path from the table's folder on, as commits write it down."""
        return f"{self.partition}/{self.name}" if self.partition else self.name


def instant_of(path: str) -> str:
    """The commit that wrote a base file: `<group>_<token>_<instant>.parquet`."""
    return path.rsplit("/", 1)[-1].rsplit("_", 1)[-1].split(".")[0]


def data_files(
    live: Iterable[HudiFile],
    commit_of: Callable[[str], CommitRecord | None],
    partition_by: Sequence[str],
    files: Files,
) -> list[DataFile]:
    """Live files with their rows: from the commits that wrote them, else from the footers."""
    live = list(live)
    base = [file for file in live if not file.is_log]
    rows: dict[str, int] = {}
    for instant in {instant_of(file.name) for file in base}:
        commit = commit_of(instant)
        if commit is not None:
            rows.update({written.path: written.rows for written in commit.written})
    rows.update(row_counts(files, [file.relative for file in base if file.relative not in rows]))
    found = [
        DataFile(
            path=file.path.removeprefix("file:") if file.path.startswith("file:/") else file.path,
            bytes=file.bytes,
            rows=rows.get(file.relative),
            partition=partition_values(file.partition, partition_by),
        )
        for file in live
    ]
    return sorted(found, key=lambda file: file.path)


def partition_values(partition: str, partition_by: Sequence[str]) -> dict[str, str | None]:
    """`day=2026-01-01/tenant=a%2Fb` → column → value as text."""
    texts = [piece.split("=", 1)[-1] for piece in partition.split("/")] if partition else []
    return {name: None if text == NO_VALUE else unquote(text) for name, text in zip(partition_by, texts, strict=False)}
