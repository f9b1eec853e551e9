"""Makes `.venv` from a lock: `python tools/environment.py demo|dev`, called by make with the Python to build with.

It needs nothing but that Python. Packages are installed by uv, the machine's own or one from the lock, and by pip where
there is no uv. One line per stage; whatever fails ends in a sentence that says what to do.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
BIN = VENV / "bin"
REQUIREMENTS = ROOT / "requirements"
LOG = VENV / "install.log"
SUPPORTED = ((3, 10), (3, 11), (3, 12))
NEEDED = {"demo": 3_000_000_000, "dev": 4_000_000_000}
"""Bytes that an environment takes, with what its installation unpacks meanwhile."""
FETCHED = {"demo": "about 640 MB", "dev": "about 700 MB"}
"""What comes over the network on a machine that has none of it yet."""
UV_SECONDS = 120
# pyspark comes as source, 300 MB of jars: to compress them again for the wheel would take longer than all the rest.
UNCOMPRESSED = "pyspark:--build-option=--compression=stored"

_FETCHED = re.compile(r"^\s*(?:Downloading|Building|Collecting)\s+(?P<what>.+?)\s*$")
_TELLING = re.compile(r"error|failed|caused by|no space|denied|could not|couldn't", re.IGNORECASE)
_OFFLINE = re.compile(
    r"(name|host|address)\S* resol|resolve host|name or service|connection|connect error|network|timed? ?out"
    r"|unreachable|dns|proxy|certificate|versions: none",
    re.IGNORECASE,
)
_ASK_VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"


class SetupError(Exception):
    """What stops the set-up, and what to do about it."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(f"{message}\n  → {hint}")


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 1 or arguments[0] not in NEEDED:
        print(f"usage: python tools/environment.py {'|'.join(NEEDED)}", file=sys.stderr)
        return 2
    try:
        build(arguments[0])
    except SetupError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: {error.filename or ROOT}: {error.strerror}\n  → see whether it can be written", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped; the next `make` goes on from here", file=sys.stderr)
        return 130
    return 0


def build(name: str) -> None:
    """Bring `.venv` to what the lock `name` lists, with Headwater itself on top."""
    require_space(name)
    make_venv()
    installer = find_installer()
    lock = REQUIREMENTS / f"{name}.lock"
    packages = f"Installing packages with {installer.name} ({FETCHED[name]} if none is in its cache)"
    installer.install(packages, ["--require-hashes", "-r", str(lock)])
    installer.install("Installing Headwater", ["--no-deps", "--no-build-isolation", "-e", str(ROOT)])
    if name == "dev":
        prepare_java()
    (VENV / f".{name}").touch()


def prepare_java() -> None:
    """Spark's classes in an archive, which saves a second or two at each start; not having it is no failure."""
    began = time.monotonic()
    print("Archiving Spark's classes", end=" … ", flush=True)
    subprocess.run([str(BIN / "python"), "-m", "headwater.spark.class_archive"], capture_output=True, check=False)
    print(f"{time.monotonic() - began:.0f} s", flush=True)


def require_space(name: str) -> None:
    if (VENV / ".demo").exists() or (VENV / ".dev").exists():
        return
    free = shutil.disk_usage(ROOT).free
    if free < NEEDED[name]:
        raise SetupError(
            f"no space: {_gigabytes(NEEDED[name])} are needed in {ROOT}, and {_gigabytes(free)} are free",
            "make room, or clone into another place",
        )


def make_venv() -> None:
    """An environment of this Python, made again where it is of another one or was left half made."""
    version = "%d.%d" % sys.version_info[:2]  # noqa: UP031
    if sys.version_info[:2] not in SUPPORTED:
        raise SetupError(
            f"Headwater needs Python 3.10, 3.11 or 3.12, and {sys.executable} is {version}",
            "make install PYTHON=/path/to/python3.12",
        )
    config = VENV / "pyvenv.cfg"
    if config.is_file() and _answers([BIN / "python", "-c", _ASK_VERSION]) == version:
        return
    print(f"Making .venv with Python {version} ({sys.executable})", flush=True)
    shutil.rmtree(VENV, ignore_errors=True)
    made = subprocess.run([sys.executable, "-m", "venv", str(VENV)], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        said = (made.stdout + made.stderr).strip()
        if "ensurepip" in said:
            raise SetupError(
                f"{sys.executable} can't make environments", "install its venv package: apt install python3-venv"
            )
        raise SetupError(f"can't make {VENV}: {_last_line(said)}", "see whether the folder can be written")


# --- installers


@dataclass(frozen=True)
class Installer:
    """uv or pip, and how to call it."""

    name: str
    command: tuple[str, ...]
    environment: dict[str, str]

    def install(self, title: str, arguments: Sequence[str]) -> None:
        """Run it under one line of progress; what it prints goes into a log, which is quoted where it fails."""
        began = time.monotonic()
        show = sys.stdout.isatty()
        print(title, end=" … " if not show else "\n", flush=True)
        with LOG.open("a+", encoding="utf-8") as log:
            start = log.tell()
            process = subprocess.Popen(
                [*self.command, *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env={**os.environ, **self.environment},
                cwd=ROOT,
            )
            assert process.stdout is not None
            for line in process.stdout:
                log.write(line)
                fetched = _FETCHED.match(line)
                if show and fetched:
                    print(f"\r\x1b[2K  {fetched['what'][:70]}", end="", flush=True)
            code = process.wait()
            log.seek(start)
            said = log.read()
        took = f"{time.monotonic() - began:.0f} s"
        if code != 0:
            print(f"\r\x1b[2K  failed after {took}" if show else f"failed after {took}", flush=True)
            raise failure(said)
        print(f"\r\x1b[2K  done in {took}" if show else took, flush=True)


def failure(said: str) -> SetupError:
    """Why an installation failed, by what the installer said."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = [line for line in lines if _TELLING.search(line)] or lines or ["it said nothing"]
    if "no space left" in said.lower():
        return SetupError(
            f"the disk is full: {telling[-1]}", f"make room in {ROOT} and in the cache of packages, then run make again"
        )
    if "permission denied" in said.lower():
        return SetupError(telling[-1], "set UV_CACHE_DIR, or PIP_CACHE_DIR for pip, to a folder that can be written")
    if _OFFLINE.search(said) and "hash" not in said.lower():
        return SetupError(
            f"the package registry does not answer: {telling[-1]}",
            f"see whether this machine reaches it; pip's settings (an index, a proxy) are followed. More in {LOG}",
        )
    return SetupError(f"the installation failed: {telling[-1]}", f"see {LOG}")


def find_installer() -> Installer:
    """uv, the machine's own or fetched from the lock; pip where there is none."""
    environment = _settings_of_pip()
    cache = environment.get("UV_CACHE_DIR") or os.environ.get("UV_CACHE_DIR") or _cache_home()
    if cache is None or not _can_write(Path(cache)):
        folder = tempfile.mkdtemp(prefix="headwater-packages-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)  # what is installed does not need it
        environment["UV_CACHE_DIR"] = environment["PIP_CACHE_DIR"] = folder
        why = "this user has no home" if cache is None else f"{cache} can't be written"
        print(f"{why}: packages are kept in {folder} meanwhile", flush=True)
    uv = shutil.which("uv") or _fetch_uv(environment)
    if uv is None:
        return Installer("pip", (str(BIN / "python"), "-m", "pip", "install"), environment)
    command: tuple[str, ...] = (
        uv,
        "pip",
        "install",
        "--python",
        str(BIN / "python"),
        "--config-settings-package",
        UNCOMPRESSED,
    )
    if _answers([Path(uv), "pip", "install", "--config-settings-package", UNCOMPRESSED, "--help"]) is None:
        command = command[:-2]  # an older one
    return Installer("uv", command, environment)


def _fetch_uv(environment: dict[str, str]) -> str | None:
    uv = BIN / "uv"
    if not uv.exists():
        pip = [str(BIN / "python"), "-m", "pip", "install", "--quiet", "--only-binary", ":all:", "--require-hashes"]
        command = [*pip, "-r", str(REQUIREMENTS / "uv.lock")]
        try:
            subprocess.run(
                command, env={**os.environ, **environment}, check=False, capture_output=True, timeout=UV_SECONDS
            )
        except subprocess.TimeoutExpired:
            return None
    return str(uv) if uv.exists() else None


def _settings_of_pip() -> dict[str, str]:
    """What uv has to know of pip's settings, where it has none of its own: indexes, certificates."""
    listed = _answers([BIN / "python", "-m", "pip", "config", "list"]) or ""
    settings = dict(re.findall(r"^(?:global|install|:env:)\.([\w-]+)='(.*)'$", listed, re.MULTILINE))
    names = {"index-url": "UV_DEFAULT_INDEX", "extra-index-url": "UV_INDEX", "find-links": "UV_FIND_LINKS"}
    names |= {"cert": "SSL_CERT_FILE"}
    found = {ours: settings[theirs] for theirs, ours in names.items() if theirs in settings and ours not in os.environ}
    return {"PIP_DISABLE_PIP_VERSION_CHECK": "1", **found}


def _cache_home() -> Path | None:
    given = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(given) if given else Path("~").expanduser() / ".cache") / "uv"
    except RuntimeError:  # neither $HOME nor the list of users says where it is
        return None


def _can_write(folder: Path) -> bool:
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    return os.access(there, os.W_OK | os.X_OK)


def _answers(command: Sequence[str | Path]) -> str | None:
    """What a program prints; None where it fails or does not start."""
    try:
        asked = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, timeout=UV_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return asked.stdout.strip() if asked.returncode == 0 else None


def _last_line(said: str) -> str:
    return said.splitlines()[-1].strip() if said else "it said nothing"


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
