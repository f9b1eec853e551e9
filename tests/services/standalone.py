"""A real Spark standalone cluster: a master and a worker, each a process of its own, whose Python has no Headwater."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from headwater.spark.java import find_java
from tests.services.processes import free_port, java, running

MEMORY = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
PACKAGES = ("pyarrow", "pandas", "numpy", "dateutil", "pytz", "tzdata", "six")
"""What a worker's Python has."""


@dataclass(frozen=True)
class Cluster:
    master: str
    """`spark://…`"""
    python: Path
    """The workers' own Python."""


@contextmanager
def standalone(folder: Path) -> Iterator[Cluster]:
    """A cluster with one worker of two cores, on loopback; it ends with the block."""
    port, master_page, worker_page = free_port(), free_port(), free_port()
    home = Path(pyspark.__file__).parent
    settings = {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SCALA_VERSION": "2.12",  # set by Spark's own scripts, which bring no class path of ours
        "JAVA_HOME": str(find_java().home),
    }
    before = {key: os.environ.get(key) for key in (*settings, "PYTHONPATH")}
    base = [java(), *MEMORY, "-cp", f"{home / 'jars'}/*"]
    host = ["--host", "127.0.0.1"]
    lead = [*base, "org.apache.spark.deploy.master.Master", *host, "--port", str(port)]
    work = [*base, "org.apache.spark.deploy.worker.Worker", *host, "--cores", "2", "--memory", "1g"]
    with ExitStack() as stack:
        os.environ.update(settings)
        os.environ.pop("PYTHONPATH", None)
        try:
            page = f"http://127.0.0.1:{master_page}/json/"
            stack.enter_context(
                running([*lead, "--webui-port", str(master_page)], folder / "master.log", lambda: "ALIVE" in _got(page))
            )
            places = ["--webui-port", str(worker_page), "--work-dir", str(folder / "work")]
            address = f"spark://127.0.0.1:{port}"
            stack.enter_context(
                running([*work, *places, address], folder / "worker.log", lambda: '"aliveworkers" : 1' in _got(page))
            )
        finally:
            for key, value in before.items():
                if value is None:
                    os.environ.pop(key, None)
                else:
                    os.environ[key] = value
        yield Cluster(address, _python(folder / "python"))


def _python(folder: Path) -> Path:
    """An environment with a few packages of this one's."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for name in PACKAGES:
        found = importlib.util.find_spec(name)
        if found is None or found.origin is None:
            continue
        origin = Path(found.origin)
        whole = origin.parent if origin.name == "__init__.py" else origin
        (packages / whole.name).symlink_to(whole)
        libraries = whole.with_name(f"{name}.libs")
        if libraries.exists():
            (packages / libraries.name).symlink_to(libraries)
    return folder / "bin" / "python"


def _got(page: str) -> str:
    try:
        with urllib.request.urlopen(page, timeout=2) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""
