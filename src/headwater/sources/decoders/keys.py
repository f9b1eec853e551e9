"""The keys of JSON texts, and the values of what was parsed of them: whether something was left out."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from headwater.schema.types import has_map
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
    parted = is_parted(text)
    return F.when(~_has_more(text, '":', values) & ~parted, False).otherwise(parted | closely)


def is_parted(text: Column) -> Column:
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


def has_more_objects(text: Column, value: Column, data_type: DataType) -> Column:
    """Whether more objects may end in a JSON text than were parsed of it: something may follow the first one.

    Braces are counted, in strings only where there are too many. Objects kept as text, or without a place, make a
    wrong yes.
    """
    objects = count_objects(value, data_type)
    no_strings = F.regexp_replace(without_escaped(text, '\\"'), '"[^"]*"', "")
    return F.when(_has_more(text, "}", objects), _has_more(no_strings, "}", objects)).otherwise(False)


def without_escaped(text: Column, sign: str) -> Column:
    """The text without escaped backslashes and an escaped sign: what is left of either means what it says."""
    return F.replace(F.replace(text, F.lit("\\\\"), F.lit("..")), F.lit(sign), F.lit(".."))


def count_objects(value: Column, data_type: DataType) -> Column:
    """How many objects are in a value, at all depths, itself included."""
    if isinstance(data_type, StructType):
        fields = [(value.getField(f.name), f.dataType) for f in data_type.fields if _has_keys(f.dataType)]
        return balanced([F.lit(1), *(_objects_in(inner, type_) for inner, type_ in fields)], operator.add)
    if isinstance(data_type, ArrayType):
        return _sum_objects(value, data_type.elementType) if _has_keys(data_type.elementType) else F.lit(0)
    if isinstance(data_type, MapType):
        inner = data_type.valueType
        return F.lit(1) + _sum_objects(F.map_values(value), inner) if _has_keys(inner) else F.lit(1)
    return F.lit(0)


def _objects_in(value: Column, data_type: DataType) -> Column:
    return F.when(value.isNotNull(), count_objects(value, data_type)).otherwise(0)


def _sum_objects(values: Column, data_type: DataType) -> Column:
    return F.aggregate(values, F.lit(0), lambda sum, one: sum + _objects_in(one, data_type))


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
        more = F.map_filter(
            found, lambda key, value: value.isNotNull() & ~F.array_contains(known, key) & ~_is_hollow(value, text)
        )
        here = F.coalesce(F.size(more) > 0, F.lit(False))
        inner = [has_keys_beyond(F.element_at(found, f.name), f.dataType, options) for f in data_type.fields]
        return any_of([here, *inner])
    if isinstance(data_type, ArrayType) and _has_keys(data_type.elementType):
        elements = F.from_json(text, "array<string>", read)
        return _any_beyond(elements, data_type.elementType, options)
    if isinstance(data_type, MapType) and _has_keys(data_type.valueType):
        return _any_beyond(F.map_values(F.from_json(text, "map<string,string>", read)), data_type.valueType, options)
    return None


def _is_hollow(value: Column, text: Column) -> Column:
    """Whether a value of a JSON text, as its own text, is an object or array without a value: it brings no column.

    A string of brackets looks like one; where the text may have such a string, it is none.
    """
    no_keys = F.regexp_replace(value, r'"(?:[^"\\]|\\.)*":|null', "")
    as_string = F.concat(F.lit('"'), F.replace(value, F.lit('"'), F.lit('\\"')), F.lit('"'))
    is_string = F.contains(text, as_string) | F.contains(text, F.lit("\\u"))
    return F.when(value.rlike(r"^[\[{]"), no_keys.rlike(r"^[\[\]{},]*$") & ~is_string).otherwise(False)


def has_repeated_map_keys(value: Column, data_type: DataType) -> Column | None:
    """Whether a map in a value has a key twice, which Spark's JSON reader lets be; None where it has no map."""
    if isinstance(data_type, StructType):
        return any_of([has_repeated_map_keys(value.getField(f.name), f.dataType) for f in data_type.fields])
    if isinstance(data_type, MapType):
        keys = F.map_keys(value)
        here = F.coalesce(F.size(keys) > F.size(F.array_distinct(keys)), F.lit(False))
        return any_of([here, has_repeated_map_keys(F.map_values(value), ArrayType(data_type.valueType))])
    if isinstance(data_type, ArrayType) and has_map(data_type.elementType):
        element = data_type.elementType

        def has(one: Column) -> Column:
            found = has_repeated_map_keys(one, element)
            return F.lit(False) if found is None else found

        return F.coalesce(F.exists(value, has), F.lit(False))
    return None


def repeated_key(text: Column, data_type: DataType, options: Mapping[str, str]) -> Column:
    """A key that an object of a JSON text has again after it had a value, at any depth of a type; NULL: there is none.
    In a map it is one that stands there twice at all. Keys are listed level by level, as for `has_keys_beyond`."""
    found = _repeated_key(text, data_type, dict(options))
    return F.lit(None).cast("string") if found is None else found


def _repeated_key(text: Column, data_type: DataType, options: dict[str, str]) -> Column | None:
    if isinstance(data_type, StructType):
        found = F.from_json(text, "map<string,string>", options)
        inner = [_repeated_key(F.element_at(found, f.name), f.dataType, options) for f in data_type.fields]
        return F.coalesce(_repeated_in(found, in_map=False), *[one for one in inner if one is not None])
    if isinstance(data_type, ArrayType) and _has_keys(data_type.elementType):
        return _repeated_in_one(F.from_json(text, "array<string>", options), data_type.elementType, options)
    if isinstance(data_type, MapType):
        found = F.from_json(text, "map<string,string>", options)
        here = _repeated_in(found, in_map=True)
        if not _has_keys(data_type.valueType):
            return here
        return F.coalesce(here, _repeated_in_one(F.map_values(found), data_type.valueType, options))
    return None


def _repeated_in_one(texts: Column, data_type: DataType, options: dict[str, str]) -> Column:
    found = F.transform(texts, lambda text: repeated_key(text, data_type, options))
    return F.get(F.array_compact(found), 0)


def _repeated_in(found: Column, *, in_map: bool) -> Column:
    keys, values = F.map_keys(found), F.map_values(found)

    def comes_again(key: Column, at: Column) -> Column:
        later = F.array_contains(F.slice(keys, at + 2, F.size(keys)), key)
        return later if in_map else later & F.get(values, at).isNotNull()

    return F.when(F.size(keys) > F.size(F.array_distinct(keys)), F.get(F.filter(keys, comes_again), 0))


def _any_beyond(texts: Column, data_type: DataType, options: Mapping[str, str]) -> Column:
    def beyond(text: Column) -> Column:
        found = has_keys_beyond(text, data_type, options)
        return F.lit(False) if found is None else found

    return F.coalesce(F.exists(texts, beyond), F.lit(False))
