"""What Spark's Python workers are sent along with the work: Headwater itself, and the modules next to a project's code.

On a cluster a worker has the packages of its own Python alone. A project's functions travel whole, with the modules
that they have imported (`ingest/shipping.py`); what a function imports while it runs has to be found there.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.core.private_files import make_private

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGE = Path(__file__).parent.parent
_SHIPPED = "HEADWATER_MODULES"
"""Names the modules in the workers' environment: Spark starts other workers for other ones."""
_EPOCH = (1980, 1, 1, 0, 0, 0)


def send_modules(spark: SparkSession, code: Iterable[Path], home: Path) -> None:
    """Send what functions of these files may import; called once for a project, after its session was opened."""
    context = spark.sparkContext
    own = set(code)
    archives = []
    for folder in sorted({file.parent for file in own}):
        files = list(_modules(folder))
        if not own.issuperset(files):  # else there is nothing alongside it that could be imported
            archives.append(_archive("code", folder, files, home))
    if not str(context.master).startswith("local"):
        archives.append(_archive("headwater", PACKAGE.parent, _package(PACKAGE), home))
    includes = [name for name in context._python_includes or () if not name.startswith(("code-", "headwater-"))]
    for archive in archives:
        # Not by addPyFile: that lets this process import them too, under names that may be others' here.
        context.addFile(str(archive))
        includes.append(archive.name)
    context._python_includes = includes
    if archives:
        context.environment[_SHIPPED] = ",".join(archive.name for archive in archives)
    else:
        context.environment.pop(_SHIPPED, None)


def _modules(folder: Path) -> Iterator[Path]:
    """The modules of a folder, and the packages in it."""
    for entry in sorted(folder.iterdir()):
        if entry.name == "headwater.py":
            continue  # a project, which would be taken for us
        if entry.suffix == ".py" and entry.is_file():
            yield entry
        elif entry.is_dir() and entry.name.isidentifier() and (entry / "__init__.py").is_file():
            yield from _package(entry)


def _package(folder: Path) -> Iterator[Path]:
    for entry in sorted(folder.iterdir()):
        if entry.is_dir() and entry.name.isidentifier() and entry.name != "__pycache__":
            yield from _package(entry)
        elif entry.is_file() and entry.suffix != ".pyc":
            yield entry


def _archive(name: str, root: Path, files: Iterable[Path], home: Path) -> Path:
    """The files as a zip that is named after its content: the same name is never another content."""
    contents = [(str(file.relative_to(root)), file.read_bytes()) for file in files]
    digest = hashlib.sha256()
    for path, content in contents:
        digest.update(f"{path}\0{len(content)}\0".encode())
        digest.update(content)
    folder = home / "python"
    make_private(folder)
    archive = folder / f"{name}-{digest.hexdigest()[:16]}.zip"
    if not archive.exists():
        part = archive.with_suffix(".part")
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as output:
            for path, content in contents:
                output.writestr(zipfile.ZipInfo(path, _EPOCH), content, zipfile.ZIP_DEFLATED)
        part.replace(archive)
    return archive
