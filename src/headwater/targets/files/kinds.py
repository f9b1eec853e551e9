"""The file formats as kinds of targets."""

from __future__ import annotations

from functools import partial
from typing import Any

from headwater.formats.base import LakeContext
from headwater.spark.session import SessionNeeds
from headwater.targets.base import Ability, Destination, ExportTarget, TargetKind


def _open(name: str, destination: Destination) -> ExportTarget:
    from headwater.targets.files.formats import FILE_FORMATS  # with the libraries that read them
    from headwater.targets.files.target import FileTarget

    kind = next(one for one in FILE_KINDS if one.name == name)
    return FileTarget(kind, destination, FILE_FORMATS[name])


_FILES = frozenset[Ability]({"stream", "partitions", "partition expressions", "file size"})
_TEXT_CODECS = frozenset({"none", "gzip", "bzip2"})
_GROWING = "files only grow: export to delta, iceberg, hudi or paimon"
_AS_JSON = "make it a text by a query: SELECT to_json(x) AS x …; or export to json, parquet or a table"
_AS_TEXT = "make it a text by a query: SELECT base64(x) AS x …; or export to parquet or a table"


def _kind(name: str, title: str, abilities: frozenset[Ability], codecs: frozenset[str], **more: Any) -> TargetKind:
    notes: dict[Ability, str] = {"updates": _GROWING, "nested": _AS_JSON, "binary": _AS_TEXT}
    return TargetKind(name, title, _FILES | abilities, codecs, partial(_open, name), notes=notes, **more)


def _avro_needs(context: LakeContext) -> SessionNeeds:
    return SessionNeeds(connectors=("avro",))


FILE_KINDS = (
    _kind(
        "parquet",
        "Parquet",
        frozenset({"nested", "binary"}),
        frozenset({"none", "snappy", "gzip", "lz4", "zstd", "brotli"}),
    ),
    _kind("csv", "CSV", frozenset({"header"}), _TEXT_CODECS),
    _kind("json", "JSON", frozenset({"nested", "binary"}), _TEXT_CODECS),
    _kind(
        "avro",
        "Avro",
        frozenset({"nested", "binary"}),
        frozenset({"none", "deflate", "snappy", "bzip2", "zstd"}),
        needs=_avro_needs,
        column_name="[A-Za-z_][A-Za-z0-9_]*",
    ),
    _kind("orc", "ORC", frozenset({"nested", "binary"}), frozenset({"none", "snappy", "zlib", "lz4", "zstd"})),
    _kind("arrow", "Arrow IPC", frozenset({"nested", "binary"}), frozenset({"none", "lz4", "zstd"})),
)
