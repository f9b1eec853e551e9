"""The archive of Spark's classes: written once, used by each JVM, and never in the way."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pyspark
import pytest

from headwater.core.spec import SparkSpec
from headwater.spark import class_archive
from headwater.spark.class_archive import SWITCH, archive_options, write, write_later
from headwater.spark.java import find_java
from headwater.spark.java_options import LARGEST, QUICK, SMALLEST, heap, memory, quick_options
from headwater.spark.session import SessionNeeds, close_session, open_session, settings


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache without an archive, where archives are used and written."""
    monkeypatch.setenv("HEADWATER_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(SWITCH, raising=False)
    return tmp_path / "cache" / "classes"


@pytest.mark.full
@pytest.mark.spark
def test_an_archive_is_written_once_and_java_takes_it(cache: Path) -> None:
    assert archive_options(find_java()) == []
    archive = write()
    assert archive is not None and list(cache.glob("*.jsa")) == [archive]
    written = archive.stat().st_mtime_ns
    options = archive_options(find_java())
    assert options[0] == f"-XX:SharedArchiveFile={archive}"
    assert write() == archive and archive.stat().st_mtime_ns >= written
    home = Path(pyspark.__file__).parent
    # With -Xshare:on Java refuses to start where an archive does not fit.
    command = [find_java().home / "bin" / "java", "-Xshare:on", *options, "-cp", f"{home}/conf/:{home}/jars/*:/a.jar"]
    shown = subprocess.run([*map(str, command), "-version"], capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stdout + shown.stderr


@pytest.mark.spark
def test_a_broken_archive_is_passed_over(cache: Path, tmp_path: Path) -> None:
    cache.mkdir(parents=True)
    archive = class_archive._archive(find_java())
    archive.write_bytes(class_archive.MAGIC + b"cut off")
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None:
        pytest.skip("this process has a Spark: `pytest tests/setup/test_class_archive.py` has none")
    spark = open_session("broken", [SessionNeeds()], SparkSpec(master="local[1]"), home=tmp_path)
    try:
        assert spark.range(3).count() == 3
    finally:
        close_session(spark)


def test_nobody_writes_beside_another(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.mkdir(parents=True)
    with class_archive._alone(cache) as alone:
        assert alone
        assert write() is None
    monkeypatch.setattr(class_archive, "NEEDED", 1 << 62)
    assert write() is None and not list(cache.glob("*.jsa"))
    monkeypatch.setenv(SWITCH, "off")
    write_later()
    class_archive._archive(find_java()).touch()
    assert archive_options(find_java()) == []


def test_those_that_were_used_last_are_kept(cache: Path) -> None:
    import os

    cache.mkdir(parents=True)
    for age, name in enumerate("abcde"):
        (cache / f"{name}.jsa").touch()
        os.utime(cache / f"{name}.jsa", (1000 - age, 1000 - age))
    class_archive._prune(cache)
    assert sorted(path.stem for path in cache.glob("*.jsa")) == ["a", "b"]


def test_a_command_has_a_quick_java_and_the_user_has_the_last_word() -> None:
    assert quick_options("", quick=False) == []
    assert quick_options("-Dx=1", quick=True) == list(QUICK)
    assert quick_options("-Dx=1 -XX:+UseG1GC", quick=True) == ["-XX:TieredStopAtLevel=1"]
    conf = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=4"}
    found = settings("x", SessionNeeds(), SparkSpec(conf=conf), [], Path("/home"))["spark.driver.extraJavaOptions"]
    assert found.index("StopAtLevel=1") < found.index("StopAtLevel=4")
    lasting = settings("x", SessionNeeds(), SparkSpec(), [], Path("/home"), quick=False)
    assert "Tiered" not in lasting["spark.driver.extraJavaOptions"]
    remote = settings("x", SessionNeeds(), SparkSpec(master="yarn"), [], Path("/home"))
    assert "-XX" not in remote["spark.driver.extraJavaOptions"]


def test_the_heap_fits_the_machine_or_its_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from headwater.spark import java_options

    assert SMALLEST >> 20 <= int(heap().removesuffix("m")) <= LARGEST >> 20
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(java_options, "CGROUPS", (str(tmp_path / "none"), str(limit)))
    limit.write_text("max\n", encoding="ascii")
    machine = memory()
    limit.write_text(f"{6 << 30}\n", encoding="ascii")
    assert memory() == min(machine, 6 << 30)
    assert heap() == f"{min(memory() // 4, LARGEST) >> 20}m"
    limit.write_text(f"{1 << 30}\n", encoding="ascii")
    assert heap() == "1024m"
