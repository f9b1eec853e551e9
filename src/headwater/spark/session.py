"""The only builder of a SparkSession."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from headwater.core.errors import Code, HeadwaterError, TerminalError, UsageError
from headwater.core.extras import require_python
from headwater.core.private_files import create_private, make_private
from headwater.spark import connectors
from headwater.spark.class_archive import archive_options, write_later
from headwater.spark.errors import innermost
from headwater.spark.java import find_java
from headwater.spark.java_classes import add_classes
from headwater.spark.java_options import heap, quick_options
from headwater.spark.jvm import end, launched, new_context
from headwater.spark.submission import HIDDEN, environment, hidden_properties, submission

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXTENSIONS = "spark.sql.extensions"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
JARS = "spark.jars"
LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")

MEANING = {
    # Instants are UTC and whole microseconds, in the session and in every Parquet file.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Dates before 1582 are what they say: nothing here is written in the hybrid calendar of Spark 2.
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    # A text that a pattern does not fit is no time, whatever Spark 2 made of it.
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    # A name of WITH inside of a query is the one that is meant there.
    "spark.sql.legacy.ctePrecedencePolicy": "CORRECTED",
    # A text of SQL means what it says: Spark would put settings and environment variables in for ${…} in it.
    "spark.sql.variable.substitute": "false",
}

_STOPPING = "10s"
"""How long a streaming query may take to end its batch when Spark is stopped."""

_BETWEEN = "\0"
"""Stands between texts that the JVM tells in one go; none of them holds it."""

opening = threading.RLock()
"""Held while Spark starts or ends."""


@dataclass(frozen=True)
class Extension:
    """A SQL extension; a higher rank is loaded later (Iceberg's must be the last)."""

    name: str
    rank: int = 0


@dataclass(frozen=True)
class SessionNeeds:
    """What a format, source or catalog wants of the session."""

    connectors: tuple[str, ...] = ()
    """Names in the connector lock: 'delta', 'iceberg', 'kafka', …"""
    extensions: tuple[Extension, ...] = ()
    conf: Mapping[str, str] = field(default_factory=dict)
    classes: tuple[Path, ...] = ()
    """Source files of Java classes that settings name."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """System properties that its Java looks up."""


class SparkSettings(Protocol):
    """The project's `spark:` block."""

    @property
    def master(self) -> str: ...
    @property
    def ui(self) -> bool: ...
    @property
    def conf(self) -> Mapping[str, str]: ...


def merge(needs: Iterable[SessionNeeds], chosen: Mapping[str, str]) -> SessionNeeds:
    """All needs as one. Two different values of a setting are an error, unless the user has chosen."""
    names: dict[str, None] = {}
    extensions: dict[str, int] = {}
    conf: dict[str, str] = {}
    classes: dict[Path, None] = {}
    properties: dict[str, str] = {}
    for need in needs:
        properties.update(need.properties)
        names.update(dict.fromkeys(need.connectors))
        classes.update(dict.fromkeys(need.classes))
        for extension in need.extensions:
            extensions[extension.name] = max(extension.rank, extensions.get(extension.name, extension.rank))
        for key, value in need.conf.items():
            if key not in chosen and conf.setdefault(key, value) != value:
                raise UsageError(
                    Code.SESSION_FAILED,
                    f"parts of the project want different values of {key}: '{conf[key]}' and '{value}'",
                    hint=f"set spark.conf '{key}' to the one that is right",
                )
    ranked = sorted(extensions.items(), key=lambda item: item[1])
    return SessionNeeds(tuple(names), tuple(Extension(*item) for item in ranked), conf, tuple(classes), properties)


def open_session(
    name: str,
    needs: Iterable[SessionNeeds],
    spark: SparkSettings,
    *,
    home: Path,
    quick: bool = True,
    progress: connectors.Progress | None = None,
) -> SparkSession:
    """A session with what is needed and nothing else: embedded if the master is local, else on a cluster.

    `quick`: it serves one command. An embedded JVM that lives for long takes its time to compile well instead.

    What the project's `spark.conf` sets wins over everything set here. A process has one Spark: where one
    runs already, the answer is a new session of it, or an error if it lacks what is needed.
    """
    require_python()
    merged = merge(needs, spark.conf)
    jars = connectors.ensure(
        merged.connectors, progress=progress, ivy_settings=spark.conf.get("spark.jars.ivySettings")
    )
    home = home.absolute()
    with opening:
        from pyspark import SparkContext

        if SparkContext._active_spark_context is not None:
            session = _join(merged, spark.conf, jars)
        else:
            session = _start(settings(name, merged, spark, jars, home, quick=quick), spark, jars, home)
        add_classes(session, merged.classes, home)
        return session


def is_running() -> bool:
    """Whether this process has a Spark."""
    if "pyspark" not in sys.modules:
        return False
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None


def end_queries(spark: SparkSession) -> None:
    """Stop the streaming queries that still run, each at the end of its batch if that comes soon."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    with suppress(Py4JError, PySparkException, OSError):
        for query in spark.streams.active:
            query._jsq.sparkSession().conf().set("spark.sql.streaming.stopTimeout", _STOPPING)
            with suppress(Py4JError, PySparkException):
                query.stop()


def close_session(spark: SparkSession) -> None:
    """Stop Spark and end its JVM, so that the next session of this process starts clean."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    with opening:
        try:
            spark.stop()
        except (Py4JError, OSError):  # its process has ended already, and can't be told
            SparkContext._active_spark_context = None
            SparkSession._instantiatedSession = SparkSession._activeSession = None
        _end_gateway()
        write_later()


def fork(spark: SparkSession) -> SparkSession:
    """Another session of the same Spark, with the same settings: what is set in one does not show in the other."""
    child = spark.newSession()
    begun = texts(child._jsparkSession.conf().getAll())
    for key, value in texts(spark._jsparkSession.conf().getAll()).items():
        if begun.get(key) != value:
            child.conf.set(key, value)
    return child


def texts(java_map: Any) -> dict[str, str]:
    """A map of texts in one answer of the JVM, which would be asked for each of them otherwise."""
    joined = java_map.mkString(_BETWEEN)
    return {key: text for key, _, text in (one.partition(" -> ") for one in joined.split(_BETWEEN))} if joined else {}


def activate(spark: SparkSession) -> None:
    """Make a session this thread's own: Spark loads catalogs by the settings of the thread's session."""
    spark._jvm.SparkSession.setActiveSession(spark._jsparkSession)  # type: ignore[union-attr]


def jvm_pid() -> int | None:
    """The process that this process's Spark runs in."""
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    return None if process is None else int(process.pid)


# --- settings


def settings(
    name: str, needs: SessionNeeds, spark: SparkSettings, jars: Iterable[Path], home: Path, *, quick: bool = True
) -> dict[str, str]:
    """Every setting of a new session, the user's on top."""
    local = spark.master.startswith("local")
    conf = {
        "spark.app.name": name,
        "spark.master": spark.master,
        "spark.ui.enabled": str(spark.ui).lower(),
        "spark.ui.showConsoleProgress": "false",
        "spark.scheduler.mode": "FAIR",
        "spark.redaction.regex": HIDDEN,
        **MEANING,
        **(_embedded(spark, home) if local else {}),
        **needs.conf,
        **spark.conf,
    }
    extensions = [extension.name for extension in needs.extensions]
    extensions += [one for one in _listed(spark.conf.get(EXTENSIONS)) if one not in extensions]
    if extensions:
        conf[EXTENSIONS] = ",".join(extensions)
    if not local and (files := [*map(str, jars), *_listed(spark.conf.get(JARS))]):
        conf[JARS] = ",".join(files)
    chosen = spark.conf.get(JAVA_OPTIONS, "")
    machine = [*quick_options(chosen, quick=quick), *archive_options(find_java())] if local else []
    options = (*(f'"{one}"' for one in machine), *_properties(local, home, needs.properties), chosen)
    conf[JAVA_OPTIONS] = " ".join(filter(None, options))
    return conf


def _embedded(spark: SparkSettings, home: Path) -> dict[str, str]:
    """Spark inside this machine, small: as many tasks as cores, a bounded heap, on loopback alone."""
    cores = str(_cores(spark.master))
    return {
        "spark.driver.memory": heap(),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.default.parallelism": cores,
        "spark.sql.shuffle.partitions": cores,
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": cores,
        # More than this of our own rows is no part of a plan: the optimizer would go through it again and again.
        "spark.sql.execution.arrow.localRelationThreshold": "64k",
        # Each flow's steps are a few dozen classes: with room for a hundred, many flows compile theirs again and again.
        "spark.sql.codegen.cache.maxEntries": "400",
        "spark.sql.warehouse.dir": str(home / "spark-warehouse"),
        # A runner lives for months: remember the last jobs, not the last thousand.
        "spark.ui.retainedJobs": "50",
        "spark.ui.retainedStages": "100",
        "spark.ui.retainedTasks": "1000",
        "spark.sql.ui.retainedExecutions": "50",
    }


def _cores(master: str) -> int:
    asked = re.match(r"local\[(\d+)", master)
    if asked:
        return int(asked.group(1))
    if master == "local":
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _properties(local: bool, home: Path, needed: Mapping[str, str]) -> list[str]:
    options: dict[str, object] = {
        **needed,
        "log4j2.configurationFile": LOG_SETTINGS.as_uri(),
        "headwater.spark.log": home / "logs" / "spark.log",
    }
    if local:
        options |= {"user.timezone": "UTC", "file.encoding": "UTF-8", "derby.system.home": home}
    return [f'"-D{key}={value}"' for key, value in options.items()]


def _listed(value: str | None) -> list[str]:
    return [item.strip() for item in (value or "").split(",") if item.strip()]


# --- starting


def _start(wanted: dict[str, str], spark: SparkSettings, jars: list[Path], home: Path) -> SparkSession:
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from headwater.spark.java_names import JavaNames

    _end_gateway()
    conf = SparkConf(loadDefaults=False).setAll(list(wanted.items()))
    said = home / "logs" / "spark.out"
    try:
        make_private(said.parent)
        create_private(said)
        with environment(spark.master, spark.conf, jars), submission(wanted, home), said.open("wb") as output:
            gateway = launched(None, output)
            gateway.jvm = JavaNames(gateway.jvm)
            for key, value in hidden_properties(wanted).items():
                gateway.jvm.java.lang.System.setProperty(key, value)
            SparkContext._ensure_initialized(gateway=gateway, conf=conf)
            session = SparkSession(new_context(conf))
            # Spark reads most settings on first use: a bad one should fail here.
            session._jsparkSession.sessionState()
            return session
    except HeadwaterError:
        raise
    except (Py4JError, PySparkException, OSError, ValueError) as error:
        cause = _cause(error, said)
        if SparkContext._active_spark_context is not None:
            SparkContext._active_spark_context.stop()
        _end_gateway()
        raise TerminalError(Code.SESSION_FAILED, f"Spark did not start: {cause}", hint=f"see {said.parent}") from None


def _cause(error: Exception, said: Path) -> str:
    """The reason in one line: Java's own exception, else the last thing that the JVM said."""
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if java is not None:
        return str(innermost(java).toString()).splitlines()[0]
    if isinstance(error, OSError):
        return str(error)
    lines = [line for line in said.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"error|exception|unrecognized|invalid", line, re.IGNORECASE)]
    return (telling or lines or [str(error)])[0].strip()


def _end_gateway() -> None:
    """End the JVM of a Spark that has been stopped: its class path and settings were the old session's."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    if gateway is None:
        return
    SparkContext._gateway = None
    SparkContext._jvm = None
    end(gateway)


def _join(needs: SessionNeeds, chosen: Mapping[str, str], jars: list[Path]) -> SparkSession:
    """A new session of the Spark that this process runs already."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    session = running.newSession()
    has = dict(running.sparkContext.getConf().getAll())
    class_path = str(running.sparkContext._jvm.System.getProperty("java.class.path"))  # type: ignore[union-attr]
    loaded = has.get(EXTENSIONS, "").split(",")
    lacking = [str(jar) for jar in jars if str(jar) not in class_path and str(jar) not in has.get(JARS, "")]
    lacking += [extension.name for extension in needs.extensions if extension.name not in loaded]
    for key, value in {**MEANING, **needs.conf, **chosen}.items():
        try:
            session.conf.set(key, value)
        except AnalysisException:  # a setting of the whole Spark, fixed when it started
            if key in needs.conf and has.get(key) != value:
                lacking.append(f"{key}={value}")
        if key.startswith("spark.delta.logStore.") and has.get(key) != value:
            lacking.append(f"{key}={value}")  # asked of the whole Spark, whatever a session says
    if lacking:
        raise UsageError(
            Code.SESSION_FAILED,
            f"this process runs a Spark already, and it lacks {', '.join(lacking)}",
            hint="stop it first, or open the lake before it",
        )
    return session
