"""A lake with every type in it, and queries made at random over it."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.core.model import Kind
from headwater.core.spec import Layout
from headwater.project.load.loader import load_project
from headwater.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

QUICK = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN",
         "spark.sql.shuffle.partitions": "1", "spark.sql.adaptive.enabled": "false"}  # fmt: skip

THINGS = (
    "id int, t tinyint, sh smallint, i int, j int, l bigint, big bigint, f float, d double, e double, "
    "dec decimal(10,2), fine decimal(16,4), s string, u string, bo boolean, dt date, day date, ts timestamp, "
    "at timestamp, bin binary, arr array<int>, words array<string>, st struct<x:int,y:string>, m map<string,int>"
)
OTHERS = "k int, name string, v bigint, price decimal(8,2), since date, score double"

WORDS = ["", "a", "A", "abc", "Abc", "ABC def", " padded ", "x,y", "o'clock", 'say "hi"', "100%", "a_b", "tab\there",
         "two\nlines", "naïve", "Straße", "日本語", "😀 smile", "aaa", "zebra", "NULL", "e-12",
         "2024-02-29"]  # fmt: skip
DOUBLES = [0.0, -0.0, 1.0, -1.5, 2.5, 0.1, 1.005, 1e15, 123456.789, float("nan"), float("inf"), float("-inf"), -7.25]
EXTREMES = [2**63 - 1, -(2**63), 2**31, -(2**31), 0, 1]


def project(root: Path, format: str) -> Warehouse:
    """A lake with two tables that are filled by hand."""
    root.mkdir(parents=True, exist_ok=True)
    conf = ", ".join(f'{key}: "{value}"' for key, value in QUICK.items())
    (root / "headwater.yml").write_text(
        f"name: lab\nformat: {format}\nspark: {{conf: {{{conf}}}}}\n"
        "tables:\n  things: {keys: [id]}\n  others: {keys: [k]}\n"
    )
    return Warehouse(load_project(root))


def fill(
    warehouse: Warehouse, name: str, schema: str, batches: Iterable[list[Any]], layout: Layout | None = None
) -> None:
    """Make a table of these rows, one commit for each batch."""
    table = warehouse.table(Kind.TABLE, name)
    for rows in batches:
        df: DataFrame = warehouse.spark.createDataFrame(rows, schema)
        if not table.exists():
            table.create(df.schema, layout or Layout())
        table.append(df.coalesce(1))
    warehouse.remember(Kind.TABLE, name)


def things(seed: int, count: int) -> list[tuple[Any, ...]]:
    dice = random.Random(seed)

    def maybe(value: Any) -> Any:
        return None if dice.random() < 0.15 else value

    def moment() -> datetime:
        start = datetime(2023, 12, 28, tzinfo=timezone.utc)
        return start + timedelta(microseconds=dice.randrange(400 * 86_400) * 1_000_000 + dice.choice([0, 0, 123456]))

    return [
        (
            n,
            maybe(dice.randrange(-8, 8)),
            maybe(dice.randrange(-300, 300)),
            maybe(dice.randrange(-50, 50)),
            maybe(dice.randrange(-5, 6)),
            maybe(dice.randrange(-(10**10), 10**10)),
            maybe(dice.choice(EXTREMES)),
            maybe(dice.choice([0.5, -0.25, 3.0, 1e10])),
            maybe(dice.choice(DOUBLES)),
            maybe(round(dice.uniform(-1000, 1000), 3)),
            maybe(Decimal(dice.randrange(-(10**6), 10**6)).scaleb(-2)),
            maybe(Decimal(dice.randrange(-(10**10), 10**10)).scaleb(-4)),
            maybe(dice.choice(WORDS)),
            maybe(dice.choice(["x", "y", "z", "abc", "order-12"])),
            maybe(dice.random() < 0.5),
            maybe(moment().date()),
            maybe(date(2024, dice.choice([1, 2, 3]), dice.choice([1, 28, 29]))),
            maybe(moment()),
            maybe(moment()),
            maybe(bytes([dice.randrange(256) for _ in range(dice.randrange(4))])),
            maybe([maybe(dice.randrange(5)) for _ in range(dice.randrange(4))]),
            maybe([maybe(dice.choice(WORDS)) for _ in range(dice.randrange(3))]),
            maybe((maybe(dice.randrange(9)), maybe(dice.choice(WORDS)))),
            maybe({dice.choice("abc"): maybe(dice.randrange(9)) for _ in range(dice.randrange(3))}),
        )
        for n in range(count)
    ]


def others(seed: int, count: int) -> list[tuple[Any, ...]]:
    dice = random.Random(seed + 1)
    return [
        (
            n % 7 if n % 5 else None,
            dice.choice(["x", "y", "abc", None]),
            dice.randrange(1000),
            Decimal(dice.randrange(10**5)).scaleb(-2),
            date(2024, 1, 1) + timedelta(days=n),
            dice.choice([0.5, 1.5, None]),
        )
        for n in range(count)
    ]
