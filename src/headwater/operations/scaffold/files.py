"""The files of a project that begins with data which are there: what was found in them stands alongside it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from headwater.operations.scaffold.sample import Look, SampleColumn
from headwater.operations.scaffold.texts import as_text, block, flow, literal, quoted, short
from headwater.project.names import slug
from headwater.project.templates import PROJECT_FILE
from headwater.sources.registry import SOURCES

EXAMPLES = 3
"""Values that stand alongside a column's type."""
LONGEST = 30
"""Characters of such a value."""
_MONEY = re.compile(r"amount|price|total|cost|revenue|fee|tax|paid|balance|salary|discount", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:?\d{2})?")
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_IDENTIFIER = re.compile(r"(^|[ _-])(id|key|no|number|nr|code|zip)$", re.IGNORECASE)
_NO_SUM = re.compile(_IDENTIFIER.pattern + "|price|rate|percent|ratio|age$|year|celsius|lat|lon", re.IGNORECASE)
"""Names of numbers that nobody adds up."""
_NUMBERS = re.compile(r"(bigint|int|double|float|decimal\(.*\))")


def project_files(look: Look, folder: Path, address: str) -> dict[str, str]:
    """The project file and its README, by name."""
    columns = [_sharpened(one) for one in look.columns] if _takes_hints(look) else list(look.columns)
    view, sql = _view(look, columns)
    name = slug(folder.resolve().name)
    source = slug(look.source.name)
    lines = [
        f"# Begun by `headwater init --from {short(address, 80)}` with what was found there.",
        "# README.md says what to run.",
        f"name: {name}",
        "warehouse: ./lake",
        "format: delta                   # or iceberg, hudi, paimon, parquet",
        "",
        "sources:",
        f"  {source}:",
        *_indented(4, _source(look, columns, folder)),
        "",
        "topics:",
        f"  {look.topic}:",
        *_indented(4, _topic(look, source, columns)),
    ]
    if look.source.tables:
        lines += ["", "tables:"]
        for table, keys in look.source.tables.items():
            lines += [f"  {slug(table)}:", *_indented(4, (f"{key}: {flow(value)}" for key, value in keys.items()))]
    lines += [
        "",
        "views:",
        f"  {view}:",
        "    description: A view to begin with; it follows every change.",
        *_indented(4, block("sql", sql)),
    ]
    return {PROJECT_FILE: "\n".join(lines) + "\n", "README.md": _readme(look, name, view)}


def variables_to_set(look: Look) -> list[str]:
    """The variables without which the project can't be read: those that stand for secrets."""
    return [name for name in look.source.variables if f"${{{name}}}" in str(look.source.keys)]


# --- the source


def _source(look: Look, columns: Sequence[SampleColumn], folder: Path) -> Iterator[str]:
    keys = dict(look.source.keys)
    here = keys.get("path")
    if isinstance(here, str):
        keys["path"] = literal(_from_folder(here, folder))
    for key, value in keys.items():
        comment = look.source.comments.get(key)
        yield f"{key}: {flow(value)}" + (f"     # {short(comment, 200)}" if comment else "")
    if not columns:
        return
    yield from _described(look)
    if _takes_hints(look):
        yield from block("schema_hints", list(_hints([one for one in columns if one.name])))
    else:
        yield from (f"#   {short(f'{one.name} {one.type}', 200)}" for one in columns)
    times = [one.name for one in columns if one.type in ("timestamp", "date") and one.name != "event_timestamp"]
    if times and look.records and "columns" not in keys:
        first = flow(literal(times[0]))
        yield f"# columns: {{timestamp: {first}}}     # makes it `event_timestamp`, and `event_date` of it"


def _hints(columns: Sequence[SampleColumn]) -> Iterator[str]:
    width = max((len(_hint(one)) for one in columns), default=0) + 1
    for number, one in enumerate(columns, start=1):
        text = _hint(one) + ("," if number < len(columns) else "")
        yield f"{text:<{width}}  -- {_examples(one)}".rstrip()


def _described(look: Look) -> Iterator[str]:
    """How many records say so, and what is wrong with the others."""
    if not look.records:
        yield "# Its columns:"
        return
    if _takes_hints(look):
        yield f"# The types of the first {look.records} records; change what you know better. After the first run"
        yield f"# a changed type needs `headwater flow rebuild {look.topic} --yes`, which reads everything again."
    else:
        yield f"# The types of the first {look.records} records:"
    if look.rejected:
        example = short(look.rejected[0], 60)
        yield f"# {len(look.rejected)} of them can't be ingested, and will be dead letters: {example}"


def _from_folder(path: str, folder: Path) -> str:
    """A path as the project file names it: from its own folder, unless that leads far up."""
    relative = os.path.relpath(path, folder.resolve())
    if relative.count("..") > 2:
        return path
    return relative if relative.startswith(".") else f"./{relative}"


def _takes_hints(look: Look) -> bool:
    """Whether the types of its columns are found in texts."""
    spec = SOURCES.get(str(look.source.keys["type"]))
    return "schema_hints" in spec.model_fields and not look.has_types


def _hint(column: SampleColumn) -> str:
    return f"{quoted(column.name)} {column.type}"


def _examples(column: SampleColumn) -> str:
    shown = list(dict.fromkeys(short(as_text(value), LONGEST) for value in column.values if not _is_nested(value)))
    return ", ".join(shown[:EXAMPLES]) + _mostly_numbers(column)


def _mostly_numbers(column: SampleColumn) -> str:
    """What to say of a column that is text for the sake of a few values."""
    if column.type != "string":
        return ""
    numbers = sum(_NUMBER.fullmatch(value) is not None for value in column.values)
    if not len(column.values) > numbers >= max(1, len(column.values) // 2):
        return ""
    return f" ({numbers} of {len(column.values)} are numbers; as `decimal(12,2)` the others would be dead letters)"


def _sharpened(column: SampleColumn) -> SampleColumn:
    """A column with a type that says more than a text does: sums of money, and times that stand in texts."""
    values = column.values
    if column.type == "double" and _MONEY.search(column.name) and all(_is_money(value) for value in values):
        return replace(column, type="decimal(12,2)")
    if column.type == "string" and values:
        if all(_DATE.fullmatch(value) for value in values):
            return replace(column, type="date")
        if all(_TIME.fullmatch(value) for value in values):
            return replace(column, type="timestamp")
    return column


def _is_money(value: float) -> bool:
    return abs(value) < 1e9 and round(value, 2) == value


# --- the topic and the view


def _topic(look: Look, source: str, columns: Sequence[SampleColumn]) -> Iterator[str]:
    yield f"from: {source}"
    for key, value in look.source.topic.items():
        if key != "name":
            yield f"{key}: {flow(value)}"
    named = next((one.name for one in columns if _IDENTIFIER.search(one.name) and _are_unique(one)), None)
    if named is not None and not look.source.tables:
        yield f"# deduplicate_by: {flow(literal(named))}     # a record that comes twice would be there once"
    yield "# retain: {rows: 90d}         # how long rows stay; for ever if unset"


def _are_unique(column: SampleColumn) -> bool:
    return len(column.values) > 1 and len({str(value) for value in column.values}) == len(column.values)


def _view(look: Look, columns: Sequence[SampleColumn]) -> tuple[str, list[str]]:
    """A first view: counts, and a sum if there is something to add up, by what repeats."""
    if look.source.tables:
        table = slug(next(iter(look.source.tables)))
        return f"{table}_counted", [f"SELECT count(*) AS rows_now FROM table('{table}')"]
    plain = [one for one in columns if not one.name.lower().startswith("_") and one.name.lower() != "event_date"]
    words = [one for one in plain if one.type == "string" and _repeats(one)]
    sums = [one for one in plain if _NUMBERS.fullmatch(one.type) and not _NO_SUM.search(one.name)]
    by = min(words, key=lambda one: len(set(one.values)), default=None)
    times = [one for one in plain if one.type in ("timestamp", "date")]
    time = None if any(one.name == "event_timestamp" for one in times) else next(iter(times), None)
    group, shown = "event_date", "event_date"
    if by is not None:
        group = shown = quoted(by.name)
    elif time is not None:  # `event_date` would be the day of the first run
        group = f"CAST({quoted(time.name)} AS DATE)"
        shown = f"{group} AS day"
    chosen = [shown, "count(*) AS records"]
    if sums:
        best = max(sums, key=lambda one: one.type.startswith("decimal"))
        name = best.name if "total" in best.name.lower() else f"total {best.name}"
        chosen.append(f"sum({quoted(best.name)}) AS {slug(name)}")
    name = slug(f"{look.topic} by {'day' if by is None else by.name}")
    return name, [f"SELECT {', '.join(chosen)}", f"FROM topic('{look.topic}')", f"GROUP BY {group}"]


def _repeats(column: SampleColumn) -> bool:
    count = len(set(column.values))
    return 1 < count <= max(2, len(column.values) // 2)


# --- the README


def _readme(look: Look, name: str, view: str) -> str:
    tables = [f"| `table('{slug(table)}')` | its rows as they are now |" for table in look.source.tables]
    relation = f"topic {'tail' if look.source.tables else 'describe'} {look.topic}"
    before = [f"export {variable}=…" for variable in variables_to_set(look)]
    first = ["Before the first run:", "", "```", *before, "```", ""] if before else []
    lines = [
        f"# {name}",
        "",
        "| | |",
        "|---|---|",
        f"| `topic('{look.topic}')` | every record, as it came |",
        *tables,
        f"| `mv('{view}')` | a view to begin with: change its query in `headwater.yml` |",
        "",
        "## Run it",
        "",
        *first,
        "```sh",
        "headwater check",
        *look.source.before,
        "headwater run --once",
        f"headwater query \"SELECT * FROM mv('{view}')\"",
        "```",
        "",
        "`headwater run` without `--once` goes on with what comes.",
        "",
        "## Look at it",
        "",
        "```sh",
        "headwater status",
        f"headwater {relation}",
        f"headwater mv explain {view}",
        "headwater dlq list",
        "headwater plan",
        "```",
        "",
        "A record that does not fit is a dead letter, with its reason; `headwater dlq show ID` has its bytes, and",
        "`headwater dlq replay TOPIC` takes it in once the project file says how.",
    ]
    return "\n".join(lines) + "\n"


# --- texts


def _indented(by: int, lines: Sequence[str] | Iterator[str]) -> list[str]:
    return [" " * by + line for line in lines]


def _is_nested(value: Any) -> bool:
    return isinstance(value, (tuple, list, dict, bytes, bytearray))
