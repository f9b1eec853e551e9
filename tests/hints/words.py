"""What a hint names is there: its commands and options parse, its keys and their values are the project file's, its
statements can be parsed, its variables are read, its extras and pages exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import sqlglot
import typer.main
import yaml
from sqlglot.errors import SqlglotError
from typer.core import TyperCommand

from headwater.cli.app import app
from headwater.core.errors import HeadwaterError
from headwater.project.columns import declared_columns
from headwater.project.schema import project_schema
from headwater.query.settings import PREFIX, SqlSettings
from headwater.sql.parse import parse_statement
from tests.hints.printed import SOURCE

REPOSITORY = Path(__file__).parents[2]
KEYWORDS = "SELECT INSERT UPDATE DELETE CREATE DROP ALTER GRANT EXPLAIN EXPORT REFRESH"
"""What a statement begins with."""
OURS = re.compile(r"(?:DROP|REFRESH|CREATE|EXPLAIN) MATERIALIZED VIEW|EXPLAIN EXPORT|EXPORT")
PLACEHOLDER = "x1"
_QUOTED = re.compile(r"`([^`]+)`")
_COMMAND = re.compile(r"\bheadwater (?=[a-z])")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b|\bTMPDIR\b")
_SNAKE = re.compile(r"(?<![\w.${}-])_?[a-z][a-z0-9]*(?:\.?_[a-z0-9]+)+\b")
_DOTTED = re.compile(r"(?<![\w./{}'\"])[a-z_]+(?:\.[a-z_]+)+(?![\w(}])")
_EXTRA = re.compile(r"pip install '?headwater\[([a-z-]+)\]")
_PAGE = re.compile(r"\bdocs/[\w/-]+\.md")

COLUMNS = {"event_date", "event_timestamp", "event_type", "order_id", "is_current", "_position", "_rescued"}
OTHERS = {
    *("row_number", "output_mode"),  # of Spark
    *("pg_replication_slots", "slot_name", "pg_drop_replication_slot", "max_replication_slots", "wal_level"),
    *("rds_replication", "target_session_attrs", "sslmode", "sslrootcert", "sslcert", "sslkey"),
}
"""Names of functions, parameters and roles of others, and columns: words with an underscore that are no keys."""
DOTTED = {
    *("lake.copies.orders", "catalog.namespace.table", "catalog.database.table", "public.events", "rows.parquet"),
    *("pandas.dataframe", "pyarrow.recordbatch", "headwater.event", "file.format", "topics.x", "tables.x", "views.x"),
    *("spark.conf", "spark.driver.memory", "headwater.yml"),
}
"""Examples of names, and names of others."""
VARIABLES = {"TMPDIR", "SYSTEM_TIME"}
"""Variables that Python itself reads, and words of SQL."""


def mistakes(text: str) -> Iterator[str]:
    """What a hint names and is not there."""
    text = text.replace("{}", PLACEHOLDER)
    yield from _in_commands(text)
    quoted = _QUOTED.findall(text)
    for words in quoted:
        yield from _in_quotes(words)
    plain = _QUOTED.sub(" ", text)
    for sentence in re.split(r"[;:] | \(", plain):
        if re.match(rf"(?:{KEYWORDS.replace(' ', '|')}) ", sentence):
            yield from _in_statement(sentence)
    for option in _OPTION.findall(plain):
        if option not in options():
            yield f"there is no option {option}"
    for name in _VARIABLE.findall(text):
        if name not in VARIABLES and not any(f'"{name}"' in module for module in _source()):
            yield f"nothing reads the variable {name}"
    known = {*keys(), *COLUMNS, *OTHERS}.union(*keys().values())
    for name in _SNAKE.findall(plain):
        if name not in known:
            yield f"there is nothing that is called {name}"
    for name in _DOTTED.findall(plain):
        if name not in DOTTED and not is_path(name.split(".")) and not name.startswith(PREFIX):
            yield f"there is no key {name}"
    for setting, value in re.findall(rf"({re.escape(PREFIX)}[a-z]+)=(\w+)", text):
        try:
            SqlSettings().set(setting, value)
        except HeadwaterError as error:
            yield error.problem.message
    for extra in _EXTRA.findall(text):
        if extra != PLACEHOLDER and extra not in extras():
            yield f"there is no extra {extra}"
    for page in _PAGE.findall(text):
        if not (REPOSITORY / page).exists():
            yield f"there is no page {page}"


def _in_commands(text: str) -> Iterator[str]:
    """Commands stand in back-quotes, or behind a colon up to the end of a sentence."""
    for at in _COMMAND.finditer(text):
        inside = text[: at.start()].count("`") % 2 == 1
        begins = at.start() == 0 or inside or text[: at.start()].endswith(": ")
        if not begins:
            yield f"a command goes in back-quotes: {text[at.start() :]}"
            continue
        end = text.find("`", at.end()) if inside else min((text + ";").find(";"), len(text))
        yield from _in_command(text[at.end() : end])


def _in_command(line: str) -> Iterator[str]:
    try:
        words = shlex.split(line.replace("…", PLACEHOLDER))
    except ValueError as error:
        yield f"headwater {line} is no command line: {error}"
        return
    command: Any = typer.main.get_command(app)
    path = "headwater"
    while hasattr(command, "commands"):
        name = words.pop(0) if words else ""
        if name not in command.commands:
            yield f"there is no command {path} {name}"
            return
        command, path = command.commands[name], f"{path} {name}"
    yield from _in_arguments(command, path, words)


def _in_arguments(command: TyperCommand, path: str, words: list[str]) -> Iterator[str]:
    options = {name: one for one in command.params if one.param_type_name == "option" for name in one.opts}
    given = 0
    while words:
        word, _, value = words.pop(0).partition("=")
        if not word.startswith("-"):
            given += 1
        elif word not in options:
            yield f"{path} has no option {word}"
        elif not getattr(options[word], "is_flag", False) and not value:
            if not words:
                yield f"{path} {word} lacks a value"
                return
            words.pop(0)
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    least, most = sum(one.required for one in arguments), sum(99 if one.nargs < 0 else 1 for one in arguments)
    if not least <= given <= most:
        yield f"{path} takes {' '.join(one.name or '' for one in arguments) or 'nothing'}; given: {given}"


def _in_quotes(words: str) -> Iterator[str]:
    """A command, a statement, a key, a key with its value, or one of a key's values."""
    first = words.partition(" ")[0]
    if words.startswith(("headwater ", "-", "@", "\\")):
        return  # a command is looked at as such, and so is an option
    if first in KEYWORDS.split():
        yield from _in_statement(words)
    elif re.fullmatch(r"[a-z_]+=\w+", words):  # of a function or decorator
        if not any(re.search(rf"\b{words.split('=')[0]}\b", module) for module in _source()):
            yield f"there is no parameter {words}"
    elif re.fullmatch(r"[\w.]+", words):
        known = words in keys() or is_path(words.split(".")) or any(words in values for values in keys().values())
        if not known and words not in ("_", PLACEHOLDER) and words not in COLUMNS | OTHERS | {"transform"}:
            yield f"there is no key or choice {words}"
    elif ":" in words:
        yield from _in_yaml(yaml.safe_load(words))
    elif re.fullmatch(r"\w+ \w+(?:, \w+ \w+)+", words):  # the columns of a table
        declared_columns(words)
    elif first in typer.main.get_command(app).commands:  # type: ignore[attr-defined]
        yield f"a command begins with headwater: {words}"
    else:
        yield f"what is `{words}`?"


def _in_yaml(found: dict[str, Any], *above: str) -> Iterator[str]:
    for key, value in found.items() if isinstance(found, dict) else ():
        path = [*above, *key.split(".")]
        places = list(_found(path))
        choices = {word for place in places for word in _choices(place)}
        if not places and key not in DOTTED and PLACEHOLDER not in path:
            yield f"there is no key {'.'.join(path)}"
        elif isinstance(value, dict):
            yield from _in_yaml(value, *path)
        elif isinstance(value, str) and choices and value not in choices:
            yield f"{'.'.join(path)} can't be {value}"


def _in_statement(words: str) -> Iterator[str]:
    words = words.rstrip(";.").replace("'…'", "'x'")
    words = words.rstrip(";)") if words.count(")") > words.count("(") else words
    if words == "INSERT INTO x (a, b) …":
        words = words.replace("…", "VALUES (1, 2)")
    if words == "EXPLAIN EXPORT … says what it would do":
        words = "EXPLAIN EXPORT topic('x') TO DELTA './x'"
    if words == "DROP MATERIALIZED VIEW":
        words += " x"
    if words.startswith("ALTER SYSTEM"):  # sqlglot has no such statement
        words = words.replace("ALTER SYSTEM SET", "SET").split(", ")[0]
    try:
        if OURS.match(words) or "table('" in words:
            parse_statement(words)
        else:
            sqlglot.parse_one(words, dialect="postgres")
    except (SqlglotError, HeadwaterError) as error:
        yield f"can't be parsed: {words}: {error}"


@cache
def keys() -> dict[str, frozenset[str]]:
    """Every key of a project file, with the words that it may be set to (none: anything)."""
    found: dict[str, set[str]] = {}
    for model in [_schema(), *_schema()["$defs"].values()]:
        for key, told in model.get("properties", {}).items():
            found.setdefault(key, set()).update(_choices(told))
    return {key: frozenset(values) for key, values in found.items()}


@cache
def options() -> frozenset[str]:
    def below(command: Any) -> Iterator[str]:
        for one in command.params:
            yield from one.opts
        for one in getattr(command, "commands", {}).values():
            yield from below(one)

    return frozenset(below(typer.main.get_command(app)))


@cache
def extras() -> frozenset[str]:
    return frozenset(metadata("headwater").get_all("Provides-Extra") or ())


def is_path(parts: list[str]) -> bool:
    """Whether keys stand one below the other somewhere in a project file."""
    return any(True for _ in _found(parts))


def _found(parts: list[str]) -> Iterator[Any]:
    """What may stand at a path of keys, wherever it begins."""
    for model in [_schema(), *_schema()["$defs"].values()]:
        yield from _below(model, parts)


def _below(told: Any, parts: list[str]) -> Iterator[Any]:
    if not parts:
        yield told
    elif isinstance(told, list):
        for one in told:
            yield from _below(one, parts)
    elif isinstance(told, dict) and "$ref" in told:
        yield from _below(_schema()["$defs"][told["$ref"].rsplit("/", 1)[1]], parts)
    elif isinstance(told, dict) and parts[0] in told.get("properties", {}):
        yield from _below(told["properties"][parts[0]], parts[1:])
    elif isinstance(told, dict):
        for key in ("anyOf", "oneOf", "additionalProperties"):
            yield from _below(told.get(key), parts)


def _choices(told: Any) -> Iterator[str]:
    if isinstance(told, list):
        for one in told:
            yield from _choices(one)
    elif isinstance(told, dict):
        yield from (str(one) for one in told.get("enum", ()))
        yield from [str(told["const"])] if "const" in told else []
        for key in ("anyOf", "items", "oneOf"):
            yield from _choices(told.get(key))


@cache
def _schema() -> dict[str, Any]:
    return project_schema()


@cache
def _source() -> tuple[str, ...]:
    return tuple(file.read_text(encoding="utf-8") for file in SOURCE.rglob("*.py"))
