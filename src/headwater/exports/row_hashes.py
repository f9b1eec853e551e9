"""Spark's `xxhash64` over Arrow arrays: the same 64 bits for the same value, without a JVM.

A reader that is not Spark gives its rows as Arrow; their checksum has to be the one that Spark has computed over the
source's rows while it wrote them. Whole columns are hashed at a time: a row costs a few dozen nanoseconds a column.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Hashes = npt.NDArray[np.uint64]

SEED = 42
_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
_LONG_DECIMAL = 18
"""Decimals of more digits are hashed as bytes."""


def hash_long(values: Hashes, seeds: Hashes) -> Hashes:
    """64 bits each."""
    found = seeds + _P5 + np.uint64(8)
    found ^= _rotated(values * _P2, 31) * _P1
    return _mixed(_rotated(found, 27) * _P1 + _P4)


def hash_int(values: Hashes, seeds: Hashes) -> Hashes:
    """32 bits each, in the lower half."""
    found = seeds + _P5 + np.uint64(4)
    found ^= values * _P1
    return _mixed(_rotated(found, 23) * _P2 + _P3)


def hash_array(array: pa.Array, seeds: Hashes) -> Hashes:
    """The hash of each value, begun with a seed of its own; NULL leaves the seed as it is."""
    if len(array) == 0:
        return seeds
    if isinstance(array, pa.DictionaryArray):
        return _hash_dictionary(array, seeds)
    found = _hash_values(array, seeds)
    if array.null_count:
        return np.where(array.is_null().to_numpy(zero_copy_only=False), seeds, found)
    return found


def _hash_dictionary(array: pa.DictionaryArray, seeds: Hashes) -> Hashes:
    if len(seeds) and (seeds == seeds[0]).all():
        each = hash_array(array.dictionary, np.full(len(array.dictionary), seeds[0], np.uint64))
        at = array.indices.fill_null(0).to_numpy(zero_copy_only=False)
        found = each[at] if len(each) else seeds
        return np.where(array.is_null().to_numpy(zero_copy_only=False), seeds, found)
    return hash_array(array.dictionary_decode(), seeds)


def _hash_values(array: pa.Array, seeds: Hashes) -> Hashes:
    kind = array.type
    if pa.types.is_boolean(kind):
        return hash_int(_bits(array, pa.uint8()), seeds)
    if pa.types.is_integer(kind):
        wide = kind.bit_width == 64
        values = _bits(array, pa.int64() if wide else pa.int32())
        return hash_long(values, seeds) if wide else hash_int(values, seeds)
    if pa.types.is_date(kind):
        return hash_int(_bits(array.cast(pa.date32()).cast(pa.int32()), pa.int32()), seeds)
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        unit = pa.timestamp("us", kind.tz) if pa.types.is_timestamp(kind) else pa.duration("us")
        return hash_long(_bits(array.cast(unit).cast(pa.int64()), pa.int64()), seeds)
    if pa.types.is_floating(kind):
        return _hash_floats(array, seeds)
    if pa.types.is_decimal(kind):
        return _hash_decimals(array, seeds)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _hash_bytes(array, seeds)
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return _hash_bytes(array, seeds)
    if pa.types.is_struct(kind):
        found = seeds
        for child in array.flatten():
            found = hash_array(child, found)
        return found
    if pa.types.is_map(kind):
        entries = pa.StructArray.from_arrays([array.keys, array.items], names=["key", "value"])
        return _hash_lists(array.offsets, entries, array.is_null(), seeds)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _hash_lists(array.offsets, array.values, array.is_null(), seeds)
    raise TypeError(f"no hash for {kind}")


def _bits(array: pa.Array, kind: pa.DataType) -> Hashes:
    """Numbers as unsigned 64 bits; those of 32 bits keep only their own."""
    values = pc.fill_null(array.cast(kind), 0).to_numpy(zero_copy_only=False)
    found: Hashes = values.astype(np.int64).view(np.uint64)
    return found if kind.bit_width == 64 else found & np.uint64(0xFFFFFFFF)


def _hash_floats(array: pa.Array, seeds: Hashes) -> Hashes:
    """-0.0 is 0.0, and there is one NaN."""
    values: Any = pc.fill_null(array, 0.0).to_numpy(zero_copy_only=False)
    values = np.where(values == 0, values.dtype.type(0), values)
    values = np.where(np.isnan(values), values.dtype.type(np.nan), values)
    if array.type.bit_width == 32:
        return hash_int(values.astype(np.float32).view(np.uint32).astype(np.uint64), seeds)
    return hash_long(values.astype(np.float64).view(np.uint64), seeds)


def _hash_decimals(array: pa.Array, seeds: Hashes) -> Hashes:
    if array.type.precision <= _LONG_DECIMAL:
        lower = np.frombuffer(array.buffers()[1], np.uint64)
        start = 2 * array.offset
        return hash_long(lower[start : start + 2 * len(array) : 2].copy(), seeds)
    scale = array.type.scale
    texts = [None if one is None else _two_complement(int(one.scaleb(scale))) for one in array.to_pylist()]
    return _hash_bytes(pa.array(texts, pa.binary()), seeds)


def _two_complement(value: int) -> bytes:
    """As Java's BigInteger has it: as few bytes as will do, the highest first."""
    bits = (value if value >= 0 else ~value).bit_length()
    return value.to_bytes(bits // 8 + 1, "big", signed=True)


def _hash_lists(offsets: pa.Array, values: pa.Array, nulls: pa.Array, seeds: Hashes) -> Hashes:
    """Element by element: the first of all lists, the second of all that have one, …"""
    at: Any = offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    lengths = np.where(nulls.to_numpy(zero_copy_only=False), 0, np.diff(at))
    found = seeds.copy()
    for number in range(int(lengths.max(initial=0))):
        having = np.flatnonzero(lengths > number)
        found[having] = hash_array(values.take(pa.array(at[having] + number)), found[having])
    return found


def _hash_bytes(array: pa.Array, seeds: Hashes) -> Hashes:
    """Texts as UTF-8: four words at a time, then one, half a word, and byte by byte."""
    _, offsets_buffer, data = array.buffers()
    is_large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    offsets: Any = np.frombuffer(offsets_buffer, np.int64 if is_large else np.int32)
    offsets = offsets[array.offset : array.offset + len(array) + 1].astype(np.int64)
    at, lengths = offsets[:-1] - offsets[0], np.diff(offsets)
    held = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]] if data is not None else np.zeros(0, np.uint8)
    padded = np.concatenate([held, np.zeros(8, np.uint8)])
    words: Any = np.ndarray((len(held) + 1,), "<u8", padded, strides=(1,))
    halves: Any = np.ndarray((len(held) + 1,), "<u4", padded, strides=(1,))
    if len(array) and len(held) == len(array) * lengths[0] and (lengths == lengths[0]).all():
        return _hash_alike(held.reshape(len(array), lengths[0]), seeds)
    found = seeds + _P5
    long = np.flatnonzero(lengths >= 32)
    left = lengths.copy()
    if len(long):
        found[long] = _hash_stripes(words, at[long], lengths[long], seeds[long])
        at = at.copy()
        at[long] += lengths[long] // 32 * 32
        left[long] %= 32
    found += lengths.astype(np.uint64)
    at, left = at.copy(), left
    for _ in range(3):
        rows = np.flatnonzero(left >= 8)
        if not len(rows):
            break
        found[rows] ^= _rotated(words[at[rows]] * _P2, 31) * _P1
        found[rows] = _rotated(found[rows], 27) * _P1 + _P4
        at[rows] += 8
        left[rows] -= 8
    rows = np.flatnonzero(left >= 4)
    if len(rows):
        found[rows] ^= halves[at[rows]].astype(np.uint64) * _P1
        found[rows] = _rotated(found[rows], 23) * _P2 + _P3
        at[rows] += 4
        left[rows] -= 4
    for _ in range(3):
        rows = np.flatnonzero(left > 0)
        if not len(rows):
            break
        found[rows] ^= padded[at[rows]].astype(np.uint64) * _P5
        found[rows] = _rotated(found[rows], 11) * _P1
        at[rows] += 1
        left[rows] -= 1
    return _mixed(found)


def _hash_alike(texts: Any, seeds: Hashes) -> Hashes:
    """Texts of one length, such as ids: a column of words at a time."""
    length = texts.shape[1]

    def word(at: int) -> Any:
        return np.ascontiguousarray(texts[:, at : at + 8]).view("<u8").ravel()

    at, found = 0, seeds + _P5
    if length >= 32:
        sums = [seeds + _P1 + _P2, seeds + _P2, seeds.copy(), seeds - _P1]
        for at in range(0, length - 31, 32):
            for lane in range(4):
                sums[lane] = _rotated(sums[lane] + word(at + 8 * lane) * _P2, 31) * _P1
        at = length // 32 * 32
        found = _joined(sums)
    found = found + np.uint64(length)
    while at + 8 <= length:
        found ^= _rotated(word(at) * _P2, 31) * _P1
        found = _rotated(found, 27) * _P1 + _P4
        at += 8
    if at + 4 <= length:
        half = np.ascontiguousarray(texts[:, at : at + 4]).view("<u4").ravel().astype(np.uint64)
        found ^= half * _P1
        found = _rotated(found, 23) * _P2 + _P3
        at += 4
    while at < length:
        found ^= texts[:, at].astype(np.uint64) * _P5
        found = _rotated(found, 11) * _P1
        at += 1
    return _mixed(found)


def _joined(sums: list[Hashes]) -> Hashes:
    """The four lanes as one."""
    found = sum((_rotated(one, turn) for one, turn in zip(sums, (1, 7, 12, 18), strict=True)), np.uint64(0))
    for one in sums:
        found = (found ^ (_rotated(one * _P2, 31) * _P1)) * _P1 + _P4
    return np.asarray(found, np.uint64)


def _hash_stripes(words: Any, at: Any, lengths: Any, seeds: Hashes) -> Hashes:
    """What texts of 32 bytes and more begin with."""
    sums = [seeds + _P1 + _P2, seeds + _P2, seeds.copy(), seeds - _P1]
    stripes = lengths // 32
    for number in range(int(stripes.max())):
        rows = np.flatnonzero(stripes > number)
        for lane, one in enumerate(sums):
            word = words[at[rows] + 32 * number + 8 * lane]
            one[rows] = _rotated(one[rows] + word * _P2, 31) * _P1
    return _joined(sums)


def _rotated(values: Hashes, bits: int) -> Hashes:
    return (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))


def _mixed(values: Hashes) -> Hashes:
    values = (values ^ (values >> np.uint64(33))) * _P2
    values = (values ^ (values >> np.uint64(29))) * _P3
    return values ^ (values >> np.uint64(32))
