"""A Delta table that is made with its first rows, and what is left where that was cut off.

Files without a log may be anybody's: only where it was noted that a first write began are they taken for what it left.
They are not deleted, as a writer that was only paused may still commit them; VACUUM takes them in the end.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from deltalake import DeltaTable, Schema
from pyspark.sql.types import StructType

from headwater.core.spec import Layout
from headwater.core.storage import Files
from headwater.formats.base import Address, LakeContext
from headwater.formats.delta.native import storage_options


class FirstWrite:
    """The note that a table's first write has begun."""

    def __init__(self, address: Address, context: LakeContext) -> None:
        assert address.path is not None
        self._path = address.path
        self._context = context
        self._notes = Files(context.warehouse, context.storage)
        self._name = f"_headwater/begun/{hashlib.sha256(address.path.encode()).hexdigest()[:32]}"

    def note(self) -> None:
        self._notes.write_atomic(self._name, self._path)

    def forget(self) -> None:
        self._notes.delete(self._name)

    @property
    def left_over(self) -> bool:
        """Whether files lie there that a first write has left."""
        return self._notes.exists(self._name) and bool(Files(self._path, self._context.storage).list())

    def create(self, schema: StructType, layout: Layout, properties: Mapping[str, str]) -> None:
        """The empty table alongside them: Spark itself would not make one there."""
        DeltaTable.create(
            self._path,
            Schema.from_json(schema.json()),
            partition_by=list(layout.partition_by) or None,
            configuration=dict(properties),
            storage_options=storage_options(self._context.storage),
            raise_if_key_not_exists=False,
        )
        self.forget()
