"""How settings reach a new JVM: through a file that only its owner reads, and never through its command line.

Every user of a machine can read the command lines of its processes, and settings hold passwords.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from headwater.core.secret import is_secret_key
from headwater.spark.java import find_java

HIDDEN = (
    "(?i)secret|password|passphrase|passwd|token|credential|jaas|(access|account|api|private|shared)[._-]?key"
    "|spark[.]sql[.]catalog[.][^.]+[.]uri"
)
"""What Spark hides in its pages, event logs and plans, by name or value; its own pattern knows no credentials."""
OPTIONS = "spark.driver.extraJavaOptions"
_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_SHELL = "pyspark-shell"
_FLAG = "--properties-file"
_NAME = "spark-{pid}.properties"


@contextmanager
def submission(settings: Mapping[str, str], home: Path) -> Iterator[None]:
    """A JVM that is started in this block reads the settings from a file, which is gone when the block ends.

    Below our settings stand those of Spark's own file of defaults, which Spark does not read alongside another one.
    """
    before = os.environ.get(_ARGUMENTS)
    words, named = _without_flag(shlex.split(before or ""))
    file = home / _NAME.format(pid=os.getpid())
    _remove_left_over(home)
    file.unlink(missing_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as output:
            output.write(_defaults(named) + b"\n\n")
            output.writelines(
                f"{_escaped(key)}={_escaped(value)}\n".encode("ascii") for key, value in _public(settings).items()
            )
        os.environ[_ARGUMENTS] = shlex.join([_FLAG, str(file), *(words or [_SHELL])])
        yield
    finally:
        file.unlink(missing_ok=True)
        if before is None:
            os.environ.pop(_ARGUMENTS, None)
        else:
            os.environ[_ARGUMENTS] = before


@contextmanager
def environment(master: str, conf: Mapping[str, str], jars: Iterable[Path]) -> Iterator[None]:
    """What the JVM, and the Python workers that it starts, find in their environment. Ours stays."""
    wanted: dict[str, str | None] = {"JAVA_HOME": str(find_java().home)}
    if master.startswith("local"):
        import pyspark

        # Jars at the end of the class path are found after Spark's own, and are not copied at every start as
        # `spark.jars` are. Another Spark on the machine, or another Python on the PATH, is not asked.
        path = [os.environ.get("SPARK_DIST_CLASSPATH"), *map(str, jars)]
        wanted |= {
            "SPARK_DIST_CLASSPATH": ":".join(filter(None, path)),
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_SUBMIT_ARGS": None,
            "TZ": "UTC",
        }
        locale = next(filter(None, map(os.environ.get, ("LC_ALL", "LC_CTYPE", "LANG"))), "")
        if "UTF-8" not in locale.upper().replace("UTF8", "UTF-8"):
            wanted["LC_ALL"] = "C.UTF-8"  # else Java can't open a file whose name is not ASCII
    elif "spark.pyspark.python" in conf:
        wanted["PYSPARK_PYTHON"] = conf["spark.pyspark.python"]  # PySpark asks the environment alone
    before = {key: os.environ.get(key) for key in wanted}
    try:
        _put(wanted)
        yield
    finally:
        _put(before)


def _put(variables: Mapping[str, str | None]) -> None:
    for key, value in variables.items():
        if value is None:
            os.environ.pop(key, None)
        else:
            os.environ[key] = value


def hidden_properties(settings: Mapping[str, str]) -> dict[str, str]:
    """The `-D` options of the driver whose names say that they are secret: to be set once the JVM runs."""
    return dict(word[2:].split("=", 1) for word in shlex.split(settings.get(OPTIONS, "")) if _is_secret_option(word))


def _public(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings without what would stand in the command line of the JVM."""
    if not hidden_properties(settings):
        return dict(settings)
    words = [word for word in shlex.split(settings[OPTIONS]) if not _is_secret_option(word)]
    quoted = ('"' + re.sub(r'(["\\])', r"\\\1", word) + '"' for word in words)
    return {**settings, OPTIONS: " ".join(quoted)}


def _is_secret_option(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.startswith("-D") and is_secret_key(name)


def _without_flag(words: list[str]) -> tuple[list[str], Path | None]:
    """Arguments without a file of settings that they name, and that file."""
    for at, word in enumerate(words):
        if word == _FLAG:
            return words[:at] + words[at + 2 :], Path(words[at + 1])
        if word.startswith(f"{_FLAG}="):
            return words[:at] + words[at + 1 :], Path(word.partition("=")[2])
    return words, None


def _defaults(named: Path | None) -> bytes:
    """The text of the settings that Spark would have begun with."""
    if named is not None:
        return named.read_bytes()
    from pyspark.find_spark_home import _find_spark_home

    folder = os.environ.get("SPARK_CONF_DIR") or Path(_find_spark_home()) / "conf"
    with suppress(FileNotFoundError, NotADirectoryError):
        return (Path(folder) / "spark-defaults.conf").read_bytes()
    return b""


def _remove_left_over(home: Path) -> None:
    """Files of processes that were killed while their JVM started."""
    import psutil

    for file in home.glob(_NAME.format(pid="*")):
        pid = file.stem.removeprefix("spark-")
        if not pid.isdecimal() or not psutil.pid_exists(int(pid)):
            file.unlink(missing_ok=True)


def _escaped(text: str) -> str:
    """A key or value as Java's properties have it."""
    return "".join(
        f"\\{char}" if char in "\\=:#! " else _UNPRINTED.get(char) or (char if char.isascii() else _as_units(char))
        for char in text
    )


_UNPRINTED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}


def _as_units(char: str) -> str:
    units = char.encode("utf-16-be", errors="surrogatepass")
    return "".join(f"\\u{int.from_bytes(units[at : at + 2], 'big'):04x}" for at in range(0, len(units), 2))
