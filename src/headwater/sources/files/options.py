"""Which options of Spark's readers the files source takes: each has an effect here, and all others are refused."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping

from headwater.core.errors import did_you_mean

UTF8 = "utf-8"

_TIMES = ("dateFormat", "timestampFormat", "timestampNTZFormat", "timeZone", "locale")
_JSON_STYLE = (
    "allowComments",
    "allowSingleQuotes",
    "allowUnquotedFieldNames",
    "allowNumericLeadingZeros",
    "allowNonNumericNumbers",
    "allowBackslashEscapingAnyCharacter",
    "allowUnquotedControlChars",
)
_FLAGS: Mapping[str, tuple[str, ...]] = {
    "json": (
        "multiLine",
        *_JSON_STYLE,
        "primitivesAsString",
        "prefersDecimal",
        "inferTimestamp",
        "enableDateTimeParsingFallback",
    ),
    "csv": (
        "header",
        "multiLine",
        "inferSchema",
        "ignoreLeadingWhiteSpace",
        "ignoreTrailingWhiteSpace",
        "enableDateTimeParsingFallback",
    ),
    "text": ("wholetext",),
    "avro": ("positionalFieldMatching", "enableStableIdentifiersForUnionType"),
}
_NUMBERS: Mapping[str, tuple[str, ...]] = {
    "csv": ("maxColumns", "maxCharsPerColumn"),
}
_SEPARATED = ("lineSep", "encoding", "charset")
_TEXTS: Mapping[str, tuple[str, ...]] = {
    "json": (*_TIMES, *_SEPARATED),
    "csv": (
        "sep",
        "delimiter",
        "quote",
        "escape",
        "charToEscapeQuoteEscaping",
        "unescapedQuoteHandling",
        "comment",
        "nullValue",
        "emptyValue",
        "nanValue",
        "positiveInf",
        "negativeInf",
        *_TIMES,
        *_SEPARATED,
    ),
    "text": _SEPARATED,
    "parquet": ("datetimeRebaseMode", "int96RebaseMode"),
    "avro": ("avroSchema", "avroSchemaUrl", "datetimeRebaseMode"),
}
_REASONS: Mapping[str, str] = {
    "mode": "what can't be read becomes a dead letter",
    "columnNameOfCorruptRecord": "what can't be read becomes a dead letter",
    "badRecordsPath": "what can't be read becomes a dead letter",
    "ignoreCorruptFiles": "a file that can't be read becomes a dead letter",
    "ignoreMissingFiles": "say `on_missing: skip`",
    "pathGlobFilter": "say `pattern`",
    "ignoreExtension": "say `pattern`",
    "recursiveFileLookup": "say `recursive`",
    "samplingRatio": "every record that brings something new is looked at",
    "dropFieldIfAllNull": "a field becomes a column with its first value",
    "mergeSchema": "files of several schemas are read together anyway",
    "enforceSchema": "the header of each file names its columns",
    "preferDate": "say the types of columns in `schema_hints`",
    "compression": "the ending of a file's name tells how it is compressed",
}
_SPLITTING = ("multiLine", "wholetext", "header", "comment", "inferSchema", *_SEPARATED)
"""What is done before a record is decoded."""

_ONE_CHARACTER = ("quote", "escape", "charToEscapeQuoteEscaping", "comment")
_PATTERN_LETTERS = frozenset("GyMLdDQqEahHkKmsSVzOXxZF")


def spelled(file_format: str, options: Mapping[str, str]) -> dict[str, str]:
    """The options as Spark spells them: it takes them in any case."""
    names = {name.lower(): name for name in taken_by(file_format)}
    found = {names.get(key.lower(), key): value for key, value in options.items()}
    for short, long in (("sep", "delimiter"), ("encoding", "charset")):
        if long in found:
            found[short] = found.pop(long)
    return found


def decoding(file_format: str, options: Mapping[str, str]) -> dict[str, str]:
    """Those that say how a record is decoded, or how Spark reads a file that has types."""
    return {name: value for name, value in spelled(file_format, options).items() if name not in _SPLITTING}


def refusals(file_format: str, options: Mapping[str, str]) -> Iterator[str]:
    """What is wrong with the options of a source, in a sentence each."""
    known = taken_by(file_format)
    told = spelled(file_format, options)
    for name, value in told.items():
        if name not in known:
            yield f"options: {_unknown(file_format, name)}"
        elif (why := _cast_failure(file_format, name, value)) is not None:
            yield f"options: `{name}` {why}"
    if "lineSep" in told and (_is_on(told, "multiLine") or _is_on(told, "wholetext")):
        yield "options: `lineSep` has no effect where records do not end with their lines; leave it out"


def taken_by(file_format: str) -> list[str]:
    """The options that a format's files can be read with."""
    return [name for kind in (_FLAGS, _NUMBERS, _TEXTS) for name in kind.get(file_format, ())]


def _unknown(file_format: str, name: str) -> str:
    why = next((why for known, why in _REASONS.items() if known.lower() == name.lower()), None)
    if why is not None:
        return f"`{name}` has no effect on {file_format} files: {why}"
    near = did_you_mean(name, taken_by(file_format))
    return f"{file_format} files have no option `{name}`" + (f"; {near}" if near else "")


def _cast_failure(file_format: str, name: str, value: str) -> str | None:
    if name in _FLAGS.get(file_format, ()):
        if value.lower() not in ("true", "false"):
            return "has to be true or false"
        if name == "inferSchema" and value.lower() == "false":
            return "can't be false: say the types of columns in `schema` or `schema_hints`"
    elif name in _NUMBERS.get(file_format, ()):
        return None if re.fullmatch(r"-?\d+", value) else "has to be a whole number"
    elif name == "encoding":
        return None if _has_codec(value) else f"names no encoding that is known: {value}"
    elif name in _ONE_CHARACTER and len(value) > 1:
        return "has to be one character, or empty"
    elif name in ("sep", "lineSep") and not value:
        return "must not be empty"
    elif name in ("dateFormat", "timestampFormat", "timestampNTZFormat"):
        strange = sorted({char for char in re.sub("'[^']*'", "", value) if char.isalpha()} - _PATTERN_LETTERS)
        if strange:
            return f"is no pattern that Spark knows: {value} has {', '.join(map(repr, strange))}"
    return None


def _has_codec(name: str) -> bool:
    try:
        return codecs.lookup(name)._is_text_encoding
    except LookupError:
        return False


def _is_on(options: Mapping[str, str], name: str) -> bool:
    return options.get(name, "").lower() == "true"
