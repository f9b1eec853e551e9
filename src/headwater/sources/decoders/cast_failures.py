"""Values that do not fit, as text by their names: what the column CAST_FAILURES holds."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F

_MAP = "map<string,string>"


def texts_of(texts: Mapping[str, Column]) -> Column:
    """Those that are there."""
    found = F.map_from_arrays(F.array(*map(F.lit, texts)), F.array(*texts.values()))
    return F.map_filter(found, lambda _, text: text.isNotNull())


def texts_or_none(known: Column) -> Column:
    """Cast failures, none instead of NULL."""
    return F.coalesce(known.cast(_MAP), F.create_map().cast(_MAP))


def with_more(known: Column, more: Column) -> Column:
    """Cast failures that are known, and others; what is known of a name stays."""
    first = texts_or_none(known)
    return F.map_concat(first, F.map_filter(more, lambda name, _: ~F.array_contains(F.map_keys(first), name)))


def unless_none(cast_failures: Column) -> Column:
    """NULL where there is none."""
    return F.when(F.size(cast_failures) > 0, cast_failures)
