"""What the ending of a file's name says of what is in it."""

from __future__ import annotations

from pathlib import PurePosixPath

ENDINGS = {
    ".json": "json", ".ndjson": "json", ".jsonl": "json", ".csv": "csv", ".tsv": "csv", ".psv": "csv",
    ".parquet": "parquet", ".avro": "avro", ".orc": "orc", ".txt": "text", ".log": "text",
}  # fmt: skip
PACKED = (".gz", ".bz2", ".deflate", ".snappy", ".zst", ".lz4")


def ending_of(name: str) -> str:
    """`.csv.gz` of `sales.CSV.gz`."""
    packed = next((one for one in PACKED if name.lower().endswith(one)), "")
    return PurePosixPath(name.lower().removesuffix(packed)).suffix + packed


def format_of(name: str) -> str | None:
    """The file format that a name speaks of; None if it says nothing."""
    ending = ending_of(name)
    packed = next((one for one in PACKED if ending.endswith(one)), "")
    return ENDINGS.get(ending.removesuffix(packed))


def others(file_format: str) -> dict[str, str]:
    """The endings of files that are not of a format, with the format that they are of. Text is in anything."""
    return {ending: kind for ending, kind in ENDINGS.items() if kind not in (file_format, "text")}
