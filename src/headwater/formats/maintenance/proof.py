"""The proof that a rewrite changed no row: a count and a checksum of the rows, whatever order they come in.

Every column of a row goes into one 64-bit hash, and the hashes are added up. NULLs count as such (Spark's hash passes
over them), and what has parts is hashed as JSON, in which their places show.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType, StructField, StructType

from headwater.core.errors import Code, IntegrityError
from headwater.core.model import DataFile
from headwater.formats.base import Address
from headwater.spark.frames import column, observed

PROOF = "headwater.proof"
"""The key of a commit's own notes that holds its proof."""

_BITS = 24
_JSON = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


@dataclass(frozen=True)
class Proof:
    """How many rows there are, and their checksum."""

    rows: int
    checksum: str

    def to_json(self) -> str:
        return json.dumps({"rows": self.rows, "checksum": self.checksum})

    @staticmethod
    def from_json(text: str | None) -> Proof | None:
        """The proof in a commit's note, or None where the note is something else."""
        try:
            found = json.loads(text or "")
            return Proof(int(found["rows"]), str(found["checksum"]))
        except (ValueError, KeyError, TypeError):
            return None


def measure(rows: DataFrame) -> Proof:
    """Count the rows and sum them up, by a job of its own."""
    [found] = rows.agg(*_sums(rows)).collect()
    return _proof(found.asDict())


def measured_on_the_way(rows: DataFrame) -> tuple[DataFrame, Callable[[], Proof]]:
    """The same rows, counted and summed up by the job that writes them; what it gives may be called once that is done.

    Only for a job that reads each row once: one that takes samples first would count those too.
    """
    rows, result = observed(rows, _sums(rows))
    return rows, lambda: _proof(result())


def summed(proofs: Sequence[Proof]) -> Proof:
    """The proof of all the rows together."""
    total = sum(int(proof.checksum, 16) for proof in proofs) % 2**128
    return Proof(sum(proof.rows for proof in proofs), f"{total:032x}")


def require_same(address: Address, read: Proof, written: Proof, after: str, files: Sequence[DataFile] = ()) -> None:
    """Stop a rewrite whose new files don't hold the rows of those that they would replace.

    `files` are those, where their metadata tell exactly how many rows they have: a reader that ends early is noticed.
    """
    known = [file.rows - (file.deleted_rows or 0) for file in files if file.rows is not None]
    told = sum(known) if known and len(known) == len(files) else read.rows
    if read == written and told == read.rows:
        return
    raise IntegrityError(
        Code.NOT_ROW_NEUTRAL,
        f"a rewrite of {address} read {read.rows} rows (checksum {read.checksum}) of {told} and wrote {written.rows} "
        f"(checksum {written.checksum}): {after}",
    )


def _sums(rows: DataFrame) -> list[Column]:
    row = F.xxhash64(*(part for field in rows.schema.fields for part in _parts(field)))
    # In parts, so that no sum overflows before there are 2^39 rows.
    parts = [F.shiftrightunsigned(row, _BITS * i).bitwiseAND(2**_BITS - 1) for i in range(3)]
    return [F.count(F.lit(1)).alias("rows"), *(F.sum(part).alias(f"sum_{i}") for i, part in enumerate(parts))]


def _parts(field: StructField) -> list[Column]:
    value = column(field.name)
    if isinstance(field.dataType, (StructType, ArrayType, MapType)):
        return [F.to_json(F.struct(value), _JSON)]
    return [value, value.isNull()] if field.nullable else [value]


def _proof(found: dict[str, int | None]) -> Proof:
    total = sum((found[f"sum_{i}"] or 0) << (_BITS * i) for i in range(3))
    return Proof(found["rows"] or 0, f"{total % 2**128:032x}")
