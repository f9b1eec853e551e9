"""A lake with a table of every type, for exports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headwater.api.lake import Lake

COLUMNS = (
    "id bigint, name string, price decimal(12,2), big decimal(30,4), ratio double, small float, flag boolean, n int, "
    "day date, at timestamp"
)
NESTED = ", tags array<string>, place struct<city: string, zip: int>, counts map<string,bigint>"
PLAIN_ROWS = """
  (1, 'Ada', 10.50, 123456789012345678.1234, 0.1, CAST(1.5 AS FLOAT), true, 7, DATE'2024-02-29',
   TIMESTAMP'2024-05-01 12:34:56.789012'),
  (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
  (3, 'comma, "quote"', -0.01, -1.0000, -2.5e-10, CAST(0 AS FLOAT), false, -1, DATE'1969-12-31',
   TIMESTAMP'1969-12-31 23:59:59.999999'),
  (4, '', 99999999.99, 0, 1.0e300, CAST(3.25 AS FLOAT), true, 2147483647, DATE'2030-01-01',
   TIMESTAMP'2030-01-01 00:00:00'),
  (5, '=1+1', 0.10, 7, 5.0, CAST(-1 AS FLOAT), true, 0, DATE'2024-02-29', TIMESTAMP'2024-02-29 08:00:00.1'),
  (6, 'zwei\\nZeilen ß €', 1.00, 7, 0.3333333333333333, CAST(0.1 AS FLOAT), false, 12, DATE'2024-03-01',
   TIMESTAMP'2024-03-01 23:59:59')
"""
NESTED_VALUES = (
    "array('a', NULL, ''), named_struct('city', 'Bern', 'zip', 3000), map('x', 1L, 'y', CAST(NULL AS BIGINT))"
)


@contextmanager
def lake_with_rows(root: Path, *, nested: bool = False, exports: str = "", more: str = "") -> Iterator[Lake]:
    """A lake whose table `goods` has rows."""
    root.mkdir(parents=True, exist_ok=True)
    columns = COLUMNS + (NESTED if nested else "")
    text = f"name: shop\nformat: delta\n{more}tables:\n  goods: {{schema: '{columns}', keys: [id]}}\n{exports}"
    (root / "headwater.yml").write_text(text, encoding="utf-8")
    with Lake.open(root) as lake:
        fill(lake, nested=nested)
        yield lake


def fill(lake: Lake, *, nested: bool = False) -> None:
    values = f"SELECT *, {NESTED_VALUES} FROM VALUES {PLAIN_ROWS}" if nested else f"SELECT * FROM VALUES {PLAIN_ROWS}"
    lake.sql(f"INSERT INTO goods {values}")
