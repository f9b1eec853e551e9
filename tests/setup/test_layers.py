"""Walls between modules: imports never go in a circle, and native readers bring no Spark into the process."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import grimp

import headwater
from headwater.formats.registry import FORMATS
from headwater.sources.registry import SOURCES

PACKAGE = Path(headwater.__file__).parent


def test_imports_inside_of_functions_hide_no_cycle() -> None:
    graph = grimp.build_graph("headwater", exclude_type_checking_imports=True)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(imports) > 400
    TopologicalSorter(imports).prepare()  # a CycleError names the modules of the cycle


def test_what_is_particular_to_a_format_or_source_is_in_its_package() -> None:
    """Elsewhere nothing asks for one by its name: what differs is data of `Format` or `SourceSpec`."""
    names = {*FORMATS.names(), *SOURCES.names()}
    asked = [
        f"{path.relative_to(PACKAGE)}:{compared.lineno}"
        for path in PACKAGE.rglob("*.py")
        if path.relative_to(PACKAGE).parts[0] not in ("formats", "sources")
        for compared in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(compared, ast.Compare) and _asks_for(compared, names)
    ]
    assert asked == []


def _asks_for(compared: ast.Compare, names: set[str]) -> bool:
    parts = list(ast.walk(compared))
    constants = {part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)}
    whose = {part.attr for part in parts if isinstance(part, ast.Attribute)}
    return bool(constants & names and whose & {"name", "type", "format"})


def test_no_format_is_named_outside_of_its_package() -> None:
    """Not in a comparison, and not in a table of what to do for which format: the registry says which is whose."""
    names = {*FORMATS.names()} - {"parquet"}  # which is a type of files too
    meant = {"core/spec/settings.py"}  # the format of who names none
    named = [
        f"{path.relative_to(PACKAGE)}:{node.lineno} {node.value}"
        for path in PACKAGE.rglob("*.py")
        if path.relative_to(PACKAGE).parts[0] != "formats" and path.relative_to(PACKAGE).as_posix() not in meant
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in names
    ]
    assert named == []


def test_what_pyspark_keeps_to_itself_is_asked_for_in_one_room() -> None:
    """`spark/` gives its Java objects to the others: a new release of Spark is a change of that room."""
    asked = [
        f"{path.relative_to(PACKAGE)}:{node.lineno} {name}"
        for path in PACKAGE.rglob("*.py")
        if path.relative_to(PACKAGE).parts[0] != "spark"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (name := _kept_by_pyspark(node)) is not None
    ]
    assert asked == []


_OBJECTS = re.compile(r"_j(vm|df|spark|sc|c|rdd|reader|write|writer|sq|sqm|map|cols|context|conf)\w*|_sc|_gateway")
_MODULES = ("pyspark.java_gateway", "pyspark.serializers", "pyspark.sql.pandas.types", "pyspark.sql.pandas.utils")
_MODULES += ("pyspark.sql.utils", "pyspark.daemon", "pyspark.worker")


def _kept_by_pyspark(node: ast.AST) -> str | None:
    """A Java object behind an object of PySpark, or a module that it does not document."""
    if isinstance(node, ast.Attribute) and _OBJECTS.fullmatch(node.attr):
        return node.attr
    if isinstance(node, ast.ImportFrom) and node.module in _MODULES:
        return node.module
    return None


def test_names_and_texts_are_quoted_in_one_place() -> None:
    """`core/quotes.py` for SQL. Other languages have rules of their own."""
    others = {"project/load/forms.py", "sources/kafka/settings.py"}  # YAML; JAAS
    quoted = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in PACKAGE.rglob("*.py")
        if path.relative_to(PACKAGE).as_posix() not in {"core/quotes.py", *others}
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "replace"
        if [getattr(one, "value", None) for one in node.args] in [[q, e] for q in "`'\"" for e in (q + q, "\\" + q)]
    ]
    assert quoted == []


def test_no_native_reader_loads_pyspark() -> None:
    natives = sorted(path.parent.name for path in (PACKAGE / "formats").glob("*/native.py"))
    assert natives
    program = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(f'headwater.formats.{name}.native')\n"
        "    assert 'pyspark' not in sys.modules, name\n"
    )
    done = subprocess.run([sys.executable, "-c", program, *natives], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
