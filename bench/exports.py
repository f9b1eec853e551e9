"""What an export costs against a plain Spark `df.write` of the same rows, with and without reading it back.

`python bench/exports.py [ROWS] [TURNS]`: medians of alternating turns, rows a second, for Parquet, Delta and CSV.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from headwater.api.lake import Lake

ROWS = int(sys.argv[1]) if len(sys.argv) > 1 else 4_000_000
TURNS = int(sys.argv[2]) if len(sys.argv) > 2 else 5
QUERY = """
SELECT id, concat('customer-', id % 5000) AS customer,
       uuid_of(id) AS key, cast(id % 1000 / 7 AS decimal(12,2)) AS amount,
       timestamp_micros(1700000000000000 + id * 1000003) AS at, id % 3 = 0 AS flag, id / 3.0 AS share,
       concat('city ', id % 40) AS city
FROM range(ROWS)
""".replace("uuid_of(id)", "md5(cast(id AS string))").replace("ROWS", str(ROWS))


def main() -> None:
    root = Path(tempfile.mkdtemp(prefix="headwater-bench-exports-"))
    try:
        text = "name: bench\nspark: {conf: {spark.driver.memory: 4g}}\nsources: {none: {type: append}}\n"
        text += "topics: {rows: {from: none}}\n"
        (root / "headwater.yml").write_text(text, encoding="utf-8")
        with Lake.open(root) as lake:
            source = str(root / "source")
            lake.spark.sql(QUERY).write.parquet(source)
            query = f"SELECT * FROM parquet.`{source}`"
            lake.spark.read.parquet(source).createOrReplaceTempView("rows_of_bench")
            for format in ("parquet", "delta", "csv"):
                measured(lake, root, format, query)
    finally:
        shutil.rmtree(root)


def measured(lake: Lake, root: Path, format: str, query: str) -> None:
    """One line: rows a second of each way, and what part of the plain write's that is."""
    from headwater.core.spec import Export
    from headwater.exports import snapshot
    from headwater.exports.selection import Selected

    def chosen(*_: object) -> Selected:
        return Selected(lake.spark.sql(query), "query", {})

    snapshot.select = chosen  # type: ignore[assignment]

    def plain(folder: Path) -> None:
        options = {"header": "true"} if format == "csv" else {}
        lake.spark.sql(query).write.format(format).options(**options).save(str(folder))

    def export(verify: str) -> Callable[[Path], None]:
        def run(folder: Path) -> None:
            definition = Export.model_validate(
                {"from": "topic('rows')", "format": format, "to": str(folder), "verify": verify}
            )
            snapshot.export_snapshot(lake._warehouse, definition)

        return run

    ways: dict[str, Callable[[Path], None]] = {"plain": plain, "export": export("off"), "read back": export("full")}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(TURNS + 1):
        for name, way in ways.items():
            folder = root / f"{format}-{name}-{turn}".replace(" ", "")
            begun = time.perf_counter()
            way(folder)
            if turn:  # the first is warming up
                seconds[name].append(time.perf_counter() - begun)
            shutil.rmtree(folder)
    middle = {name: statistics.median(taken) for name, taken in seconds.items()}
    parts = (f"{name} {ROWS / taken:,.0f} rows/s ({middle['plain'] / taken:.2f} x)" for name, taken in middle.items())
    print(f"{format}: " + ", ".join(parts), flush=True)


if __name__ == "__main__":
    main()
