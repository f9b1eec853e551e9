"""Connector jars: a lock of what each connector needs, and a cache of what has been fetched and verified."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headwater.core.errors import Code, HeadwaterError, IntegrityError, TerminalError, UsageError, did_you_mean
from headwater.spark.java import find_java

LOCK_FILE = Path(__file__).with_name("connectors.lock.json")
CACHE = "HEADWATER_CACHE"
IVY_SETTINGS = "HEADWATER_IVY_SETTINGS"
POLL_SECONDS = 0.2

Progress = Callable[[int, int, str], None]
"""Called with the bytes fetched, the bytes to fetch in all, and what is being fetched."""


@dataclass(frozen=True)
class Jar:
    """One locked file."""

    coordinates: str
    """group:artifact:version[:classifier[:extension]]"""
    sha256: str
    size: int

    @property
    def file_name(self) -> str:
        """Unique by content, so that a lock that changes never meets an older file of the same name."""
        stem = "-".join(self.coordinates.split(":")[1:])
        return f"{stem}.{self.sha256[:12]}.jar"


@dataclass(frozen=True)
class Connector:
    """What one name in the lock stands for."""

    name: str
    about: str
    jars: tuple[Jar, ...]

    @property
    def size(self) -> int:
        return sum(jar.size for jar in self.jars)


Lock = Mapping[str, Connector]


def load_lock(path: Path = LOCK_FILE) -> Lock:
    """The connectors of a lock file, in its order (which is the order on the class path)."""
    content = json.loads(path.read_text(encoding="utf-8"))
    return {
        name: Connector(name, entry["about"], tuple(Jar(**jar) for jar in entry["jars"]))
        for name, entry in content["connectors"].items()
    }


def cache_folder() -> Path:
    """$HEADWATER_CACHE, else the user's cache folder; for a user without a home, one for temporary files."""
    chosen = os.environ.get(CACHE)
    if chosen:
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    if base:
        return Path(base) / "headwater"
    try:
        home = Path.home() / ".cache" / "headwater"
    except RuntimeError:  # neither $HOME nor the list of users says where
        return _without_home()
    there = next(folder for folder in (home, *home.parents) if folder.exists())
    return home if there == home or os.access(there, os.W_OK | os.X_OK) else _without_home()


def _without_home() -> Path:
    """A folder of this user alone, where temporary files go."""
    folder = Path(tempfile.gettempdir()) / f"headwater-cache-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise UsageError(
            Code.CONNECTOR_FETCH_FAILED,
            f"there is no home folder for a cache, and {folder} is somebody else's",
            hint=f"set {CACHE} to a folder of yours",
        )
    return folder


def jar_path(jar: Jar) -> Path:
    return cache_folder() / "jars" / jar.file_name


def select(names: Iterable[str], lock: Lock | None = None) -> list[Connector]:
    """The named connectors in the lock's order; an unknown name is an error that lists the choices."""
    lock = load_lock() if lock is None else lock
    wanted = set(names)
    for name in sorted(wanted):
        if name not in lock:
            raise UsageError(Code.CONNECTOR_UNKNOWN, f"unknown connector '{name}'", hint=did_you_mean(name, lock))
    return [connector for name, connector in lock.items() if name in wanted]


def ensure(
    names: Iterable[str],
    *,
    progress: Progress | None = None,
    ivy_settings: str | None = None,
    lock: Lock | None = None,
    thorough: bool = False,
) -> list[Path]:
    """Fetch what is missing of the named connectors and return all their jars, verified.

    `thorough` hashes every file again; else one that has not changed since it was last hashed is trusted.
    """
    jars = list(dict.fromkeys(jar for connector in select(names, lock) for jar in connector.jars))
    try:
        ready = [is_ready(jar, thorough=thorough) for jar in jars]
        if not all(ready):
            settings = ivy_settings or os.environ.get(IVY_SETTINGS) or None
            if settings is not None and not Path(settings).is_file():
                raise UsageError(Code.CONNECTOR_FETCH_FAILED, f"there are no Ivy settings at {settings}")
            with _exclusive(cache_folder()):
                # Another process may have fetched them while this one waited.
                missing = [jar for jar in jars if not is_ready(jar)]
                _fetch(missing, settings, progress or (lambda done, total, what: None))
    except OSError as error:
        raise _not_kept(error) from error
    return [jar_path(jar) for jar in jars]


def is_ready(jar: Jar, *, thorough: bool = False) -> bool:
    """Whether the cache holds exactly the locked file. One that differs is removed."""
    path = jar_path(jar)
    stamp = path.with_suffix(".ok")
    try:
        now = _identity(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    if not thorough and _read(stamp) == now:
        return True
    if path.stat().st_size == jar.size and _sha256(path) == jar.sha256:
        _write_stamp(stamp, now)
        return True
    path.unlink(missing_ok=True)
    stamp.unlink(missing_ok=True)
    return False


# --- the cache


def _identity(path: Path) -> str:
    """Changes whenever the file was written, replaced or touched."""
    status = path.stat()
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return None


def _write_stamp(stamp: Path, identity: str) -> None:
    """A stamp only saves time: a cache that can't be written works without."""
    try:
        stamp.write_text(identity, encoding="ascii")
    except OSError:
        pass


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


@contextmanager
def _exclusive(cache: Path) -> Iterator[None]:
    """One process fetches at a time; the lock goes with its holder, however that ends."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "fetch.lock").open("wb") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        for left in cache.glob("fetch-*"):
            shutil.rmtree(left, ignore_errors=True)
        yield


def _keep(jar: Jar, fetched: Path) -> None:
    """Take a fetched file into the cache if it is the locked one: checked, on disk, then under its name."""
    digest = _sha256(fetched)
    if digest != jar.sha256:
        fetched.unlink()
        raise IntegrityError(
            Code.CONNECTOR_CHECKSUM,
            f"{jar.coordinates} was fetched with SHA-256 {digest}, and the lock says {jar.sha256}",
            hint="it was not used; check the mirror or proxy that it came through",
        )
    path = jar_path(jar)
    path.parent.mkdir(parents=True, exist_ok=True)
    with fetched.open("rb") as file:
        os.fsync(file.fileno())
    os.replace(fetched, path)
    _write_stamp(path.with_suffix(".ok"), _identity(path))


# --- fetching


def _fetch(jars: list[Jar], settings: str | None, progress: Progress) -> None:
    if not jars:
        return
    cache = cache_folder()
    total = sum(jar.size for jar in jars)
    free = shutil.disk_usage(cache).free
    if free < total:
        needed = f"{_megabytes(total)} are needed in {cache} and {_megabytes(free)} are free"
        raise TerminalError(
            Code.CONNECTOR_FETCH_FAILED,
            f"could not fetch {len(jars)} jars, the disk is full: {needed}",
            hint=f"make room there, or set {CACHE} to a folder on a larger disk",
        )
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=cache, ignore_cleanup_errors=True) as name:
        by_coordinates = {jar.coordinates: jar for jar in jars}
        failures: list[HeadwaterError] = []
        kept = 0
        with _Watch(Path(name), total, progress) as watch:
            for outcome in outcomes(list(by_coordinates), Path(name), settings):
                jar = by_coordinates.pop(outcome["coordinates"])
                try:
                    if "file" not in outcome:
                        raise _failed(jar.coordinates, outcome["cause"])
                    _keep(jar, Path(outcome["file"]))
                    kept += jar.size
                    watch.kept(kept, jar.coordinates)
                except HeadwaterError as failure:
                    failures.append(failure)
        if failures:
            raise failures[0]
        if by_coordinates:
            raise _failed(", ".join(by_coordinates), _last_line(_log_file()))


def outcomes(coordinates: list[str], folder: Path, settings: str | None) -> Iterator[dict[str, str]]:
    """What the fetching process reports, as it comes."""
    log = _log_file()
    log.parent.mkdir(parents=True, exist_ok=True)
    request = {
        "coordinates": coordinates,
        "folder": str(folder),
        "settings": settings and str(Path(settings).absolute()),
        "log": str(log),
    }
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "headwater.spark.connector_fetch"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=_environment(),
            text=True,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(request))
        process.stdin.close()
        for line in process.stdout:
            yield json.loads(line)
    finally:
        # Its JVM goes with it: Spark's gateway ends when its standard input does.
        process.terminate()
        process.wait()
        process.stdout.close()


def _environment() -> dict[str, str]:
    """This process's own, but with our Java and without what would turn the JVM into something else."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    package_root = str(Path(__file__).parent.parent.parent)
    path = os.pathsep.join(filter(None, (package_root, os.environ.get("PYTHONPATH"))))
    return {**ours, "JAVA_HOME": str(find_java().home), "PYTHONPATH": path, "SPARK_LOCAL_IP": "127.0.0.1"}


class _Watch:
    """Tells the progress several times a second, from what lies in the folder so far."""

    def __init__(self, folder: Path, total: int, progress: Progress) -> None:
        self._folder = folder
        self._total = total
        self._progress = progress
        self._kept = 0
        self._what = ""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="connector-progress", daemon=True)

    def __enter__(self) -> _Watch:
        self._thread.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._over.set()
        self._thread.join()
        self._tell()

    def kept(self, size: int, what: str) -> None:
        self._kept, self._what = size, what

    def _run(self) -> None:
        while not self._over.wait(POLL_SECONDS):
            self._tell()

    def _tell(self) -> None:
        coming = 0
        for path in self._folder.rglob("*.jar*"):
            try:
                coming += path.stat().st_size
            except FileNotFoundError:  # just renamed or kept
                continue
        self._progress(min(self._kept + coming, self._total), self._total, self._what)


def _log_file() -> Path:
    return cache_folder() / "fetch.log"


def _last_line(path: Path) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else "the fetching process ended without a word"


def _failed(what: str, cause: str) -> TerminalError:
    return TerminalError(
        Code.CONNECTOR_FETCH_FAILED,
        f"could not fetch {what}: {cause}",
        hint=f"see {_log_file()}; for a mirror set {IVY_SETTINGS} to its Ivy settings",
    )


def _not_kept(error: OSError) -> TerminalError:
    """The cache itself is what is in the way."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    what = "is on a disk that is full" if full else f"can't be written: {error.strerror}"
    return TerminalError(
        Code.CONNECTOR_FETCH_FAILED,
        f"the cache of connectors, {cache_folder()}, {what}",
        hint=f"set {CACHE} to a folder of yours",
    )


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.0f} MB"
