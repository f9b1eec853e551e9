"""Fetching connectors, from a Maven repository in a folder: Spark's resolver is the real one."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from typer.testing import CliRunner

from headwater.cli.commands.standalone.connectors import app
from headwater.core.errors import Code, HeadwaterError, IntegrityError, UsageError
from headwater.spark import connectors
from headwater.spark.connectors import Connector, Jar, ensure, load_lock
from tests.hints.followed import follows

ONE = b"one" * 100_000
TWO = b"two" * 1000


class Site:
    """A repository, the Ivy settings that lead to it, and a lock of what is in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = self.leading_to((folder / "maven").as_uri() + "/")
        self.jars: list[Jar] = []

    def leading_to(self, root: str) -> str:
        path = self.folder / "ivysettings.xml"
        path.write_text(
            '<ivysettings><settings defaultResolver="site"/><resolvers>'
            f'<ibiblio name="site" m2compatible="true" root="{root}"/></resolvers></ivysettings>'
        )
        return str(path)

    def publish(self, coordinates: str, content: bytes) -> Jar:
        group, artifact, version, *classifier = coordinates.split(":")
        place = self.folder / "maven" / group.replace(".", "/") / artifact / version
        place.mkdir(parents=True, exist_ok=True)
        (place / ("-".join([artifact, version, *classifier]) + ".jar")).write_bytes(content)
        return Jar(coordinates, hashlib.sha256(content).hexdigest(), len(content))

    def fetch(self, *jars: Jar) -> list[Path]:
        lock = {"wanted": Connector("wanted", "for a test", jars)}
        return ensure(["wanted"], lock=lock, ivy_settings=self.settings)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("HEADWATER_CACHE", str(tmp_path / "cache"))
    return Site(tmp_path)


def cached() -> list[str]:
    return sorted(path.name for path in (connectors.cache_folder() / "jars").glob("*.jar"))


@pytest.mark.spark
def test_fetched_once_and_never_used_when_it_is_not_the_locked_file(site: Site) -> None:
    one = site.publish("org.example:one:1.0", ONE)
    two = site.publish("org.example:two:2.0:tests", TWO)
    left = connectors.cache_folder() / "fetch-of-a-process-that-died" / "one-1.0.jar.part"
    left.parent.mkdir(parents=True)
    left.write_bytes(ONE[:1000])
    told: list[tuple[int, int]] = []

    lock = {"both": Connector("both", "", (one, two))}
    paths = ensure(
        ["both"],
        lock=lock,
        ivy_settings=site.settings,
        progress=lambda done, total, _: told.append((done, total)),
    )
    assert [path.read_bytes() for path in paths] == [ONE, TWO]
    assert told[-1] == (one.size + two.size, one.size + two.size)
    assert not left.parent.exists()

    # Nothing to fetch: the repository may be gone, and the files are not even read again.
    site.leading_to("http://127.0.0.1:1/")
    assert site.fetch(one, two) == paths

    # Half a file, and one of the right size that was changed: both are fetched again.
    site.settings = site.leading_to((site.folder / "maven").as_uri() + "/")
    paths[0].write_bytes(ONE[: len(ONE) // 2])
    paths[1].write_bytes(b"bad" * 1000)
    assert [path.read_bytes() for path in site.fetch(one, two)] == [ONE, TWO]


def test_a_changed_file_is_found_by_hashing_even_if_its_times_are_as_before(site: Site) -> None:
    jar = site.publish("org.example:one:1.0", ONE)
    path = connectors.jar_path(jar)
    path.parent.mkdir(parents=True)
    path.write_bytes(ONE)
    assert connectors.is_ready(jar)
    path.write_bytes(b"eno" * 100_000)
    path.with_suffix(".ok").write_text(connectors._identity(path))
    assert not connectors.is_ready(jar, thorough=True)
    assert not path.exists()


@pytest.mark.spark
def test_a_wrong_checksum_is_an_error_and_the_file_is_not_kept(site: Site) -> None:
    good = site.publish("org.example:two:2.0", TWO)
    locked = site.publish("org.example:one:1.0", ONE)
    site.publish("org.example:one:1.0", ONE.replace(b"o", b"0"))
    with pytest.raises(IntegrityError, match="org.example:one:1.0 was fetched with SHA-256") as caught:
        site.fetch(locked, good)
    assert caught.value.code is Code.CONNECTOR_CHECKSUM
    assert locked.sha256 in str(caught.value)
    assert cached() == [good.file_name]
    assert not list(connectors.cache_folder().glob("fetch-*"))


@pytest.mark.spark
def test_no_network_is_an_error_with_its_cause(site: Site) -> None:
    jar = site.publish("org.example:one:1.0", ONE)
    site.leading_to("http://127.0.0.1:1/")
    with pytest.raises(HeadwaterError, match=r"could not fetch org.example:one:1.0: .*Connection refused") as caught:
        site.fetch(jar)
    assert caught.value.code is Code.CONNECTOR_FETCH_FAILED
    assert "HEADWATER_IVY_SETTINGS" in str(caught.value)
    assert cached() == []


@pytest.mark.spark
def test_a_jar_that_the_repository_lacks_is_an_error_that_names_it(site: Site) -> None:
    (site.folder / "maven").mkdir()
    with pytest.raises(HeadwaterError, match="org.example:none:1.0") as caught:
        site.fetch(Jar("org.example:none:1.0", "0" * 64, 1))
    assert caught.value.code is Code.CONNECTOR_FETCH_FAILED


def test_more_than_the_disk_holds_is_refused_before_it_starts(site: Site) -> None:
    with pytest.raises(HeadwaterError, match="the disk is full: .* are needed in .* and .* are free") as caught:
        site.fetch(Jar("org.example:huge:1.0", "0" * 64, 10**18))
    assert caught.value.code is Code.CONNECTOR_FETCH_FAILED


def test_a_cache_that_cannot_be_written_names_the_variable(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(connectors.CACHE, str(tmp_path / "file" / "cache"))
    with pytest.raises(HeadwaterError, match=r"cache of connectors, .*/file/cache, can't be written") as caught:
        site.fetch(Jar("org.example:one:1.0", "0" * 64, 1))
    assert caught.value.code is Code.CONNECTOR_FETCH_FAILED
    assert caught.value.problem.hint == "set HEADWATER_CACHE to a folder of yours"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root can make a small disk")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.spark
@follows("make room there, or set {} to a folder on a larger disk")
def test_a_disk_that_is_too_small_is_said_with_what_helps(
    site: Site, small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = site.publish("org.example:one:1.0", ONE)
    jar = Jar(published.coordinates, published.sha256, 1_000_000)
    monkeypatch.setenv("HEADWATER_CACHE", str(small_disk))
    with pytest.raises(HeadwaterError, match="the disk is full: .* are needed in .* and .* are free") as caught:
        site.fetch(jar)
    assert "Ivy" not in str(caught.value)
    monkeypatch.setenv("HEADWATER_CACHE", str(tmp_path / "larger"))
    site.fetch(jar)
    assert cached()


@pytest.mark.spark
def test_a_disk_that_fills_up_on_the_way_is_an_error_with_its_cause(
    site: Site, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWATER_CACHE", str(small_disk))
    jar = site.publish("org.example:one:1.0", ONE)
    with pytest.raises(HeadwaterError, match="No space left on device|on a disk that is full") as caught:
        site.fetch(Jar(jar.coordinates, jar.sha256, 1000))
    assert caught.value.code is Code.CONNECTOR_FETCH_FAILED
    assert cached() == []


def test_a_cache_that_cannot_be_written_is_an_error(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    (site.folder / "file").write_text("")
    monkeypatch.setenv("HEADWATER_CACHE", str(site.folder / "file" / "cache"))
    with pytest.raises(HeadwaterError, match="Not a directory") as caught:
        site.fetch(Jar("org.example:one:1.0", "0" * 64, 1))
    assert caught.value.code is Code.CONNECTOR_FETCH_FAILED


@pytest.mark.spark
def test_two_processes_may_fetch_at_once(site: Site) -> None:
    jar = site.publish("org.example:one:1.0", ONE)
    lock = site.folder / "lock.json"
    entry = {"about": "", "jars": [{"coordinates": jar.coordinates, "sha256": jar.sha256, "size": jar.size}]}
    lock.write_text(json.dumps({"connectors": {"wanted": entry}}))
    program = (
        "import sys; from pathlib import Path; from headwater.spark.connectors import ensure, load_lock; "
        "print(ensure(['wanted'], lock=load_lock(Path(sys.argv[1])))[0])"
    )
    environment = {**os.environ, "HEADWATER_IVY_SETTINGS": site.settings}
    running = [
        subprocess.Popen([sys.executable, "-c", program, str(lock)], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    answers = {process.communicate()[0].strip() for process in running}
    assert [process.returncode for process in running] == [0, 0]
    assert answers == {str(connectors.jar_path(jar))}
    assert connectors.jar_path(jar).read_bytes() == ONE


def test_an_unknown_connector_lists_the_choices() -> None:
    with pytest.raises(UsageError, match=r"unknown connector 'icberg'; did you mean 'iceberg'\?") as caught:
        ensure(["icberg"])
    assert caught.value.code is Code.CONNECTOR_UNKNOWN


def test_ivy_settings_that_are_not_there_are_said(site: Site) -> None:
    site.settings = str(site.folder / "none.xml")
    with pytest.raises(UsageError, match=r"no Ivy settings at .*none\.xml"):
        site.fetch(Jar("org.example:one:1.0", "0" * 64, 1))


def test_the_lock_is_whole_and_for_this_spark() -> None:
    content = json.loads(connectors.LOCK_FILE.read_text())
    jars = [jar for connector in load_lock().values() for jar in connector.jars]
    assert content["spark"] == pyspark.__version__
    assert all(len(jar.sha256) == 64 and jar.size > 0 for jar in jars)
    assert len({jar.file_name for jar in jars}) == len({jar.coordinates for jar in jars}) == len(jars)
    of_spark = [jar.coordinates for jar in jars if jar.coordinates.startswith("org.apache.spark:")]
    assert of_spark
    assert all(coordinates.endswith(f"_2.12:{pyspark.__version__}") for coordinates in of_spark)
    # Iceberg and Hudi hold some classes of the same name: Iceberg's must be found first.
    assert list(load_lock()).index("iceberg") < list(load_lock()).index("hudi")


def test_list_shows_the_lock_and_what_is_in_the_cache(site: Site) -> None:
    answer = CliRunner().invoke(app, ["list", "--json"])
    assert answer.exit_code == 0
    shown = {entry["name"]: entry for entry in json.loads(answer.stdout)}
    assert shown.keys() == load_lock().keys()
    assert shown["delta"]["installed"] is False
    assert shown["delta"]["jars"][0]["coordinates"].startswith("io.delta:delta-spark_2.12:")
    assert "Delta Lake 3.3.3" in CliRunner().invoke(app, ["list"]).stdout
