"""What lies in a folder, by the files that each format leaves in it."""

from __future__ import annotations

from headwater.core.errors import HeadwaterError
from headwater.core.storage import Files


def found_in(folder: Files) -> str | None:
    """The table in a folder in words, if there is one that can be told."""
    try:
        names = {entry.name: entry.is_folder for entry in folder.list()}
        if names.get("_delta_log"):
            return "a Delta Lake table"
        if names.get(".hoodie"):
            return "an Apache Hudi table"
        if names.get("schema") and folder.exists("schema/schema-0"):
            return "an Apache Paimon table"
        if names.get("metadata") and any(e.name.endswith(".metadata.json") for e in folder.list("metadata")):
            by_path = folder.exists("metadata/version-hint.text")
            return "an Apache Iceberg table" + ("" if by_path else " that a catalog keeps: it goes by name")
        if names.get("_headwater"):
            return "a Parquet table of Headwater"
        if any(entry.name.endswith(".parquet") for entry in folder.list(recursive=True)):
            return "a folder of Parquet files"
    except HeadwaterError:
        return None  # whoever asks has an error to report already
    return None
