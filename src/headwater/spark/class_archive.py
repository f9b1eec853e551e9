"""Java's class data sharing: the classes of Spark in a file, which a new JVM maps instead of reading the jars.

The archive holds what Spark itself loads for a few small queries, so that one serves every project. A process of its
own writes it, once for each Spark and Java: `python -m headwater.spark.class_archive`. Java checks that an archive
fits, and goes on without it if it does not.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from headwater.spark.connectors import cache_folder
from headwater.spark.java import JavaRuntime, find_java

SWITCH = "HEADWATER_CLASS_ARCHIVE"
"""`off`: none is written or used; `use`: none is written."""
MAGIC = (0xF00BABA8).to_bytes(4, "little")
"""How a whole archive begins: Java writes its header last."""
KEPT = 3
"""Archives, of some 150 MB each, that are kept: of the Sparks that were used last."""
NEEDED = 2_000_000_000
"""Bytes that have to be free where one is written."""

QUIET = ("-Xlog:cds*=off", "-Xlog:class+path*=off")
"""What does not fit is not worth a line: Java goes on without it."""
SETTINGS = {
    "spark.master": "local[1]",
    "spark.app.name": "headwater class archive",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "1",
    # Generated classes are of no use to another process.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def archive_options(java: JavaRuntime) -> list[str]:
    """The options of a new embedded JVM; called whenever one is started."""
    archive = _archive(java)
    if os.environ.get(SWITCH) == "off" or not archive.exists():
        return []
    with suppress(OSError):
        archive.touch()
    return [f"-XX:SharedArchiveFile={archive}", *QUIET]


def write_later() -> None:
    """Write the archive, if there is none, in a process that nobody waits for; called when a Spark has ended."""
    if os.environ.get(SWITCH) in ("off", "use") or _archive(find_java()).exists():
        return
    with suppress(OSError):
        subprocess.Popen(
            ["nice", sys.executable, "-m", __name__],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def write() -> Path | None:
    """Write the archive, if there is none; None where another process does, or there is no room for it."""
    java = find_java()
    archive = _archive(java)
    if archive.exists():
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    with _alone(archive.parent) as alone:
        if not alone or shutil.disk_usage(archive.parent).free < NEEDED:
            return None
        for left in archive.parent.glob("*.new"):
            left.unlink()
        _prune(archive.parent)
        written = archive.with_suffix(".new")
        _load_classes(java, written)
        with written.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                return None
        os.replace(written, archive)
    return archive


def _archive(java: JavaRuntime) -> Path:
    """Where the archive of this Spark and this Java is, or will be."""
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    digest = hashlib.sha256(f"{java.home} {java.version} {jars} {jars.stat().st_mtime_ns}".encode())
    return cache_folder() / "classes" / f"{digest.hexdigest()[:16]}.jsa"


@contextmanager
def _alone(folder: Path) -> Iterator[bool]:
    """Whether no other process writes an archive; none begins while this lasts."""
    with (folder / "lock").open("wb") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def _prune(folder: Path) -> None:
    """Make room for one more."""
    by_use = sorted(folder.glob("*.jsa"), key=lambda path: path.stat().st_mtime)
    for archive in by_use[: -(KEPT - 1)]:
        archive.unlink()


def _load_classes(java: JavaRuntime, written: Path) -> None:
    """Let a Spark do what every project's does first; its JVM writes the archive when it ends."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    from headwater.spark.java_options import QUICK
    from headwater.spark.jvm import launched
    from headwater.spark.submission import environment

    options = [*QUICK, f'"-XX:ArchiveClassesAtExit={written}"', *QUIET]
    conf = SparkConf(loadDefaults=False).setAll(list(SETTINGS.items()))
    conf.set("spark.driver.extraJavaOptions", " ".join(options))
    with tempfile.TemporaryDirectory(prefix="headwater-classes-") as name:
        folder = Path(name)
        with environment("local[1]", {}, ()), (folder / "out").open("wb") as output:
            gateway = launched(conf, output)
        try:
            SparkContext._ensure_initialized(gateway=gateway, conf=conf)
            spark = SparkSession(SparkContext(conf=conf))
            (folder / "events.json").write_text('{"id": 1, "of": {"kind": "a"}, "at": "2026-01-01T00:00:00Z"}\n')
            events = spark.read.json(str(folder / "events.json"))
            events.selectExpr("id", "of.kind", "cast(at AS timestamp) AS at").write.parquet(str(folder / "rows"))
            spark.read.parquet(str(folder / "rows")).createOrReplaceTempView("rows")
            spark.sql(
                "SELECT kind, count(*) AS n, max(at) AS at FROM rows GROUP BY kind HAVING n > 0 ORDER BY n LIMIT 9"
            ).collect()
            spark.sql(
                "SELECT *, row_number() OVER (PARTITION BY a.kind ORDER BY a.at) AS nth FROM rows a "
                "LEFT JOIN rows b ON a.id = b.id WHERE a.id NOT IN (SELECT id + 1 FROM rows)"
            )._collect_as_arrow()
            spark.stop()
        finally:
            SparkContext._gateway = SparkContext._jvm = None
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait()  # it writes the archive now


if __name__ == "__main__":
    write()
