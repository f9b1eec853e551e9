"""The keys of JSON texts, and the values of what was parsed of them: whether something was left out."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from headwater.sources.decoders.checks import any_of, balanced


def has_unknown_keys(text: Column, event: Column, schema: StructType, *, canonical: bool) -> Column:
    """Whether a JSON text has more keys with a value than the event has values: an unknown key at any depth.

    Keys are counted, not listed, since that costs a fraction of a second parse: outside of strings, a quote and a colon
    stand together only at the end of a key. A text in another style (`"key" :`), a key given twice, or an object kept
    as text make a wrong yes.
    """
    values = count_values(event, schema)
    nulls = reduce(operator.add, (_count(text, null) - _count(text, "\\" + null) for null in ('":null', '": null')))
    closely = count_keys(text) - _count(text, '\\":') - nulls > values
    if canonical:
        return F.when(_has_more(text, '":', values), closely).otherwise(False)
    parted = _is_parted(text)
    return F.when(~_has_more(text, '":', values) & ~parted, False).otherwise(parted | closely)


def _is_parted(text: Column) -> Column:
    """Whether there is room between a key and its colon. What is looked for first is seldom there, and quick to miss;
    line ends and tabs are not in strings."""
    seldom = [F.contains(text, F.lit(blank + ":")) for blank in " \t\r\n"]
    return reduce(operator.or_, seldom) & text.rlike('"[ \t\r\n]+:')


def _has_more(text: Column, part: str, than: Column) -> Column:
    """Whether a part stands in the text more often; to find that out nothing is copied."""
    before = F.call_function("substring_index", text, F.lit(part), than + 1)
    return F.octet_length(before) < F.octet_length(text)


def count_keys(text: Column) -> Column:
    return _count(text, '":')


def _count(text: Column, part: str) -> Column:
    """How often a part stands in the text."""
    return F.octet_length(text) - F.octet_length(F.replace(text, F.lit(part), F.lit(part[:-1])))


def count_values(value: Column, data_type: DataType) -> Column:
    """How many keys with a value are in it, at all depths."""
    if isinstance(data_type, StructType):
        counts = [F.lit(0)]
        for f in data_type.fields:
            inner = value.getField(f.name)
            counts.append(F.when(inner.isNotNull(), F.lit(1)).otherwise(0))
            if _has_keys(f.dataType):
                counts.append(F.when(inner.isNotNull(), count_values(inner, f.dataType)).otherwise(0))
        return balanced(counts, operator.add)
    if isinstance(data_type, ArrayType) and _has_keys(data_type.elementType):
        element = data_type.elementType
        return F.aggregate(
            value, F.lit(0), lambda sum, one: sum + F.when(one.isNotNull(), count_values(one, element)).otherwise(0)
        )
    if isinstance(data_type, MapType):
        inner_type = data_type.valueType
        return F.aggregate(
            F.map_values(value),
            F.lit(0),
            lambda sum, one: sum + F.when(one.isNotNull(), F.lit(1) + count_values(one, inner_type)).otherwise(0),
        )
    return F.lit(0)


def _has_keys(data_type: DataType) -> bool:
    if isinstance(data_type, ArrayType):
        return _has_keys(data_type.elementType)
    return isinstance(data_type, (StructType, MapType))


def has_keys_beyond(text: Column, data_type: DataType, options: Mapping[str, str]) -> Column | None:
    """Whether a JSON text has a key with a value that a type lacks, at any depth; None where it can't have any.

    Keys are listed, level by level: that is exact, and takes a parse for each level.
    """
    read = dict(options)
    if isinstance(data_type, StructType):
        found = F.from_json(text, "map<string,string>", read)
        known = F.array(*map(F.lit, data_type.names)) if data_type.fields else F.array().cast("array<string>")
        more = F.map_filter(found, lambda key, value: value.isNotNull() & ~F.array_contains(known, key))
        here = F.coalesce(F.size(more) > 0, F.lit(False))
        inner = [has_keys_beyond(F.element_at(found, f.name), f.dataType, options) for f in data_type.fields]
        return any_of([here, *inner])
    if isinstance(data_type, ArrayType) and _has_keys(data_type.elementType):
        elements = F.from_json(text, "array<string>", read)
        return _any_beyond(elements, data_type.elementType, options)
    if isinstance(data_type, MapType) and _has_keys(data_type.valueType):
        return _any_beyond(F.map_values(F.from_json(text, "map<string,string>", read)), data_type.valueType, options)
    return None


def _any_beyond(texts: Column, data_type: DataType, options: Mapping[str, str]) -> Column:
    def beyond(text: Column) -> Column:
        found = has_keys_beyond(text, data_type, options)
        return F.lit(False) if found is None else found

    return F.coalesce(F.exists(texts, beyond), F.lit(False))
