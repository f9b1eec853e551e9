"""The tables of TPC-H, as its generator makes them, and trade that goes on: orders come and go, everything changes."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.views.workloads import Fields

KEYS: dict[str, tuple[str, ...]] = {
    "region": ("r_regionkey",),
    "nation": ("n_nationkey",),
    "supplier": ("s_suppkey",),
    "customer": ("c_custkey",),
    "part": ("p_partkey",),
    "partsupp": ("ps_partkey", "ps_suppkey"),
    "orders": ("o_orderkey",),
    "lineitem": ("l_orderkey", "l_linenumber"),
}
LINES = 7
"""An order has no more lines."""

CHANGING: dict[str, tuple[str, ...]] = {
    "supplier": ("s_nationkey", "s_acctbal", "s_comment"),
    "customer": ("c_nationkey", "c_acctbal", "c_mktsegment", "c_phone"),
    "part": ("p_type", "p_size", "p_brand", "p_container", "p_name"),
    "partsupp": ("ps_supplycost", "ps_availqty"),
    "orders": ("o_orderstatus", "o_orderdate", "o_orderpriority", "o_custkey", "o_totalprice", "o_comment"),
    "lineitem": (
        "l_quantity",
        "l_extendedprice",
        "l_discount",
        "l_shipdate",
        "l_receiptdate",
        "l_returnflag",
        "l_shipmode",
        "l_suppkey",
    ),
}
"""Columns that take another row's value, or none."""


def generated(folder: Path, scale: float) -> dict[str, pa.Table]:
    """The eight tables at a scale; every column that is no key may be NULL."""
    tool = Path(sys.executable).parent / "tpchgen-cli"
    subprocess.run([tool, "parquet", "-s", str(scale), "-o", folder], check=True, capture_output=True)
    found = {}
    for name, keys in KEYS.items():
        table = pq.read_table(folder / f"{name}.parquet")
        found[name] = table.cast(pa.schema([field.with_nullable(field.name not in keys) for field in table.schema]))
    return found


class Trade:
    """What goes on in the tables: the same for the same seed."""

    def __init__(self, tables: dict[str, pa.Table], seed: int) -> None:
        self._random = random.Random(seed)
        self._rows = {name: {self._key(name, row): row for row in table.to_pylist()} for name, table in tables.items()}
        self._next = max(key[0] for key in self._rows["orders"]) + 1

    def cycle(self, size: int) -> dict[str, tuple[list[Fields], list[Fields]]]:
        """`size` orders come and go, as many change; and so do rows of two other tables."""
        chosen = {"orders", "lineitem", *self._random.sample(["nation", "supplier", "customer", "part", "partsupp"], 2)}
        came: dict[str, dict[Any, Fields]] = {name: {} for name in KEYS}
        went: dict[str, dict[Any, Fields]] = {name: {} for name in KEYS}

        def put(name: str, row: Fields) -> None:
            key = self._key(name, row)
            self._rows[name][key] = came[name][key] = row

        def take(name: str, key: Any) -> None:
            came[name].pop(key, None)
            went[name][key] = self._rows[name].pop(key)

        for key in self._some("orders", size):
            take("orders", key)
            for line in range(1, LINES + 1):
                if (*key, line) in self._rows["lineitem"]:
                    take("lineitem", (*key, line))
        for name, columns in CHANGING.items():
            for key in self._some(name, size) if name in chosen else ():
                put(name, self._changed(name, self._rows[name][key], columns))
        for _ in range(size):
            for name, row in self._order():
                put(name, row)
        if "partsupp" in chosen:
            take("partsupp", *self._some("partsupp", 1))
        if "supplier" in chosen:
            [supplier] = self._some("supplier", 1)
            put("supplier", {**self._rows["supplier"][supplier], "s_comment": "slow: Customer waits, has Complaints"})
        if "nation" in chosen:
            [nation] = self._some("nation", 1)
            put("nation", {**self._rows["nation"][nation], "n_regionkey": self._random.randrange(5)})
        return {
            name: (list(came[name].values()), list(went[name].values())) for name in KEYS if came[name] or went[name]
        }

    def _order(self) -> list[tuple[str, Fields]]:
        """A new order that resembles those there are."""
        [like] = self._some("orders", 1)
        [customer] = self._some("customer", 1)
        number, self._next = self._next, self._next + 1
        order = {**self._rows["orders"][like], "o_orderkey": number, "o_custkey": customer[0]}
        made = [("orders", order)]
        for line, key in enumerate(self._some("lineitem", self._random.randint(1, LINES)), 1):
            made.append(("lineitem", {**self._rows["lineitem"][key], "l_orderkey": number, "l_linenumber": line}))
        return made

    def _changed(self, name: str, row: Fields, columns: Sequence[str]) -> Fields:
        """The row with some values of another one."""
        [other] = self._some(name, 1)
        row = dict(row)
        for column in self._random.sample(columns, self._random.randint(1, len(columns))):
            row[column] = None if self._random.random() < 0.05 else self._rows[name][other][column]
        return row

    def _some(self, name: str, count: int) -> list[Any]:
        rows = self._rows[name]
        return self._random.sample(list(rows), min(count, len(rows)))

    @staticmethod
    def _key(name: str, row: Fields) -> tuple[Any, ...]:
        return tuple(row[column] for column in KEYS[name])
