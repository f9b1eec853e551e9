"""Two answers to one query: where do they differ?"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pyarrow as pa


def differences(fast: pa.Table, slow: pa.Table, sql: str) -> list[str]:
    """What differs, in words: names, types, rows; the order too, where the query asks for one."""
    if fast.schema.names != slow.schema.names:
        return [f"names {fast.schema.names} against {slow.schema.names}"]
    kinds = [
        (f.name, str(f.type), str(s.type)) for f, s in zip(fast.schema, slow.schema, strict=True) if f.type != s.type
    ]
    if kinds:
        return [f"types {kinds}"]
    summed = any(word in sql for word in ("sum(", "avg(", "stddev", "variance(", "var_pop(", "mean("))
    ours, theirs = ([tuple(_key(v, summed) for v in row.values()) for row in t.to_pylist()] for t in (fast, slow))
    if " ORDER BY k" in sql or " ORDER BY 1" in sql or " ORDER BY u DESC, r" in sql:
        if ours != theirs:
            pairs = [(a, b) for a, b in zip(ours, theirs, strict=False) if a != b]
            return [f"in order: {a} against {b}" for a, b in pairs] or [f"{len(ours)} rows against {len(theirs)}"]
        return []
    only_ours, only_theirs = Counter(ours) - Counter(theirs), Counter(theirs) - Counter(ours)
    return (
        [f"only fast {list(only_ours)[:3]}", f"only Spark {list(only_theirs)[:3]}"] if only_ours or only_theirs else []
    )


def _key(value: Any, summed: bool) -> Any:
    """Something that can be counted; sums of DOUBLE depend on the order of the rows in either engine."""
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        return float(f"{value:.9e}") + 0.0 if summed else value + 0.0
    if isinstance(value, list):
        return tuple(_key(each, summed) for each in value)
    if isinstance(value, dict):
        return tuple((k, _key(v, summed)) for k, v in value.items())
    return value
