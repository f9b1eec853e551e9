"""Java classes of ours, where a library wants one: compiled when a session starts, by the compiler in Spark's jars."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.core.private_files import make_private

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def add_classes(spark: SparkSession, sources: Iterable[Path], home: Path) -> None:
    """Make the classes of these source files known to a Spark and to its executors."""
    jvm: Any = spark._jvm
    for source in sources:
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        text = source.read_text(encoding="utf-8")
        jar = home / "java" / f"{source.stem}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.jar"
        if loader.getResource(f"headwater/{source.stem}.class") is not None:
            continue  # an earlier session of this Spark has added it
        if not jar.exists():
            _compile(jvm, loader, text, jar)
        loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())
        if not str(spark.sparkContext.master).startswith("local"):
            spark.sparkContext._jsc.addJar(str(jar))


def _compile(jvm: Any, loader: Any, text: str, jar: Path) -> None:
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(loader)
    compiler.cook(text)
    make_private(jar.parent)
    part = jar.with_suffix(".part")
    codes = compiler.getBytecodes()
    with zipfile.ZipFile(part, "w") as output:
        for name in codes.keySet().toArray():
            output.writestr(f"{name.replace('.', '/')}.class", bytes(codes.get(name)))
    part.replace(jar)
